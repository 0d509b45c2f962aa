"""Verdicts: what the reader of the log made of an event. Fixed at the event's position."""

from enum import StrEnum

from lastword_schemas.model import Answer, Named


class Outcome(StrEnum):
    """Whether an event counts."""

    COUNTS = "counts"
    REFUSED = "refused"
    DUPLICATE = "duplicate"


class Effect(StrEnum):
    """What an event that counts did to its entry, at its position."""

    RECORDED = "recorded"
    """A turn: it has no entry."""
    ADDED = "added"
    """The first value, or the first after a tombstone."""
    UPDATED = "updated"
    """Another value with a greater mark; under `branch` whatever leaves another single answer."""
    RESTATED = "restated"
    """The same value with a greater mark: the version goes on. Under `branch` whatever leaves the answer as it was."""
    DELETED = "deleted"
    """A tombstone."""
    LATE = "late"
    """The entry's mark was already greater; under `branch`: it was already deleted, superseded or ended. `sequences`
    has the entry's source sequence and the event's. Or what it reads had been withdrawn: then the withdrawal's sequence
    and the event's source sequence."""
    BRANCHED = "branched"
    """It stands beside something that says otherwise: the entry is unresolved."""
    CONFLICT = "conflict"
    """Another value with the very same mark: the entry is unresolved."""
    RESOLVED = "resolved"
    """A decision: of the named assertions one stands, the others ended."""
    WITHDREW = "withdrew"
    """A decision: the named events no longer count."""


class Unresolved(StrEnum):
    """Why an entry has no single answer."""

    VALUES_DIFFER = "values_differ"
    """Different values stand, none of which supersedes another."""
    EQUAL_VERSION_CONFLICT = "equal_version_conflict"
    """Two say different things at the very same mark."""
    WEAKER_DELETE = "weaker_delete"
    """It was deleted by somebody of less authority than those who said it."""


class Reason(StrEnum):
    """Why an event was refused."""

    EVENT_ID_REUSED = "event-id-reused"
    """The owner has an earlier event with this id and other content."""
    KEY_MISMATCH = "key-mismatch"
    """The record's Kafka key is not that of the envelope's owner, scope and key."""
    MALFORMED = "malformed"
    """Owner and id can be read, the rest does not have the form of an envelope."""
    UNDECLARED_KEY = "undeclared-key"
    """The registry in force at that position does not declare the key, or one that the event retires."""
    VALUE_SCHEMA = "value-schema"
    """The value does not fit the key's schema."""
    ACTOR_NOT_ALLOWED = "actor-not-allowed"
    """This actor may not do this, or not with this authority."""
    SOURCE_MISSING = "source-missing"
    """The owner has no event with the cited id before this one."""
    SOURCE_OF_OTHER_OWNER = "source-of-other-owner"
    """The cited event belongs to somebody else."""
    SOURCE_LATER = "source-later"
    """The cited event stands later in the log."""
    SOURCE_IS_CANDIDATE = "source-is-candidate"
    """A candidate cites a turn or a statement, never another candidate or a decision."""
    SOURCE_REFUSED = "source-refused"
    """The cited event was itself refused."""
    QUOTE_NOT_AT_SPAN = "quote-not-at-span"
    """The source's text does not have the quote at that span."""
    QUOTE_MISSING = "quote-missing"
    """A candidate that claims `stated` on a turn must quote it."""
    AUTHORITY_ABOVE_SOURCE = "authority-above-source"
    """A candidate may not claim more authority than the statement that it cites."""
    AUTHORITY_TOO_LOW = "authority-too-low"
    """The `min_authority` of the key, or of one that the event retires, is higher."""
    NAMED_MISSING = "named-missing"
    """The owner has no event with a named id before this one."""
    NAMED_REFUSED = "named-refused"
    """A named event was itself refused."""
    NAMED_NOT_ALLOWED = "named-not-allowed"
    """This event may not name that one: a candidate withdraws candidates only; a resolve names sets of its own key,
    which folds by `branch`."""
    AUTHORITY_BELOW_NAMED = "authority-below-named"
    """A decision needs at least the authority of what it withdraws or ends."""
    EXPECTED_SEQUENCE = "expected-sequence"
    """The entry's source sequence is not the `expected_sequence`, or the entry is unresolved."""


class RetiredKey(Answer):
    """A key that a set retires, and what became of that."""

    scope: str
    key: str
    effect: Named[Effect] | None = None
    """What the delete did to the key's entry; None if the event does not count."""


class Verdict(Answer):
    """The verdict on one event, as answered by `GET /v1/outcomes`."""

    event_id: str
    outcome: Named[Outcome]
    effect: Named[Effect] | None = None
    """Of an event that counts."""
    reason: Named[Reason] | None = None
    """Of a refused event."""
    detail: str | None = None
    """Of a refused event: the reason in words, without the value."""
    sequence: int
    """The event's own sequence."""
    partition: int
    offset: int
    sequences: list[int] | None = None
    """Of `late`: the entry's source sequence and the event's. Of a duplicate: the first copy's sequence."""
    retires: list[RetiredKey] | None = None
    """Of a set that retires other keys."""
