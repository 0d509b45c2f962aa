"""What is asked of Redis, once for the worker and the API: each function is a plan (see `calls`)."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lastword_projector.engine.decisions import ALL_STAND, Standing
from lastword_projector.engine.known import KeyRef, Needs, SourceRef
from lastword_projector.engine.policies import Policy, policy_of
from lastword_projector.engine.records import LEDGER, Entry, Record, unpack_record
from lastword_projector.store.calls import Call, Plan, ScriptKeys, script_call, together
from lastword_projector.store.event_ids import EventIds, event_digest, is_time_ordered
from lastword_projector.store.names import Names, bucket_of, field_of, owner_in, scope_and_key
from lastword_projector.store.packing import StoredEntry, unpack_entry
from lastword_projector.store.ports import (
    Checkpoint,
    Loaded,
    StoreUnavailable,
    history_lost,
)
from lastword_schemas import jsontext
from lastword_schemas.control import Genesis
from lastword_schemas.positions import MAX_SEQUENCE
from lastword_schemas.registry import Registry

SLICE = 256
"""Records fetched at a time from a history, so that no read blocks Redis for long."""
_CHECKPOINT_FIELDS = ("next", "fold", "genesis", "registry", "clock")  # `read.lua` and `slice.lua` give the same
_WRITTEN_FIELDS = ("greatest", "run", "count")
_SEQUENCE_LENGTH = 16
BEING_EMPTIED = b"being-emptied"
"""Stands where the next sequence should: no commit expects it."""
_WINDOW, _WIDEST_WINDOW = 4, 16
"""Indexed events of a key fetched at a time: first so many as nearly always tell its entry, then more. Each has to be
reached in the history, which takes Redis up to 0.1 ms where that has 100,000 events."""


class EntriesRead(NamedTuple):
    """Entries of one owner and the checkpoint, of one moment."""

    checkpoint: Checkpoint | None
    entries: dict[tuple[str, str], StoredEntry]
    """By scope and key."""


class StateRead(NamedTuple):
    """Entries of one owner within a boundary, and the checkpoint."""

    checkpoint: Checkpoint | None
    entries: dict[tuple[str, str], Entry]
    """By scope and key."""
    last: Record | None
    """The owner's last record within the boundary, where an entry that can expire needs its time."""


class HistoryRead(NamedTuple):
    """An owner's records up to the checkpoint, of one moment."""

    checkpoint: Checkpoint | None
    records: list[Record]


def checkpoint(names: Names, partition: int) -> Plan[Checkpoint | None]:
    """How far a partition is projected."""
    command = ("HMGET", names.of(partition).checkpoint, *_CHECKPOINT_FIELDS)
    (found,) = yield [Call(command, checkpoint_of)]
    result: Checkpoint | None = found
    return result


def checkpoints(names: Names, partitions: int) -> Plan[list[Checkpoint | None]]:
    """How far each partition is projected, in the order of their numbers."""
    found = yield [
        Call(("HMGET", names.of(partition).checkpoint, *_CHECKPOINT_FIELDS), checkpoint_of)
        for partition in range(partitions)
    ]
    return found


def opened(names: Names, partition: int) -> Plan[tuple[Checkpoint | None, EventIds]]:
    """Where a projector goes on: how far the partition is projected, and its event-id index."""
    found, written = yield [
        Call(("HMGET", names.of(partition).checkpoint, *_CHECKPOINT_FIELDS), checkpoint_of),
        Call(("HMGET", names.of(partition).written, *_WRITTEN_FIELDS), _event_ids),
    ]
    return found, written or (EventIds.unknown() if found else EventIds())


def event_ids(names: Names, partition: int) -> Plan[EventIds]:
    """How far the event-id index of a partition has come; unknown if it was never written."""
    (written,) = yield [Call(("HMGET", names.of(partition).written, *_WRITTEN_FIELDS), _event_ids)]
    return written or EventIds.unknown()


def _event_ids(fields: Sequence[bytes | None]) -> EventIds | None:
    greatest, run, count = fields
    if greatest is None or run is None or count is None:
        return None
    return EventIds(bytes.fromhex(greatest.decode()), bytes.fromhex(run.decode()), int(count))


