"""From the bytes of a log record to something that can be judged. Never raises on any bytes.

Decoding is done by msgspec; that it agrees with the pydantic `Envelope` on valid and invalid input is tested.
"""

import re
import uuid
from typing import Any

import msgspec

from lastword_schemas import jsontext, limits
from lastword_schemas.authority import PLANNED_FIELDS, PLANNED_OPERATIONS, Authority, Operation, Role, refusal
from lastword_schemas.control import GENESIS_KEY, REGISTRY_KEY, Genesis, RegistryRecord, parse_control
from lastword_schemas.envelope import VERSION
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import Owner, check_key, check_name, check_scope
from lastword_schemas.model import parse_instant, to_micros
from lastword_schemas.positions import Receipt, parse_receipt


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """A record as the log has it."""

    offset: int
    recorded_at: int
    """Append time, ms since 1970."""
    key: bytes | None
    value: bytes | None
    stamped: bool = True
    """Whether `recorded_at` is the broker's own stamp (LogAppendTime), not the publisher's."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """An envelope that has the right form; whether it counts is not said yet."""

    event_id: bytes
    owner: str
    scope: str
    key: str | None
    operation: Operation
    service: str
    role: Role
    authority: Authority
    confidence: float | None
    source_event_id: bytes | None
    source_receipt: Receipt | None
    span: tuple[int, int] | None
    thread: str | None
    message: str | None
    occurred_at: int | None
    expires_at: int | None
    value: bytes | None
    text: str | None
    quote: str | None

    @property
    def is_candidate(self) -> bool:
        """Whether it is somebody's reading of an earlier event."""
        return self.source_event_id is not None


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


class _Actor(msgspec.Struct, forbid_unknown_fields=True):
    service: str
    role: Role = Role.SERVICE


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    text: str | None = None
    quote: str | None = None


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    v: int
    event_id: str
    owner: str
    scope: str
    operation: Operation
    actor: _Actor
    body: _Body = msgspec.field(default_factory=_Body)
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
    kid: str = ""


_decode = msgspec.json.Decoder(_Envelope, strict=True).decode
_decode_value = msgspec.json.Decoder().decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_SPACED_COLON = re.compile(rb'"[ \t\r\n]+:')
_LONGEST_NUMBER_GROWTH = 5  # 1e15 is 1000000000000000.0 as canonical JSON


def decode(record: LogRecord) -> Decoded:
    """What a log record is."""
    if record.value is None:
        return Undecodable("the record has no value")
    if record.key in (GENESIS_KEY.encode(), REGISTRY_KEY.encode()):
        return _control(record.value)
    if len(record.value) > limits.MAX_EVENT_BYTES:
        return Undecodable(f"the record has {len(record.value)} bytes; at most {limits.MAX_EVENT_BYTES} are allowed")
    try:
        envelope = _decode(record.value)
        if _may_repeat_members(record.value):
            jsontext.parse(record.value)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return _salvage(record.value, str(error))
    if envelope.v != VERSION:
        return _salvage(record.value, f"envelope version {envelope.v}")
    try:
        return _event(envelope)
    except InvalidInput as error:
        return _salvage(record.value, error.message)


def _event(envelope: _Envelope) -> Event:
    """The same checks as the pydantic model's. Raises InvalidInput."""
    operation, body = envelope.operation, envelope.body
    value = None if isinstance(body.value, msgspec.UnsetType) else bytes(body.value)
    is_turn, is_set, is_candidate = operation is Operation.SAY, operation is Operation.SET, envelope.source_event_id
    wrong = (
        ("key", is_turn != (envelope.key is None)),
        ("value", is_set != (value is not None)),
        ("text", is_turn != (body.text is not None)),
        ("thread", is_turn and envelope.thread is None),
        ("source_event_id", is_turn and is_candidate is not None),
        ("source_receipt", envelope.source_receipt is not None and is_candidate is None),
        ("thread", is_candidate is not None and (envelope.thread or envelope.message) is not None),
        ("expires_at", not is_set and envelope.expires_at is not None),
        ("span", (envelope.span is None) != (body.quote is None)),
        ("span", envelope.span is not None and is_candidate is None),
        ("kid", bool(envelope.kid)),
        ("confidence", envelope.confidence is not None and not 0 <= envelope.confidence <= 1),
    )
    for field, is_wrong in wrong:
        if is_wrong:
            raise InvalidInput(f"{field} does not fit a {operation}", field=field)
    span = envelope.span
    if span is not None and not 0 <= span[0] < span[1] <= limits.MAX_TEXT_LENGTH:
        raise InvalidInput("span is not [start, end]", field="span")
    _check_lengths(body)
    _micros(envelope.published_at, "published_at")
    owner = str(Owner.parse(envelope.owner))
    if owner != envelope.owner:
        raise InvalidInput(f"owner is not written as {owner}", field="owner")
    for field, name in (("thread", envelope.thread), ("message", envelope.message)):
        if name is not None:
            check_name(name, field)
    return Event(
        event_id=_uuid(envelope.event_id, "event_id"),
        owner=owner,
        scope=check_scope(envelope.scope),
        key=None if envelope.key is None else check_key(envelope.key),
        operation=operation,
        service=check_name(envelope.actor.service, "actor.service"),
        role=envelope.actor.role,
        authority=envelope.authority,
        confidence=envelope.confidence,
        source_event_id=_uuid(is_candidate, "source_event_id") if is_candidate is not None else None,
        source_receipt=parse_receipt(envelope.source_receipt, field="source_receipt")
        if envelope.source_receipt is not None
        else None,
        span=span,
        thread=envelope.thread,
        message=envelope.message,
        occurred_at=_micros(envelope.occurred_at, "occurred_at"),
        expires_at=_micros(envelope.expires_at, "expires_at"),
        value=None if value is None else _checked_value(value),
        text=body.text,
        quote=body.quote,
    )


