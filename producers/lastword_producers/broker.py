"""How Kafka is reached, and the few questions to it that a log is made and recognised with."""

import contextlib
import logging
import re
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic  # type: ignore[attr-defined]

from lastword_producers.errors import BrokerRefused, BrokerUnavailable, LogMismatch
from lastword_schemas.errors import InvalidInput

MAX_RECORD_BYTES: Final = 1_048_576
"""Bytes of the largest record batch that the history topic takes: twice the largest key registry."""

LOG_LEVEL: Final = 2
"""librdkafka's log level, critical: what is less than that reaches the caller as an error and needs no second line."""

_VARYING: Final = re.compile(r" \(after \d+ms in state .*\)$")
"""What librdkafka adds to an error and is different each time."""

_REFUSALS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_REQUEST,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._INVALID_ARG,
    }
)


def client_logger() -> logging.Logger:
    """Where Kafka's client library logs to."""
    return logging.getLogger("lastword.kafka")


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """How to reach the log."""

    bootstrap_servers: str
    """`host:port`, several separated by commas."""
    topic: str = "lastword.events"
    """The history topic."""
    dead_letter_topic: str = "lastword.dead-letters"
    """Where records go that nobody can read."""
    changes_topic: str = "lastword.changes"
    """Where changes are told; empty: nowhere."""
    extra: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """More settings of librdkafka, such as `security.protocol` and `sasl.password`; never shown."""
    contexts_topic: str = "lastword.contexts"
    """Where contexts are stored; empty: nowhere."""
    contexts_days: int = 90
    """Days that they are kept, where their topic is made."""

    def client_config(self) -> dict[str, Any]:
        """What every client begins with. To be used with `logger=client_logger()`, else librdkafka writes to stderr."""
        return {
            "client.id": "lastword",
            # The embedded broker would answer a question for a missing topic by making one, without a genesis.
            "allow.auto.create.topics": False,
            **self.extra,
            "bootstrap.servers": self.bootstrap_servers,
        }

    def producer_config(self) -> dict[str, Any]:
        """What every producer begins with: nothing counts as written before all in-sync replicas have it."""
        return self.client_config() | {
            # That nobody leads a partition, told by a broker on its way down, may be believed until the next question.
            "topic.metadata.refresh.interval.ms": 5_000,
            "enable.idempotence": True,
            "acks": "all",
            "message.max.bytes": MAX_RECORD_BYTES,
        }


class NewRecord(NamedTuple):
    """A record to append."""

    partition: int
    key: bytes
    value: bytes


class LiveTopic(NamedTuple):
    """A topic as the cluster describes it."""

    topic_id: str
    partitions: int
    replicas: int
    """Of the partition that has the fewest."""
    has_leaders: bool
    """Whether every partition has a leader, so that it can be read and written."""


