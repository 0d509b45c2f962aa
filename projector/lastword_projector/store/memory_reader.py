"""What the API reads, from a store in memory: the same answers as those of `reader.Reader`."""

import asyncio
from collections.abc import Sequence

from lastword_projector.engine.decisions import standing_of
from lastword_projector.engine.known import EventRef, Needs
from lastword_projector.engine.policies import policy_of
from lastword_projector.engine.records import LEDGER, Record
from lastword_projector.store.memory import MemoryStore
from lastword_projector.store.packing import unpack_entry
from lastword_projector.store.plans import EntriesRead, HistoryRead, StateRead
from lastword_projector.store.ports import Checkpoint


class MemoryReader:
    """Reads a `MemoryStore`. Every answer is of one moment; any thread and any event loop may ask."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    @property
    def namespace(self) -> str:
        """There is but one."""
        return ""

    async def checkpoint(self, partition: int) -> Checkpoint | None:
        """How far the partition is projected; None if it never was."""
        return self._store.checkpoint(partition)

    async def checkpoints(self, partitions: int) -> list[Checkpoint | None]:
        """How far every partition is projected."""
        with self._store.lock:
            return [self._store.checkpoint(partition) for partition in range(partitions)]

    async def entries(self, partition: int, owner: str, wanted: Sequence[tuple[str, str]] | None = None) -> EntriesRead:
        """Entries of an owner by scope and key: those wanted that are there, or all."""
        with self._store.lock:
            stored = self._store.entries(partition, owner)
            stored.pop(LEDGER, None)
            chosen = stored if wanted is None else {at: stored[at] for at in wanted if at in stored}
            entries = {at: unpack_entry(data) for at, data in chosen.items()}
            return EntriesRead(self._store.checkpoint(partition), entries)

    async def state_at(
        self,
        partition: int,
        owner: str,
        wanted: Sequence[tuple[str, str]],
        *,
        as_of: int | None,
        known_at: int | None,
    ) -> StateRead:
        """Entries of an owner within a boundary of sequences: those wanted that are there."""
        checkpoint, records = await self.history(partition, owner)
        if checkpoint is None:
            return StateRead(None, {}, None)
        _, now = await self.entries(partition, owner, wanted)
        known = [record for record in records if known_at is None or record.sequence <= known_at]
        standing = standing_of(known)
        entries = {}
        for scope, key in wanted:
            parts = (record.part_of(scope, key) for record in known if as_of is None or record.source_sequence <= as_of)
            policy = policy_of(now[scope, key].entry if (scope, key) in now else None, key, checkpoint.registry)
            said = standing.counting(part for part in parts if part is not None)
            if (entry := policy.fold(said, standing.resolves(scope, key))) is not None:
                entries[scope, key] = entry
        last = None
        if any(entry.record.expires_at is not None for entry in entries.values()):
            last = next((each for each in reversed(known) if as_of is None or each.sequence <= as_of), None)
        return StateRead(checkpoint, entries, last)

    async def history(self, partition: int, owner: str) -> HistoryRead:
        """All of an owner's records up to the checkpoint."""
        with self._store.lock:
            checkpoint, records = self._store.checkpoint(partition), self._store.history(partition, owner)
        if checkpoint is None:
            return HistoryRead(None, [])
        return HistoryRead(checkpoint, [record for record in records if record.sequence < checkpoint.next_sequence])

    async def last_record(self, partition: int, owner: str) -> HistoryRead:
        """The last of an owner's records; above the checkpoint where that was set back."""
        with self._store.lock:
            return HistoryRead(self._store.checkpoint(partition), self._store.history(partition, owner)[-1:])

    async def history_above(self, partition: int, owner: str, sequence: int) -> HistoryRead:
        """An owner's records above a sequence, up to the checkpoint."""
        checkpoint, records = await self.history(partition, owner)
        return HistoryRead(checkpoint, [record for record in records if record.sequence > sequence])

    async def event(self, partition: int, owner: str, event_id: bytes) -> Record | None:
        """The owner's first event with this id, if it is projected."""
        ref = EventRef(owner, event_id)
        with self._store.lock:
            return self._store.load(partition, Needs(events=[ref])).result().events[ref]

    async def record(self, partition: int, owner: str, sequence: int) -> Record | None:
        """The owner's record of exactly that sequence, if it is projected."""
        with self._store.lock:
            checkpoint = self._store.checkpoint(partition)
            if checkpoint is None or sequence >= checkpoint.next_sequence:
                return None
            return self._store.record(partition, owner, sequence)

    async def wait_past(self, partition: int, sequence: int, wait_s: float) -> bool:
        """Whether the checkpoint takes `sequence` into account, within `wait_s` seconds."""
        loop, committed = asyncio.get_running_loop(), asyncio.Event()

        def listener(_: int) -> None:
            loop.call_soon_threadsafe(committed.set)

        async def passed() -> None:
            while (found := await self.checkpoint(partition)) is None or found.last_sequence < sequence:
                await committed.wait()
                committed.clear()

        with self._store.listening(listener):
            try:
                await asyncio.wait_for(passed(), max(wait_s, 0.001))
            except TimeoutError:
                return False
        return True
