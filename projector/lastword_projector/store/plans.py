"""What is asked of Redis, once for the worker and the API: each function is a plan (see `calls`)."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lastword_projector.engine.fold import fold
from lastword_projector.engine.projection import FOLD_VERSION, Changes, KeyRef, Needs
from lastword_projector.engine.records import Entry, Record, pack_record, sequence_in, unpack_record
from lastword_projector.store.calls import Call, Plan, script_call, together
from lastword_projector.store.names import Names, bucket_of, event_digest, field_of, scope_and_key
from lastword_projector.store.packing import StoredEntry, pack_head, unpack_entry
from lastword_projector.store.ports import (
    Checkpoint,
    CommitRefused,
    Loaded,
    OtherProjection,
    StoreUnavailable,
    history_lost,
)
from lastword_schemas import jsontext
from lastword_schemas.control import Genesis
from lastword_schemas.positions import MAX_SEQUENCE, sequence_of
from lastword_schemas.registry import Registry

SLICE = 256
"""Records fetched at a time from a history, so that no read blocks Redis for long."""
_CHECKPOINT_FIELDS = ("next", "fold", "genesis", "registry", "clock")  # `read.lua` and `slice.lua` give the same
_SEQUENCE_LENGTH = 16
_BEING_EMPTIED = b"being-emptied"
"""Stands where the next sequence should: no commit expects it."""
_WINDOW = 16
"""Indexed events of a key fetched at a time: nearly always enough to tell its entry."""


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
    (found,) = yield [Call(command, _checkpoint)]
    result: Checkpoint | None = found
    return result


def checkpoints(names: Names, partitions: int) -> Plan[list[Checkpoint | None]]:
    """How far each partition is projected, in the order of their numbers."""
    found = yield [
        Call(("HMGET", names.of(partition).checkpoint, *_CHECKPOINT_FIELDS), _checkpoint)
        for partition in range(partitions)
    ]
    return found


def load(names: Names, partition: int, needs: Needs) -> Plan[Loaded]:
    """Entries and events. Raises OtherProjection where the index has an event that the history lost."""
    own, keys = names.of(partition), _Keys()
    arguments: list[str | bytes | int] = [len(needs.entries)]
    for owner, scope, key in needs.entries:
        arguments += (keys.index(own.profile(owner)), field_of(scope, key))
    for owner, event_id in needs.events:
        digest = event_digest(owner, event_id)
        arguments += (
            keys.index(own.events[bucket_of(digest)]),
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
        {
            ref: None if item is None else _indexed_record(partition, item)
            for ref, item in zip(needs.events, items, strict=True)
        },
    )


def _indexed_record(partition: int, item: bytes) -> Record:
    if len(item) == _SEQUENCE_LENGTH:
        raise history_lost(partition, int(item))
    return unpack_record(item[_SEQUENCE_LENGTH:])


def commit(
    names: Names, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
) -> Plan[None]:
    """Write history, entries, event ids and checkpoint in one step. Raises CommitRefused or OtherProjection.

    Where a history has grown long, its key indexes are brought up to date after that.
    """
    own = names.of(partition)
    keys = _Keys(own.checkpoint)
    fields: list[str | bytes] = []
    if before is None:
        fields += ["genesis", jsontext.canonical(genesis.model_dump(mode="json"))]
        fields += ["clock", "broker" if changes.stamped else "publisher"]
    if changes.registry is not None:
        fields += ["registry", changes.registry.to_canonical()]
    of_owner: dict[str, list[Record]] = {}
    for owner, record in changes.records:
        of_owner.setdefault(owner, []).append(record)
    histories: list[str | bytes | int] = []
    records: list[str | bytes | int] = []
    numbers: dict[int, int] = {}
    for owner, made in of_owner.items():
        histories += (keys.index(own.history(owner)), len(made))
        for record in made:
            records += (f"{record.sequence:016d}", pack_record(record))
            numbers[record.sequence] = len(records) // 2
    for letter in changes.dead:
        sequence = sequence_of(genesis.generation, letter.record.offset)
        histories += (keys.index(own.dead), 1)
        records += (f"{sequence:016d}", letter.problem)
    entries: list[str | bytes | int] = []
    spare: list[bytes] = []
    projected_at = f"{now_ms:013d}"
    for (owner, scope, key), (started_from, entry) in changes.entries.items():
        number = numbers.get(entry.record.sequence)
        if number is None:
            spare.append(pack_record(entry.record))
            number = len(records) // 2 + len(spare)
        profile = keys.index(own.profile(owner))
        entries += (profile, field_of(scope, key), started_from, pack_head(entry, projected_at), number)
    events: list[str | bytes | int] = []
    for (owner, event_id), sequence in changes.events:
        digest = event_digest(owner, event_id)
        events += (keys.index(own.events[bucket_of(digest)]), digest, sequence)
    arguments = [
        f"{before.next_sequence:016d}" if before else "",
        f"{sequence_of(genesis.generation, changes.next_offset):016d}",
        genesis.log_id,
        FOLD_VERSION,
        len(fields) // 2,
        len(histories) // 2,
        len(records) // 2,
        len(changes.entries),
        len(changes.events),
        len(spare),
        *fields,
        *histories,
        *records,
        *entries,
        *events,
        *spare,
    ]
    (reply,) = yield [script_call("commit", keys.names, arguments, list)]
    _check_commit(partition, genesis, reply)
    owners = list(of_owner)
    for number in reply[2:]:
        if number < len(owners):  # the stubs of dead letters come after
            yield from index(names, partition, owners[number])


class _Keys:
    """The KEYS of a script call, each once; arguments name them by their index."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self._index_of = {name: index for index, name in enumerate(names, 1)}

    def index(self, name: str) -> int:
        """The index of a name, from 1."""
        index = self._index_of.get(name)
        if index is None:
            self.names.append(name)
            index = self._index_of[name] = len(self.names)
        return index


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


