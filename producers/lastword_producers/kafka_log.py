"""The log in Kafka: made, recognised, waited for, and given its key registry.

A log is one history topic. Every partition begins with its genesis record at offset 0, which says which log this is.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Message

from lastword_producers.broker import MAX_RECORD_BYTES, Broker, KafkaSettings, LiveTopic, NewRecord
from lastword_producers.errors import LogMismatch, LogNotReady
from lastword_producers.log_identity import LogIdentity
from lastword_projector.engine.keys import compile_registry
from lastword_schemas import limits
from lastword_schemas.control import (
    GENESIS_KEY,
    REGISTRY_KEY,
    Genesis,
    RegistryRecord,
    control_bytes,
    parse_control,
)
from lastword_schemas.errors import InvalidInput, LastwordError, TooLarge
from lastword_schemas.positions import sequence_of
from lastword_schemas.registry import Registry

__all__ = [
    "ControlPosition",
    "KafkaSettings",
    "LogIdentity",
    "apply_registry",
    "create_log",
    "open_log",
    "wait_for_log",
]

KEPT_FOR_EVER: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Settings of history and dead letters: compaction would delete what `as_of` needs."""
HISTORY_SETTINGS: Final = KEPT_FOR_EVER | {
    "unclean.leader.election.enable": "false",
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(MAX_RECORD_BYTES),
}
"""Settings of the history topic."""
DEAD_LETTER_SETTINGS: Final = KEPT_FOR_EVER | {"max.message.bytes": str(2 * MAX_RECORD_BYTES)}
"""Settings of the dead letter topic: a dead letter is a whole record and where it stood."""
CHANGES_AT_FIRST: Final = {"cleanup.policy": "delete", "retention.ms": str(7 * 24 * 60 * 60 * 1_000)}
"""Settings that the topic of changes is made with. The history has all that it tells, so they may be changed."""

CONTEXT_SETTINGS: Final = {"cleanup.policy": "delete", "max.message.bytes": str(MAX_RECORD_BYTES)}
"""Settings of the topic of contexts: each is looked up by where it stands."""

_AT_LEAST: Final = frozenset({"max.message.bytes", "min.insync.replicas"})
_REPLICAS_FOR_TWO_IN_SYNC: Final = 3


@dataclass(frozen=True, slots=True)
class ControlPosition:
    """Where a control record stands in one partition."""

    log_id: str
    generation: int
    partition: int
    offset: int

    @property
    def sequence(self) -> int:
        """The record's sequence."""
        return sequence_of(self.generation, self.offset)


def create_log(
    settings: KafkaSettings,
    partitions: int = 24,
    replication: int = 1,
    generation: int = 0,
    *,
    timeout_s: float = 30.0,
) -> LogIdentity:
    """Make the topics of history, dead letters, changes and contexts and the genesis records: whatever is missing.

    May be called again, and by several at once: a second equal genesis record is ignored by every reader.

    Raises LogMismatch where a topic exists with other settings or is not empty and has no such genesis,
    BrokerUnavailable where Kafka does not answer within `timeout_s` seconds, BrokerRefused where it says no.
    """
    broker = Broker(settings, timeout_s)
    topic = _ensure_topic(broker, settings.topic, partitions, replication, HISTORY_SETTINGS)
    _ensure_topic(broker, settings.dead_letter_topic, 1, replication, DEAD_LETTER_SETTINGS)
    if settings.contexts_topic:
        kept = contexts_at_first(settings.contexts_days)
        _ensure_topic(broker, settings.contexts_topic, partitions, replication, CONTEXT_SETTINGS, kept)
    if settings.changes_topic:
        _ensure_topic(broker, settings.changes_topic, partitions, replication, {}, CHANGES_AT_FIRST)
    cluster_id, topic_id = broker.cluster_id(), topic.topic_id
    wanted = [
        Genesis(
            generation=generation, partition=number, partitions=partitions, cluster_id=cluster_id, topic_id=topic_id
        )
        for number in range(partitions)
    ]
    missing: list[NewRecord] = []
    for genesis, first in zip(wanted, broker.records_at(settings.topic, partitions, 0), strict=True):
        if first is None:
            missing.append(NewRecord(genesis.partition, GENESIS_KEY.encode(), control_bytes(genesis)))
        else:
            _check_genesis(_genesis_in(first, settings.topic), genesis, settings.topic)
    if missing:
        broker.append(settings.topic, missing)
    return _identify(broker, settings)


