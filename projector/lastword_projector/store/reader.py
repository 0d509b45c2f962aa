"""What the API reads, with await: entries and histories, each with the checkpoint of the same moment."""

import asyncio
import time
from collections.abc import Sequence

from lastword_projector.engine.projection import EventRef
from lastword_projector.engine.records import Record
from lastword_projector.store import plans
from lastword_projector.store.names import Names
from lastword_projector.store.plans import EntriesRead, HistoryRead
from lastword_projector.store.ports import Checkpoint
from lastword_projector.store.runners import AwaitingRunner

_SHORTEST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.25


class Reader:
    """Reads one namespace. Every method raises StoreUnavailable."""

    def __init__(self, runner: AwaitingRunner, names: Names) -> None:
        self._runner, self._names = runner, names

    async def checkpoint(self, partition: int) -> Checkpoint | None:
        """How far the partition is projected; None if it never was."""
        return await self._runner.run(plans.checkpoint(self._names, partition))

    async def checkpoints(self, partitions: int) -> list[Checkpoint | None]:
        """How far every partition is projected."""
        return await self._runner.run(plans.checkpoints(self._names, partitions))

    async def entries(self, partition: int, owner: str, wanted: Sequence[tuple[str, str]] | None = None) -> EntriesRead:
        """Entries of an owner by scope and key: those wanted that are there, or all."""
        return await self._runner.run(plans.read(self._names, partition, owner, wanted))

    async def history(self, partition: int, owner: str) -> HistoryRead:
        """All of an owner's records up to the checkpoint."""
        return await self._runner.run(plans.history(self._names, partition, owner))

    async def event(self, partition: int, owner: str, event_id: bytes) -> Record | None:
        """The owner's first event with this id, if it is projected."""
        ref = EventRef(owner, event_id)
        sequence = (await self._runner.run(plans.event_sequences(self._names, partition, [ref])))[ref]
        return None if sequence is None else await self._runner.run(plans.find(self._names, partition, owner, sequence))

    async def record(self, partition: int, owner: str, sequence: int) -> Record | None:
        """The owner's record of exactly that sequence, if it is projected."""
        return await self._runner.run(plans.find(self._names, partition, owner, sequence))

    async def wait_past(self, partition: int, sequence: int, wait_s: float) -> bool:
        """Whether the checkpoint takes `sequence` into account, within `wait_s` seconds."""
        deadline = time.monotonic() + wait_s
        pause = _SHORTEST_PAUSE_S
        while True:
            checkpoint = await self.checkpoint(partition)
            if checkpoint is not None and checkpoint.last_sequence >= sequence:
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 2, _LONGEST_PAUSE_S)
