"""From the bytes of a log record to something that can be judged. Never raises on any bytes.

Decoding is done by msgspec; that it agrees with the pydantic `Envelope` on valid and invalid input is tested.
"""

import contextlib
import re
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from lastword_projector.engine.records import Decision
from lastword_schemas import jsontext, limits
from lastword_schemas.authority import DECISIONS, PLANNED_OPERATIONS, Authority, Operation, Role, refusal
from lastword_schemas.control import GENESIS_KEY, REGISTRY_KEY, Genesis, RegistryRecord, parse_control
from lastword_schemas.envelope import VERSION
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import Owner, check_key, check_name, check_scope
from lastword_schemas.model import parse_instant
from lastword_schemas.positions import MAX_SEQUENCE, parse_receipt


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """A record as the log has it."""

    offset: int
    recorded_at: int
    """Append time, ms since 1970."""
    key: bytes | None
    value: bytes | None
    stamped: bool = True
    """Whether `recorded_at` is the broker's own stamp (LogAppendTime), not the publisher's."""


class Actor(msgspec.Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """Who published an event."""

    service: str
    role: Role = Role.SERVICE


class Body(msgspec.Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """The part of an event that can be sealed."""

    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    text: str | None = None
    quote: str | None = None


class ScopedKey(msgspec.Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """One of the owner's keys."""

    scope: str
    key: str


class Event(msgspec.Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """An envelope as it stands in the log, of the right form; whether it counts is not said yet."""

    v: int
    event_id: str
    owner: str
    scope: str
    operation: Operation
    actor: Actor
    body: Body = msgspec.field(default_factory=Body)
    key: str | None = None
    authority: Authority = Authority.STATED
    confidence: float | None = None
    source_event_id: str | None = None
    source_receipt: str | None = None
    span: tuple[int, int] | None = None
    thread: str | None = None
    message: str | None = None
    occurred_at: str | None = None
    published_at: str | None = None
    expires_at: str | None = None
    expected_sequence: int | None = None
    retires: tuple[ScopedKey, ...] | None = None
    names: tuple[str, ...] | None = None
    withdraws: tuple[str, ...] | None = None
    saw: int | None = None
    backfill: int | None = None
    kid: str = ""

    @property
    def id(self) -> bytes:
        """The event id's 16 bytes."""
        return _id_bytes(self.event_id)

    @property
    def source_id(self) -> bytes | None:
        """Of a candidate: the 16 bytes of the cited event's id."""
        return None if self.source_event_id is None else _id_bytes(self.source_event_id)

    @property
    def retired_keys(self) -> tuple[tuple[str, str], ...] | None:
        """Scope and key of each key that it retires; None for none."""
        return tuple((other.scope, other.key) for other in self.retires) if self.retires else None

    @property
    def decision(self) -> Decision | None:
        """What it says about earlier events; None if nothing."""
        if self.names is self.withdraws is None:
            return None
        named = tuple(map(_id_bytes, self.names or ()))
        if self.operation is Operation.RESOLVE:
            return Decision(resolves=named, saw=self.saw)
        return Decision(withdraws=named or tuple(map(_id_bytes, self.withdraws or ())), saw=self.saw)

    @property
    def value(self) -> bytes | None:
        """The value's JSON text; None where there is none."""
        value = self.body.value
        return None if value is msgspec.UNSET else bytes(value)


def _id_bytes(event_id: str) -> bytes:
    return bytes.fromhex(event_id.replace("-", ""))


class Malformed(msgspec.Struct, frozen=True, gc=False):
    """Owner and event id can be read, the rest cannot: refused under its owner."""

    event_id: bytes
    owner: str
    problem: str


class Undecodable(msgspec.Struct, frozen=True, gc=False):
    """Nothing says whose it is: a dead letter."""

    problem: str


class Newer(msgspec.Struct, frozen=True, gc=False):
    """Written by a newer lastword: the partition waits for a build that knows it."""

    problem: str


Decoded = Event | Malformed | Undecodable | Newer | Genesis | RegistryRecord

_decode = msgspec.json.Decoder(Event, strict=True).decode
_decode_value = msgspec.json.Decoder().decode
_is_uuid = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").fullmatch
_is_number = re.compile(rb"-?[0-9]{1,15}").fullmatch
_SHORTEST_INSTANT = len("2026-03-01T12:00:00Z")
_LAST_YEAR = 9999
_CONTROL_KEYS = frozenset({GENESIS_KEY.encode(), REGISTRY_KEY.encode()})
_OPERATIONS = frozenset(operation.value for operation in Operation)
_SET, _DELETE = Operation.SET, Operation.DELETE
_STATEMENTS = (_SET, _DELETE)
_LITERALS = frozenset({b"true", b"false", b"null"})


def decode(record: LogRecord) -> Decoded:
    """What a log record is. Its own owner, scope and key have only their types checked: see `Identities`."""
    value = record.value
    if value is None:
        return Undecodable("the record has no value")
    if record.key in _CONTROL_KEYS:
        return _control(value)
    if len(value) > limits.MAX_EVENT_BYTES:
        return Undecodable(f"the record has {len(value)} bytes; at most {limits.MAX_EVENT_BYTES} are allowed")
    try:
        event = _decode(value)
        if event.v == VERSION:
            _check(event)
            return event
        problem = f"envelope version {event.v}"
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        problem = error.message if isinstance(error, InvalidInput) else str(error)
        if (once := _each_member_once(value)) is not None:
            return decode(LogRecord(record.offset, record.recorded_at, record.key, once, record.stamped))
    return salvage(value, problem)


def _each_member_once(value: bytes) -> bytes | None:
    """The same JSON with the last of what stands twice, which the decoder looks at in vain; None if nothing does."""
    try:
        jsontext.parse(value)
    except InvalidInput:
        with contextlib.suppress(InvalidInput):
            return jsontext.dump(jsontext.parse_stored(value)).encode()
    return None


def _check(event: Event) -> None:
    """The same checks as the pydantic model's, but for identities. Raises InvalidInput."""
    operation, body = event.operation, event.body
    if _is_uuid(event.event_id) is None:
        raise InvalidInput("event_id is not a UUID in lower case", field="event_id")
    if operation is _SET:
        if event.key is None or body.text is not None:
            raise _misfit(event, "key" if event.key is None else "text")
        _check_value(body.value)
    elif body.value is not msgspec.UNSET or event.expires_at is not None:
        raise _misfit(event, "value" if event.expires_at is None else "expires_at")
    elif operation is _DELETE:
        if event.key is None or body.text is not None:
            raise _misfit(event, "key" if event.key is None else "text")
    elif operation in DECISIONS:
        _check_decision(event)
    elif event.key is not None or event.thread is None or event.source_event_id is not None:
        raise _misfit(event, "key, thread or source_event_id")
    else:
        _check_length("text", body.text or "", limits.MAX_TEXT_LENGTH)
    if event.names is not None or event.withdraws is not None or event.saw is not None:
        _check_names(event)
    if event.source_event_id is not None:
        _check_citation(event)
    elif event.source_receipt is not None or event.span is not None or body.quote is not None:
        raise _misfit(event, "source_receipt, span or quote")
    if event.expected_sequence is not None or event.retires is not None:
        _check_condition(event)
    if event.backfill is not None:
        _check_backfill(event, event.backfill)
    if event.kid:
        raise _misfit(event, "kid")
    if event.confidence is not None and not 0 <= event.confidence <= 1:
        raise InvalidInput("confidence is not between 0 and 1", field="confidence")
    for instant in (event.published_at, event.occurred_at, event.expires_at):
        if instant is not None:
            _check_instant(instant)
    check_name_cached(event.actor.service, "actor.service")
    if event.thread is not None:
        check_name_cached(event.thread, "thread")
    if event.message is not None:
        check_name_cached(event.message, "message")


def _check_citation(event: Event) -> None:
    if _is_uuid(event.source_event_id or "") is None:
        raise InvalidInput("source_event_id is not a UUID in lower case", field="source_event_id")
    if event.source_receipt is not None:
        parse_receipt(event.source_receipt, field="source_receipt")
    if event.thread is not None or event.message is not None or (event.span is None) != (event.body.quote is None):
        raise _misfit(event, "thread, message, span or quote")
    if event.span is not None and event.body.quote is not None:
        if not 0 <= event.span[0] < event.span[1] <= limits.MAX_TEXT_LENGTH:
            raise InvalidInput("span is not [start, end]", field="span")
        _check_length("quote", event.body.quote, limits.MAX_QUOTE_LENGTH)


def _check_decision(event: Event) -> None:
    if (event.key is None) is (event.operation is Operation.RESOLVE) or event.source_event_id is not None:
        raise _misfit(event, "key or source_event_id")
    if event.body.text is not None:
        _check_length("text", event.body.text, limits.MAX_TEXT_LENGTH)
    least = 2 if event.operation is Operation.RESOLVE else 1
    if len(event.names or ()) < least:
        raise InvalidInput(f"names has fewer than {least} events", field="names")


def _check_names(event: Event) -> None:
    is_decision = event.operation in DECISIONS
    if not is_decision and (event.names is not None or event.saw is not None):
        raise _misfit(event, "names or saw")
    if event.withdraws is not None and event.operation is not _SET:
        raise _misfit(event, "withdraws")
    if event.saw is not None and not 0 <= event.saw <= MAX_SEQUENCE:
        raise InvalidInput("saw is no sequence", field="saw")
    named = event.names if event.withdraws is None else event.withdraws
    if named is None or not 0 < len(named) <= limits.MAX_NAMES or len({event.event_id, *named}) <= len(named):
        raise InvalidInput("names or withdraws has no, too many or the same events, or the event itself", field="names")
    for event_id in named:
        _uuid(event_id)


def _check_condition(event: Event) -> None:
    if (expected := event.expected_sequence) is not None and (
        event.operation not in _STATEMENTS or event.source_event_id is not None or not 0 <= expected <= MAX_SEQUENCE
    ):
        raise _misfit(event, "expected_sequence")
    retired = event.retired_keys or ()
    if retired and event.operation is not _SET:
        raise _misfit(event, "retires")
    for scope, key in retired:
        check_scope(scope)
        check_key(key)
    if len(retired) > limits.MAX_RETIRES or len({(event.scope, event.key), *retired}) <= len(retired):
        raise InvalidInput("retires has too many keys, a key twice or the event's own", field="retires")


def _check_backfill(event: Event, ordinal: int) -> None:
    if not 0 <= ordinal <= limits.MAX_BACKFILL:
        raise InvalidInput(f"backfill is not between 0 and {limits.MAX_BACKFILL}", field="backfill")
    if event.operation not in _STATEMENTS or event.source_event_id is not None:
        raise _misfit(event, "backfill")
    if event.expected_sequence is not None or event.retires or event.withdraws:
        raise _misfit(event, "expected_sequence, retires or withdraws")


def _check_value(value: msgspec.Raw | msgspec.UnsetType) -> None:
    """Whether it is JSON within the limits; the decoder has seen that it is well formed. Raises ValueError too."""
    if isinstance(value, msgspec.UnsetType):
        raise InvalidInput("value is missing", field="value")
    raw = bytes(value)
    if len(raw) < limits.MAX_VALUE_BYTES:
        if raw[:1] == b'"':
            raw.decode()  # the decoder passes over a string without looking at its UTF-8
            return
        if raw in _LITERALS or _is_number(raw) is not None:
            return
    jsontext.check_value(jsontext.parse_stored(raw))


def _check_instant(text: str) -> None:
    """Whether `parse_instant` takes the text; most often without calling it."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput("not an RFC 3339 instant") from error
    if instant.tzinfo is None or len(text) < _SHORTEST_INSTANT or not 1 < instant.year < _LAST_YEAR:
        parse_instant(text)


def _check_length(field: str, text: str, longest: int) -> None:
    if not 0 < len(text) <= longest:
        raise InvalidInput(f"{field} must have 1 to {longest} Unicode code points", field=field)


def _misfit(event: Event, field: str) -> InvalidInput:
    return InvalidInput(f"{field} does not fit this {event.operation}", field=field)


@lru_cache(maxsize=10_000)
def check_name_cached(text: str, field: str) -> str:
    """See `check_name`; the same names come again and again."""
    return check_name(text, field)


_ACTOR_PROBLEMS = {
    (operation.value, role.value, authority.value, candidate): refusal(operation, role, authority, candidate=candidate)
    for operation in Operation
    for role in Role
    for authority in Authority
    for candidate in (False, True)
}


def actor_problem(event: Event) -> str | None:
    """Why this actor may not say this; None if it may."""
    candidate = event.source_event_id is not None  # below: an Enum's own hash is slow
    return _ACTOR_PROBLEMS[event.operation._value_, event.actor.role._value_, event.authority._value_, candidate]


def _uuid(text: str) -> bytes:
    if _is_uuid(text) is None:
        raise InvalidInput("event_id is not a UUID in lower case", field="event_id")
    return bytes.fromhex(text.replace("-", ""))


def _control(value: bytes) -> Decoded:
    try:
        return parse_control(value)
    except InvalidInput as error:
        data = _lenient(value)
        control = data.get("control") if isinstance(data, dict) else None
        if isinstance(control, str) and (_version(data) > 1 or control not in ("genesis", "registry")):
            return Newer(f"a control record that this build does not know: {error.message}")
        return Undecodable(f"a control record that cannot be read: {error.message}")


def salvage(value: bytes, problem: str) -> Malformed | Undecodable | Newer:
    """What can still be told of bytes that are not a valid envelope of this version."""
    data = _lenient(value)
    if not isinstance(data, dict):
        return Undecodable(f"not an envelope: {problem}")
    if (version := _version(data)) > VERSION:
        return Newer(f"envelope version {version}; this build reads {VERSION}")
    if version != VERSION:
        return Undecodable(f"not an envelope: {problem}")
    try:
        owner, event_id = Owner.parse(data["owner"]), _uuid(data["event_id"])
    except (KeyError, TypeError, AttributeError, InvalidInput):
        return Undecodable(f"not an envelope: {problem}")
    if isinstance(operation := data.get("operation"), str) and operation not in _OPERATIONS:
        named = f"operation '{operation}'" if operation in PLANNED_OPERATIONS else "an operation"
        return Newer(f"{named}, which this build does not know")
    if isinstance(kid := data.get("kid"), str) and kid:
        return Newer("a sealed body, which this build does not support")
    return Malformed(event_id, str(owner), problem)


def _lenient(value: bytes) -> Any:
    try:
        return jsontext.parse_stored(value)
    except InvalidInput:
        return None


def _version(data: dict[str, Any]) -> int:
    version = data.get("v")
    return version if isinstance(version, int) and not isinstance(version, bool) else 0
