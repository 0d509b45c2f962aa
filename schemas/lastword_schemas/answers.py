"""What the API answers: inspection records, profiles, histories; receipts and what became of each event.

Every reading says where it came from and how far. Who reads an answer ignores members that it does not know.
"""

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, JsonValue, SerializationInfo, SerializerFunctionWrapHandler, model_serializer

from lastword_schemas.authority import Authority, Role
from lastword_schemas.envelope import ScopedKey
from lastword_schemas.model import Answer, Instant, Named
from lastword_schemas.problems import Problem
from lastword_schemas.verdicts import Outcome, RetiredKey, Unresolved, Verdict


class Status(StrEnum):
    """What applies: each of these is an answer, none stands for another."""

    SET = "set"
    DELETED = "deleted"
    ABSENT = "absent"
    EXPIRED = "expired"
    ERASED = "erased"
    """What it was can never be said again."""


class Rule(StrEnum):
    """Why this is the answer."""

    EXACT = "exact"
    """The scope that was asked for has a value."""
    FALLBACK = "fallback"
    """It has no entry; a later scope of the chain has a value."""
    FELL_THROUGH = "fell-through"
    """It has a tombstone or an expired value, and the key is declared to fall through."""
    TOMBSTONE = "tombstone"
    """A tombstone answers; no later scope was asked, or none has an entry."""
    EXPIRED = "expired"
    """A value that no longer applies answers likewise."""
    ABSENT = "absent"
    """No scope of the chain has an entry."""


class Position(Answer):
    """Where an event stands in the log."""

    partition: int
    offset: int
    sequence: int


class Mark(Answer):
    """What orders the events of a key: compared left to right."""

    source_sequence: int
    authority: Named[Authority]
    ordinal: int
    """Start of the span in the source's text, in code points; of what is backfilled its place; else 0."""


class ActorAnswer(Answer):
    """Who published an event, and in what capacity."""

    service: str
    role: Named[Role]


class Words(Answer):
    """Where it was said."""

    event_id: str
    """The turn or statement that was read; a statement's own."""
    thread: str | None = None
    message: str | None = None
    span: list[int] | None = None
    """[start, end) in Unicode code points of the turn's text."""
    quote: str | None = None


class Identity(Answer):
    """What was asked for."""

    record_id: str | None
    """The stable name of the entry that answered; None if there is none."""
    type: Named[Literal["keyed"]] = "keyed"
    owner: str
    scope: str
    """The scope asked for: the first of the chain."""
    answered_scope: str | None
    """The scope that answered; None if there is none."""
    key: str
    declared: bool
    """Whether the registry in force declares the key."""


