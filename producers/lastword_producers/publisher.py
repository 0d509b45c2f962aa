"""How events are handed in: `Publisher` for statements and turns, `CandidateClient` for candidates.

Each has an asynchronous one beside it, with the same methods to be awaited.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Unpack

from lastword_producers.broker import KafkaSettings
from lastword_producers.client import AnswerT, Awaited, Awaiting, Blocking, Client, Options
from lastword_producers.kafka_log import LogIdentity
from lastword_schemas.authority import Authority, Role
from lastword_schemas.drafts import CandidateDraft, EventDraft
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import GLOBAL
from lastword_schemas.positions import Receipt

ScopeAndKey = tuple[str, str]


class _Statements(Client[EventDraft, AnswerT]):
    """The short forms for statements and turns."""

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
        self._service, self._role = service, role

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
        expected_sequence: int | None = None,
        retires: Sequence[ScopeAndKey] | None = None,
    ) -> AnswerT:
        """Publish a value (any JSON, None included) and wait for the receipt.

        With an `expected_sequence` it counts only if the entry has this source sequence; 0: if there is none. `retires`
        are other scopes and keys of the owner that are deleted together with it. Raises what `publish` raises.
        """
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
            expected_sequence=expected_sequence,
            retires=_scoped(retires),
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
        expected_sequence: int | None = None,
    ) -> AnswerT:
        """Publish a tombstone and wait for the receipt. `expected_sequence` as in `set`.

        Raises what `publish` raises.
        """
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
            expected_sequence=expected_sequence,
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
    ) -> AnswerT:
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

    def _publish(self, **fields: Any) -> AnswerT:
        if self._service is None:
            raise InvalidInput("the short forms need to know who publishes: give Publisher a service", field="service")
        actor = {"service": self._service, "role": self._role}
        return self.publish(EventDraft.read(_given(fields) | {"actor": actor}))


class Publisher(_Statements[Receipt], Blocking[EventDraft]):
    """Publishes statements (`set`, `delete`) and turns (`say`); every call waits for the receipt.

    `log` is opened where none is given (raises what `open_log` raises). The short forms `set`, `delete` and `say` name
    `service` and `role` as their actor; a draft names its own.
    """


class AsyncPublisher(_Statements[Awaited], Awaiting[EventDraft]):
    """As `Publisher`, opened by `async with`, and every call is awaited."""


class _Candidates(Client[CandidateDraft, AnswerT]):
    """The short forms for candidates."""

    _draft_type = CandidateDraft

    def __init__(
        self, settings: KafkaSettings, log: LogIdentity | None = None, *, service: str, **options: Unpack[Options]
    ) -> None:
        super().__init__(settings, log, options)
        self._service = service

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
        retires: Sequence[ScopeAndKey] | None = None,
    ) -> AnswerT:
        """Publish the reading that the cited event sets `value`, and wait for the receipt.

        `source_event_id` is the cited event's id or receipt; `span` the `[start, end)` of `quote` in its text, in
        Unicode code points; `retires` other scopes and keys of the owner that are deleted together with it. Raises what
        `publish` raises.
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
            retires=_scoped(retires),
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
    ) -> AnswerT:
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

    def _publish(self, source: str | Receipt, span: Sequence[int] | None, **fields: Any) -> AnswerT:
        cited = {"source_event_id": str(source), "span": None if span is None else list(span)}
        actor = {"service": self._service, "role": Role.EXTRACTOR}
        return self.publish(CandidateDraft.read(_given(fields | cited) | {"actor": actor}))


class CandidateClient(_Candidates[Receipt], Blocking[CandidateDraft]):
    """Publishes candidates: an extractor's readings of earlier events. It can write nothing else.

    `log` is opened where none is given (raises what `open_log` raises). The short forms `set` and `delete` name
    `service` as their actor; a draft names its own.
    """


class AsyncCandidateClient(_Candidates[Awaited], Awaiting[CandidateDraft]):
    """As `CandidateClient`, opened by `async with`, and every call is awaited."""


def _scoped(keys: Sequence[ScopeAndKey] | None) -> list[dict[str, str]] | None:
    return None if keys is None else [{"scope": scope, "key": key} for scope, key in keys]


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that are there: None is left out, but as a value it is one."""
    return {name: value for name, value in fields.items() if value is not None or name == "value"}
