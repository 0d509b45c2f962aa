"""Extraction in the background: turns of the log are read at leisure, several at once, and none is passed over.

It is handed the records of each partition in order by an agent of faust, and keeps its own checkpoint: the lowest
record that is not finished. A record is finished when all that follows from it is in the log, so a process that is
killed at any moment leaves nothing out; what it had published already is published again under the same event ids, and
counts once.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from lastword.extraction.candidates import event_of
from lastword.extraction.progress import Progress
from lastword.extraction.protocol import Extractor, Message
from lastword.extraction.status import ExtractorStatus
from lastword.following.checkpoints import Checkpoints, InForce
from lastword.following.patience import Patience
from lastword_producers.errors import BrokerRefused, LogMismatch, PublisherClosed, PublishFailed, UnknownOutcome
from lastword_projector.engine.decode import Event, LogRecord, decode
from lastword_projector.store.ports import StoreUnavailable
from lastword_schemas.authority import Operation
from lastword_schemas.control import RegistryRecord
from lastword_schemas.drafts import CandidateDraft
from lastword_schemas.errors import LastwordError
from lastword_schemas.positions import Receipt
from lastword_schemas.registry import Registry

_CHECKPOINT_S: Final = 0.5
_ENDS: Final = (LogMismatch, BrokerRefused, PublisherClosed)
"""What does not mend itself while this process runs. Its turns stay unfinished."""

_log = logging.getLogger(__name__)
MakeExtractor = Callable[[Registry], Extractor]


class Publishes(Protocol):
    """What of `AsyncCandidateClient` is needed."""

    async def publish(self, draft: CandidateDraft) -> Receipt:
        """Publish a candidate and wait for its receipt."""
        ...


class Background:
    """Reads the turns of the partitions that this process is given."""

    def __init__(
        self,
        make_extractor: MakeExtractor,
        publisher: Publishes,
        checkpoints: Checkpoints,
        status: ExtractorStatus,
        *,
        concurrency: int = 8,
        services: frozenset[str] = frozenset(),
    ) -> None:
        """`services` are those whose turns are read; none named: all."""
        self._make, self._publisher, self._checkpoints = make_extractor, publisher, checkpoints
        self._status, self._services = status, services
        self._patiently = Patience(status.waits_for)
        self._room = asyncio.Semaphore(concurrency)
        self._progress: dict[int, Progress] = {}
        self._stored: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_force: InForce | None = None
        self._extractor: Extractor | None = None
        self._ended: list[Exception] = []

    async def starts(self, partitions: set[int]) -> dict[int, int]:
        """The *next* offset to be handed in of partitions that are assigned; waits for Redis."""
        stored = await self._patiently(self._checkpoints.load)
        if self._in_force is None and (in_force := await self._patiently(self._checkpoints.load_registry)) is not None:
            self._use(in_force)
        for partition in partitions:
            progress = self._progress.setdefault(partition, Progress(stored.get(partition, 0)))
            progress.resume(stored.get(partition, 0))
        self._status.assigned = partitions
        return {partition: self._progress[partition].next_offset for partition in partitions}

    async def take(self, partition: int, record: LogRecord) -> None:
        """Begin with a record, once there is room for it. Raises nothing but CancelledError."""
        await self._room.acquire()
        progress = self._progress[partition]
        if not progress.begin(record.offset):
            self._room.release()
            return
        decoded = decode(record)
        if isinstance(decoded, RegistryRecord):
            self._use(InForce(decoded.registry, record.recorded_at))
        task = asyncio.create_task(self._finish(partition, record.offset, decoded))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def keep_checkpoints(self) -> None:
        """Store how far it is, twice a second, until cancelled. Raises what ends extraction (LogMismatch,
        BrokerRefused, PublisherClosed)."""
        while not self._ended:
            await asyncio.sleep(_CHECKPOINT_S)
            await self._patiently(self._store_checkpoints)
        raise self._ended[0]

    async def close(self) -> None:
        """Drop what is under way, which is read again after the next start, and store how far it is."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(StoreUnavailable):
            await self._store_checkpoints()
        await self._checkpoints.close()

    async def _finish(self, partition: int, offset: int, decoded: Any) -> None:
        try:
            if isinstance(decoded, RegistryRecord) and self._in_force is not None:
                in_force = self._in_force
                await self._patiently(lambda: self._checkpoints.store_registry(in_force))
            elif isinstance(decoded, Event) and self._is_read(decoded):
                await self._read(decoded, partition, offset)
            self._progress[partition].end(offset)
        except _ENDS as error:
            self._ended.append(error)
        finally:
            self._room.release()

    def _is_read(self, event: Event) -> bool:
        return event.operation is Operation.SAY and (not self._services or event.actor.service in self._services)

    async def _read(self, event: Event, partition: int, offset: int) -> None:
        extractor = self._extractor
        if extractor is None:
            return  # no registry yet: nothing is declared, and nothing could be proposed
        message = Message(event.body.text or "", event.owner, event.scope, source=event.event_id)
        try:
            found = await self._patiently(lambda: extractor.extract(message))
        except Exception as error:
            self._give_up(partition, offset, error)
            return
        self._status.note(found)
        for candidate in found.candidates:
            try:
                await self._publish(CandidateDraft.read(event_of(candidate, message, extractor.name)))
            except _ENDS:
                raise
            except Exception as error:
                self._give_up(partition, offset, error)

    async def _publish(self, draft: CandidateDraft) -> None:
        async def publish() -> Receipt:
            try:
                return await self._publisher.publish(draft)
            except PublisherClosed:
                raise
            except PublishFailed as error:  # not in the log, so that it is published again
                raise UnknownOutcome(draft.event_id or "", error.message) from error

        await self._patiently(publish)

    def _give_up(self, partition: int, offset: int, error: Exception) -> None:
        code = error.code if isinstance(error, LastwordError) else type(error).__name__
        place = {"partition": partition, "offset": offset, "code": code}
        _log.error("a turn was given up: %s at partition %d, offset %d", code, partition, offset, extra=place)
        self._status.note_given_up(partition, offset, code)

    def _use(self, in_force: InForce) -> None:
        """Read by this registry from now on, unless a newer one is known. Every partition brings each."""
        if self._in_force is not None and in_force.recorded_at < self._in_force.recorded_at:
            return
        try:
            self._extractor = self._make(in_force.registry)
        except Exception as error:  # the one before it goes on
            _log.error("no extractor for the registry in force: %s", type(error).__name__)
        self._in_force = in_force

    async def _store_checkpoints(self) -> None:
        new = {
            partition: progress.checkpoint
            for partition, progress in self._progress.items()
            if progress.checkpoint > self._stored.get(partition, 0)
        }
        await self._checkpoints.advance(new)
        self._stored |= new
        self._status.next_offsets = dict(self._stored)