class _PerhapsWithValue(Answer):
    """What has a `value`, or has none: then the member is not there at all, for null is a value."""

    def _has_value(self) -> bool:
        raise NotImplementedError

    @model_serializer(mode="wrap")
    def _leave_out(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        if not self._has_value():
            data.pop("value", None)
        return data


class State(_PerhapsWithValue):
    """What applies."""

    status: Named[Status]
    value: JsonValue = None
    """There only with status `set`."""
    resolution_state: Named[Literal["resolved", "unresolved"]] = "resolved"
    resolution_reason: Named[Unresolved] | None = None
    operation: str | None = None
    """Of the event that the answer stands on."""
    authority: Named[Authority] | None = None
    version_start: int | None = None
    """Source sequence that the version began with; restatements go on with it."""
    version_started_at: Instant | None = None
    """The append time of that event; None for a version that was backfilled: it began before the log."""
    mark: Mark | None = None
    """The latest mark."""
    supersedes: list[int] = Field(default_factory=list)
    """Source sequence of the last event of the version that this one replaced; empty if it replaced none."""
    expires_at: Instant | None = None

    def _has_value(self) -> bool:
        return self.status is Status.SET


class Source(Answer):
    """Where it comes from."""

    source_sequence: int
    """Of a candidate that of the event it cites; 0 of what is backfilled."""
    position: Position
    """Of the event itself; a candidate's is later than its source's."""
    event_id: str
    source: Words
    actor: ActorAnswer
    confidence: float | None = None
    occurred_at: Instant | None = None
    """By the publisher's clock."""
    updated_at: Instant | None
    """The source event's append time; never a write time. None of what is backfilled: it was said before the log, and
    `occurred_at` may tell when."""
    retired_by: ScopedKey | None = None
    """Of a tombstone that came with a set of another key, which retired this one: that key."""
    projected_at: Instant | None = None
    """When the profile was written; None in an answer from history."""


class Decider(Answer):
    """The event that decided it."""

    event_id: str
    sequence: int


class BranchAnswer(_PerhapsWithValue):
    """Under policy `branch`: a value that stands or was ended by a resolve, or a delete that may still end what is read
    late."""

    operation: Named[Literal["set", "delete"]]
    value: JsonValue = None
    """There only on a `set`."""
    current: bool
    """Whether the answer stands on it: its value is the one that is given."""
    authority: Named[Authority]
    source: Source
    """Of the earliest assertion of that value with that authority."""
    latest: int
    """Source sequence of the last one."""
    assertions: int
    """How many there were. A copy of an event is none."""
    expires_at: Instant | None
    """When the last of them expires."""
    ended_by: Decider | None = None
    """The resolve that ended it; None: it stands."""

    def _has_value(self) -> bool:
        return self.operation == "set"


class Selection(Answer):
    """By what boundary and rule it was chosen."""

    representation: Named[Literal["profile", "history"]]
    as_of: int | None = None
    """The boundary on what had been said, as a sequence; None = everything."""
    known_at: int
    """The last sequence that the answer takes into account."""
    rule: Named[Rule]
    provisional: bool = False
    """The boundary lies beyond what is projected: the answer may still change."""
    clock: Named[Literal["broker", "publisher"]]
    """Whose clock `recorded_at` and `updated_at` are."""
    position_token: str
    """Demand it with `at_least` to read nothing older."""


class InspectionRecord(Answer):
    """The answer to a keyed read."""

    identity: Identity
    state: State
    source: Source | None
    """None if nothing was ever said."""
    selection: Selection
    branches: list[BranchAnswer] = Field(default_factory=list)
    """Under policy `branch`: everything that stands, by source order, then what resolves ended, then deletes. Under
    `latest` nothing."""


class Reading(Answer):
    """What a read of several things has in common: one moment, one boundary."""

    owner: str
    representation: Named[Literal["profile", "history"]]
    as_of: int | None = None
    known_at: int
    provisional: bool = False
    clock: Named[Literal["broker", "publisher"]]
    position_token: str


class ValuesAnswer(Reading):
    """The answer to `POST /v1/values/read`: an inspection record for each key, in the order asked."""

    scopes: list[str]
    values: list[InspectionRecord]


class ProfileAnswer(Reading):
    """A page of an owner's entries, by scope and key."""

    entries: list[InspectionRecord]
    next_page: str | None = None
    """Hand it in as `page` to go on; the pages of one reading are of one moment."""


class EventStatus(StrEnum):
    """What has become of an event."""

    CURRENT = "current"
    SUPERSEDED = "superseded"
    DELETED = "deleted"
    EXPIRED = "expired"
    REFUSED = "refused"
    DUPLICATE = "duplicate"
    ENDED = "ended"
    """It was true and is not any more, by a resolve."""
    WITHDRAWN = "withdrawn"
    """It was wrong: it, or what it reads, was withdrawn."""
    RECORDED = "recorded"
    """A turn or a decision."""


class EventAnswer(_PerhapsWithValue):
    """One event of a history; of one key's or scope's also a delete that an event of another key brought."""

    position: Position
    event_id: str
    operation: str
    scope: str
    key: str | None
    value: JsonValue = None
    """There only on a `set` with its body."""
    text: str | None = None
    authority: Named[Authority] | None
    outcome: Named[Outcome]
    effect: str | None
    reason: str | None
    detail: str | None
    sequences: list[int] | None
    status: Named[EventStatus]
    source_sequence: int
    source: Words | None
    actor: ActorAnswer
    confidence: float | None
    recorded_at: Instant
    occurred_at: Instant | None
    expires_at: Instant | None
    expected_sequence: int | None
    """Of a conditional statement."""
    retires: list[RetiredKey] | None
    """Other keys that are deleted together with a set."""
    retired_by: ScopedKey | None
    """Of such a delete: the key of the set, which is the event."""
    names: list[str] | None
    """Of a `withdraw` the events that were wrong; of a `resolve` the one that stands, then those that ended."""
    withdraws: list[str] | None
    """Of a set: the events that it withdraws."""
    saw: int | None
    """Of a decision: the position that it is based on, as a sequence."""
    withdrawn_by: Decider | None
    """Of what was withdrawn."""

    def _has_value(self) -> bool:
        return "value" in self.model_fields_set


class Ended(Answer):
    """What ended a version."""

    by: Named[Literal["set", "delete", "expiry", "resolve", "withdraw"]]
    """`withdraw`: it never was true. All others: it was true until then."""
    sequence: int | None
    """Source sequence of what took its place, or deleted or withdrew it; None for an expiry. Where several values stood
    and somebody settled it later, what took its place is the first event of the value that was chosen."""
    event_id: str | None
    at: Instant | None
    """That event's source time, or the time of expiry. None if a backfilled event ended it: before the log."""
    decided_by: Decider | None = None
    """Where it was settled later: the resolve, or the set of more authority, that did."""


class Version(_PerhapsWithValue):
    """A value (or a tombstone) and how long it applied, in source order."""

    status: Named[Literal["current", "superseded", "deleted", "expired", "ended", "withdrawn"]]
    """`deleted`: ended by a tombstone. `ended`: by a resolve. `withdrawn`: it never was true. A tombstone that still
    stands is `current`."""
    operation: Named[Literal["set", "delete"]]
    value: JsonValue = None
    resolution_state: Named[Literal["resolved", "unresolved"]]
    started_at: Instant | None
    """None if it was backfilled: before the log."""
    start: int
    """Source sequence of its first event; 0 if it was backfilled."""
    latest: int
    """Source sequence of its latest restatement."""
    authority: Named[Authority]
    """Of the latest event."""
    event_ids: list[str]
    """Its events, in source order: at most the first and the last hundred."""
    source: Words
    """Of the latest event."""
    actor: ActorAnswer
    retired_by: ScopedKey | None
    """Of a tombstone whose latest event is a set of another key, which retired this one: that key."""
    ended: Ended | None

    def _has_value(self) -> bool:
        return self.operation == "set"


class HistoryAnswer(Reading):
    """A page of a key's versions (source order), or of an owner's events (accepted order)."""

    scope: str | None = None
    key: str | None = None
    versions: list[Version] | None = None
    events: list[EventAnswer] | None = None
    next_page: str | None = None


class OutcomeAnswer(Verdict):
    """The answer to `GET /v1/outcomes`."""

    position_token: str
    """Demand it with `at_least` to read nothing older."""


class ReceiptAnswer(Answer):
    """Where the log has the event. Demand `receipt` of a read to see the event's effect."""

    receipt: str
    """The receipt's text, for `at_least` and for citing."""
    event_id: str
    log_id: str
    generation: int
    partition: int
    offset: int
    sequence: int


class ItemAnswer(Answer):
    """What became of one event."""

    outcome: Named[Literal["accepted", "applied", "refused", "failed", "unknown"]]
    """`accepted`: in the log. `applied`: its verdict is that it counts. `refused`: not in the log (see `problem`), or
    in it without counting (see `verdict`). `failed`: not in the log, by no fault of the event. `unknown`: perhaps."""
    receipt: ReceiptAnswer | None = None
    verdict: Verdict | None = None
    problem: Problem | None = None


class BatchAnswer(Answer):
    """What became of each event, in the order of the request."""

    results: list[ItemAnswer]
