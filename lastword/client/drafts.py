"""Events as they are handed in: what `POST /v1/events` and `POST /v1/candidates` take, made of keyword arguments."""

import os
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack

from lastword_schemas.authority import Authority, Role
from lastword_schemas.errors import InvalidInput
from lastword_schemas.ids import uuid7
from lastword_schemas.model import instant_text, read_instant
from lastword_schemas.positions import Receipt, parse_receipt

Event = Mapping[str, Any]
"""A JSON object as `POST /v1/events` takes it; with a `source_event_id` as `POST /v1/candidates` does."""
ScopeAndKey = tuple[str, str]
When = datetime | str
"""An instant: a datetime that knows its zone, or an RFC 3339 text."""

SOURCE: Final = "source_event_id"


class EventOptions(TypedDict, total=False):
    """What every event may be told."""

    event_id: str
    """Yours, so that writing it again is the same event: a UUID, or any string. Default: a new one for every call."""
    authority: Authority | str
    """Default: `stated`; of a suggestion without a quote `inferred`. `confirmed` is for a person's act in a control."""
    confidence: float
    """How sure the writer is, 0 to 1."""
    occurred_at: When
    """When it happened, by your clock."""


class StatementOptions(EventOptions, total=False):
    """What a `delete` may be told, too."""

    role: Role | str
    """`person` where a person acted in a control; default: `service`."""
    expected_sequence: int
    """It counts only if the entry of exactly this scope has this source sequence (`Value.sequence`); 0: none."""
    thread: str
    """Where it was said."""
    message: str
    """Which turn of the thread it was."""


class SetOptions(StatementOptions, total=False):
    """What a `set` may be told, too."""

    expires_at: When
    """From when on the value no longer applies."""
    retires: Sequence[ScopeAndKey]
    """Other scopes and keys of the owner that are deleted together with it."""
    withdraws: Sequence[Receipt | str]
    """Earlier events that it corrects: their receipts or ids. They no longer count."""


class DecisionOptions(EventOptions, total=False):
    """What a decision may be told."""

    role: Role | str
    """`person` where a person decided in a control; default: `service`."""
    why: str
    """The reason, in words: it is kept with the decision."""
    saw: int
    """`known_at` of the answer that it is based on."""
    thread: str
    """Where it was made."""


class TurnOptions(TypedDict, total=False):
    """What a turn may be told."""

    message: str
    """The turn's own name in its thread."""
    role: Role | str
    """`person` where these are a person's words in a control; default: `service`."""
    event_id: str
    """As of every event."""
    occurred_at: When
    """As of every event."""


class SuggestionOptions(EventOptions, total=False):
    """What a suggestion may be told, too."""

    expires_at: When
    """Of a value: from when on it no longer applies."""
    retires: Sequence[ScopeAndKey]
    """Of a value: other scopes and keys of the owner that are deleted together with it."""
    withdraws: Sequence[Receipt | str]
    """Of a value: earlier suggestions that were read wrongly: their receipts or ids. They no longer count."""


class Drafts:
    """Makes events of one owner, scope and service, without sending them: for `publish_many`."""

    def __init__(self, owner: str, scope: str, service: str) -> None:
        self._fixed = {"owner": owner, "scope": scope}
        self._service = service

    def set(self, key: str, value: Any, **options: Unpack[SetOptions]) -> dict[str, Any]:
        """A statement that `value` applies: any JSON, None included; pydantic models, dataclasses and enums, too."""
        return self._event({"operation": "set", "key": key, "value": value}, options)

    def delete(self, key: str, **options: Unpack[StatementOptions]) -> dict[str, Any]:
        """A statement that no value applies any more."""
        return self._event({"operation": "delete", "key": key}, options)

    def say(self, *, thread: str, text: str, **options: Unpack[TurnOptions]) -> dict[str, Any]:
        """A turn of a thread: what suggestions cite."""
        return self._event({"operation": "say", "thread": thread, "text": text}, options)

    def withdraw(self, *events: Receipt | str, **options: Unpack[DecisionOptions]) -> dict[str, Any]:
        """A decision that earlier events (their receipts or ids) were wrong: they no longer count."""
        return self._event({"operation": "withdraw", "names": _ids(events)}, options)

    def resolve(
        self,
        key: str,
        chosen: Receipt | str,
        ended: Sequence[Receipt | str],
        **options: Unpack[DecisionOptions],
    ) -> dict[str, Any]:
        """A decision that of a key's assertions (their receipts or ids) `chosen` stands and the others ended."""
        return self._event({"operation": "resolve", "key": key, "names": _ids([chosen, *ended])}, options)

    def suggest(
        self,
        key: str,
        value: Any,
        *,
        source: Receipt | str,
        quote: str | None = None,
        at: int | None = None,
        **options: Unpack[SuggestionOptions],
    ) -> dict[str, Any]:
        """A candidate: the reading that the event `source` sets `value`. `quote` are its words, from `at` on."""
        draft = {"operation": "set", "key": key, "value": value} | _citation(source, quote, at)
        return self._event(draft, options, role=Role.EXTRACTOR)

    def suggest_delete(
        self,
        key: str,
        *,
        source: Receipt | str,
        quote: str | None = None,
        at: int | None = None,
        **options: Unpack[EventOptions],
    ) -> dict[str, Any]:
        """A candidate: the reading that by the event `source` the value no longer applies."""
        draft = {"operation": "delete", "key": key} | _citation(source, quote, at)
        return self._event(draft, options, role=Role.EXTRACTOR)

    def _event(self, draft: dict[str, Any], options: Mapping[str, Any], role: Role = Role.SERVICE) -> dict[str, Any]:
        given = {name: _plain(name, option) for name, option in options.items() if option is not None}
        if "why" in given:
            given["text"] = given.pop("why")
        actor = {"service": self._service, "role": str(given.pop("role", role))}
        return {"event_id": new_event_id()} | self._fixed | {"actor": actor} | draft | given


def new_event_id() -> str:
    """A fresh event id: a UUID of version 7 by this machine's clock."""
    return uuid7(time.time_ns() // 1_000_000, os.urandom(10))


def instant(when: When, field: str) -> str:
    """The RFC 3339 text of an instant. Raises InvalidInput where a datetime does not know its zone."""
    if isinstance(when, str):
        return when
    if when.tzinfo is None:
        raise InvalidInput(f"{field} is a datetime without a zone: say which, such as datetime.now(UTC)", field=field)
    return instant_text(read_instant(when))


def _plain(name: str, option: Any) -> Any:
    if isinstance(option, datetime):
        return instant(option, name)
    if name == "retires":
        return [{"scope": scope, "key": key} for scope, key in option]
    if name == "withdraws":
        return _ids(option)
    return option


def _ids(events: Sequence[Receipt | str]) -> list[str]:
    """The ids of events, each given by its receipt, the receipt's text or its id."""
    return [
        each.event_id
        if isinstance(each, Receipt)
        else parse_receipt(each, field="names").event_id
        if each.startswith("r1.")
        else each
        for each in events
    ]


def _citation(source: Receipt | str, quote: str | None, at: int | None) -> dict[str, Any]:
    if (quote is None) != (at is None):
        raise InvalidInput("quote and at go together: the words, and where they begin in the text", field="at")
    cited: dict[str, Any] = {SOURCE: str(source)}
    if quote is not None and at is not None:
        cited |= {"quote": quote, "span": [at, at + len(quote)], "authority": Authority.STATED.value}
    return cited
