"""Contexts: the few cited records that a model is handed, and what has become of them since.

A context is stored as its JSON document without the id, because the id says where that stands and has its digest.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field, JsonValue

from lastword_schemas.answers import Reading, Words
from lastword_schemas.authority import Authority
from lastword_schemas.errors import InvalidInput
from lastword_schemas.model import Answer, Instant, Named

_ID = re.compile(r"c1\.([0-9a-f]{16})\.([0-9a-f]{16})\.(\d{1,6})\.(\d{1,13})\.([0-9a-f]{32})")
CONTEXT_ID_PATTERN: Final = f"^{_ID.pattern}$"
"""What a context's id looks like, as a regular expression."""


@dataclass(frozen=True, slots=True)
class ContextId:
    """Where a stored context stands, and what it says.

    Text: `c1.<log>.<owner digest>.<partition>.<offset>.<digest>`. The partition and offset are those of the topic of
    contexts; the digest is 32 hexadecimal digits of SHA-256 over the stored bytes, so nothing else can answer to it.
    """

    log_id: str
    """The log that it was read from."""
    owner: str
    """See `owner_digest`."""
    partition: int
    offset: int
    digest: str

    def __str__(self) -> str:
        return f"c1.{self.log_id}.{self.owner}.{self.partition}.{self.offset}.{self.digest}"

    def is_of(self, stored: bytes) -> bool:
        """Whether these bytes are the context."""
        return digest_of(stored) == self.digest


def digest_of(stored: bytes) -> str:
    """The digest of a stored context that its id has."""
    return hashlib.sha256(stored).hexdigest()[:32]


def parse_context_id(text: str, *, field: str = "id") -> ContextId:
    """Read the text of a context's id. Raises InvalidInput with the field given."""
    match = _ID.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{field} is not the id of a context ('c1.…', from `POST /v1/contexts`)", field=field)
    log_id, owner, partition, offset, digest = match.groups()
    return ContextId(log_id, owner, int(partition), int(offset), digest)


class ContextItem(Answer):
    """One record of a context, with its source."""

    scope: str
    """The scope that answered."""
    key: str
    value: JsonValue
    origin: Named[Literal["profile", "history", "overlay"]]
    """`overlay`: said in this turn and handed in with the request; not, or not yet, in the projection."""
    chosen: Named[Literal["overlay", "key", "task", "newest"]]
    """Why it is here: it was handed in, its key was asked for, it is near to the task, or there was no task."""
    rank: int | None = None
    """Its place among what was ranked, from 1."""
    resolution_state: Named[Literal["resolved", "unresolved"]]
    """`unresolved`: there are contradicting values, of which this is one."""
    authority: Named[Authority] | None
    """None of an overlay."""
    source_sequence: int | None
    """None of an overlay without a receipt."""
    updated_at: Instant | None
    """The source event's append time; None of what is backfilled and of an overlay."""
    expires_at: Instant | None = None
    record_id: str
    """The stable name of the entry."""
    event_id: str | None
    """The event that it stands on; None of an overlay without a receipt."""
    source: Words | None
    """Where it was said; None of an overlay."""


class LeftOut(Answer):
    """A record that applies and is not in the context."""

    scope: str
    key: str
    source_sequence: int | None
    reason: Named[
        Literal["budget", "rank", "no-match", "unresolved", "group", "authority", "overlaid", "shadowed", "projected"]
    ]
    """`budget`: no room. `rank`: others are nearer. `no-match`: the task finds nothing in it. `unresolved`, `group`,
    `authority`: the request excludes it. `overlaid`: an overlay stands in its place. `shadowed`: an overlay, and a
    nearer scope has a value. `projected`: an overlay that the projection has taken into account already."""


class ContextAnswer(Reading):
    """The few cited records for a task: an immutable snapshot. The answer to `POST` and `GET /v1/contexts`."""

    id: str | None = None
    """Names it for ever; None of one that was not to be stored."""
    task: str
    """Empty: what is kept for any task."""
    scopes: list[str]
    """The chain that was looked along."""
    keys: list[str]
    """Those that were asked for by name."""
    groups: list[str]
    min_authority: Named[Authority] | None
    exclude: Named[Literal["unresolved"]] | None
    limit: int
    """Records that could be chosen besides those that were named."""
    budget: int
    """Tokens that `prompt` could have."""
    tokens: int
    """Those that it has."""
    counter: str
    """By what rule they were counted."""
    ranker: str
    """By what it was ranked."""
    registry: str
    """Digest of the key registry that was in force."""
    made_at: Instant
    """By the API's clock."""
    considered: int
    """Records that apply along the chain, and overlays."""
    items: list[ContextItem]
    """In the order of the prompt's lines."""
    left_out: list[LeftOut]
    """The nearest of those that were left out."""
    left_out_by_reason: dict[str, int]
    """How many that were."""
    prompt: str
    """The items as a block of text for a model; empty if there are none."""


class By(Answer):
    """What answers now, where an item does not."""

    scope: str
    source_sequence: int
    event_id: str


class CheckedItem(Answer):
    """What has become of one item."""

    scope: str
    key: str
    status: Named[
        Literal[
            "fresh",
            "superseded",
            "shadowed",
            "deleted",
            "withdrawn",
            "expired",
            "absent",
            "unresolved",
            "resolved",
            "pending",
        ]
    ]
    """`withdrawn`: it was wrong; something older applies again, or nothing. `shadowed`: a scope before it in the
    chain has a value. `unresolved`: values contradict each other now, and did not. `resolved`: they did. `pending`: an
    overlay that nothing in the projection confirms or contradicts yet. `fresh` and `pending` need no change."""
    supplied_sequence: int | None
    """The source sequence that the context has."""
    current_sequence: int | None
    """That of what answers for the key along the chain; None if nothing ever did."""
    restated: bool = False
    """The same value has been said again later; that leaves an item fresh."""
    by: By | None = None
    """The event that answers now, value or tombstone; None of an item that is fresh, and where there is none."""


class Change(Answer):
    """One change to be made to the lines of a prompt."""

    item: int | None
    """The number of the item in the context, from 0, that is replaced or removed; None of one that is added."""
    scope: str
    """The one that the context has; another one may answer now."""
    key: str
    now: ContextItem | None = None
    """What stands in its place, or is added; None of one that is removed."""
    line: str | None = None
    """The same as a line of the prompt."""


class Delta(Answer):
    """What to change, and no more: what a model has read already stays as it is in front of it."""

    replace: list[Change] = Field(default_factory=list)
    remove: list[Change] = Field(default_factory=list)
    add: list[Change] = Field(default_factory=list)
    prompt: str = ""
    """The changes as a block of text to be put behind what the model has read; empty if there are none."""


class ContextCheck(Reading):
    """Whether a context still says what applies. The answer to `POST /v1/contexts/check`."""

    id: str | None
    """The context that was checked; None if items were handed in."""
    stale: bool
    """Whether the prompt should be changed."""
    items: list[CheckedItem]
    """In the order of the context."""
    newer: list[ContextItem]
    """What came after the context, applies, and would be chosen now; the nearest first."""
    delta: Delta
