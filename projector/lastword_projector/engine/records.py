"""What the projection keeps: a `Record` for every event (history) and an `Entry` for every key (profile)."""

import re
from collections.abc import Sequence
from typing import Final, NewType

import msgspec
from msgspec.structs import replace

from lastword_schemas import jsontext

Mark = NewType("Mark", str)
"""`(source_sequence, authority, ordinal)` as 16 + 1 + 6 decimal digits: compares as the tuple does, in Lua too."""

NO_MARK: Final = Mark("")
MARK_LENGTH: Final = 23
ZERO_MARK: Final = Mark("0" * MARK_LENGTH)
"""Below every event's."""


_RESOLVE: Final = "resolve"


def mark_of(source_sequence: int, authority: int, ordinal: int) -> Mark:
    """The mark of an event."""
    return Mark("%016d%d%06d" % (source_sequence, authority, ordinal))  # noqa: UP031  # faster, and asked of every event


def sequence_in(mark: Mark) -> int:
    """The source sequence in a mark."""
    return int(mark[:16])


LEDGER: Final = ("", "")
"""Scope and key under which an owner's decisions are kept, beside the entries."""


class Decision(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What an event says about earlier ones, by their ids."""

    withdraws: tuple[bytes, ...] = ()
    resolves: tuple[bytes, ...] = ()
    """The assertion that stands, then those that ended."""
    saw: int | None = None
    """The position that it is based on, as a sequence."""
    changed: tuple[tuple[str, str, str], ...] = ()
    """Of one that counts: scope and key of the other entries that it made others, and what they say since: `set`,
    `deleted`, `unresolved` or `absent`."""


class Record(msgspec.Struct, array_like=True, gc=False):
    """One event with its verdict: an item of an owner's history. Not changed once its verdict is set."""

    sequence: int
    recorded_at: int
    """Append time by the broker's clock (or the publisher's, where the broker does not stamp), ms since 1970."""
    event_id: bytes
    """The UUID's 16 bytes."""
    operation: str
    scope: str
    key: str | None
    authority: int
    """Rank: 1 inferred, 2 stated, 3 confirmed."""
    service: str
    role: str
    verdict: str
    """An effect; or `refused` or `duplicate`."""
    value: bytes | None = None
    """JSON text as published; None where there is none (a JSON null is b"null")."""
    cited_sequence: int | None = None
    """Of a candidate that counts: the source sequence of the event it cites. Of a backfilled statement 0."""
    cited_recorded_at: int | None = None
    """And that event's time; 0 of what is backfilled: before the log."""
    source_event_id: bytes | None = None
    span: tuple[int, int] | None = None
    quote: str | None = None
    text: str | None = None
    thread: str | None = None
    """Of a candidate its source's."""
    message: str | None = None
    confidence: float | None = None
    occurred_at: int | None = None
    """By the publisher's clock, microseconds since 1970."""
    expires_at: int | None = None
    """Microseconds since 1970."""
    reason: str | None = None
    """Of a refused event."""
    detail: str | None = None
    related: tuple[int, ...] | None = None
    """Of `late` the entry's source sequence and the event's; of a duplicate the first copy's sequence."""
    expected_sequence: int | None = None
    """Of a conditional statement."""
    retires: tuple[tuple[str, str], ...] | None = None
    """Scope and key of the other keys that a set deletes."""
    retired: tuple[str, ...] | None = None
    """Of one that counts: the effect on each of those, in their order."""
    retired_by: tuple[str, str] | None = None
    """Of the delete of a retired key: scope and key of the set that brought it. In no history; see `parts`."""
    backfill: int | None = None
    """Of a backfilled statement, and of a candidate that cites one: its place among those of its key."""
    decision: Decision | None = None
    """Of what withdraws or resolves. Only then is it written: records are as they were before there were decisions."""

    @property
    def counts(self) -> bool:
        """Whether the event counts."""
        return self.verdict != "refused" and self.verdict != "duplicate"

    @property
    def source_sequence(self) -> int:
        """Of a candidate that of the event it cites, of a backfilled statement 0, else its own."""
        return self.sequence if self.cited_sequence is None else self.cited_sequence

    @property
    def source_recorded_at(self) -> int:
        """The source event's `recorded_at`, ms since 1970; 0 of what is backfilled."""
        return self.recorded_at if self.cited_recorded_at is None else self.cited_recorded_at

    @property
    def is_candidate(self) -> bool:
        """Whether it is somebody's reading of an earlier event."""
        return self.source_event_id is not None

    @property
    def ordinal(self) -> int:
        """The start of the span; of what is backfilled its place; else 0."""
        return self.span[0] if self.span else self.backfill or 0

    @property
    def place(self) -> tuple[str, str | None]:
        """Scope and key."""
        return self.scope, self.key

    @property
    def mark(self) -> Mark:
        """The event's mark."""
        sequence = self.sequence if self.cited_sequence is None else self.cited_sequence
        return mark_of(sequence, self.authority, self.ordinal)

    def parts(self) -> "Sequence[Record]":
        """What the event does, key by key: itself, and the deletes of the keys that it retires; nothing if it does not
        count, is a turn or a decision."""
        if not self.counts or self.key is None or self.operation == _RESOLVE:
            return ()
        return (self, *self.deletes()) if self.retires else (self,)

    def part_of(self, scope: str, key: str) -> "Record | None":
        """What the event does to one key."""
        if not self.retires:  # nearly always
            is_of_key = self.scope == scope and self.key == key and self.counts
            return self if is_of_key and self.operation != _RESOLVE else None
        return next((part for part in self.parts() if (part.scope, part.key) == (scope, key)), None)

    def deletes(self) -> "list[Record]":
        """The deletes of the keys that it retires: each has the event's id, place and mark."""
        if self.retires is None or self.key is None:
            return []
        effects = self.retired or ("",) * len(self.retires)
        return [
            replace(
                self,
                operation="delete",
                scope=scope,
                key=key,
                value=None,
                expires_at=None,
                verdict=effect,
                related=None,
                expected_sequence=None,
                retires=None,
                retired=None,
                retired_by=(self.scope, self.key),
                decision=None,
            )
            for (scope, key), effect in zip(self.retires, effects, strict=True)
        ]

    @property
    def is_delete(self) -> bool:
        """Whether it is a tombstone."""
        return self.operation == "delete"


class Branch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The standing assertions of one value by one authority: the earliest, and how far the others go."""

    record: Record
    """The earliest."""
    latest: Mark
    """The greatest mark among them."""
    count: int
    """How many there are."""
    expires_at: int | None
    """When the last of them expires, microseconds since 1970; None: one never does."""


class Tombstone(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A delete that may still end what is read late."""

    record: Record
    tied: bool = False
    """Whether an assertion has the very same mark."""


class Branches(msgspec.Struct, array_like=True, tag="branch", frozen=True, gc=False):
    """What an entry of policy `branch` keeps."""

    branches: tuple[Branch, ...] = ()
    """By mark and event id of the earliest."""
    tombstones: tuple[Tombstone, ...] = ()
    """By mark. At most one of each authority: a later one goes with less."""
    ended: "tuple[Ended, ...]" = ()
    """What was ended by a resolve, by mark and event id of the earliest."""
    resolves: tuple[bytes, ...] = ()
    """The ids of the resolves that act on it."""


class Ended(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Assertions of one value by one authority that a resolve ended."""

    branch: Branch
    by: bytes
    """The resolve's event id."""
    sequence: int
    """And its sequence."""


class Decided(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What one event decided about earlier ones."""

    sequence: int
    recorded_at: int
    """ms since 1970."""
    event_id: bytes
    authority: int
    source_event_id: bytes | None
    """Of a candidate."""
    scope: str
    key: str | None
    withdraws: tuple[bytes, ...]
    resolves: tuple[bytes, ...]
    """What stands, then what ended."""


class Ledger(msgspec.Struct, array_like=True, tag="ledger", frozen=True, gc=False):
    """All decisions of an owner, in accepted order."""

    decisions: tuple[Decided, ...] = ()


class Entry(msgspec.Struct, frozen=True, gc=False):
    """The state of one owner, scope and key."""

    record: Record
    """The event that the current pointer is on."""
    mark: Mark
    """The greatest mark of all that counts. Under `latest` that of the record."""
    start: Mark
    """The mark that the current version began with; restatements go on with it."""
    started_at: int
    """The version's first source event's `recorded_at`, ms since 1970; 0: before the log."""
    previous: Mark = NO_MARK
    """The last mark of what the version replaced; empty if nothing."""
    unresolved: bool = False
    """Whether there is no single answer; `Policy.why` tells why not."""
    state: Branches | None = None
    """What a policy keeps besides; `latest` nothing."""
    ledger: Ledger | None = None
    """Of the entry under `LEDGER` alone: the owner's decisions."""
    is_void: bool = False
    """Whether all that counted was withdrawn: then it is an entry no more, and only keeps the policy."""

    @property
    def policy(self) -> str:
        """The policy under which the entry began, and goes on."""
        return "latest" if self.state is None else "branch"


def same_value(one: Record, other: Record) -> bool:
    """Whether two sets or deletes say the same: both delete, or set values with equal canonical JSON."""
    if one.value == other.value:
        return one.operation == other.operation
    if one.value is None or other.value is None or (_is_plain(one.value) and _is_plain(other.value)):
        return False
    return canonical_value(one.value) == canonical_value(other.value)


def canonical_value(value: bytes) -> str:
    """The canonical text of a value as it stands in the log."""
    return jsontext.canonical(jsontext.parse_stored(value))


_is_plain = re.compile(rb'"[^"\\]*"|0|-?[1-9][0-9]*|true|false|null', re.DOTALL).fullmatch
"""Whether a JSON text is the only one of its value: a string without escapes, an integer, a literal."""
_encoder = msgspec.msgpack.Encoder()
_ARRAY: Final = b"\xdc\x00"
_FIELDS: Final = len(Record.__struct_fields__)
_WITHOUT_DECISION: Final = _ARRAY + bytes([_FIELDS - 1])
_encode = _encoder.encode


def pack_record(record: Record) -> bytes:
    """The bytes of a record: MessagePack of its fields in order, without the last one if it decides nothing."""
    packed = _encode(record)
    return packed if record.decision is not None else _WITHOUT_DECISION + packed[3:-1]


unpack_record = msgspec.msgpack.Decoder(Record).decode
"""The record of such bytes."""
