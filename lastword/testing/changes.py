"""Changes, as the store in memory commits them."""

import asyncio
import contextlib

from lastword_projector.store.memory import MemoryStore
from lastword_query_api.changes import Changes, told_of


class MemoryChanges:
    """`Feed` of a store in memory, for the streams of one event loop."""

    def __init__(self, store: MemoryStore, partitions: int) -> None:
        self._store, self._partitions = store, partitions
        self._next: dict[int, int] = {}
        """By partition: the *next* sequence to be told."""
        self._listening = contextlib.ExitStack()

    def start(self, changes: Changes) -> None:
        """See `Feed`. Raises StoreUnavailable."""
        loop = asyncio.get_running_loop()

        def committed(partition: int) -> None:
            checkpoint = self._store.checkpoint(partition)
            if checkpoint is None:
                return
            first, self._next[partition] = self._next.get(partition, 0), checkpoint.next_sequence
            log_id = checkpoint.genesis.log_id
            for owner in list(changes.of_owner):
                records = [record for record in self._store.history(partition, owner) if record.sequence >= first]
                if events := told_of(log_id, owner, records):
                    with contextlib.suppress(RuntimeError):  # the loop has ended, and with it who listened there
                        loop.call_soon_threadsafe(changes.deliver, events)

        for partition in range(self._partitions):
            if (checkpoint := self._store.checkpoint(partition)) is not None:
                self._next[partition] = checkpoint.next_sequence
        self._listening.enter_context(self._store.listening(committed))
        changes.open()

    async def stop(self) -> None:
        """See `Feed`."""
        self._listening.close()
