"""What a search answers: hits, the nearest first, each with its source and why it is there."""

from typing import Literal

from pydantic import Field, JsonValue

from lastword_schemas.answers import ActorAnswer, Ended, Reading, Words
from lastword_schemas.authority import Authority
from lastword_schemas.model import Answer, Instant, Named


class Fact(Answer):
    """What a hit says."""

    scope: str
    key: str
    value: JsonValue


class Explanation(Answer):
    """Why a hit stands where it stands."""

    matched: list[str] = Field(default_factory=list)
    """Terms of the query that stand in its key, aliases, description or value, as they are compared."""
    parts: dict[str, float] = Field(default_factory=dict)
    """What the ranker made the score of, by name; empty where it was one thing."""


class Hit(Answer):
    """One record that was found."""

    rank: int
    """From 1."""
    score: float
    """By the ranker; only of the hits of one answer is the greater one the nearer. Of equal ones the one with the newer
    source comes first."""
    fact: Fact
    status: Named[Literal["current", "superseded", "deleted", "expired", "ended", "withdrawn"]]
    """Another one than `current` only where history was asked for: what has become of that value in its own scope."""
    resolution_state: Named[Literal["resolved", "unresolved"]]
    """`unresolved`: there are contradicting values, of which this is one."""
    record_id: str
    """The stable name of the entry."""
    source_sequence: int
    updated_at: Instant | None
    """The source event's append time; None of what is backfilled."""
    expires_at: Instant | None
    authority: Named[Authority]
    event_id: str
    source: Words
    actor: ActorAnswer
    ended: Ended | None = None
    """What ended the value."""
    why: Explanation


class SearchAnswer(Reading):
    """A page of what was found: of records that apply, unless history was asked for."""

    scopes: list[str] | None
    """The chain; None: every scope by itself."""
    ranker: str
    """By what it was ranked."""
    considered: int
    """Records that could have been found: all of the owner's that passed the filters."""
    hits: list[Hit]
    next_page: str | None = None
    """Hand it in as `page` to go on; the pages of one search are of one moment."""
