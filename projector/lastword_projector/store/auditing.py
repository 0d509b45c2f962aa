"""What an audit asks of Redis: the bytes as they are, in calls that never block it for long."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from lastword_projector.store import plans
from lastword_projector.store.calls import Call, Plan, script_call
from lastword_projector.store.event_ids import is_time_ordered, run_sequences
from lastword_projector.store.names import Names, bucket_of, escaped, field_of, owner_in, scope_and_key
from lastword_projector.store.ports import Checkpoint

_ENTRIES: Final = 128
_ITEMS: Final = 256
_BYTES: Final = 262_144
"""Entries, items of a history, and bytes of each, that one call gives at most; one item is given whatever it has."""
_SEQUENCE_LENGTH: Final = 16
_PLACES: Final = 128


class OwnerRead(NamedTuple):
    """An owner, of one moment."""

    checkpoint: Checkpoint
    entries: dict[tuple[str, str], bytes] | None
    """By scope and key; None where there are too many for one call."""
    items: list[tuple[int, bytes]]
    """Sequence and packed record of each item that the history had, and perhaps of later ones."""


class Part(NamedTuple):
    """Some entries of an owner, of one moment."""

    checkpoint: Checkpoint
    entries: dict[tuple[str, str], bytes | None]
    """By scope and key; None where one was asked for that is not there."""


def owner(names: Names, partition: int, owner: str) -> Plan[OwnerRead | None]:
    """An owner's entries and history; None without a checkpoint."""
    own = names.of(partition)
    keys = [own.checkpoint, own.profile(owner), own.history(owner)]
    (reply,) = yield [script_call("owner", keys, [_ENTRIES, _ITEMS, _BYTES], list)]
    fields, pairs, first_items, length = reply
    if (checkpoint := plans.checkpoint_of(fields)) is None:
        return None
    entries = None
    if pairs is not None:
        entries = {scope_and_key(field): value for field, value in zip(pairs[::2], pairs[1::2], strict=True)}
    items = list(_items(first_items))
    step = max(1, len(items))
    while len(items) < length:
        (more,) = yield [Call(("LRANGE", own.history(owner), len(items), len(items) + step - 1), list)]
        if not more:
            break
        items += _items(more)
    return OwnerRead(checkpoint, entries, items)


