"""What an audit asks of Redis: the bytes as they are, in calls that never block it for long."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from lastword_projector.engine.projection import Needs
from lastword_projector.store import plans
from lastword_projector.store.calls import Call, Plan, script_call
from lastword_projector.store.names import Names, escaped, field_of, owner_in, scope_and_key
from lastword_projector.store.ports import Checkpoint, OtherProjection

_ENTRIES: Final = 128
_ITEMS: Final = 256
_BYTES: Final = 262_144
"""Entries, items of a history, and bytes of each, that one call gives at most; one item is given whatever it has."""
_SEQUENCE_LENGTH: Final = 16
_IDS: Final = 24
"""Event ids looked up in one call."""
_PLACES: Final = 256


class Part(NamedTuple):
    """Entries of an owner, of one moment."""

    checkpoint: Checkpoint
    entries: dict[tuple[str, str], bytes | None]
    """By scope and key; None where one was asked for that is not there."""
    is_whole: bool
    """Whether these are all of the owner's entries."""


class OwnerRead(NamedTuple):
    """An owner's entries and history."""

    parts: list[Part]
    """In the order in which they were read; one, unless the profile is large."""
    items: list[tuple[int, bytes]]
    """Sequence and packed record of each item that the history had when it was read, not before the first part."""

    @property
    def checkpoint(self) -> Checkpoint:
        """That of the first part."""
        return self.parts[0].checkpoint

    @property
    def size(self) -> int:
        """Entries that were read."""
        return sum(len(part.entries) for part in self.parts)


def owner(names: Names, partition: int, owner: str, expected: Sequence[tuple[str, str]]) -> Plan[OwnerRead | None]:
    """An owner's entries, also those that are expected by scope and key, and history; None without a checkpoint."""
    own = names.of(partition)
    keys = [own.checkpoint, own.profile(owner), own.history(owner)]
    (reply,) = yield [script_call("owner", keys, [_ENTRIES, _ITEMS, _BYTES], list)]
    checkpoint = plans.checkpoint_of(reply[0])
    if checkpoint is None:
        return None
    if reply[1] is None:
        parts = yield from _large_profile(names, partition, owner, expected)
        if not parts:
            return None
    else:
        pairs = zip(reply[1][::2], reply[1][1::2], strict=True)
        parts = [Part(checkpoint, {scope_and_key(field): value for field, value in pairs}, True)]
    items = list(_items(reply[2]))
    step = max(1, len(items))
    while len(items) < reply[3]:
        first = len(items)
        (more,) = yield [Call(("LRANGE", own.history(owner), first, first + step - 1), list)]
        if not more:
            break
        items += _items(more)
    return OwnerRead(parts, items)


def _large_profile(names: Names, partition: int, owner: str, expected: Sequence[tuple[str, str]]) -> Plan[list[Part]]:
    """A few entries at a time: those that are expected, and those that a walk through the profile meets."""
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
    step = max(1, min(_ENTRIES, _BYTES * max(1, len(fields)) // size))
    for first in range(0, len(fields), step):
        some = fields[first : first + step]
        (reply,) = yield [script_call("read", [own.checkpoint, own.profile(owner)], some, list)]
        if (checkpoint := plans.checkpoint_of(reply[0])) is not None:
            values = zip(some, reply[1], strict=True)
            parts.append(Part(checkpoint, {scope_and_key(field.encode()): value for field, value in values}, False))
    return parts


def event_ids(names: Names, partition: int, owner: str, event_ids: Sequence[bytes]) -> Plan[dict[bytes, int | None]]:
    """The sequence that the index has for each event id of an owner; None where it has none that is in the history."""
    found: dict[bytes, int | None] = {}
    for first in range(0, len(event_ids), _IDS):
        some = event_ids[first : first + _IDS]
        try:
            found |= yield from _indexed(names, partition, owner, some)
        except OtherProjection:  # one of them points out of the history
            for event_id in some:
                try:
                    found |= yield from _indexed(names, partition, owner, [event_id])
                except OtherProjection:
                    found[event_id] = None
    return found


def _indexed(names: Names, partition: int, owner: str, event_ids: Sequence[bytes]) -> Plan[dict[bytes, int | None]]:
    loaded = yield from plans.load(names, partition, Needs(events=[(owner, event_id) for event_id in event_ids]))
    return {event_id: None if record is None else record.sequence for (_, event_id), record in loaded.events.items()}


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
    (reply,) = yield [Call(("SCAN", cursor, "MATCH", pattern, "COUNT", 500), list)]
    return int(reply[0]), [owner_in(name) for name in reply[1]]


def _items(items: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    for item in items:
        head = item[:_SEQUENCE_LENGTH]
        yield int(head) if head.isdigit() else -1, item[_SEQUENCE_LENGTH:]