def load(names: Names, partition: int, needs: Needs, new: Sequence[tuple[str, bytes]] = ()) -> Plan[Loaded]:
    """Entries and events. Raises OtherProjection where the index has an event that the history lost.

    Events that are known to be new are not asked for.
    """
    events: dict[tuple[str, bytes], Record | None] = dict.fromkeys(new)
    if not needs.entries and not needs.events:
        return Loaded({}, events)
    own = names.of(partition)
    keys = ScriptKeys(own.runs)
    arguments: list[str | bytes | int] = [own.run_prefix, len(needs.entries)]
    for owner, scope, key in needs.entries:
        arguments += (keys.index(own.profile(owner)), field_of(scope, key))
    for owner, event_id in needs.events:
        digest = event_digest(owner, event_id)
        arguments += (
            event_id.hex() if is_time_ordered(event_id) else "",
            keys.index(own.buckets[bucket_of(digest)]),
            digest,
            keys.index(own.history(owner)),
        )
    (reply,) = yield [script_call("load", keys.names, arguments, list)]
    values, items = reply
    return Loaded(
        {
            ref: None if value is None else unpack_entry(value).entry
            for ref, value in zip(needs.entries, values, strict=True)
        },
        events
        | {
            ref: None if item is None else _indexed_record(partition, item)
            for ref, item in zip(needs.events, items, strict=True)
        },
    )


def _indexed_record(partition: int, item: bytes) -> Record:
    if len(item) == _SEQUENCE_LENGTH:
        raise history_lost(partition, int(item))
    return unpack_record(item[_SEQUENCE_LENGTH:])


def owners(pattern: str, cursor: int) -> Plan[tuple[int, list[str]]]:
    """Some of the owners whose keys match, and the cursor to go on with; 0 begins, and is given back at the end.

    While Redis makes its tables larger or smaller an owner may come twice. None is left out who was there all the time.
    """
    (reply,) = yield [Call(("SCAN", cursor, "MATCH", pattern, "COUNT", 1000), list)]
    return int(reply[0]), [owner_in(name) for name in reply[1]]


def floor(names: Names, partition: int, owner: str, sequence: int) -> Plan[Record | None]:
    """The owner's last record whose sequence is not above the one given."""
    call = script_call("find", [names.of(partition).history(owner)], [f"{sequence:016d}"], _item)
    (found,) = yield [call]
    record: Record | None = found
    return record


def find(names: Names, partition: int, owner: str, sequence: int) -> Plan[Record | None]:
    """The owner's record of exactly that sequence."""
    record = yield from floor(names, partition, owner, sequence)
    return record if record is not None and record.sequence == sequence else None


def _item(item: bytes | None) -> Record | None:
    return None if item is None else unpack_record(item[_SEQUENCE_LENGTH:])


def of_key(names: Names, partition: int, ref: KeyRef, below: int) -> Plan[list[Record]]:
    """The counting events of a key with a sequence below the one given, in accepted order."""
    events: dict[int, Record] = {}
    passed = 0
    while True:
        window = yield from _window(names, partition, ref, MAX_SEQUENCE, passed, _WIDEST_WINDOW)
        events |= {record.sequence: record for record in window.records if record.sequence < below}
        if not window.more:
            return [events[sequence] for sequence in sorted(events)]
        passed += _WIDEST_WINDOW


def citing(names: Names, partition: int, source: SourceRef, below: int) -> Plan[list[Record]]:
    """The counting candidates that cite an event, with a sequence below the one given, in accepted order."""
    history_name = names.of(partition).history(source.owner)
    (end,) = yield [Call(("LLEN", history_name), int)]
    slices: list[list[Record]] = []
    while end > 0:
        first = max(0, end - SLICE)
        (items,) = yield [Call(("LRANGE", history_name, first, end - 1), list)]
        slices.append(list(records_of(items)))
        end = first if slices[-1] and slices[-1][0].sequence > source.sequence else 0
    return [
        record
        for part in reversed(slices)
        for record in part
        if record.sequence < below and record.counts and record.source_event_id == source.event_id
    ]


