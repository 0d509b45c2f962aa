"""What a rule of reconciliation is given, and what it may propose."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lastword_schemas import jsontext
from lastword_schemas.authority import Authority


@dataclass(frozen=True, slots=True)
class Assertion:
    """One standing assertion of an entry that is not settled."""

    event_id: str
    value: Any
    """A JSON value."""
    authority: Authority
    source_sequence: int
    """Of a candidate that of the event it reads."""
    ordinal: int = 0
    """Start of the span in the source's text."""
    source_event_id: str = ""
    """What was read: two readings of one source are one witness. A statement's own id."""
    confidence: float | None = None
    """As its extractor gave it, from 0 to 1."""
    text: str | None = None
    """The source's text, where it has one."""
    span: tuple[int, int] | None = None
    """[start, end) of the quote in the text, in Unicode code points."""
    sequence: int = 0
    """Its own place in the log; of a candidate later than its source's."""

    @property
    def mark(self) -> tuple[int, int, int]:
        """What orders the assertions of a key."""
        return self.source_sequence, self.authority.rank, self.ordinal


@dataclass(frozen=True, slots=True)
class Resolve:
    """The chosen assertion stands; the others were true once and have ended."""

    chosen: str
    """An event id."""
    others: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """These assertions were never true."""

    event_ids: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class LeaveOpen:
    """Nobody is to decide this but a person."""

    why: str


Proposal = Resolve | Withdraw | LeaveOpen
Rule = Callable[[Sequence[Assertion]], Proposal]


def by_value(assertions: Sequence[Assertion]) -> Mapping[str, list[Assertion]]:
    """Assertions that say the same, by the value's canonical text; each group in the order of the marks."""
    groups: dict[str, list[Assertion]] = defaultdict(list)
    for assertion in sorted(assertions, key=lambda one: (one.mark, one.event_id)):
        groups[jsontext.canonical(assertion.value)].append(assertion)
    return groups


def settle_on(value: Sequence[Assertion], assertions: Sequence[Assertion], why: str) -> Resolve:
    """The proposal that a value stands, by the first of its strongest assertions, and that what differs has ended."""
    chosen = min(value, key=lambda one: (-one.authority.rank, one.mark, one.event_id))
    agreeing = {one.event_id for one in value}
    others = sorted(one.event_id for one in assertions if one.event_id not in agreeing)
    return Resolve(chosen.event_id, tuple(others), why)
