"""What resolves make of the assertions of a `branch` key, before they are folded.

A resolve names an assertion that stands and others that ended. It is about what had been said by then: with a named one
everything ends that says the same, was said before the resolve and has no more authority than it. The chosen assertion
takes the resolver's authority if that is higher. Of two resolves that speak of one value the later in the log counts,
and one whose chosen assertion does not count does nothing.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from lastword_projector.engine.records import Decided, Record, canonical_value


class Resolved(NamedTuple):
    """The events of a key as resolves left them."""

    records: list[Record]
    """All of them; what was chosen has the authority that it was given."""
    standing: list[Record]
    """Those of them that may stand, and deletes."""
    ended: list[tuple[Record, Decided]]
    """Assertions that were ended, and by what."""
    acting: tuple[Decided, ...]
    """The resolves that do something, in accepted order."""


def resolved(records: Iterable[Record], resolves: Sequence[Decided]) -> Resolved:
    """Take the counting events of a key and the resolves of it that count, in accepted order."""
    records = list(records)
    said = {record.event_id: canonical_value(record.value) for record in records if record.value is not None}
    acting = tuple(each for each in resolves if each.resolves[0] in said)
    given: dict[bytes, int] = {}
    for each in acting:
        chosen = each.resolves[0]
        given[chosen] = max(each.authority, given.get(chosen, 0))
    rulings = [_Ruling(each, said) for each in acting]
    everything, standing, ended = [], [], []
    for record in records:
        if given.get(record.event_id, 0) > record.authority:
            record = replace(record, authority=given[record.event_id])
        everything.append(record)
        by = None if record.value is None else _ended_by(record, said[record.event_id], rulings)
        if by is None:
            standing.append(record)
        else:
            ended.append((record, by))
    return Resolved(everything, [one for one in standing if not _is_superseded(one, ended)], ended, acting)


class _Ruling:
    """What a resolve says, value by value."""

    def __init__(self, decided: Decided, said: dict[bytes, str]) -> None:
        self.decided = decided
        self.chosen = said[decided.resolves[0]]
        self.ended = {said[event_id] for event_id in decided.resolves[1:] if event_id in said} - {self.chosen}


def _ended_by(record: Record, value: str, rulings: Sequence[_Ruling]) -> Decided | None:
    for ruling in reversed(rulings):
        decided = ruling.decided
        if record.source_sequence < decided.sequence and record.authority <= decided.authority:
            if value == ruling.chosen:
                return None
            if value in ruling.ended:
                return decided
    return None


def _is_superseded(record: Record, ended: Sequence[tuple[Record, Decided]]) -> bool:
    """By an assertion that has ended since."""
    return any(other.mark > record.mark and other.authority > record.authority for other, _ in ended)