def state_at(
    names: Names,
    partition: int,
    owner: str,
    wanted: Sequence[tuple[str, str]],
    *,
    as_of: int | None,
    known_at: int | None,
) -> Plan[StateRead]:
    """Entries of one owner within a boundary, by scope and key, and the checkpoint that bounds all of them."""
    seen, now = yield from read(names, partition, owner, [*wanted, LEDGER])
    if seen is None:
        return StateRead(None, {}, None)
    limit = seen.last_sequence if known_at is None else min(known_at, seen.last_sequence)
    ledger = now[LEDGER].entry.ledger if LEDGER in now else None
    decisions = ledger.decisions if ledger is not None else ()
    standing = Standing([each for each in decisions if each.sequence <= limit])
    told = [at for at in wanted if at in now or decisions]  # else of what has no entry now nothing ever counted
    folded = yield from together(
        [
            entry_at(
                names,
                partition,
                KeyRef(owner, *at),
                policy_of(now[at].entry if at in now else None, at[1], seen.registry),
                standing,
                as_of=as_of,
                known_at=limit,
            )
            for at in told
        ]
    )
    entries = {at: entry for at, entry in zip(told, folded, strict=True) if entry is not None}
    last = None
    if any(entry.record.expires_at is not None for entry in entries.values()):
        last = yield from floor(names, partition, owner, limit if as_of is None else min(as_of, limit))
    return StateRead(seen, entries, last)


def entry_at(
    names: Names,
    partition: int,
    ref: KeyRef,
    policy: Policy,
    standing: Standing = ALL_STAND,
    *,
    as_of: int | None,
    known_at: int,
) -> Plan[Entry | None]:
    """The entry of a key within a boundary, folded from as few of its newest events as tell all of it.

    `known_at` is not above the checkpoint: below it the history does not change. `standing` is that of the decisions up
    to there; of a key that was resolved all events are read.
    """
    newest = MAX_SEQUENCE if as_of is None else as_of
    resolves = standing.resolves(ref.scope, ref.key)
    events: dict[int, Record] = {}
    passed, count = 0, _WINDOW
    while True:
        window = yield from _window(names, partition, ref, newest, passed, count)
        events |= {
            record.sequence: record
            for record in window.records
            if record.sequence <= known_at and record.source_sequence <= newest
        }
        if not (resolves and window.more):
            entry = policy.fold(standing.counting(events.values()), resolves)
            if not window.more or (entry is not None and policy.is_told(entry, window.oldest)):
                return entry
        passed, count = passed + count, min(2 * count, _WIDEST_WINDOW)


class _Window(NamedTuple):
    records: list[Record]
    """Counting events of the key: indexed ones and, in the first window, all that are not indexed yet."""
    oldest: int
    """All events of the key with a greater source sequence have been given by now."""
    more: bool
    """Whether there are older ones."""


def _window(names: Names, partition: int, ref: KeyRef, newest: int, passed: int, count: int) -> Plan[_Window]:
    owner, field = ref.owner, field_of(ref.scope, ref.key)
    own = names.of(partition)
    keys = [own.history(owner), own.indexed(owner), own.key_index(owner, field)]
    (reply,) = yield [script_call("window", keys, [newest, passed, count, SLICE], list)]
    indexed = list(records_of(reply[1]))
    records = [
        part for record in (*records_of(reply[0]), *indexed) if (part := record.part_of(ref.scope, ref.key)) is not None
    ]
    oldest = indexed[-1].source_sequence if indexed else -1
    return _Window(records, oldest, bool(reply[2]))


def read(
    names: Names, partition: int, owner: str, wanted: Sequence[tuple[str, str]] | None = None
) -> Plan[EntriesRead]:
    """Checkpoint and entries (those wanted, by scope and key, or all; without the ledger) of one owner, in one call."""
    keys = [names.of(partition).checkpoint, names.of(partition).profile(owner)]
    fields = [field_of(scope, key) for scope, key in wanted or ()]
    if wanted is not None and not fields:
        raise ValueError("nothing is wanted")
    (reply,) = yield [script_call("read", keys, fields, list)]
    if wanted is None:
        pairs = [(at, value) for name, value in _pairs(reply[1]) if (at := scope_and_key(name)) != LEDGER]
    else:
        pairs = [(at, value) for at, value in zip(wanted, reply[1], strict=True) if value is not None]
    return EntriesRead(checkpoint_of(reply[0]), {at: unpack_entry(value) for at, value in pairs})


