"""How an entry stands in a profile hash: a head that Lua and people can read, then the packed record.

    mark (23) · projected_at (13, ms) · flags (1) · [start (23) · started_at (13)] · [previous (23)] ·
    [length (8) · what the policy keeps, or the ledger] · record

Flags, the character of `0` and: 1 = unresolved, 2 = start is there (else it is the mark, and the record's source time),
4 = previous is there, 8 = the policy is not `latest`; then comes what it keeps, in so many bytes of MessagePack. The
record that the pointer is on is left out there: it stands at the end. 16 = it is no
entry, but an owner's ledger; 32 = nor an entry any more, because all of it was withdrawn.
"""

from typing import Any, NamedTuple

import msgspec

from lastword_projector.engine.records import (
    MARK_LENGTH,
    NO_MARK,
    Branch,
    Branches,
    Ended,
    Entry,
    Ledger,
    Mark,
    Record,
    Tombstone,
    pack_record,
    unpack_record,
)

_TIME_LENGTH, _SIZE_LENGTH = 13, 8
_FLAGS = ord("0")
_UNRESOLVED, _START, _PREVIOUS, _STATE, _LEDGER, _VOID = 1, 2, 4, 8, 16, 32


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


class _Ended(msgspec.Struct, array_like=True, gc=False):
    """`Ended`, likewise."""

    branch: _Branch
    by: bytes
    sequence: int


class _Branches(msgspec.Struct, array_like=True, tag="branch", gc=False):
    """`Branches`, likewise."""

    branches: list[_Branch]
    tombstones: list[_Tombstone]
    ended: list[_Ended] = []
    resolves: list[bytes] = []


_encode_state = msgspec.msgpack.Encoder().encode
_decode_ledger = msgspec.msgpack.Decoder(Ledger).decode
_decode_state = msgspec.msgpack.Decoder(_Branches).decode


def pack_head(entry: Entry, projected_at: str) -> bytes:
    """What stands before the record. `projected_at` has 13 digits."""
    flags = (_UNRESOLVED if entry.unresolved else 0) + (_VOID if entry.is_void else 0)
    start = previous = ""
    if entry.start != entry.mark or entry.started_at != entry.record.source_recorded_at:
        flags |= _START
        start = f"{entry.start}{entry.started_at:013d}"
    if entry.previous:
        flags |= _PREVIOUS
        previous = entry.previous
    if entry.state is None and entry.ledger is None:
        return f"{entry.mark}{projected_at}{chr(_FLAGS + flags)}{start}{previous}".encode()
    state = _encode_state(entry.ledger) if entry.state is None else _pack_state(entry.state, entry.record)
    flag = chr(_FLAGS + flags + (_LEDGER if entry.state is None else _STATE))
    return f"{entry.mark}{projected_at}{flag}{start}{previous}{len(state):0{_SIZE_LENGTH}d}".encode() + state


def unpack_entry(data: bytes) -> StoredEntry:
    """The entry of a stored value."""
    at = MARK_LENGTH + _TIME_LENGTH
    mark, projected_at, flags = Mark(data[:MARK_LENGTH].decode()), int(data[MARK_LENGTH:at]), data[at] - _FLAGS
    at += 1
    start, started_at, previous = mark, None, NO_MARK
    if flags & _START:
        start, at = Mark(data[at : at + MARK_LENGTH].decode()), at + MARK_LENGTH
        started_at, at = int(data[at : at + _TIME_LENGTH]), at + _TIME_LENGTH
    if flags & _PREVIOUS:
        previous, at = Mark(data[at : at + MARK_LENGTH].decode()), at + MARK_LENGTH
    packed = b""
    if flags & (_STATE | _LEDGER):
        size, at = int(data[at : at + _SIZE_LENGTH]), at + _SIZE_LENGTH
        packed, at = data[at : at + size], at + size
    record = unpack_record(data[at:])
    began = record.source_recorded_at if started_at is None else started_at
    state = _unpack_state(packed, record) if flags & _STATE else None
    ledger = _decode_ledger(packed) if flags & _LEDGER else None
    unresolved, is_void = bool(flags & _UNRESOLVED), bool(flags & _VOID)
    return StoredEntry(Entry(record, mark, start, began, previous, unresolved, state, ledger, is_void), projected_at)


def _pack_state(state: Branches, pointer: Record) -> bytes:
    """Records stand in it as they do in a history. What resolves did is there only where they did something."""

    def branch(each: Branch) -> list[Any]:
        record = None if each.record == pointer else msgspec.Raw(pack_record(each.record))
        return [record, each.latest, each.count, each.expires_at]

    def tombstone(each: Tombstone) -> list[Any]:
        return [None if each.record == pointer else msgspec.Raw(pack_record(each.record)), each.tied]

    kept: list[Any] = ["branch", list(map(branch, state.branches)), list(map(tombstone, state.tombstones))]
    if state.resolves:
        kept += [[[branch(each.branch), each.by, each.sequence] for each in state.ended], state.resolves]
    return _encode_state(kept)


def _unpack_state(packed: bytes, pointer: Record) -> Branches:
    def branch(each: _Branch) -> Branch:
        return Branch(each.record or pointer, each.latest, each.count, each.expires_at)

    state = _decode_state(packed)
    return Branches(
        tuple(map(branch, state.branches)),
        tuple(Tombstone(each.record or pointer, each.tied) for each in state.tombstones),
        tuple(Ended(branch(each.branch), each.by, each.sequence) for each in state.ended),
        tuple(state.resolves),
    )
