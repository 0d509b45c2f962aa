"""What a publisher hands in: an event without what lastword adds (times of publishing, the body's envelope).

Drafts are what `POST /v1/events` and `POST /v1/candidates` take, and what `Publisher` and `CandidateClient` build.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field, JsonValue

from lastword_schemas.authority import PLANNED_OPERATIONS, Authority, Operation, Role
from lastword_schemas.authority import refusal as authority_refusal
from lastword_schemas.envelope import (
    Actor,
    Backfill,
    Body,
    Citation,
    Envelope,
    EventId,
    ExpectedSequence,
    KeyText,
    MessageName,
    Names,
    OwnerText,
    Quote,
    Retires,
    Saw,
    ScopeText,
    Span,
    ThreadName,
    TurnText,
)
from lastword_schemas.errors import InvalidInput, LastwordError, NotYet, UnknownOperation
from lastword_schemas.ids import event_id_from
from lastword_schemas.model import Instant, Model, read_instant
from lastword_schemas.positions import parse_receipt

ASSIGNED_BY_THE_LOG = frozenset(
    {"sequence", "source_sequence", "position", "partition", "offset", "recorded_at", "mark"}
)


class NotAllowed(LastwordError):
    """This actor may not do this, or not with this authority."""

    code = "actor-not-allowed"


class PositionNotAllowed(InvalidInput):
    """A client supplied a position; the log alone gives positions."""

    code = "position-not-allowed"


class EventDraft(Model):
    """A statement (`set`, `delete`), a turn (`say`) or a decision (`withdraw`, `resolve`)."""

    operation: Literal["set", "delete", "say", "withdraw", "resolve"]
    owner: OwnerText
    scope: ScopeText
    key: KeyText | None = None
    """Required, but on a turn and a `withdraw`."""
    value: JsonValue = None
    """Required on a `set`; null is a value."""
    text: TurnText | None = None
    """Required on a turn; of a decision why it was made."""
    actor: Actor
    authority: Authority = Field(default=Authority.STATED, strict=False)
    confidence: float | None = Field(default=None, ge=0, le=1)
    event_id: EventId | None = None
    """Yours, so that a retry is the same event; made where you give none."""
    thread: ThreadName | None = None
    """Required on a turn."""
    message: MessageName | None = None
    occurred_at: Instant | None = None
    expires_at: Instant | None = None
    expected_sequence: ExpectedSequence | None = None
    """Of a `set` or `delete`: it counts only if the entry of exactly this scope and key has this source sequence."""
    retires: Retires | None = None
    """Of a `set`: other keys that are deleted together with it."""
    names: Names | None = None
    """Of a `withdraw`: the events that were wrong. Of a `resolve`: the assertion that stands, then those that ended."""
    withdraws: Names | None = None
    """Of a `set`: events that it withdraws, visible together with it."""
    saw: Saw | None = None
    """Of a decision: `known_at` of the answer that it is based on."""
    backfill: Backfill | None = None
    """Of a `set` or `delete` from before this log, such as an import: it fills only what nothing else has touched.
    Among those of one key the greatest number is the latest."""


class CandidateDraft(Model):
    """Somebody's reading of an earlier event: a `set` or a `delete` that cites its source."""

    operation: Literal["set", "delete"] = "set"
    owner: OwnerText
    scope: ScopeText
    key: KeyText
    value: JsonValue = None
    actor: Actor
    source_event_id: Citation
    """The turn or statement that was read, by event id or by receipt: the candidate gets its place in the order."""
    span: Span | None = None
    quote: Quote | None = None
    """The words at `span`; needed to claim `stated`."""
    authority: Authority = Field(default=Authority.INFERRED, strict=False)
    confidence: float | None = Field(default=None, ge=0, le=1)
    event_id: EventId | None = None
    occurred_at: Instant | None = None
    expires_at: Instant | None = None
    retires: Retires | None = None
    """Of a `set`: other keys that are deleted together with it, at its place in the order."""
    withdraws: Names | None = None
    """Of a `set`: other candidates that it withdraws: what was read before, and wrongly."""


Draft = EventDraft | CandidateDraft


def read_draft(data: Any, kind: type[EventDraft] | type[CandidateDraft], *, at: str = "") -> Draft:
    """Validate one parsed JSON item of a write request.

    Raises InvalidInput (or a subclass that names the situation) with the offending field, below `at`.
    """
    dot = f"{at}." if at else ""
    if not isinstance(data, dict):
        raise InvalidInput(f"{at or 'the event'} is not a JSON object", field=at or None)
    for name in data:
        if name in ASSIGNED_BY_THE_LOG:
            raise PositionNotAllowed(
                f"{dot}{name} cannot be supplied: the log gives every event its place", field=dot + name
            )
    operation = data.get("operation", "set" if kind is CandidateDraft else None)
    if isinstance(operation, str):
        if operation in PLANNED_OPERATIONS:
            raise NotYet(f"operation '{operation}' is not supported yet", field=f"{dot}operation")
        known = ("set", "delete") if kind is CandidateDraft else ("set", "delete", "say", "withdraw", "resolve")
        if operation not in known:
            raise UnknownOperation(
                f"operation {operation[:40]!a} is none of {', '.join(known)}", field=f"{dot}operation"
            )
    for name, what in (("expected_sequence", "conditional"), ("backfill", "backfilled")):
        if kind is CandidateDraft and name in data:
            raise InvalidInput(
                f"{dot}{name}: only a statement can be {what}; a candidate's place in the order is that of what it "
                "reads",
                field=f"{dot}{name}",
            )
    if kind is CandidateDraft and isinstance(actor := data.get("actor"), dict):
        data = data | {"actor": {"role": Role.EXTRACTOR} | actor}
    return kind.read(data, at=at)


def to_envelope(draft: Draft, *, event_id: str, published_at: datetime) -> Envelope:
    """The envelope of a draft, whose fields are not validated again. `event_id` is used where the draft has none.

    Raises InvalidInput naming the field where operation and fields do not fit, NotAllowed where the actor may not.
    """
    fields = {name: value for name, value in draft if value is not None}
    body: dict[str, Any] = {name: fields.pop(name) for name in ("text", "quote") if name in fields}
    fields.pop("value", None)
    if "value" in draft.model_fields_set:
        body["value"] = draft.value
    if isinstance(draft, CandidateDraft) and draft.source_event_id.startswith("r1."):
        receipt = parse_receipt(draft.source_event_id, field="source_event_id")
        fields |= {"source_event_id": receipt.event_id, "source_receipt": draft.source_event_id}
    fields |= {
        "event_id": draft.event_id or event_id_from(event_id),
        "operation": Operation(draft.operation),
        "published_at": read_instant(published_at),
        "body": Body.read(body),
    }
    envelope = Envelope.of(**fields)
    problem = authority_refusal(
        envelope.operation, envelope.actor.role, envelope.authority, candidate=envelope.is_candidate
    )
    if problem is not None:
        raise NotAllowed(problem, field="authority" if envelope.authority is Authority.CONFIRMED else "actor.role")
    return envelope
