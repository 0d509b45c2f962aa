"""The projector's store in memory: the same contract, nothing to install. It keeps the same bytes as Redis does."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from lastword_projector.engine.known import EventRef, KeyRef, Needs, SourceRef
from lastword_projector.engine.projection import FOLD_VERSION, Changes, DeadLetter
from lastword_projector.engine.records import MARK_LENGTH, Record, pack_record, unpack_record
from lastword_projector.store.packing import pack_head, unpack_entry
from lastword_projector.store.ports import Checkpoint, CommitRefused, Loaded, OtherProjection, Place, history_lost
from lastword_schemas.control import Genesis
from lastword_schemas.errors import LastwordError
from lastword_schemas.positions import sequence_of
from lastword_schemas.registry import Registry

T = TypeVar("T")


class Settled(Generic[T]):
    """`Pending` that has nothing to wait for."""

    def __init__(self, value: T, error: LastwordError | None = None) -> None:
        self._value, self._error = value, error

    def result(self) -> T:
        """The value. Raises the error, if there was one."""
        if self._error is not None:
            raise self._error
        return self._value


class MemoryStore:
    """`Store` in memory. Any thread may use it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held while something is written, and by whoever needs several answers of one moment."""
        self._listeners: list[Callable[[int], None]] = []
        self._checkpoints: dict[int, Checkpoint] = {}
        self.stored_entries: dict[tuple[int, KeyRef], bytes] = {}
        """Head and packed record, by partition and key."""
        self._events: dict[tuple[int, EventRef], int] = {}
        self._records: dict[tuple[int, str], dict[int, bytes]] = {}
        """Packed records by sequence, in accepted order, by partition and owner."""
        self.dead: list[tuple[int, DeadLetter]] = []
        """Stubs: partition and letter."""

    def checkpoint(self, partition: int) -> Checkpoint | None:
        """See `Store`."""
        return self._checkpoints.get(partition)

    def place(self, partition: int) -> Place:
        """See `Store`."""
        return Place()

    def load(self, partition: int, needs: Needs) -> Settled[Loaded]:
        """See `Store`."""
        found = {ref: self.stored_entries.get((partition, KeyRef(*ref))) for ref in needs.entries}
        return Settled(
            Loaded(
                {ref: None if data is None else unpack_entry(data).entry for ref, data in found.items()},
                {ref: self._event(partition, EventRef(*ref)) for ref in needs.events},
            )
        )

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> Settled[None]:
        """See `Store`."""
        try:
            with self.lock:
                self._commit(partition, genesis, before, changes, now_ms)
                listeners = list(self._listeners)
        except LastwordError as error:
            return Settled(None, error)
        for listener in listeners:
            listener(partition)
        return Settled(None)

    @contextlib.contextmanager
    def listening(self, listener: Callable[[int], None]) -> Iterator[None]:
        """In the block `listener` is told the partition of every commit, in the thread of the commit."""
        with self.lock:
            self._listeners.append(listener)
        try:
            yield
        finally:
            with self.lock:
                self._listeners.remove(listener)

    def key_history(self, partition: int, ref: KeyRef, *, below: int) -> list[Record]:
        """See `Store`."""
        return [
            part
            for record in self.history(partition, ref.owner)
            if record.sequence < below and (part := record.part_of(ref.scope, ref.key)) is not None
        ]

    def citing(self, partition: int, source: SourceRef, *, below: int) -> list[Record]:
        """See `Store`."""
        return [
            record
            for record in self.history(partition, source.owner)
            if record.sequence < below and record.counts and record.source_event_id == source.event_id
        ]

    def history(self, partition: int, owner: str) -> list[Record]:
        """All of an owner's records."""
        return [unpack_record(data) for data in self._records.get((partition, owner), {}).values()]

    def record(self, partition: int, owner: str, sequence: int) -> Record | None:
        """The owner's record of exactly that sequence."""
        data = self._records.get((partition, owner), {}).get(sequence)
        return None if data is None else unpack_record(data)

    def entries(self, partition: int, owner: str) -> dict[tuple[str, str], bytes]:
        """All of an owner's entries, packed, by scope and key."""
        return {
            (ref.scope, ref.key): data
            for (number, ref), data in self.stored_entries.items()
            if number == partition and ref.owner == owner
        }

    def reset(self) -> None:
        """See `Store`."""

    def _commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> None:
        stored = self._checkpoints.get(partition)
        target = sequence_of(genesis.generation, changes.next_offset)
        if stored is not None and stored.genesis.log_id != genesis.log_id:
            raise OtherProjection(f"partition {partition}: this is the projection of log {stored.genesis.log_id}")
        if stored is not None and stored.fold_version != FOLD_VERSION:
            raise OtherProjection(f"partition {partition}: folded under version {stored.fold_version}")
        if stored is not None and stored.next_sequence == target:
            return
        if (stored.next_sequence if stored else None) != (before.next_sequence if before else None):
            raise CommitRefused(partition, "the stored checkpoint is not the one folded from")
        for ref, (started_from, entry) in changes.entries.items():
            may_fall = ref in changes.refolded
            mark = self.stored_entries.get((partition, KeyRef(*ref)), b"")[:MARK_LENGTH].decode()
            if mark != started_from or not (may_fall or entry.mark >= mark):
                raise CommitRefused(partition, "a stored entry is not the one folded from")
        for owner, record in changes.records:
            self._records.setdefault((partition, owner), {}).setdefault(record.sequence, pack_record(record))
        known = {(number, letter.record.offset) for number, letter in self.dead}
        self.dead += [(partition, letter) for letter in changes.dead if (partition, letter.record.offset) not in known]
        for ref, (_, entry) in changes.entries.items():
            data = pack_head(entry, f"{now_ms:013d}") + pack_record(entry.record)
            self.stored_entries[partition, KeyRef(*ref)] = data
        for (owner, event_id), sequence in changes.events:
            self._events[partition, EventRef(owner, event_id)] = sequence
        registry = changes.registry or (stored.registry if stored else Registry())
        clock = stored.clock if stored else ("broker" if changes.stamped else "publisher")
        self._checkpoints[partition] = Checkpoint(target, genesis, FOLD_VERSION, registry, clock)

    def _event(self, partition: int, ref: EventRef) -> Record | None:
        sequence = self._events.get((partition, ref))
        if sequence is None:
            return None
        record = self.record(partition, ref.owner, sequence)
        if record is None:
            raise history_lost(partition, sequence)
        return record