def contexts_at_first(days: int) -> dict[str, str]:
    """Settings that the topic of contexts is made with besides: whoever needs them longer or not so long changes it."""
    return {"retention.ms": str(days * 24 * 60 * 60 * 1_000)}


def open_log(settings: KafkaSettings, timeout_s: float = 10.0) -> LogIdentity:
    """Read which log this is, and check that cluster, topic and every genesis record agree.

    Raises LogNotReady (retryable) where topic or genesis is missing, BrokerUnavailable (retryable) where Kafka does not
    answer within `timeout_s` seconds, LogMismatch where they disagree, BrokerRefused where Kafka says no.
    """
    return _identify(Broker(settings, timeout_s), settings)


def wait_for_log(
    settings: KafkaSettings,
    on_wait: Callable[[str], None],
    stop: threading.Event | None = None,
    *,
    attempt_s: float = 3.0,
    longest_pause_s: float = 5.0,
) -> LogIdentity | None:
    """The log, as soon as it can be opened; None if `stop` is set before.

    Tries for `attempt_s` seconds at a time, with pauses from 0.25 to `longest_pause_s` seconds between. `on_wait` is
    told why it waits, once for every other reason. Raises what does not mend itself: LogMismatch, BrokerRefused.
    """
    stop = stop or threading.Event()
    told, pause = "", 0.25
    while not stop.is_set():
        try:
            return open_log(settings, attempt_s)
        except LastwordError as error:
            if not error.retryable:
                raise
            if error.message != told:
                told = error.message
                on_wait(f"waiting for the log: {told}")
        stop.wait(pause)
        pause = min(2 * pause, longest_pause_s)
    return None


def apply_registry(
    settings: KafkaSettings, registry: Registry, *, only_new: bool = False, timeout_s: float = 30.0
) -> list[ControlPosition]:
    """Append the key registry to every partition; it is in force from the positions returned, one a partition.

    With `only_new` only to those partitions that hold nothing but their genesis: a log's first registry, which may be
    declared again and again without getting in the way of a later one.

    Raises InvalidInput where a value schema is not usable and TooLarge where the registry is, before anything is
    written; else what `open_log` raises. After BrokerUnavailable some partitions may have it: apply it again.
    """
    canonical = registry.to_canonical()
    compile_registry(canonical)
    if (size := len(canonical.encode("utf-8"))) > limits.MAX_REGISTRY_BYTES:
        raise TooLarge(f"the key registry has {size} bytes as JSON; at most {limits.MAX_REGISTRY_BYTES} are allowed")
    broker = Broker(settings, timeout_s)
    log = _identify(broker, settings)
    second = broker.records_at(settings.topic, log.partitions, 1) if only_new else [None] * log.partitions
    value = control_bytes(RegistryRecord(registry=registry))
    offsets = broker.append(
        settings.topic,
        [NewRecord(number, REGISTRY_KEY.encode(), value) for number, there in enumerate(second) if there is None],
    )
    return [ControlPosition(log.log_id, log.generation, number, offsets[number]) for number in sorted(offsets)]


def _identify(broker: Broker, settings: KafkaSettings) -> LogIdentity:
    name = settings.topic
    topic = broker.topic(name)
    if topic is None:
        raise LogNotReady(f"topic '{name}' does not exist: run `lastword topics create`")
    partitions = topic.partitions
    cluster_id, topic_id = broker.cluster_id(), topic.topic_id
    found = [None if first is None else _genesis_in(first, name) for first in broker.records_at(name, partitions, 0)]
    known = [genesis for genesis in found if genesis is not None]
    for partition, genesis in enumerate(found):
        if genesis is not None:
            expected = Genesis(
                generation=known[0].generation,
                partition=partition,
                partitions=partitions,
                cluster_id=cluster_id,
                topic_id=topic_id,
            )
            _check_genesis(genesis, expected, name)
    if len(known) < partitions:
        raise LogNotReady(
            f"{partitions - len(known)} of {partitions} partitions of topic '{name}' have no genesis record yet: run "
            "`lastword topics create`, which writes the missing ones"
        )
    return LogIdentity(cluster_id, topic_id, name, partitions, known[0].generation, tuple(known))


