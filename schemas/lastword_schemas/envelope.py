"""Envelope version 1: what stands in the history topic. A clear header and one sealable body.

The bytes are never rewritten. With `kid` empty the body is clear; with a `kid` it is sealed under that key.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from lastword_schemas import jsontext, limits
from lastword_schemas.authority import DECISIONS, Authority, Operation, Role
from lastword_schemas.errors import InvalidInput, TooLarge
from lastword_schemas.identity import Owner, check_key, check_name, check_scope
from lastword_schemas.ids import event_id_from
from lastword_schemas.model import Instant, Model
from lastword_schemas.positions import MAX_SEQUENCE, parse_receipt

VERSION: Final = 1


def _said(description: str = "", *examples: str, longest: int, pattern: str = "") -> Any:
    """What the contract documents say of a text; what it must be is checked by our own validators."""
    facets: dict[str, Any] = {"minLength": 1, "maxLength": longest} | ({"pattern": pattern} if pattern else {})
    return Field(description=description or None, examples=list(examples) or None, json_schema_extra=facets)


EventId = Annotated[
    str,
    AfterValidator(event_id_from),
    _said("a UUID; any other string becomes its UUIDv5", longest=limits.MAX_EVENT_ID_LENGTH),
]
OwnerText = Annotated[
    str,
    AfterValidator(lambda text: str(Owner.parse(text))),
    _said(
        "`user:<id>`, `org:<id>` or `<tenant>/user:<id>`",
        "user:ada",
        longest=limits.MAX_TENANT_LENGTH + limits.MAX_OWNER_ID_BYTES + len("/user:"),
        pattern="^([a-z0-9][a-z0-9._-]*/)?(user|org):.+$",
    ),
]
ScopeText = Annotated[
    str,
    AfterValidator(check_scope),
    _said(
        "`global` or `<kind>:<name>`",
        "global",
        "project:Comet",
        longest=limits.MAX_SCOPE_BYTES,
        pattern="^(global|[a-z][a-z0-9_-]*:.+)$",
    ),
]
KeyText = Annotated[str, AfterValidator(check_key), _said("a declared key", "mail.tone", longest=limits.MAX_KEY_BYTES)]
_NAME: Final[Any] = _said(longest=limits.MAX_SERVICE_LENGTH)
ThreadName = Annotated[str, AfterValidator(lambda text: check_name(text, "thread")), _NAME]
MessageName = Annotated[str, AfterValidator(lambda text: check_name(text, "message")), _NAME]
ServiceName = Annotated[str, AfterValidator(lambda text: check_name(text, "actor.service")), _NAME]


def _check_span(span: list[int]) -> list[int]:
    if len(span) != 2 or not 0 <= span[0] < span[1] <= limits.MAX_TEXT_LENGTH:
        raise InvalidInput(
            f"span must be [start, end] with 0 <= start < end <= {limits.MAX_TEXT_LENGTH}, in Unicode code points",
            field="span",
        )
    return span


def _check_body_text(text: str, field: str, longest: int) -> str:
    if not text or len(text) > longest:
        raise TooLarge(f"{field} must have 1 to {longest} Unicode code points", field=field)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{field} holds a lone surrogate, which is not Unicode text", field=field) from error
    return text


def _check_citation(text: str) -> str:
    if text.startswith("r1."):
        return str(parse_receipt(text, field="source_event_id"))
    try:
        return event_id_from(text)
    except InvalidInput as error:
        raise InvalidInput(error.message.replace("event_id", "source_event_id"), field="source_event_id") from error


def _check_receipt(text: str) -> str:
    return str(parse_receipt(text, field="source_receipt"))


Citation = Annotated[
    str,
    AfterValidator(_check_citation),
    _said("an event id or a receipt", longest=limits.MAX_EVENT_ID_LENGTH),
]
ReceiptText = Annotated[str, AfterValidator(_check_receipt), Field(description="a receipt, `r1.…`")]
Span = Annotated[
    list[int],
    AfterValidator(_check_span),
    Field(
        description="[start, end) in Unicode code points",
        json_schema_extra={
            "minItems": 2,
            "maxItems": 2,
            "items": {"type": "integer", "minimum": 0, "maximum": limits.MAX_TEXT_LENGTH},
        },
    ),
]
TurnText = Annotated[
    str,
    AfterValidator(lambda text: _check_body_text(text, "text", limits.MAX_TEXT_LENGTH)),
    _said(longest=limits.MAX_TEXT_LENGTH),
]
Quote = Annotated[
    str,
    AfterValidator(lambda text: _check_body_text(text, "quote", limits.MAX_QUOTE_LENGTH)),
    _said(longest=limits.MAX_QUOTE_LENGTH),
]


_ONLY_STATEMENTS = "only a statement can be conditional; a candidate has its place from what it reads"
_ONLY_BACKFILL = "only a statement can be backfilled; a candidate has its place from what it reads"


class Actor(Model):
    """Who published the event."""

    service: ServiceName
    """The publishing service's name."""
    role: Role = Field(default=Role.SERVICE, strict=False)
    """In what capacity it acts."""


