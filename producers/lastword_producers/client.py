"""What all clients of the log share: the checks before an event is sent, and the two ways to wait."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import Any, ClassVar, Final, Generic, Self, TypedDict, TypeVar

from lastword_producers.broker import KafkaSettings
from lastword_producers.door import check_declared
from lastword_producers.errors import PublisherClosed, UnknownOutcome
from lastword_producers.kafka_log import LogIdentity, open_log
from lastword_producers.log_writer import LogWriter
from lastword_producers.stamps import new_event_id, utc_now
from lastword_projector.engine.keys import compile_registry
from lastword_schemas.drafts import CandidateDraft, EventDraft, NotAllowed, to_envelope
from lastword_schemas.envelope import Envelope
from lastword_schemas.positions import Receipt
from lastword_schemas.registry import Registry

DraftT = TypeVar("DraftT", EventDraft, CandidateDraft)
AnswerT = TypeVar("AnswerT", covariant=True)
Awaited = Coroutine[Any, Any, Receipt]
"""What an asynchronous client answers with."""

_REPORT_GRACE_S: Final = 5.0
"""Seconds after the delivery timeout within which its outcome is always known or called unknown."""


class Options(TypedDict, total=False):
    """What every client can be told."""

    registry: Registry | None
    """Declared keys: key, value and authority of every event are checked before it is sent. Default: no such check."""
    max_in_flight: int
    """Events that may be under way at once. Default: 10,000."""
    max_bytes_in_flight: int
    """Bytes that they may have. Default: 67,108,864. The client needs about twice as much memory."""
    block_s: float
    """Seconds that an event waits for room among them before Backpressure is raised. Default: 5."""
    delivery_timeout_s: float
    """Seconds after which an event without the broker's acknowledgement is unknown. Default: 10."""
    now: Callable[[], datetime]
    """The publisher's clock. Default: this machine's."""
    make_event_id: Callable[[], str]
    """Makes the ids of events that come without one. Default: `new_event_id`."""


class Client(ABC, Generic[DraftT, AnswerT]):
    """Checks drafts and hands them to the log. `AnswerT` is a receipt, or what a receipt is awaited with."""

    _draft_type: ClassVar[type[EventDraft] | type[CandidateDraft]]

    def __init__(self, settings: KafkaSettings, log: LogIdentity | None, options: Options) -> None:
        self._settings, self._log, self._options = settings, log, options
        registry = options.get("registry")
        self._keys = None if registry is None else compile_registry(registry.to_canonical())
        self._now = options.get("now", utc_now)
        self._make_event_id = options.get("make_event_id", new_event_id)
        self._block_s = options.get("block_s", 5.0)
        self._delivery_timeout_s = options.get("delivery_timeout_s", 10.0)
        self._opened: LogWriter | None = None

    @abstractmethod
    def publish(self, draft: DraftT, timeout_s: float | None = None) -> AnswerT:
        """Send an event and wait for its receipt, up to `timeout_s` seconds (default: as long as delivery may take).

        Raises what `submit` and its future raise; UnknownOutcome where there is no receipt in time.
        """

    @property
    def log(self) -> LogIdentity:
        """The log that is written to."""
        return self._writer.log

    @property
    def _writer(self) -> LogWriter:
        if self._opened is None:
            raise PublisherClosed(f"nothing was sent: {type(self).__name__} is opened by `async with`")
        return self._opened

    def _open(self, log: LogIdentity) -> None:
        self._opened = LogWriter(
            self._settings,
            log,
            max_in_flight=self._options.get("max_in_flight", 10_000),
            max_bytes_in_flight=self._options.get("max_bytes_in_flight", 64 * 1024 * 1024),
            delivery_timeout_s=self._delivery_timeout_s,
        )

    def _envelope(self, draft: DraftT) -> Envelope:
        if not isinstance(draft, self._draft_type):
            raise NotAllowed(
                f"{type(self).__name__} writes {self._draft_type.__name__}s only: statements and turns go through "
                "Publisher, candidates through CandidateClient"
            )
        event_id = draft.event_id or self._make_event_id()
        envelope = to_envelope(draft, event_id=event_id, published_at=self._now())
        if self._keys is not None:
            check_declared(envelope, self._keys)
        return envelope

    def _wait_s(self, timeout_s: float | None) -> float:
        return self._delivery_timeout_s + _REPORT_GRACE_S if timeout_s is None else timeout_s


class Blocking(Client[DraftT, Receipt]):
    """A client whose calls block. A context manager; leaving it closes it."""

    def __init__(self, settings: KafkaSettings, log: LogIdentity | None, options: Options) -> None:
        super().__init__(settings, log, options)
        self._open(log or open_log(settings))

    def submit(self, draft: DraftT) -> Future[Receipt]:
        """Send an event. The future has the receipt only once all in-sync replicas of the log have the event.

        Events that one thread submits are in the log in that order. The future raises PublishFailed where the event is
        certainly not in the log, UnknownOutcome where it may be, LogMismatch where the log turned out to be another
        one. Its callbacks run in the delivery thread: they must be short and submit nothing.

        Raises InvalidInput, NotAllowed, UndeclaredKey, ValueSchema or AuthorityTooLow where the event is refused at the
        door; Backpressure (retryable) where there is no room for it; PublisherClosed; LogMismatch.
        """
        return self._writer.submit(self._envelope(draft), self._block_s)

    def publish(self, draft: DraftT, timeout_s: float | None = None) -> Receipt:
        envelope, wait_s = self._envelope(draft), self._wait_s(timeout_s)
        try:
            return self._writer.submit(envelope, self._block_s).result(wait_s)
        except TimeoutError as error:
            raise _no_answer(envelope, wait_s) from error

    def close(self, timeout_s: float = 10.0) -> None:
        """Take no more events and wait up to `timeout_s` seconds for those under way.

        What is not settled by then becomes UnknownOutcome. May be called again.
        """
        self._writer.close(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Awaiting(Client[DraftT, Awaited]):
    """A client whose calls are awaited. It is opened and closed by `async with`."""

    async def submit(self, draft: DraftT) -> "asyncio.Future[Receipt]":
        """Send an event, waiting for room only. The future has the receipt once the log has the event.

        As `submit` of the blocking clients: it raises the same, and what one task submits is in the log in that order.
        """
        return asyncio.wrap_future(await self._writer.submit_async(self._envelope(draft), self._block_s))

    async def publish(self, draft: DraftT, timeout_s: float | None = None) -> Receipt:
        envelope, wait_s = self._envelope(draft), self._wait_s(timeout_s)
        receipt = await self._writer.submit_async(envelope, self._block_s)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(receipt), wait_s)
        except TimeoutError as error:
            raise _no_answer(envelope, wait_s) from error

    async def close(self, timeout_s: float = 10.0) -> None:
        """As `close` of the blocking clients."""
        await asyncio.to_thread(self._writer.close, timeout_s)

    async def __aenter__(self) -> Self:
        log = self._log
        self._open(await asyncio.to_thread(open_log, self._settings) if log is None else log)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _no_answer(envelope: Envelope, wait_s: float) -> UnknownOutcome:
    return UnknownOutcome(envelope.event_id, f"no delivery report within {wait_s:g} s")
