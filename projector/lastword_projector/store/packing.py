"""How an entry stands in a profile hash: a head that Lua and people can read, then the packed record.

    mark (23) · projected_at (13, ms) · flags (1) · [start (23) · started_at (13)] · [previous (23)] ·
    [length (8) · what the policy keeps] · record

Flags, the character of `0` and: 1 = unresolved, 2 = start is there (else it is the mark, and the record's source time),
4 = previous is there, 8 = the policy is not `latest`; then comes what it keeps, in so many bytes of MessagePack. The
record that the pointer is on is left out there: it stands at the end.
"""

from typing import NamedTuple

import msgspec

from lastword_projector.engine.records import (
    MARK_LENGTH,
    NO_MARK,
    Branch,
    Branches,
    Entry,
    Mark,
    Record,
    Tombstone,
    unpack_record,
)

_TIME_LENGTH, _SIZE_LENGTH = 13, 8
_UNRESOLVED, _START, _PREVIOUS, _STATE = 1, 2, 4, 8


class StoredEntry(NamedTuple):
    """An entry and when it was written."""

    entry: Entry
    projected_at: int
    """ms since 1970, by the worker's clock."""


class _Branch(msgspec.Struct, array_like=True, gc=False):
    """`Branch`, without the record that stands at the end."""

    record: Record | None
    latest: Mark
    count: int
    expires_at: int | None


class _Tombstone(msgspec.Struct, array_like=True, gc=False):
    """`Tombstone`, likewise."""

    record: Record | None
    tied: bool


class _Branches(msgspec.Struct, array_like=True, tag="branch", gc=False):
    """`Branches`, likewise."""

    branches: list[_Branch]
    tombstones: list[_Tombstone]


_encode_state = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(_Branches).decode


def pack_head(entry: Entry, projected_at: str) -> bytes:
    """What stands before the record. `projected_at` has 13 digits."""
    flags = _UNRESOLVED if entry.unresolved else 0
    start = previous = ""
    if entry.start != entry.mark or entry.started_at != entry.record.source_recorded_at:
        flags |= _START
        start = f"{entry.start}{entry.started_at:013d}"
    if entry.previous:
        flags |= _PREVIOUS
        previous = entry.previous
    if entry.state is None:
        return f"{entry.mark}{projected_at}{flags}{start}{previous}".encode()
    state = _pack_state(entry.state, entry.record)
    flag = chr(ord("0") + flags + _STATE)
    return f"{entry.mark}{projected_at}{flag}{start}{previous}{len(state):0{_SIZE_LENGTH}d}".encode() + state


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
    packed = b""
    if flags & _STATE:
        size, at = int(data[at : at + _SIZE_LENGTH]), at + _SIZE_LENGTH
        packed, at = data[at : at + size], at + size
    record = unpack_record(data[at:])
    began = record.source_recorded_at if started_at is None else started_at
    state = _unpack_state(packed, record) if packed else None
    return StoredEntry(Entry(record, mark, start, began, previous, bool(flags & _UNRESOLVED), state), projected_at)


def _pack_state(state: Branches, pointer: Record) -> bytes:
    def kept(record: Record) -> Record | None:
        return None if record == pointer else record

    return _encode_state(
        _Branches(
            [_Branch(kept(each.record), each.latest, each.count, each.expires_at) for each in state.branches],
            [_Tombstone(kept(each.record), each.tied) for each in state.tombstones],
        )
    )


def _unpack_state(packed: bytes, pointer: Record) -> Branches:
    state = _decode_state(packed)
    return Branches(
        tuple(Branch(each.record or pointer, each.latest, each.count, each.expires_at) for each in state.branches),
        tuple(Tombstone(each.record or pointer, each.tied) for each in state.tombstones),
    )