class ScopedKey(Model):
    """One of the owner's keys."""

    scope: ScopeText
    key: KeyText


ExpectedSequence = Annotated[
    int, Field(ge=0, le=MAX_SEQUENCE, description="source sequence of the entry that this replaces; 0 = there is none")
]
Backfill = Annotated[
    int,
    Field(
        ge=0,
        le=limits.MAX_BACKFILL,
        description="of a statement from before this log: its place among those of its key; all of them come before "
        "anything that the log was told since",
    ),
]
Names = Annotated[
    list[EventId],
    Field(min_length=1, max_length=limits.MAX_NAMES, description="event ids of earlier events of the owner"),
]
Saw = Annotated[
    int, Field(ge=0, le=MAX_SEQUENCE, description="`known_at` of the answer that was looked at when deciding")
]
Retires = Annotated[
    list[ScopedKey],
    Field(max_length=limits.MAX_RETIRES, description="other keys of the owner that are deleted together with this set"),
]


class Body(Model):
    """The part of an event that can be sealed."""

    value: JsonValue = None
    """The value of a `set`: any JSON, null included."""
    text: TurnText | None = None
    """The words of a turn; of a decision why it was made."""
    quote: Quote | None = None
    """The words of the source that a candidate reads its value from."""

    @model_validator(mode="after")
    def _within_limits(self) -> "Body":
        jsontext.check_value(self.value)
        return self


