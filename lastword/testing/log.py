"""A log in memory: partitions, offsets, append times, and the bytes that a real one would have."""

import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lastword.testing.clock import Clock
from lastword_producers.log_identity import LogIdentity
from lastword_projector.engine.decode import LogRecord
from lastword_projector.engine.keys import compile_registry
from lastword_schemas import jsontext
from lastword_schemas.control import GENESIS_KEY, REGISTRY_KEY, Genesis, RegistryRecord, control_bytes
from lastword_schemas.errors import InvalidInput
from lastword_schemas.model import from_micros
from lastword_schemas.registry import Registry

TOPIC = "lastword.events"
_CONTROL_KEYS = frozenset({GENESIS_KEY.encode(), REGISTRY_KEY.encode()})


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event as it stands in the log, whatever its verdict is."""

    partition: int
    offset: int
    recorded_at: datetime
    """Append time, in UTC."""
    envelope: dict[str, Any]
    """The parsed envelope: `event_id`, `owner`, `scope`, `key`, `operation`, `body`, ..."""


class MemoryLog:
    """The history topic. Every partition begins with its genesis record at offset 0. It only grows."""

    def __init__(self, clock: Clock, partitions: int) -> None:
        self._clock = clock
        self.lock = threading.RLock()
        """Held while something is appended or projected."""
        cluster_id, topic_id = f"memory-{uuid.uuid4().hex}", uuid.uuid4().hex
        genesis = tuple(
            Genesis(generation=0, partition=number, partitions=partitions, cluster_id=cluster_id, topic_id=topic_id)
            for number in range(partitions)
        )
        self.identity = LogIdentity(cluster_id, topic_id, TOPIC, partitions, 0, genesis)
        """Which log this is."""
        self._records: list[list[LogRecord]] = [[] for _ in genesis]
        self.order: list[tuple[int, LogRecord]] = []
        """Partition and record, in the order in which they were appended."""
        for each in genesis:
            self.append(each.partition, GENESIS_KEY.encode(), control_bytes(each))

    def append(self, partition: int, key: bytes | None, value: bytes | None) -> int:
        """Append any bytes, as somebody with a Kafka client could; their offset."""
        with self.lock:
            records = self._records[partition]
            record = LogRecord(len(records), self._clock.stamp(), key, value)
            records.append(record)
            self.order.append((partition, record))
        return record.offset

    def apply(self, registry: Registry) -> None:
        """Append the key registry to every partition. Raises InvalidInput where a value schema is not usable."""
        compile_registry(registry.to_canonical())
        for partition in range(self.identity.partitions):
            self.append(partition, REGISTRY_KEY.encode(), control_bytes(RegistryRecord(registry=registry)))

    def records(self, partition: int) -> list[LogRecord]:
        """All records of a partition."""
        return list(self._records[partition])

    def events(self) -> Iterator[LoggedEvent]:
        """Every event in the order in which they were appended; what is no JSON object is left out."""
        for partition, record in list(self.order):
            if is_control(record):
                continue
            try:
                envelope = jsontext.parse(record.value or b"")
            except InvalidInput:
                continue
            if isinstance(envelope, dict):
                yield LoggedEvent(partition, record.offset, from_micros(record.recorded_at * 1000), envelope)


def is_control(record: LogRecord) -> bool:
    """Whether it is a genesis or registry record."""
    return record.key in _CONTROL_KEYS