def index(names: Names, partition: int, owner: str) -> Plan[None]:
    """Bring the key indexes of an owner's history up to its end.

    They only say where to look: what is not indexed yet is looked through, so that they may lag or be lost.
    """
    mark, history_name = names.of(partition).indexed(owner), names.of(partition).history(owner)
    while True:
        (ended,) = yield [Call(("GET", mark), lambda reply: int(reply or 0))]
        (items,) = yield [Call(("LRANGE", history_name, ended, ended + SLICE - 1), list)]
        if not items:
            return
        keys = _Keys(mark)
        arguments: list[str | bytes | int] = [ended, ended + len(items)]
        for place, record in enumerate(_records(items), ended):
            if record.counts and record.key is not None:
                name = names.of(partition).key_index(owner, field_of(record.scope, record.key))
                arguments += (keys.index(name), record.source_sequence, place)
        (done,) = yield [script_call("index", keys.names, arguments, int)]
        if not done or len(items) < SLICE:
            return


def of_key(names: Names, partition: int, ref: KeyRef, below: int) -> Plan[list[Record]]:
    """The counting events of a key with a sequence below the one given, in accepted order."""
    events: dict[int, Record] = {}
    passed = 0
    while True:
        window = yield from _window(names, partition, ref, MAX_SEQUENCE, passed, SLICE)
        events |= {record.sequence: record for record in window.records if record.sequence < below}
        if not window.more:
            return [events[sequence] for sequence in sorted(events)]
        passed += SLICE


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
    seen = yield from checkpoint(names, partition)
    if seen is None:
        return StateRead(None, {}, None)
    limit = seen.last_sequence if known_at is None else min(known_at, seen.last_sequence)
    refs = [KeyRef(owner, scope, key) for scope, key in wanted]
    folded = yield from together([entry_at(names, partition, ref, as_of=as_of, known_at=limit) for ref in refs])
    entries = {at: entry for at, entry in zip(wanted, folded, strict=True) if entry is not None}
    last = None
    if any(entry.record.expires_at is not None for entry in entries.values()):
        last = yield from floor(names, partition, owner, limit if as_of is None else min(as_of, limit))
    return StateRead(seen, entries, last)


def entry_at(names: Names, partition: int, ref: KeyRef, *, as_of: int | None, known_at: int) -> Plan[Entry | None]:
    """The entry of a key within a boundary, folded from as few of its newest events as tell all of it.

    `known_at` is not above the checkpoint: below it the history does not change.
    """
    newest = MAX_SEQUENCE if as_of is None else as_of
    events: dict[int, Record] = {}
    passed = 0
    while True:
        window = yield from _window(names, partition, ref, newest, passed, _WINDOW)
        events |= {
            record.sequence: record
            for record in window.records
            if record.sequence <= known_at and record.source_sequence <= newest
        }
        entry = fold(events.values())
        # Once the version and the mark below it are wholly there, older events could not change the entry.
        told = entry is not None and bool(entry.previous) and sequence_in(entry.previous) > window.oldest
        if told or not window.more:
            return entry
        passed += _WINDOW


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
    indexed = list(_records(reply[1]))
    records = [
        record
        for record in (*_records(reply[0]), *indexed)
        if record.counts and (record.scope, record.key) == (ref.scope, ref.key)
    ]
    oldest = indexed[-1].source_sequence if indexed else -1
    return _Window(records, oldest, bool(reply[2]))