class Envelope(Model):
    """One event. Fields that are not set are left out of the bytes."""

    v: Literal[1] = VERSION
    """Version of the envelope."""
    event_id: EventId
    owner: OwnerText
    scope: ScopeText
    key: KeyText | None = None
    """Absent on a turn and on a `withdraw`."""
    operation: Operation = Field(strict=False)
    actor: Actor
    authority: Authority = Field(default=Authority.STATED, strict=False)
    confidence: float | None = Field(default=None, ge=0, le=1)
    """How sure an extractor is, 0 to 1; decides nothing under `latest`."""
    source_event_id: EventId | None = None
    """Of a candidate: the event that it reads."""
    source_receipt: ReceiptText | None = None
    """Of a candidate that cites a receipt: where the source is said to stand. Checked, never trusted."""
    span: Span | None = None
    """Of a candidate: where in the source's text the quote stands."""
    thread: ThreadName | None = None
    message: MessageName | None = None
    occurred_at: Instant | None = None
    """When it happened, by the publisher's clock."""
    published_at: Instant | None = None
    """When it was published, by the publisher's clock."""
    expires_at: Instant | None = None
    """From when on the value no longer applies."""
    expected_sequence: ExpectedSequence | None = None
    """Of a conditional statement: it counts only if the entry of its scope and key has this source sequence."""
    retires: Retires | None = None
    """Of a set: deletes of other keys that are visible together with it."""
    names: Names | None = None
    """Of a `withdraw`: the events that were wrong. Of a `resolve`: the assertion that stands, then those that ended."""
    withdraws: Names | None = None
    """Of a set: events that it withdraws."""
    saw: Saw | None = None
    """Of a decision: the position that it is based on."""
    backfill: Backfill | None = None
    """Of a statement from before this log: its source sequence is 0, and this its ordinal."""
    kid: str = ""
    """The key that the body is sealed under; empty = clear."""
    body: Body = Body()

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """The envelope of fields that have been validated one by one, which is most of the work.

        Raises InvalidInput where they do not fit together.
        """
        envelope = cls.model_construct(**fields)
        envelope._check_fit()
        return envelope

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self._check_fit()
        return self

    def _check_fit(self) -> None:
        has_value = "value" in self.body.model_fields_set
        operation = self.operation
        is_turn, is_set, is_decision = operation is Operation.SAY, operation is Operation.SET, operation in DECISIONS
        has_key = operation not in (Operation.SAY, Operation.WITHDRAW)
        backfilled = self.backfill is not None
        checks = (
            (not has_key and self.key is not None, "key", f"a {'turn' if is_turn else operation} has no key"),
            (has_key and self.key is None, "key", f"a {operation} needs a key"),
            (is_set and not has_value, "value", "a set needs a value (null is one)"),
            (not is_set and has_value, "value", f"a {operation} has no value"),
            (is_turn and self.body.text is None, "text", "a turn needs its text"),
            (not (is_turn or is_decision) and self.body.text is not None, "text", f"a {operation} has no text"),
            (is_turn and self.thread is None, "thread", "a turn needs its thread"),
            (
                (is_turn or is_decision) and self.source_event_id is not None,
                "source_event_id",
                f"a {'turn' if is_turn else operation} reads no other event",
            ),
            (self.source_receipt is not None and self.source_event_id is None, "source_receipt", "cites no event"),
            (self.source_event_id is not None and self.thread is not None, "thread", "a candidate's is its source's"),
            (self.source_event_id is not None and self.message is not None, "message", "a candidate's is its source's"),
            (not is_set and self.expires_at is not None, "expires_at", "only a set can expire"),
            ((self.span is None) != (self.body.quote is None), "span", "a span and a quote go together"),
            (self.span is not None and self.source_event_id is None, "span", "only a candidate quotes its source"),
            (self.expected_sequence is not None and not self._is_statement, "expected_sequence", _ONLY_STATEMENTS),
            (bool(self.retires) and not is_set, "retires", "only a set retires other keys"),
            (backfilled and not self._is_statement, "backfill", _ONLY_BACKFILL),
            (
                backfilled and self.expected_sequence is not None,
                "expected_sequence",
                "a backfill expects nothing",
            ),
            (backfilled and bool(self.retires), "retires", "a backfill retires nothing"),
            (is_decision and self.names is None, "names", f"a {operation} names events"),
            (not is_decision and self.names is not None, "names", f"a {operation} names no events"),
            (not is_decision and self.saw is not None, "saw", "only a decision is based on what it saw"),
            (bool(self.withdraws) and not is_set, "withdraws", "only a set withdraws others"),
            (backfilled and bool(self.withdraws), "withdraws", "a backfill withdraws nothing"),
            (bool(self.kid), "kid", "sealed bodies are not supported yet"),
        )
        for wrong, field, message in checks:
            if wrong:
                raise InvalidInput(f"{field}: {message}", field=field)
        self._check_retires()
        self._check_names()

    def _check_retires(self) -> None:
        seen = {(self.scope, self.key)}
        for number, other in enumerate(self.retires or ()):
            if (other.scope, other.key) in seen:
                raise InvalidInput(
                    f"retires.{number} is the event's own key, or stands twice", field=f"retires.{number}"
                )
            seen.add((other.scope, other.key))

    def _check_names(self) -> None:
        for field, named in (("names", self.names), ("withdraws", self.withdraws)):
            if named and (len(set(named)) < len(named) or self.event_id in named):
                raise InvalidInput(f"{field} has an event twice, or the event itself", field=field)
        if self.operation is Operation.RESOLVE and len(self.names or ()) < 2:
            raise InvalidInput("names: a resolve names what stands and at least one that ended", field="names")

    @property
    def _is_statement(self) -> bool:
        return self.operation in (Operation.SET, Operation.DELETE) and not self.is_candidate

    @property
    def is_candidate(self) -> bool:
        """Whether this is somebody's reading of an earlier event."""
        return self.source_event_id is not None

    def to_bytes(self) -> bytes:
        """The record's value: compact JSON in UTF-8. Raises TooLarge beyond the limit."""
        data: dict[str, Any] = self.model_dump(mode="json", exclude_none=True, exclude={"body", "kid"})
        data["kid"] = self.kid
        body: dict[str, Any] = {}
        if "value" in self.body.model_fields_set:
            body["value"] = self.body.value
        if self.body.text is not None:
            body["text"] = self.body.text
        if self.body.quote is not None:
            body["quote"] = self.body.quote
        data["body"] = body
        text = jsontext.dump(data)
        encoded = text.encode("utf-8")
        if len(encoded) > limits.MAX_EVENT_BYTES:
            raise TooLarge(f"the event has {len(encoded)} bytes; at most {limits.MAX_EVENT_BYTES} are allowed")
        return encoded
