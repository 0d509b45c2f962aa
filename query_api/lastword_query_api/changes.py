"""Who is told of changes: subscribers by owner, one feed for all of them.

A subscriber is attached first and then reads what it missed from the owner's history, so that nothing falls between;
what comes twice is known by its sequence. Everything here is of one event loop.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from lastword_projector.engine.changes import changes_of, told
from lastword_projector.engine.records import Record
from lastword_projector.store.plans import HistoryRead
from lastword_projector.store.ports import Checkpoint
from lastword_query_api.boundary import NotProjected, check_demand
from lastword_query_api.subscriber import Line, Subscriber, Told
from lastword_schemas.errors import LastwordError
from lastword_schemas.positions import Demand

HEARTBEAT_S = 15.0
_OPEN_S = 5.0


class ChangesUnavailable(LastwordError):
    """The topic of changes cannot be read, so nobody would be told of anything."""

    code = "changes-unavailable"
    retryable = True


class TooManyStreams(LastwordError):
    """This process has as many streams as it may have."""

    code = "too-many-streams"
    retryable = True


class Closing(LastwordError):
    """This process is being stopped; go on behind the last position, at another one or a little later."""

    code = "stopping"
    retryable = True


class ChangesReader(Protocol):
    """What streams need of a store. Raises StoreUnavailable."""

    async def history_above(self, partition: int, owner: str, sequence: int) -> HistoryRead:
        """An owner's records above a sequence, up to the checkpoint."""
        ...

    async def checkpoint(self, partition: int) -> Checkpoint | None:
        """How far the partition is projected."""
        ...


class Feed(Protocol):
    """Where changes come from. It calls `open`, `deliver` and `interrupt` of the `Changes` that it is started with."""

    def start(self, changes: "Changes") -> None:
        """Begin, in the running event loop; called when the first subscriber comes."""
        ...

    async def stop(self) -> None:
        """End; called once, also where it was never started."""
        ...


class Changes:
    """The streams of one process."""

    def __init__(
        self,
        reader: ChangesReader,
        partition_of: Callable[[str], Awaitable[int]],
        feed: Feed,
        *,
        most: int = 5_000,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._reader, self._partition_of, self._feed = reader, partition_of, feed
        self._most, self._heartbeat_s = most, heartbeat_s
        self.of_owner: dict[str, set[Subscriber]] = {}
        """Who wants to hear of an owner. Other threads may look whether an owner is there."""
        self._count = 0
        self._heard = asyncio.Event()
        """Set once the feed has said how it goes."""
        self._trouble: LastwordError | None = ChangesUnavailable("the topic of changes has not been reached yet")
        self._started = self._closing = False
        self._beating: asyncio.Task[None] | None = None

    async def subscribe(
        self, owner: str, *, scope: str | None = None, key: str | None = None, after: Demand | None = None
    ) -> Subscriber:
        """A stream of the owner's changes, from now on or behind a position, until its `leave`.

        Raises ChangesUnavailable, TooManyStreams, Closing, NotProjected, WrongLog, InvalidInput, StoreUnavailable.
        """
        await self._await_open()
        if self._count >= self._most:
            raise TooManyStreams(f"this process serves {self._most:,} streams and takes no more; try another one")
        partition = await self._partition_of(owner)
        subscriber = Subscriber(owner, scope, key, self.leave)
        self._count += 1
        self.of_owner.setdefault(owner, set()).add(subscriber)
        self._beating = self._beating or asyncio.create_task(self._beat())
        try:
            await self._catch_up(subscriber, partition, after)
        except BaseException:
            self.leave(subscriber)
            raise
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """Tell it nothing more. May be called again."""
        others = self.of_owner.get(subscriber.owner, set())
        if subscriber in others:
            others.discard(subscriber)
            self._count -= 1
            if not others:
                del self.of_owner[subscriber.owner]
            if not self.of_owner and self._beating is not None:
                self._beating.cancel()
                self._beating = None

    def open(self) -> None:
        """From here on all that is told comes to `deliver`."""
        self._trouble = None
        self._heard.set()

    def deliver(self, events: Iterable[Told]) -> None:
        """Hand events to those who want to hear of their owners; of one owner in the order of the log."""
        for event in events:
            for subscriber in tuple(self.of_owner.get(event.owner, ())):
                subscriber.offer(event)

    def interrupt(self, trouble: LastwordError) -> None:
        """Changes may be missed from here until `open`: end all streams, which resume behind their positions."""
        self._trouble = trouble
        self._heard.set()
        self._end_all("dropped", trouble)

    def close(self) -> None:
        """End all streams and take no more; the process stops."""
        self._closing = True
        self._end_all("closing", Closing())

    async def stop(self) -> None:
        """Close, and stop the feed."""
        self.close()
        await self._feed.stop()

    def _end_all(self, event: str, why: LastwordError) -> None:
        for subscriber in [one for some in self.of_owner.values() for one in some]:
            subscriber.end(event, why)

    async def _await_open(self) -> None:
        if self._closing:
            raise Closing()
        if not self._started:
            self._feed.start(self)
            self._started = True
        if not self._heard.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._heard.wait(), _OPEN_S)
        if self._trouble is not None:
            raise self._trouble

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            for subscriber in [one for some in self.of_owner.values() for one in some]:
                subscriber.beat()

    async def _catch_up(self, subscriber: Subscriber, partition: int, after: Demand | None) -> None:
        owner = subscriber.owner
        checkpoint = await self._reader.checkpoint(partition)
        records: list[Record] = []
        if checkpoint is not None and after is not None:
            position = check_demand(after, owner, checkpoint, field="after")
            found = await self._reader.history_above(partition, owner, position)
            checkpoint, records = found.checkpoint, found.records
        else:
            position = 0
        if checkpoint is None:
            raise NotProjected(f"partition {partition} has no checkpoint: is a worker running (`lastword worker`)?")
        log_id = checkpoint.genesis.log_id
        subscriber.begin(log_id, told_of(log_id, owner, records), max(position, checkpoint.last_sequence))


def told_of(log_id: str, owner: str, records: Iterable[Record]) -> list[Told]:
    """What the events of an owner's records changed; nothing of those that changed nothing."""
    return [
        Told(log_id, owner, record.sequence, [Line(one.scope, one.key, told(log_id, one)) for one in changed])
        for record in records
        if (changed := changes_of(owner, record))
    ]