def history(names: Names, partition: int, owner: str) -> Plan[HistoryRead]:
    """All of an owner's records up to the checkpoint, as of the first look."""
    keys = [names.of(partition).checkpoint, names.of(partition).history(owner)]
    records: list[Record] = []
    seen: Checkpoint | None = None
    first = 0
    while True:
        (reply,) = yield [script_call("slice", keys, [first, first + SLICE - 1], list)]
        found = checkpoint_of(reply[0])
        if first == 0:
            seen = found
        if seen is None:
            return HistoryRead(None, [])
        if found is None:
            raise StoreUnavailable("the namespace was dropped while it was read; it is read anew where the next one is")
        for record in records_of(reply[1]):
            if record.sequence >= seen.next_sequence:  # written before its checkpoint, which is not there yet
                return HistoryRead(seen, records)
            records.append(record)
        if len(reply[1]) < SLICE:
            return HistoryRead(seen, records)
        first += SLICE


def last_record(names: Names, partition: int, owner: str) -> Plan[HistoryRead]:
    """The checkpoint, and the last of an owner's records of that moment; above it where it was set back."""
    own = names.of(partition)
    (reply,) = yield [script_call("slice", [own.checkpoint, own.history(owner)], [-1, -1], list)]
    return HistoryRead(checkpoint_of(reply[0]), list(records_of(reply[1])))


def history_above(names: Names, partition: int, owner: str, sequence: int) -> Plan[HistoryRead]:
    """An owner's records above a sequence, up to the checkpoint as of the first look; read from the end."""
    own = names.of(partition)
    keys = [own.checkpoint, own.history(owner)]
    # In this order: the list has all that the checkpoint takes into account.
    seen, end = yield [
        Call(("HMGET", own.checkpoint, *_CHECKPOINT_FIELDS), checkpoint_of),
        Call(("LLEN", own.history(owner)), int),
    ]
    slices: list[list[Record]] = []
    while seen is not None and end > 0:
        first = max(0, end - SLICE)
        (reply,) = yield [script_call("slice", keys, [first, end - 1], list)]
        slices.append(list(records_of(reply[1])))
        end = first if slices[-1] and slices[-1][0].sequence > sequence else 0
    found = [record for part in reversed(slices) for record in part]
    below = seen.next_sequence if seen else 0
    return HistoryRead(seen, [record for record in found if sequence < record.sequence < below])


def checkpoint_of(fields: Sequence[bytes | None]) -> Checkpoint | None:
    """The checkpoint of its hash's fields, in the order in which the scripts give them."""
    upcoming, fold_version, genesis, registry, clock = fields
    if upcoming == BEING_EMPTIED:
        raise StoreUnavailable("the namespace is being emptied; if nobody is at it, run `lastword rebuild` again")
    if upcoming is None or genesis is None or fold_version is None:
        return None
    return Checkpoint(
        next_sequence=int(upcoming),
        genesis=_genesis(genesis),
        fold_version=int(fold_version),
        registry=_registry(registry),
        clock="publisher" if clock == b"publisher" else "broker",
    )


_genesis_cache: dict[bytes, Genesis] = {}
_registry_cache: dict[bytes | None, Registry] = {}


def _genesis(data: bytes) -> Genesis:
    if data not in _genesis_cache:
        _genesis_cache[data] = Genesis.read(jsontext.parse(data))
    return _genesis_cache[data]


def _registry(data: bytes | None) -> Registry:
    if data not in _registry_cache:
        if len(_registry_cache) > 64:
            _registry_cache.clear()
        _registry_cache[data] = Registry() if data is None else Registry.read(jsontext.parse(data))
    return _registry_cache[data]


def records_of(items: Sequence[bytes]) -> Iterator[Record]:
    return (unpack_record(item[_SEQUENCE_LENGTH:]) for item in items)


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)
