"""Wait for a checkpoint to pass a sequence: woken by the commit's announcement, and looking now and then anyway."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import redis.asyncio
from redis.exceptions import RedisError

from lastword_projector.store.pointer import Pointer
from lastword_projector.store.ports import Checkpoint, StoreUnavailable

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.25
_BACK_OFF_S = 1.0


class CheckpointWatch:
    """Wakes those who wait for partitions, however many they are, with one subscription and one look for all.

    Announcements (a sharded publish by the commit script) may be lost; so each partition that is waited for is also
    looked at every 250 ms, once for all its waiters.
    """

    def __init__(
        self, client: redis.asyncio.Redis, pointer: Pointer, look: Callable[[int], Awaitable[Checkpoint | None]]
    ) -> None:
        self._client, self._pointer, self._look = client, pointer, look
        self._waiting: dict[int, set[_Waiter]] = {}
        self._looking: dict[int, asyncio.Task[None]] = {}
        self._listening: asyncio.Task[None] | None = None

    async def wait_past(self, partition: int, sequence: int, wait_s: float) -> bool:
        """Whether the checkpoint takes `sequence` into account, within `wait_s` seconds."""
        waiter = _Waiter(sequence)
        waiting = self._waiting.setdefault(partition, set())
        waiting.add(waiter)
        if partition not in self._looking:
            self._looking[partition] = asyncio.create_task(self._look_now_and_then(partition))
        try:
            await asyncio.wait_for(waiter.reached.wait(), wait_s)
        except TimeoutError:
            return False
        finally:
            waiting.discard(waiter)
        if waiter.error is not None:
            raise waiter.error
        return True

    async def close(self) -> None:
        """Stop listening and looking."""
        tasks = [task for task in (self._listening, *self._looking.values()) if task is not None]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _wake(self, partition: int, last_sequence: int) -> None:
        for waiter in self._waiting.get(partition, ()):
            if waiter.sequence <= last_sequence:
                waiter.reached.set()

    async def _look_now_and_then(self, partition: int) -> None:
        """Look while somebody waits; the first look is at once, because the announcement may have been before."""
        try:
            while self._waiting[partition]:
                try:
                    checkpoint = await self._look(partition)
                except StoreUnavailable as error:
                    for waiter in self._waiting[partition]:
                        waiter.error = error
                        waiter.reached.set()
                    return
                if checkpoint is not None:
                    self._wake(partition, checkpoint.last_sequence)
                    self._listen(checkpoint.genesis.partitions)
                await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            del self._looking[partition]

    def _listen(self, partitions: int) -> None:
        if self._listening is None or self._listening.done():
            self._listening = asyncio.create_task(self._hear(partitions))

    async def _hear(self, partitions: int) -> None:
        while True:
            names = self._pointer.names
            partition_of = {names.of(number).checkpoint.encode(): number for number in range(partitions)}
            try:
                async with self._client.pubsub() as subscription:
                    await subscription.ssubscribe(*partition_of)
                    while self._pointer.names == names:  # where it was rebuilt, waiters are woken by the looks at first
                        message = await subscription.get_message(ignore_subscribe_messages=True, timeout=5)
                        if message is not None:
                            self._wake(partition_of[message["channel"]], int(message["data"]) - 1)
            except RedisError as error:
                _log.warning("announcements are not heard (%s); looking every 250 ms", type(error).__name__)
                await asyncio.sleep(_BACK_OFF_S)


class _Waiter:
    """One who waits."""

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.reached = asyncio.Event()
        self.error: StoreUnavailable | None = None
