"""What Redis holds, compared byte by byte with a fold of the same log in memory."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import redis
from confluent_kafka import Consumer, KafkaError, TopicPartition

from lastword.settings import ConnectionSettings
from lastword_producers.broker import client_logger
from lastword_producers.kafka_log import LogIdentity
from lastword_projector.engine.decode import LogRecord
from lastword_projector.engine.projection import Changes
from lastword_projector.engine.records import MARK_LENGTH, pack_record
from lastword_projector.projector import PartitionProjector
from lastword_projector.store.event_ids import EventIds, event_digest, run_item
from lastword_projector.store.memory import MemoryStore, Settled
from lastword_projector.store.names import Names, bucket_of, field_of
from lastword_projector.store.packing import pack_head
from lastword_projector.store.ports import Checkpoint
from lastword_projector.worker.dead_letters import MutedDeadLetters
from lastword_projector.worker.worker import consumer_config, log_record
from lastword_schemas.control import Genesis
from tests.bench.bench import BenchStopped

Stored = dict[str, dict[bytes, bytes]]
"""By Redis key: the fields of a hash, or the items of a list by the sequence that they begin with."""

_SEQUENCE_LENGTH = 16
_PROJECTED_AT_LENGTH = 13
_DIGEST_LENGTH, _ITEM_LENGTH = 16, 23
_SILENCE_S = 30.0


class Compared(NamedTuple):
    """How many things of one sort the fold has, and how many of them Redis has byte for byte, and nothing else."""

    sort: str
    folded: int
    equal: int
    unexpected: int
    """In Redis only."""

    @property
    def holds(self) -> bool:
        """Whether they are the same."""
        return self.equal == self.folded > 0 and self.unexpected == 0

    def __str__(self) -> str:
        more = f" and {self.unexpected:,} that the fold has not" if self.unexpected else ""
        return f"{self.sort} {self.equal:,} of {self.folded:,}{more}"


def compare(settings: ConnectionSettings, log: LogIdentity) -> list[Compared]:
    """Redis against the fold of the log: entries (but for their `projected_at`), event ids, histories, checkpoints."""
    folded = _fold(settings, log)
    with redis.Redis.from_url(settings.redis.get_secret_value()) as client:
        stored = _stored(client, settings.namespace)
    sorts = {"p": "entries", "er": "event ids", "h": "histories", "c": "checkpoints"}
    return [_compared(name, _of_sorts(folded, sort), _of_sorts(stored, sort)) for sort, name in sorts.items()]


class _Kept(MemoryStore):
    """Keeps what was committed under the names and in the bytes that Redis has."""

    def __init__(self, names: Names, into: Stored) -> None:
        super().__init__()
        self._names, self._into = names, into
        self._ids: dict[int, EventIds] = {}

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> Settled[None]:
        settled = super().commit(partition, genesis, before, changes, now_ms)
        names = self._names.of(partition)
        for (owner, scope, key), (_, entry) in changes.entries.items():
            packed = pack_head(entry, "") + pack_record(entry.record)
            self._keep(names.profile(owner), field_of(scope, key).encode(), packed)
        ids = self._ids.setdefault(partition, EventIds())
        for (owner, event_id), sequence in changes.events:
            digest, run = event_digest(owner, event_id), ids.place(event_id)
            if run is None:
                self._keep(names.buckets[bucket_of(digest)], digest, b"%d" % sequence)
            else:
                self._keep(names.run(run.hex()), digest, run_item(digest, sequence))
        for owner, record in changes.records:
            self._keep(names.history(owner), f"{record.sequence:016d}".encode(), pack_record(record))
        stored = self.checkpoint(partition)
        assert stored is not None
        self._keep(names.checkpoint, b"next", f"{stored.next_sequence:016d}".encode())
        return settled

    def _keep(self, name: str, field: bytes, data: bytes) -> None:
        self._into.setdefault(name, {})[field] = data


def _fold(settings: ConnectionSettings, log: LogIdentity) -> Stored:
    folded = Stored()
    store = _Kept(Names(settings.namespace), folded)
    projectors = [PartitionProjector(genesis, store, MutedDeadLetters()) for genesis in log.genesis]
    for partition, records in _read(settings, log):
        projectors[partition].project(records)
    return folded


def _read(settings: ConnectionSettings, log: LogIdentity) -> Iterator[tuple[int, list[LogRecord]]]:
    """The whole log from the beginning, run by run."""
    config = consumer_config(settings.kafka_settings.client_config(), "bench-fold", "classic")
    consumer = Consumer(config | {"enable.partition.eof": True}, logger=client_logger())
    open_ends = set(range(log.partitions))
    try:
        consumer.assign([TopicPartition(log.topic, partition, 0) for partition in open_ends])
        while open_ends:
            first = consumer.poll(_SILENCE_S)
            if first is None:
                raise BenchStopped(f"the broker sent nothing for {_SILENCE_S:.0f} s while the log was read")
            runs: dict[int, list[LogRecord]] = {}
            for message in [first, *consumer.consume(2_000, 0)]:
                error, partition = message.error(), message.partition()
                assert partition is not None
                if error is None:
                    runs.setdefault(partition, []).append(log_record(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_ends.discard(partition)
                else:
                    raise BenchStopped(f"the log cannot be read: {error.str()}")
            yield from runs.items()
    finally:
        consumer.close()


def _stored(client: "redis.Redis", namespace: str) -> Stored:
    found = Stored()
    for raw in client.scan_iter(match=f"lw:{namespace}:*", count=1_000):
        name = raw.decode()
        match _sort_of(name):
            case "p":
                found[name] = {field: _without_time(value) for field, value in _hash(client, raw).items()}
            case "e":
                found[name] = _hash(client, raw)
            case "r":
                found[name] = _run(client, raw)
            case "h":
                items: list[bytes] = client.lrange(name, 0, -1)  # type: ignore[assignment]
                found[name] = {item[:_SEQUENCE_LENGTH]: item[_SEQUENCE_LENGTH:] for item in items}
            case "c":
                found[name] = {b"next": _hash(client, raw)[b"next"]}
            case _:
                found[name] = {}
    return found


def _hash(client: "redis.Redis", name: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = client.hgetall(name)  # type: ignore[assignment]
    return found


def _run(client: "redis.Redis", name: bytes) -> dict[bytes, bytes]:
    items: bytes = client.get(name)  # type: ignore[assignment]
    parts = [items[first : first + _ITEM_LENGTH] for first in range(0, len(items), _ITEM_LENGTH)]
    return {part[:_DIGEST_LENGTH]: part for part in parts}


def _without_time(value: bytes) -> bytes:
    return value[:MARK_LENGTH] + value[MARK_LENGTH + _PROJECTED_AT_LENGTH :]


def _sort_of(name: str) -> str:
    """`p`, `e`, `r`, `h` or `c`; the first letter behind the partition's prefix; empty for what follows from them."""
    sort = name.partition("}:")[2]
    return "" if sort == "runs" else sort[:1]


def _of_sorts(stored: Stored, sorts: str) -> Mapping[tuple[str, bytes], bytes]:
    return {
        (name, field): value
        for name, fields in stored.items()
        if _sort_of(name) and _sort_of(name) in sorts
        for field, value in fields.items()
    }


def _compared(
    sort: str, folded: Mapping[tuple[str, bytes], bytes], stored: Mapping[tuple[str, bytes], bytes]
) -> Compared:
    equal = sum(stored.get(at) == value for at, value in folded.items())
    return Compared(sort, len(folded), equal, len(stored.keys() - folded.keys()))