class Broker:
    """A conversation with Kafka that ends `timeout_s` seconds after its begin.

    Every method raises BrokerUnavailable where Kafka does not answer by then, and BrokerRefused where it says no.
    """

    def __init__(self, settings: KafkaSettings, timeout_s: float) -> None:
        self._settings = settings
        self._deadline = time.monotonic() + timeout_s
        self._trouble = ""
        try:
            self._admin = AdminClient(self._quiet_config(), logger=client_logger())
        except KafkaException as error:
            raise InvalidInput(f"the Kafka settings are not usable: {_words(error)}") from error

    def begin_again(self, timeout_s: float) -> None:
        """Another conversation over the same connections, with an end of its own."""
        self._deadline = time.monotonic() + timeout_s

    def cluster_id(self) -> str:
        """The live cluster's id."""
        return str(self._answer(self._admin.describe_cluster(request_timeout=self._left())).cluster_id)

    def topic(self, name: str) -> LiveTopic | None:
        """The live topic; None if there is none."""
        futures = self._admin.describe_topics(TopicCollection([name]), request_timeout=self._left())
        try:
            topic = self._answer(futures[name])
        except _UnknownTopic:
            return None
        return LiveTopic(
            topic_id=str(topic.topic_id),
            partitions=len(topic.partitions),
            replicas=min(len(partition.replicas) for partition in topic.partitions),
            has_leaders=all(partition.leader is not None for partition in topic.partitions),
        )

    def topic_settings(self, name: str) -> dict[str, str]:
        """The live topic's settings by name."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        futures = self._admin.describe_configs([resource], request_timeout=self._left())
        return {setting: str(entry.value) for setting, entry in self._answer(futures[resource]).items()}

    def create_topic(self, name: str, partitions: int, replication: int, settings: Mapping[str, str]) -> None:
        """Create a topic and wait until it can be used; nothing happens if it exists."""
        new = NewTopic(name, partitions, replication, config=dict(settings))
        with contextlib.suppress(_TopicExists):
            self._answer(self._admin.create_topics([new], request_timeout=self._left())[name])
        while (topic := self.topic(name)) is None or not topic.has_leaders:
            if self._is_over():
                raise self._unavailable(f"topic '{name}' has no leaders yet")
            time.sleep(0.05)

    def records_at(self, topic: str, partitions: int, offset: int) -> list[Message | None]:
        """The record at this offset of each partition, None where the partition ends before it.

        Raises LogMismatch where a partition's first records have been deleted.
        """
        consumer = Consumer(
            self._quiet_config()
            | {
                "group.id": "lastword-genesis",  # the client wants a name; it never joins nor commits
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,  # an empty partition is told from a slow one by the broker's answer
                "queued.min.messages": 1,
                "fetch.queue.backoff.ms": 0,  # else a partition waits a second after each that has answered before it
                "fetch.message.max.bytes": MAX_RECORD_BYTES // 32,
            },
            logger=client_logger(),
        )
        found: dict[int, Message | None] = {}
        try:
            consumer.assign([TopicPartition(topic, partition, offset) for partition in range(partitions)])
            while len(found) < partitions:
                message = consumer.poll(min(self._left(), 0.2))
                if message is None:
                    if self._is_over():
                        raise self._unavailable(f"{partitions - len(found)} of {partitions} partitions cannot be read")
                    continue
                partition = message.partition()
                if partition is None or partition in found:
                    continue
                found[partition] = self._record_in(message)
                consumer.pause([TopicPartition(topic, partition)])
        finally:
            consumer.close()
        return [found[partition] for partition in range(partitions)]

    def append(self, topic: str, records: Iterable[NewRecord]) -> dict[int, int]:
        """Append at most one record to each partition, acknowledged; the offset by partition.

        Where it raises, some of the records may be in the log all the same.
        """
        offsets: dict[int, int] = {}
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            if error is not None:
                errors.append(error)
            elif partition is not None and offset is not None:
                offsets[partition] = offset

        timeout_ms = max(1000, int(self._left() * 1000))
        config = self._settings.producer_config() | {
            # A control record that is there twice changes nothing, and an idempotent producer is ready 0.5 s later.
            "enable.idempotence": False,
            "message.timeout.ms": timeout_ms,
            "linger.ms": 0,
        }
        producer = Producer(config, logger=client_logger())
        count = 0
        for record in records:
            producer.produce(topic, record.value, record.key, record.partition, on_delivery=delivered)
            count += 1
        producer.flush(timeout_ms / 1000 + 1)
        if errors:
            raise self._translated(errors[0])
        if len(offsets) < count:
            raise self._unavailable(f"{count - len(offsets)} of {count} records are not acknowledged")
        return offsets

    def _quiet_config(self) -> dict[str, Any]:
        return self._settings.client_config() | {"error_cb": self._note, "log_level": LOG_LEVEL}

    def _record_in(self, message: Message) -> Message | None:
        error = message.error()
        if error is None:
            return message
        if error.code() == KafkaError._PARTITION_EOF:
            return None
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise LogMismatch(
                f"the first records of partition {message.partition()} of topic '{self._settings.topic}' are gone: "
                "somebody deleted them or the topic had a retention. A log without its beginning is not read; restore "
                "it into a new topic, or begin a new one with `lastword topics create`"
            )
        raise self._translated(error)

    def _note(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._trouble:
            self._trouble = _VARYING.sub("", error.str())

    def _left(self) -> float:
        return max(0.1, self._deadline - time.monotonic())

    def _is_over(self) -> bool:
        return time.monotonic() >= self._deadline

    def _answer(self, future: "Future[Any]") -> Any:
        try:
            return future.result(self._left() + 1)
        except TimeoutError as error:
            raise self._unavailable("no answer in time") from error
        except KafkaException as error:
            raise self._translated(error.args[0]) from error

    def _translated(self, error: KafkaError) -> Exception:
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return _UnknownTopic("the topic does not exist: run `lastword topics create`")
        if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return _TopicExists("there is such a topic already")
        if error.code() in _REFUSALS:
            return BrokerRefused(
                f"Kafka refuses: {error.str()} ({error.name()}). Check what lastword's Kafka user may do, and the "
                "names and settings of the topics"
            )
        return self._unavailable(error.str())

    def _unavailable(self, reason: str) -> BrokerUnavailable:
        self._admin.poll(0)  # brings what `_note` has not been told yet
        return BrokerUnavailable(
            f"no answer from Kafka at {self._settings.bootstrap_servers}: {self._trouble or reason}. Start the broker, "
            "or check the address and the security settings"
        )


class _UnknownTopic(BrokerUnavailable):
    """The topic does not exist, or not yet on the broker that was asked."""


class _TopicExists(BrokerRefused):
    """There is such a topic already."""


def _words(error: KafkaException) -> str:
    return error.args[0].str() if error.args and isinstance(error.args[0], KafkaError) else str(error)
