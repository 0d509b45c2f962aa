"""The store in memory, and what reads it, with what can go wrong on a real one."""

from collections.abc import Callable

from lastword_projector.engine.known import KeyRef, Needs
from lastword_projector.engine.projection import Changes
from lastword_projector.engine.records import Record
from lastword_projector.store.memory import MemoryStore, Settled
from lastword_projector.store.memory_reader import MemoryReader
from lastword_projector.store.ports import Checkpoint, Loaded, StoreUnavailable
from lastword_schemas.control import Genesis


class StoppableStore(MemoryStore):
    """A store that can be down: then every call raises StoreUnavailable, and it keeps what it has."""

    def __init__(self) -> None:
        super().__init__()
        self.down = False

    def checkpoint(self, partition: int) -> Checkpoint | None:
        """See `Store`."""
        self._check()
        return super().checkpoint(partition)

    def load(self, partition: int, needs: Needs) -> Settled[Loaded]:
        """See `Store`."""
        self._check()
        return super().load(partition, needs)

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> Settled[None]:
        """See `Store`."""
        self._check()
        return super().commit(partition, genesis, before, changes, now_ms)

    def key_history(self, partition: int, ref: KeyRef, *, below: int) -> list[Record]:
        """See `Store`."""
        self._check()
        return super().key_history(partition, ref, below=below)

    def _check(self) -> None:
        if self.down:
            raise StoreUnavailable("the store does not answer: the test has taken it down")


class StoppableReader(MemoryReader):
    """A reader that waits for nothing while the projection stands still: nobody else would move it meanwhile."""

    def __init__(self, store: MemoryStore, stands_still: Callable[[], bool]) -> None:
        super().__init__(store)
        self._stands_still = stands_still

    async def wait_past(self, partition: int, sequence: int, wait_s: float) -> bool:
        """See `MemoryReader`; at once while the projection stands still."""
        return await super().wait_past(partition, sequence, 0 if self._stands_still() else wait_s)
