"""A whole lastword in memory: the real door, fold and application over a log and a store of this process."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any, Final, Literal, Self
from weakref import WeakKeyDictionary

import httpx

from lastword import AsyncClient, Client
from lastword.testing.application import application
from lastword.testing.candidates import HeldCandidates
from lastword.testing.changes import MemoryChanges
from lastword.testing.clock import Clock
from lastword.testing.contexts import MemoryContextLog
from lastword.testing.keys import Keys, registry_from, with_keys
from lastword.testing.log import LoggedEvent, MemoryLog
from lastword.testing.store import StoppableReader, StoppableStore
from lastword.testing.transport import AwaitingTransport, BlockingTransport, LoopThread
from lastword.testing.worker import MemoryWorker
from lastword.testing.writer import MemoryWriter
from lastword_producers.desk import Desk
from lastword_projector.engine.projection import DeadLetter
from lastword_query_api.changes import Changes
from lastword_query_api.context.contexts import Contexts
from lastword_query_api.readings import Readings
from lastword_query_api.search.searches import Searches
from lastword_schemas.identity import Owner

URL: Final = "http://lastword.memory"
_CANDIDATES: Final = "/v1/candidates"
_TIMEOUT_S: Final = 0.2
"""Seconds after which a client asks no more; what was asked is answered, however long it takes."""
Part = Literal["log", "store", "projector"]


class InMemoryLastword:
    """A lastword for tests. A context manager; leaving it ends its thread and what still waits.

    Everything that is accepted is projected before its receipt is given, unless the test holds that back.
    """

    def __init__(
        self,
        keys: Keys = None,
        *,
        partitions: int = 4,
        max_in_flight: int = 10_000,
        max_bytes_in_flight: int = 64 * 2**20,
    ) -> None:
        """`keys`: see `Keys`. The bounds are those of what may wait for a log that is down, in events and in bytes.

        Raises InvalidInput where the keys are not a registry.
        """
        self.url: Final = URL
        self.clock: Final = Clock()
        self.log: Final = MemoryLog(self.clock, partitions)
        """All records that were accepted."""
        self._registry = registry_from(keys)
        self._store = StoppableStore()
        self._worker = MemoryWorker(self.log, self._store, self.clock)
        self._writer = MemoryWriter(
            self.log,
            max_in_flight=max_in_flight,
            max_bytes_in_flight=max_bytes_in_flight,
            on_appended=self._project_unless_held,
        )
        self._holds = 0
        self._held: HeldCandidates | None = None
        self._loop = LoopThread()
        reader = StoppableReader(self._store, lambda: self._holds > 0)
        app = application(_MemoryParts(reader, self._store, self._writer, self.clock, partitions))
        self.transport: Final = BlockingTransport(app, self._check, self._loop)
        """For `httpx.Client`: every URL leads to this lastword."""
        self.async_transport: Final = AwaitingTransport(app, self._check)
        """The same for `httpx.AsyncClient`, in any event loop."""
        self.log.apply(self._registry)
        self._worker.project()

    def client(
        self, *, service: str | None = None, token: str | None = None, timeout: float = _TIMEOUT_S, retries: int = 0
    ) -> Client:
        """A blocking client, for any thread. Unless told otherwise it tries nothing again: errors come at once."""
        return Client(
            self.url, service=service, token=token, timeout=timeout, retries=retries, transport=self.transport
        )

    def async_client(
        self, *, service: str | None = None, token: str | None = None, timeout: float = _TIMEOUT_S, retries: int = 0
    ) -> AsyncClient:
        """As `client`, to be awaited, in any event loop."""
        return AsyncClient(
            self.url, service=service, token=token, timeout=timeout, retries=retries, transport=self.async_transport
        )

    def declare(self, key: str, **declaration: Any) -> None:
        """Declare a key, or declare it anew: fields as in the registry file, policy `latest` unless named.

        Raises InvalidInput naming the offending field; a key keeps its policy.
        """
        registry = with_keys(self._registry, {key: declaration})
        registry.check_following(self._registry)
        self._registry = registry
        self.log.apply(self._registry)
        self._project_unless_held()

    @contextmanager
    def hold_projection(self) -> Iterator[None]:
        """In the block, what is accepted is not projected but by `project`; after it, all of it is.

        A read that demands more than is projected answers `not-projected-yet` at once, however long it would wait.
        """
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self._project_unless_held()

    def project(self, most: int | None = None) -> int:
        """Project what was held back, at most so many events in accepted order; how many it were."""
        return self._worker.project(most)

    @contextmanager
    def hold_candidates(self) -> Iterator[HeldCandidates]:
        """In the block, candidates reach the log only when they are delivered; after it, those left do, as they came.

        Raises RuntimeError inside of another such block.
        """
        if self._held is not None:
            raise RuntimeError("candidates are held already: one hold_candidates() at a time")
        held = self._held = HeldCandidates(self._writer)
        try:
            yield held
        except BaseException:
            held.abandon()
            raise
        else:
            held.release()
        finally:
            self._held = None

    @contextmanager
    def take_down(self, part: Part) -> Iterator[None]:
        """In the block, a part does not answer; after it, that part goes on with what it had.

        `log`: writes are `unknown-outcome` (they reach the log afterwards, in their order), and `backpressure` once
        there is no more room. `store`: reads are `store-unavailable`, and nothing is projected. `projector`: nothing is
        projected. Raises ValueError for another part.
        """
        match part:
            case "log":
                self._writer.set_down(True)
            case "store":
                self._store.down = True
            case "projector":
                self._holds += 1
            case _:
                raise ValueError(f"{part!r} is none of the parts 'log', 'store', 'projector'")
        try:
            yield
        finally:
            match part:
                case "log":
                    self._writer.set_down(False)
                case "store":
                    self._store.down = False
                case "projector":
                    self._holds -= 1
            self._project_unless_held()

    def events(self, owner: str | None = None) -> list[LoggedEvent]:
        """What the log holds, in accepted order: of everybody, or of one owner (`user:ada`)."""
        wanted = None if owner is None else str(Owner.parse(owner))
        return [event for event in self.log.events() if wanted is None or event.envelope.get("owner") == wanted]

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """Records that could not be given to any owner."""
        return list(self._worker.dead_letters.letters)

    def close(self) -> None:
        """End everything. May be called again."""
        if self._held is not None:
            self._held.abandon()
        self._writer.close()
        self._loop.close()

    def _project_unless_held(self) -> None:
        if not self._holds:
            self._worker.project()

    def _check(self, request: httpx.Request) -> None:
        if self._held is not None and request.url.path == _CANDIDATES:
            self._held.check_caller()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _MemoryParts:
    """`Parts` of the application."""

    def __init__(
        self, reader: StoppableReader, store: StoppableStore, writer: MemoryWriter, clock: Clock, partitions: int
    ) -> None:
        self.reader = reader
        self._store, self._partitions = store, partitions
        self._changes: WeakKeyDictionary[asyncio.AbstractEventLoop, Changes] = WeakKeyDictionary()
        self.readings = Readings(reader, now_micros=clock.micros)
        self.searches = Searches(self.readings)
        self.contexts = Contexts(self.readings, self.searches, MemoryContextLog(lambda: writer.trouble))
        self._desk = Desk(writer, reader, now=clock.now)

    @property
    def changes(self) -> Changes:
        """Those of the running event loop: callers may have several."""
        loop = asyncio.get_running_loop()
        if loop not in self._changes:
            feed = MemoryChanges(self._store, self._partitions)
            self._changes[loop] = Changes(self.reader, self.readings.partition_of, feed)
        return self._changes[loop]

    def get_desk(self) -> Desk:
        return self._desk

    def running(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()
