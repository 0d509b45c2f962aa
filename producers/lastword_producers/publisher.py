"""How events are handed in: `Publisher` for statements and turns, `CandidateClient` for candidates."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, ClassVar, Final, Generic, Self, TypedDict, TypeVar, Unpack

from lastword_producers.broker import KafkaSettings
from lastword_producers.door import check_declared
from lastword_producers.errors import UnknownOutcome
from lastword_producers.kafka_log import LogIdentity, open_log
from lastword_producers.log_writer import LogWriter
from lastword_projector.engine.keys import compile_registry
from lastword_schemas.authority import Authority, Role
from lastword_schemas.drafts import CandidateDraft, EventDraft, NotAllowed, to_envelope
from lastword_schemas.envelope import Envelope
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import GLOBAL
from lastword_schemas.ids import uuid7
from lastword_schemas.positions import Receipt
from lastword_schemas.registry import Registry

DraftT = TypeVar("DraftT", EventDraft, CandidateDraft)

_REPORT_GRACE_S: Final = 5.0
"""Seconds after the delivery timeout within which its report always comes."""


def new_event_id() -> str:
    """A fresh event id: a UUID of version 7 by this machine's clock."""
    return uuid7(time.time_ns() // 1_000_000, os.urandom(10))


def utc_now() -> datetime:
    """This machine's clock in UTC."""
    return datetime.now(UTC)


class Options(TypedDict, total=False):
    """What both clients can be told."""

    registry: Registry | None
    """Declared keys: key, value and authority of every event are checked before it is sent. Default: no such check."""
    max_in_flight: int
    """Events that may wait for their delivery reports. Default: 10,000."""
    block_s: float
    """Seconds that an event waits for room among them before Backpressure is raised. Default: 5."""
    delivery_timeout_s: float
    """Seconds after which an event without the broker's acknowledgement is unknown. Default: 10."""
    now: Callable[[], datetime]
    """The publisher's clock. Default: this machine's."""
    make_event_id: Callable[[], str]
    """Makes the ids of events that come without one. Default: `new_event_id`."""


class _DraftClient(Generic[DraftT]):
    """What both clients share. A context manager; leaving it closes it."""

    _draft_type: ClassVar[type[EventDraft] | type[CandidateDraft]]

    def __init__(self, settings: KafkaSettings, log: LogIdentity | None, options: Options) -> None:
        registry = options.get("registry")
        self._keys = None if registry is None else compile_registry(registry.to_canonical())
        self._now = options.get("now", utc_now)
        self._make_event_id = options.get("make_event_id", new_event_id)
        self._writer = LogWriter(
            settings,
            log or open_log(settings),
            max_in_flight=options.get("max_in_flight", 10_000),
            block_s=options.get("block_s", 5.0),
            delivery_timeout_s=options.get("delivery_timeout_s", 10.0),
        )

    @property
    def log(self) -> LogIdentity:
        """The log that is written to."""
        return self._writer.log

    def submit(self, draft: DraftT) -> Future[Receipt]:
        """Send an event. The future has the receipt only once all in-sync replicas of the log have the event.

        Events that one thread submits are in the log in that order. The future raises PublishFailed where the event is
        certainly not in the log, UnknownOutcome where it may be. Its callbacks run in the delivery thread: they must be
        short and submit nothing.

        Raises InvalidInput, NotAllowed, UndeclaredKey, ValueSchema or AuthorityTooLow where the event is refused at the
        door; Backpressure (retryable) where there is no room for it; PublisherClosed.
        """
        return self._writer.submit(self._envelope(draft))

    def publish(self, draft: DraftT, timeout_s: float | None = None) -> Receipt:
        """Send an event and wait for its receipt, up to `timeout_s` seconds (default: as long as delivery may take).

        Raises what `submit` and its future raise; UnknownOutcome where there is no receipt in time.
        """
        envelope = self._envelope(draft)
        wait_s = self._writer.delivery_timeout_s + _REPORT_GRACE_S if timeout_s is None else timeout_s
        try:
            return self._writer.submit(envelope).result(wait_s)
        except TimeoutError as error:
            raise UnknownOutcome(envelope.event_id, f"no delivery report within {wait_s:g} s") from error

    def close(self, timeout_s: float = 10.0) -> None:
        """Take no more events and wait up to `timeout_s` seconds for the reports of those in flight.

        What is not settled by then becomes UnknownOutcome. May be called again.
        """
        self._writer.close(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _envelope(self, draft: DraftT) -> Envelope:
        if not isinstance(draft, self._draft_type):
            raise NotAllowed(
                f"{type(self).__name__} writes {self._draft_type.__name__}s only: statements and turns go through "
                "Publisher, candidates through CandidateClient"
            )
        envelope = to_envelope(draft, event_id=self._make_event_id(), published_at=self._now())
        if self._keys is not None:
            check_declared(envelope, self._keys)
        return envelope


class Publisher(_DraftClient[EventDraft]):
    """Publishes statements (`set`, `delete`) and turns (`say`).

    `log` is opened where none is given (raises what `open_log` raises). The short forms `set`, `delete` and `say` name
    `service` and `role` as their actor; a draft names its own.
    """

    _draft_type = EventDraft

    def __init__(
        self,
        settings: KafkaSettings,
        log: LogIdentity | None = None,
        *,
        service: str | None = None,
        role: Role = Role.SERVICE,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(settings, log, options)
        self._service = service
        self._role = role

    def set(
        self,
        owner: str,
        scope: str,
        key: str,
        value: Any,
        *,
        authority: Authority = Authority.STATED,
        event_id: str | None = None,
        thread: str | None = None,
        message: str | None = None,
        occurred_at: datetime | None = None,
        expires_at: datetime | None = None,
    ) -> Receipt:
        """Publish a value (any JSON, None included) and wait for the receipt. Raises what `publish` raises."""
        return self._publish(
            operation="set",
            owner=owner,
            scope=scope,
            key=key,
            value=value,
            authority=authority,
            event_id=event_id,
            thread=thread,
            message=message,
            occurred_at=occurred_at,
            expires_at=expires_at,
        )

    def delete(
        self,
        owner: str,
        scope: str,
        key: str,
        *,
        authority: Authority = Authority.STATED,
        event_id: str | None = None,
        thread: str | None = None,
        message: str | None = None,
        occurred_at: datetime | None = None,
    ) -> Receipt:
        """Publish a tombstone and wait for the receipt. Raises what `publish` raises."""
        return self._publish(
            operation="delete",
            owner=owner,
            scope=scope,
            key=key,
            authority=authority,
            event_id=event_id,
            thread=thread,
            message=message,
            occurred_at=occurred_at,
        )

    def say(
        self,
        owner: str,
        thread: str,
        text: str,
        *,
        scope: str = GLOBAL,
        message: str | None = None,
        event_id: str | None = None,
        occurred_at: datetime | None = None,
    ) -> Receipt:
        """Publish a turn and wait for the receipt, which a candidate can cite. Raises what `publish` raises."""
        return self._publish(
            operation="say",
            owner=owner,
            scope=scope,
            thread=thread,
            text=text,
            message=message,
            event_id=event_id,
            occurred_at=occurred_at,
        )

    def _publish(self, **fields: Any) -> Receipt:
        if self._service is None:
            raise InvalidInput("the short forms need to know who publishes: give Publisher a service", field="service")
        actor = {"service": self._service, "role": self._role}
        return self.publish(EventDraft.read(_given(fields) | {"actor": actor}))


class CandidateClient(_DraftClient[CandidateDraft]):
    """Publishes candidates: an extractor's readings of earlier events. It can write nothing else.

    `log` is opened where none is given (raises what `open_log` raises). The short forms `set` and `delete` name
    `service` as their actor; a draft names its own.
    """

    _draft_type = CandidateDraft

    def __init__(
        self, settings: KafkaSettings, log: LogIdentity | None = None, *, service: str, **options: Unpack[Options]
    ) -> None:
        super().__init__(settings, log, options)
        self._actor = {"service": service, "role": Role.EXTRACTOR}

    def set(
        self,
        owner: str,
        scope: str,
        key: str,
        value: Any,
        *,
        source_event_id: str | Receipt,
        span: Sequence[int] | None = None,
        quote: str | None = None,
        authority: Authority = Authority.INFERRED,
        confidence: float | None = None,
        event_id: str | None = None,
        occurred_at: datetime | None = None,
        expires_at: datetime | None = None,
    ) -> Receipt:
        """Publish the reading that the cited event sets `value`, and wait for the receipt.

        `source_event_id` is the cited event's id or receipt; `span` the `[start, end)` of `quote` in its text, in
        Unicode code points. Raises what `publish` raises.
        """
        return self._publish(
            source_event_id,
            span,
            operation="set",
            owner=owner,
            scope=scope,
            key=key,
            value=value,
            quote=quote,
            authority=authority,
            confidence=confidence,
            event_id=event_id,
            occurred_at=occurred_at,
            expires_at=expires_at,
        )

    def delete(
        self,
        owner: str,
        scope: str,
        key: str,
        *,
        source_event_id: str | Receipt,
        span: Sequence[int] | None = None,
        quote: str | None = None,
        authority: Authority = Authority.INFERRED,
        confidence: float | None = None,
        event_id: str | None = None,
        occurred_at: datetime | None = None,
    ) -> Receipt:
        """Publish the reading that by the cited event the value no longer applies, and wait for the receipt.

        Arguments as in `set`. Raises what `publish` raises.
        """
        return self._publish(
            source_event_id,
            span,
            operation="delete",
            owner=owner,
            scope=scope,
            key=key,
            quote=quote,
            authority=authority,
            confidence=confidence,
            event_id=event_id,
            occurred_at=occurred_at,
        )

    def _publish(self, source: str | Receipt, span: Sequence[int] | None, **fields: Any) -> Receipt:
        cited = {"source_event_id": str(source), "span": None if span is None else list(span)}
        return self.publish(CandidateDraft.read(_given(fields | cited) | {"actor": self._actor}))


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that are there: None is left out, but as a value it is one."""
    return {name: value for name, value in fields.items() if value is not None or name == "value"}