def large_profile(names: Names, partition: int, owner: str, expected: Iterable[tuple[str, str]]) -> Plan[list[Part]]:
    """The entries of an owner who has many, some at a time: those expected, and those that a walk meets."""
    own = names.of(partition)
    wanted = dict.fromkeys(field_of(scope, key) for scope, key in expected)
    cursor = 0
    while True:
        (reply,) = yield [Call(("HSCAN", own.profile(owner), cursor, "COUNT", _PLACES, "NOVALUES"), list)]
        cursor = int(reply[0])
        wanted |= dict.fromkeys(field.decode() for field in reply[1])
        if cursor == 0:
            break
    fields, parts = list(wanted), []
    (size,) = yield [Call(("MEMORY", "USAGE", own.profile(owner)), lambda reply: int(reply or 1))]
    step = max(1, min(_ENTRIES, _BYTES * len(fields) // size))
    for first in range(0, len(fields), step):
        some = fields[first : first + step]
        (reply,) = yield [script_call("read", [own.checkpoint, own.profile(owner)], some, list)]
        if (checkpoint := plans.checkpoint_of(reply[0])) is not None:
            values = zip(some, reply[1], strict=True)
            parts.append(Part(checkpoint, {scope_and_key(field.encode()): value for field, value in values}))
    return parts


class Indexed(NamedTuple):
    """Event ids that stand together in the index."""

    sequences: dict[bytes, int]
    """By digest of owner and event id."""
    between: tuple[bytes, bytes] | None = None
    """Only ids from the first (inclusive) to the second (exclusive) are looked for here."""
    bucket: int | None = None
    """Only digests of that bucket are."""

    def is_found(self, event_id: bytes, digest: bytes) -> bool:
        """Whether an id that is here is looked for here."""
        if self.between is None:
            return bucket_of(digest) == self.bucket
        first, end = self.between
        return first <= event_id < end and is_time_ordered(event_id)


def run_firsts(names: Names, partition: int) -> Plan[list[bytes]]:
    """The first ids of all runs of event ids, in their order."""
    found: list[bytes] = []
    after = "-"
    while True:
        (some,) = yield [Call(("ZRANGEBYLEX", names.of(partition).runs, after, "+", "LIMIT", 0, _PLACES), list)]
        found += [bytes.fromhex(first.decode()) for first in some]
        if len(some) < _PLACES:
            return found
        after = f"({some[-1].decode()}"


def in_runs(names: Names, partition: int, firsts: Sequence[bytes], end: bytes) -> Plan[list[Indexed]]:
    """The ids in runs that follow on each other; `end` is the first id of the next one."""
    own = names.of(partition)
    replies = yield [Call(("GET", own.run(first.hex())), lambda reply: reply or b"") for first in firsts]
    places = pairwise([*firsts, end])
    return [Indexed(run_sequences(items), between) for items, between in zip(replies, places, strict=True)]


def in_buckets(names: Names, partition: int, buckets: Iterable[int]) -> Plan[list[Indexed]]:
    """The ids in buckets."""
    found = {bucket: Indexed({}, bucket=bucket) for bucket in buckets}
    cursors = dict.fromkeys(found, 0)
    while cursors:
        replies = yield [
            Call(("HSCAN", names.of(partition).buckets[bucket], cursor, "COUNT", _PLACES), list)
            for bucket, cursor in cursors.items()
        ]
        for bucket, (cursor, pairs) in zip(list(cursors), replies, strict=True):
            found[bucket].sequences.update(zip(pairs[::2], map(int, pairs[1::2]), strict=True))
            cursors[bucket] = int(cursor)
        cursors = {bucket: cursor for bucket, cursor in cursors.items() if cursor}
    return list(found.values())


class KeyIndex(NamedTuple):
    """The index of one key."""

    length: int
    """Items of the history."""
    indexed: int
    """How many of these are indexed."""
    places: int
    """How many the key has."""
    scores: dict[int, int | None]
    """By place asked for: the source sequence; None if the index does not have it."""


def key_index(names: Names, partition: int, owner: str, at: tuple[str, str], places: Sequence[int]) -> Plan[KeyIndex]:
    """What the index of a key has for places (from 0) of the owner's history."""
    own = names.of(partition)
    keys = [own.history(owner), own.indexed(owner), own.key_index(owner, field_of(*at))]
    length = indexed = count = 0
    scores: dict[int, int | None] = {}
    for first in range(0, max(1, len(places)), _PLACES):
        some = places[first : first + _PLACES]
        (reply,) = yield [script_call("indexed", keys, list(some), list)]
        length, indexed, count = reply[:3]
        scores |= {
            place: None if score is None else int(float(score)) for place, score in zip(some, reply[3:], strict=True)
        }
    return KeyIndex(length, indexed, count, scores)


def dead(names: Names, partition: int) -> Plan[list[int]]:
    """The sequences of the stubs of dead letters."""
    found: list[int] = []
    while True:
        first = len(found)
        (items,) = yield [Call(("LRANGE", names.of(partition).dead, first, first + _ITEMS - 1), list)]
        found += [int(item[:_SEQUENCE_LENGTH]) for item in items]
        if len(items) < _ITEMS:
            return found


def owners(names: Names, partition: int, cursor: int) -> Plan[tuple[int, list[str]]]:
    """Some of those who have a profile or a history, and the cursor to go on with; see `plans.owners`."""
    own = names.of(partition)
    pattern = f"{escaped(own.prefix)}[ph]:*"
    (reply,) = yield [Call(("SCAN", cursor, "MATCH", pattern, "COUNT", 1000), list)]
    return int(reply[0]), [owner_in(name) for name in reply[1]]


def _items(items: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    for item in items:
        head = item[:_SEQUENCE_LENGTH]
        yield int(head) if head.isdigit() else -1, item[_SEQUENCE_LENGTH:]
