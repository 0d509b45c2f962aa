"""How an entry stands in a profile hash: a head that Lua and people can read, then the packed record.

    mark (23) · projected_at (13, ms) · flags (1) · [start (23) · started_at (13)] · [previous (23)] · record

Flags, one digit: 1 = unresolved, 2 = start is there (else it is the mark, and the record's source time), 4 = previous
is there.
"""

from typing import NamedTuple

from lastword_projector.engine.records import MARK_LENGTH, NO_MARK, Entry, Mark, unpack_record

_TIME_LENGTH = 13
_UNRESOLVED, _START, _PREVIOUS = 1, 2, 4


class StoredEntry(NamedTuple):
    """An entry and when it was written."""

    entry: Entry
    projected_at: int
    """ms since 1970, by the worker's clock."""


def pack_head(entry: Entry, projected_at: str) -> str:
    """What stands before the record. `projected_at` has 13 digits."""
    flags = _UNRESOLVED if entry.unresolved else 0
    start = previous = ""
    if entry.start != entry.mark or entry.started_at != entry.record.source_recorded_at:
        flags |= _START
        start = f"{entry.start}{entry.started_at:013d}"
    if entry.previous:
        flags |= _PREVIOUS
        previous = entry.previous
    return f"{entry.mark}{projected_at}{flags}{start}{previous}"


def unpack_entry(data: bytes) -> StoredEntry:
    """The entry of a stored value."""
    at = MARK_LENGTH + _TIME_LENGTH
    mark, projected_at, flags = Mark(data[:MARK_LENGTH].decode()), int(data[MARK_LENGTH:at]), data[at] - ord("0")
    at += 1
    start, started_at, previous = mark, None, NO_MARK
    if flags & _START:
        start, at = Mark(data[at : at + MARK_LENGTH].decode()), at + MARK_LENGTH
        started_at, at = int(data[at : at + _TIME_LENGTH]), at + _TIME_LENGTH
    if flags & _PREVIOUS:
        previous, at = Mark(data[at : at + MARK_LENGTH].decode()), at + MARK_LENGTH
    record = unpack_record(data[at:])
    began = record.source_recorded_at if started_at is None else started_at
    return StoredEntry(Entry(record, mark, start, began, previous, bool(flags & _UNRESOLVED)), projected_at)
