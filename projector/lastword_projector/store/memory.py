"""The projector's stores in memory: the same contracts, nothing to install. They keep the same bytes as Redis does."""

from collections.abc import Sequence

from lastword_projector.engine.projection import FOLD_VERSION, Changes, DeadLetter, EventRef, KeyRef
from lastword_projector.engine.records import (
    NO_MARK,
    Entry,
    Record,
    pack_entry,
    pack_record,
    unpack_entry,
    unpack_record,
)
from lastword_projector.store.ports import Checkpoint, CommitRefused, OtherProjection
from lastword_schemas.control import Genesis
from lastword_schemas.positions import sequence_of
from lastword_schemas.registry import Registry


class MemoryProfileStore:
    """`ProfileStore` in memory."""

    def __init__(self) -> None:
        self._checkpoints: dict[int, Checkpoint] = {}
        self._entries: dict[tuple[int, KeyRef], bytes] = {}
        self._events: dict[tuple[int, EventRef], int] = {}

    def checkpoint(self, partition: int) -> Checkpoint | None:
        """See `ProfileStore`."""
        return self._checkpoints.get(partition)

    def entries(self, partition: int, refs: Sequence[KeyRef]) -> dict[KeyRef, Entry | None]:
        """See `ProfileStore`."""
        found = {ref: self._entries.get((partition, ref)) for ref in refs}
        return {ref: None if data is None else unpack_entry(data) for ref, data in found.items()}

    def event_sequences(self, partition: int, refs: Sequence[EventRef]) -> dict[EventRef, int | None]:
        """See `ProfileStore`."""
        return {ref: self._events.get((partition, ref)) for ref in refs}

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> None:
        """See `ProfileStore`."""
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
        for ref, change in changes.entries.items():
            data = self._entries.get((partition, ref))
            mark = unpack_entry(data).mark if data is not None else NO_MARK
            rises = change.entry.mark > mark if change.mode == "above" else change.entry.mark == mark
            if mark != change.before or not rises:
                raise CommitRefused(partition, "a stored entry is not the one folded from")
        for ref, change in changes.entries.items():
            self._entries[partition, ref] = pack_entry(change.entry)
        for event, sequence in changes.events:
            self._events[partition, event] = sequence
        registry = changes.registry or (stored.registry if stored else Registry())
        clock = stored.clock if stored else ("broker" if changes.stamped else "publisher")
        self._checkpoints[partition] = Checkpoint(target, genesis, FOLD_VERSION, registry, clock)


class MemoryHistoryStore:
    """`HistoryStore` in memory."""

    def __init__(self) -> None:
        self._records: dict[tuple[int, str], list[bytes]] = {}
        self.dead: list[tuple[int, DeadLetter]] = []
        """Stubs: partition and letter."""

    def append(self, partition: int, records: Sequence[tuple[str, Record]], dead: Sequence[DeadLetter]) -> None:
        """See `HistoryStore`."""
        for owner, record in records:
            kept = self._records.setdefault((partition, owner), [])
            if not kept or unpack_record(kept[-1]).sequence < record.sequence:
                kept.append(pack_record(record))
        known = {(number, letter.record.offset) for number, letter in self.dead}
        self.dead += [(partition, letter) for letter in dead if (partition, letter.record.offset) not in known]

    def of_key(self, partition: int, ref: KeyRef, *, below: int) -> list[Record]:
        """See `HistoryStore`."""
        return [
            record
            for record in self.of_owner(partition, ref.owner)
            if record.sequence < below and record.counts and (record.scope, record.key) == (ref.scope, ref.key)
        ]

    def of_owner(self, partition: int, owner: str) -> list[Record]:
        """All of an owner's records."""
        return [unpack_record(data) for data in self._records.get((partition, owner), [])]

    def find(self, partition: int, owner: str, sequence: int) -> Record | None:
        """See `HistoryStore`."""
        return next((record for record in self.of_owner(partition, owner) if record.sequence == sequence), None)
