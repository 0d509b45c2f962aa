"""What the API reads, with await: entries and histories, each with the checkpoint of the same moment."""

from collections.abc import Sequence

from lastword_projector.engine.known import EventRef, Needs
from lastword_projector.engine.records import Record
from lastword_projector.store import plans
from lastword_projector.store.names import Names
from lastword_projector.store.plans import EntriesRead, HistoryRead, StateRead
from lastword_projector.store.pointer import Fixed, Pointer
from lastword_projector.store.ports import Checkpoint
from lastword_projector.store.runners import AwaitingRunner
from lastword_projector.store.watch import CheckpointWatch


class Reader:
    """Reads one namespace. Every method raises StoreUnavailable."""

    def __init__(self, runner: AwaitingRunner, names: Names | Pointer) -> None:
        self._runner = runner
        self._pointer = names if isinstance(names, Pointer) else Fixed(names)
        self._watch = CheckpointWatch(runner.client, self._pointer, self.checkpoint)

    async def follow(self) -> None:
        """Look whether another namespace is in force; what is read from now on is read there."""
        await self._runner.run(self._pointer.look())

    @property
    def _names(self) -> Names:
        return self._pointer.names

    @property
    def namespace(self) -> str:
        """The one that is read now."""
        return self._names.namespace

    async def checkpoint(self, partition: int) -> Checkpoint | None:
        """How far the partition is projected; None if it never was."""
        return await self._runner.run(plans.checkpoint(self._names, partition))

    async def checkpoints(self, partitions: int) -> list[Checkpoint | None]:
        """How far every partition is projected."""
        return await self._runner.run(plans.checkpoints(self._names, partitions))

    async def entries(self, partition: int, owner: str, wanted: Sequence[tuple[str, str]] | None = None) -> EntriesRead:
        """Entries of an owner by scope and key: those wanted that are there, or all."""
        return await self._runner.run(plans.read(self._names, partition, owner, wanted))

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
        plan = plans.state_at(self._names, partition, owner, wanted, as_of=as_of, known_at=known_at)
        return await self._runner.run(plan)

    async def history(self, partition: int, owner: str) -> HistoryRead:
        """All of an owner's records up to the checkpoint."""
        return await self._runner.run(plans.history(self._names, partition, owner))

    async def last_record(self, partition: int, owner: str) -> HistoryRead:
        """The last of an owner's records; above the checkpoint where that was set back."""
        return await self._runner.run(plans.last_record(self._names, partition, owner))

    async def history_above(self, partition: int, owner: str, sequence: int) -> HistoryRead:
        """An owner's records above a sequence, up to the checkpoint."""
        return await self._runner.run(plans.history_above(self._names, partition, owner, sequence))

    async def event(self, partition: int, owner: str, event_id: bytes) -> Record | None:
        """The owner's first event with this id, if it is projected."""
        ref = EventRef(owner, event_id)
        loaded = await self._runner.run(plans.load(self._names, partition, Needs(events=[ref])))
        return loaded.events[ref]

    async def record(self, partition: int, owner: str, sequence: int) -> Record | None:
        """The owner's record of exactly that sequence, if it is projected."""
        return await self._runner.run(plans.find(self._names, partition, owner, sequence))

    async def wait_past(self, partition: int, sequence: int, wait_s: float) -> bool:
        """Whether the checkpoint takes `sequence` into account, within `wait_s` seconds."""
        return await self._watch.wait_past(partition, sequence, wait_s)

    async def close(self) -> None:
        """Stop waiting and close the connections."""
        await self._watch.close()
        await self._runner.close()