def _genesis_in(first: Message, topic: str) -> Genesis:
    key, value = first.key(), first.value()
    try:
        if key == GENESIS_KEY.encode() and value is not None and isinstance(found := parse_control(value), Genesis):
            return found
    except InvalidInput:
        pass  # the same situation: another record is where the genesis belongs
    raise LogMismatch(
        f"offset 0 of partition {first.partition()} of topic '{topic}' holds a record that is no genesis: somebody "
        "wrote to the topic before it was a log. Take a topic name that nobody else uses, or delete this topic, and "
        "run `lastword topics create`"
    )


def _check_genesis(found: Genesis, expected: Genesis, topic: str) -> None:
    where = f"the genesis of partition {expected.partition} of topic '{topic}'"
    if found.partitions != expected.partitions:
        raise LogMismatch(
            f"{where} says {found.partitions} partitions, not {expected.partitions}: the number is fixed for a log, "
            "because it places every owner. Ask for that many; if partitions were added to the topic, take a new topic"
        )
    if (found.cluster_id, found.topic_id) != (expected.cluster_id, expected.topic_id):
        raise LogMismatch(
            f"{where} is that of another log (cluster {found.cluster_id}, topic id {found.topic_id}; live are cluster "
            f"{expected.cluster_id}, topic id {expected.topic_id}): records were copied here from elsewhere. Point "
            "lastword at the original topic, or restore into a new one"
        )
    if found.generation != expected.generation:
        raise LogMismatch(
            f"{where} says generation {found.generation}, not {expected.generation}: ask for that generation, or "
            "take a new topic for the next one"
        )
    if found.partition != expected.partition:
        raise LogMismatch(f"{where} says that it is of partition {found.partition}: create a new topic")


def _ensure_topic(
    broker: Broker,
    name: str,
    partitions: int,
    replication: int,
    settings: dict[str, str],
    at_first: dict[str, str] | None = None,
) -> LiveTopic:
    """Make the topic if it is missing, also with the settings that it has `at_first`, and check it."""
    topic = broker.topic(name)
    if topic is None:
        broker.create_topic(name, partitions, replication, _with_replicas(settings | (at_first or {}), replication))
        topic = broker.topic(name)
    if topic is None:
        raise LogNotReady(f"topic '{name}' was deleted while it was made: run `lastword topics create` again")
    if topic.partitions != partitions:
        raise LogMismatch(
            f"topic '{name}' has {topic.partitions} partitions, not {partitions}: ask for that many, or take "
            "another topic name"
        )
    if topic.replicas < replication:
        raise LogMismatch(
            f"topic '{name}' has {topic.replicas} replicas, not {replication}: raise them with "
            "kafka-reassign-partitions, or ask for fewer"
        )
    _check_settings(name, broker.topic_settings(name), _with_replicas(settings, topic.replicas))
    return topic


def _with_replicas(settings: dict[str, str], replication: int) -> dict[str, str]:
    return settings | {"min.insync.replicas": "2" if replication >= _REPLICAS_FOR_TWO_IN_SYNC else "1"}


def _check_settings(topic: str, live: dict[str, str], wanted: dict[str, str]) -> None:
    wrong = [
        name
        for name, value in wanted.items()
        if name in live and (int(live[name]) < int(value) if name in _AT_LEAST else live[name] != value)
    ]
    if wrong:
        has = ", ".join(f"{name}={live[name]}" for name in wrong)
        needs = ",".join(f"{name}={wanted[name]}" for name in wrong)
        raise LogMismatch(
            f"topic '{topic}' has {has}. Set what a log needs, and run this again: kafka-configs --alter --entity-type "
            f"topics --entity-name {topic} --add-config {needs}"
        )