def actor_problem(event: Event) -> str | None:
    """Why this actor may not say this; None if it may."""
    return refusal(event.operation, event.role, event.authority, candidate=event.is_candidate)


def _checked_value(raw: bytes) -> bytes:
    """The value's bytes if they are JSON within the limits."""
    is_small = len(raw) * _LONGEST_NUMBER_GROWTH <= limits.MAX_VALUE_BYTES
    if is_small and raw.count(b"[") + raw.count(b"{") <= limits.MAX_VALUE_DEPTH:
        try:
            _decode_value(raw)
        except msgspec.DecodeError:  # the slower reader decides
            pass
        else:
            return raw
    jsontext.check_value(jsontext.parse(raw))
    return raw


def _may_repeat_members(raw: bytes) -> bool:
    """Whether an object in a decoded envelope may have a member twice, which msgspec does not notice.

    False is certain: there are as many colons after a quote as there are different members, and none in the value.
    """
    header = _decode_members(raw)
    inner = sum(len(_decode_members(header[name])) for name in ("actor", "body") if name in header)
    return raw.count(b'":') != len(header) + inner or _SPACED_COLON.search(raw) is not None


def _check_lengths(body: _Body) -> None:
    for field, text, longest in (
        ("text", body.text, limits.MAX_TEXT_LENGTH),
        ("quote", body.quote, limits.MAX_QUOTE_LENGTH),
    ):
        if text is not None and not 0 < len(text) <= longest:
            raise InvalidInput(f"{field} must have 1 to {longest} Unicode code points", field=field)


def _uuid(text: str, field: str) -> bytes:
    try:
        parsed = uuid.UUID(text)
    except ValueError as error:
        raise InvalidInput(f"{field} is not a UUID", field=field) from error
    if str(parsed) != text:
        raise InvalidInput(f"{field} is not written as {parsed}", field=field)
    return parsed.bytes


def _micros(text: str | None, field: str) -> int | None:
    return None if text is None else to_micros(parse_instant(text, field=field))


def _control(value: bytes) -> Decoded:
    try:
        return parse_control(value)
    except InvalidInput as error:
        data = _lenient(value)
        control = data.get("control") if isinstance(data, dict) else None
        if isinstance(control, str) and (_version(data) > 1 or control not in ("genesis", "registry")):
            return Newer(f"a control record that this build does not know: {error.message}")
        return Undecodable(f"a control record that cannot be read: {error.message}")


def _salvage(value: bytes, problem: str) -> Decoded:
    """What can still be told of bytes that are not a valid envelope of this version."""
    data = _lenient(value)
    if not isinstance(data, dict):
        return Undecodable(f"not an envelope: {problem}")
    if (version := _version(data)) > VERSION:
        return Newer(f"envelope version {version}; this build reads {VERSION}")
    if version != VERSION:
        return Undecodable(f"not an envelope: {problem}")
    if isinstance(operation := data.get("operation"), str) and operation in PLANNED_OPERATIONS:
        return Newer(f"operation '{operation}', which this build does not support")
    if planned := PLANNED_FIELDS & data.keys():
        return Newer(f"field '{min(planned)}', which this build does not support")
    if isinstance(kid := data.get("kid"), str) and kid:
        return Newer("a sealed body, which this build does not support")
    try:
        owner, event_id = Owner.parse(data["owner"]), _uuid(data["event_id"], "event_id")
    except (KeyError, TypeError, AttributeError, InvalidInput):
        return Undecodable(f"not an envelope: {problem}")
    return Malformed(event_id, str(owner), problem)


def _lenient(value: bytes) -> Any:
    try:
        return jsontext.parse(value)
    except InvalidInput:
        return None


def _version(data: dict[str, Any]) -> int:
    version = data.get("v")
    return version if isinstance(version, int) and not isinstance(version, bool) else 0