def read(
    names: Names, partition: int, owner: str, wanted: Sequence[tuple[str, str]] | None = None
) -> Plan[EntriesRead]:
    """Checkpoint and entries (those wanted, by scope and key, or all) of one owner, in one call."""
    keys = [names.of(partition).checkpoint, names.of(partition).profile(owner)]
    fields = [field_of(scope, key) for scope, key in wanted or ()]
    if wanted is not None and not fields:
        raise ValueError("nothing is wanted")
    (reply,) = yield [script_call("read", keys, fields, list)]
    if wanted is None:
        pairs = [(scope_and_key(name), value) for name, value in _pairs(reply[1])]
    else:
        pairs = [(at, value) for at, value in zip(wanted, reply[1], strict=True) if value is not None]
    return EntriesRead(_checkpoint(reply[0]), {at: unpack_entry(value) for at, value in pairs})


def history(names: Names, partition: int, owner: str) -> Plan[HistoryRead]:
    """All of an owner's records up to the checkpoint, as of the first look."""
    keys = [names.of(partition).checkpoint, names.of(partition).history(owner)]
    records: list[Record] = []
    seen: Checkpoint | None = None
    first = 0
    while True:
        (reply,) = yield [script_call("slice", keys, [first, first + SLICE - 1], list)]
        if first == 0:
            seen = _checkpoint(reply[0])
        if seen is None:
            return HistoryRead(None, [])
        for record in _records(reply[1]):
            if record.sequence >= seen.next_sequence:  # written before its checkpoint, which is not there yet
                return HistoryRead(seen, records)
            records.append(record)
        if len(reply[1]) < SLICE:
            return HistoryRead(seen, records)
        first += SLICE


def clear(names: Names, partition: int) -> Plan[int]:
    """Remove everything of the partition in this namespace; how many keys there were.

    First the checkpoint becomes one that nobody can have folded from, so that no worker commits meanwhile; it goes
    last. If that is broken off, the partition stays closed until it is done again.
    """
    checkpoint_name = names.of(partition).checkpoint.encode()
    there, _ = yield [
        Call(("EXISTS", checkpoint_name), int),
        Call(("HSET", checkpoint_name, "next", _BEING_EMPTIED), int),
    ]
    pattern = _escaped(names.of(partition).prefix) + "*"
    removed = cursor = 0
    while True:
        (reply,) = yield [Call(("SCAN", cursor, "MATCH", pattern, "COUNT", 1000), list)]
        cursor, found = int(reply[0]), [name for name in reply[1] if name != checkpoint_name]
        if found:
            (count,) = yield [Call(("UNLINK", *found), int)]
            removed += count
        if cursor == 0:
            break
    yield [Call(("UNLINK", checkpoint_name), int)]
    return removed + int(there)


def _check_commit(partition: int, genesis: Genesis, reply: list[bytes]) -> None:
    what, stored = reply[0].decode(), reply[1].decode("utf-8", "replace").replace("\0", "/")
    if what in ("ok", "already"):
        return
    if what == "log":
        raise OtherProjection(
            f"partition {partition}: the namespace holds the projection of log {stored}, this is log {genesis.log_id}; "
            "use another namespace or empty this one with `lastword rebuild`"
        )
    if what == "fold":
        raise OtherProjection(
            f"partition {partition}: the namespace was folded under version {stored}, this build folds under "
            f"{FOLD_VERSION}; rebuild into another namespace"
        )
    if what == "checkpoint":
        raise CommitRefused(partition, f"the stored checkpoint is {stored or 'absent'}, not the one folded from")
    raise CommitRefused(partition, "a stored entry is not the one folded from")


def _checkpoint(fields: Sequence[bytes | None]) -> Checkpoint | None:
    upcoming, fold_version, genesis, registry, clock = fields
    if upcoming == _BEING_EMPTIED:
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


def _records(items: Sequence[bytes]) -> Iterator[Record]:
    return (unpack_record(item[_SEQUENCE_LENGTH:]) for item in items)


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]\\^" else char for char in text)
