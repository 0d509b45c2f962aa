"""What the projection keeps: a `Record` for every event (history) and an `Entry` for every key (profile)."""

from typing import Final, NewType

import msgspec

from lastword_schemas import jsontext

Mark = NewType("Mark", str)
"""`(source_sequence, authority, ordinal)` as 16 + 1 + 6 decimal digits: compares as the tuple does, in Lua too."""

NO_MARK: Final = Mark("")
MARK_LENGTH: Final = 23


def mark_of(source_sequence: int, authority: int, ordinal: int) -> Mark:
    """The mark of an event."""
    return Mark(f"{source_sequence:016d}{authority:d}{ordinal:06d}")


def sequence_in(mark: Mark) -> int:
    """The source sequence in a mark."""
    return int(mark[:16])


class Record(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One event with its verdict: an item of an owner's history."""

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
    source_sequence: int
    """Of a candidate that of the event it cites, else its own."""
    source_recorded_at: int
    """The source event's `recorded_at`, ms since 1970."""
    value: bytes | None = None
    """JSON text as published; None where there is none (a JSON null is b"null")."""
    text: str | None = None
    quote: str | None = None
    span: tuple[int, int] | None = None
    source_event_id: bytes | None = None
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
    """Of `late` the two source sequences; of a duplicate the first copy's sequence."""

    @property
    def counts(self) -> bool:
        """Whether the event counts."""
        return self.verdict not in ("refused", "duplicate")

    @property
    def is_candidate(self) -> bool:
        """Whether it is somebody's reading of an earlier event."""
        return self.source_event_id is not None

    @property
    def mark(self) -> Mark:
        """The event's mark; its ordinal is the start of the span, 0 without one."""
        return mark_of(self.source_sequence, self.authority, self.span[0] if self.span else 0)

    @property
    def is_delete(self) -> bool:
        """Whether it is a tombstone."""
        return self.operation == "delete"


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The state of one owner, scope and key under policy `latest`."""

    record: Record
    """The event that the current pointer is on."""
    start: Mark
    """The mark that the current version began with; restatements go on with it."""
    started_at: int
    """The version's first source event's `recorded_at`, ms since 1970."""
    previous: Mark = NO_MARK
    """The last mark of what the version replaced; empty if nothing."""
    unresolved: bool = False
    """Whether another value has the very same mark."""

    @property
    def mark(self) -> Mark:
        """The latest mark."""
        return self.record.mark


def same_value(one: Record, other: Record) -> bool:
    """Whether two sets or deletes say the same: both delete, or set values with equal canonical JSON."""
    if one.is_delete or other.is_delete:
        return one.is_delete and other.is_delete
    if one.value == other.value:
        return True
    if one.value is None or other.value is None:
        return False
    return jsontext.canonical(jsontext.parse(one.value)) == jsontext.canonical(jsontext.parse(other.value))


_encoder = msgspec.msgpack.Encoder()
_record_decoder = msgspec.msgpack.Decoder(Record)
_entry_decoder = msgspec.msgpack.Decoder(Entry)


def pack_record(record: Record) -> bytes:
    """The bytes of a record: MessagePack of its fields in order."""
    return _encoder.encode(record)


def unpack_record(data: bytes) -> Record:
    """The record of such bytes."""
    return _record_decoder.decode(data)


def pack_entry(entry: Entry) -> bytes:
    """The bytes of an entry: MessagePack of its fields in order."""
    return _encoder.encode(entry)


def unpack_entry(data: bytes) -> Entry:
    """The entry of such bytes."""
    return _entry_decoder.decode(data)
