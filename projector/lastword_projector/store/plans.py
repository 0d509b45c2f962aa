"""What is asked of Redis, once for the worker and the API: each function is a plan (see `calls`)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lastword_projector.engine.projection import FOLD_VERSION, Changes, DeadLetter, EventRef, KeyRef
from lastword_projector.engine.records import (
    MARK_LENGTH,
    Entry,
    Record,
    pack_entry,
    pack_record,
    unpack_entry,
    unpack_record,
)
from lastword_projector.store.calls import Call, Plan, script_call
from lastword_projector.store.names import Names, field_of, scope_and_key
from lastword_projector.store.ports import Checkpoint, CommitRefused, OtherProjection
from lastword_schemas import jsontext
from lastword_schemas.control import Genesis
from lastword_schemas.positions import sequence_of
from lastword_schemas.registry import Registry

SLICE = 256
"""Records fetched at a time from a history, so that no read blocks Redis for long."""
_CHECKPOINT_FIELDS = ("next", "fold", "genesis", "registry", "clock")  # `read.lua` and `slice.lua` give the same
_SEQUENCE_LENGTH = 16
_PROJECTED_AT_LENGTH = 13
_HEAD_LENGTH = MARK_LENGTH + _PROJECTED_AT_LENGTH


class StoredEntry(NamedTuple):
    """An entry and when it was written."""

    entry: Entry
    projected_at: int
    """ms since 1970, by the worker's clock."""


class EntriesRead(NamedTuple):
    """Entries of one owner and the checkpoint, of one moment."""

    checkpoint: Checkpoint | None
    entries: dict[tuple[str, str], StoredEntry]
    """By scope and key."""


class HistoryRead(NamedTuple):
    """An owner's records up to the checkpoint, of one moment."""

    checkpoint: Checkpoint | None
    records: list[Record]


def checkpoint(names: Names, partition: int) -> Plan[Checkpoint | None]:
    """How far a partition is projected."""
    command = ("HMGET", names.checkpoint(partition), *_CHECKPOINT_FIELDS)
    (found,) = yield [Call(command, _checkpoint)]
    result: Checkpoint | None = found
    return result


def checkpoints(names: Names, partitions: int) -> Plan[list[Checkpoint | None]]:
    """How far each partition is projected, in the order of their numbers."""
    found = yield [
        Call(("HMGET", names.checkpoint(partition), *_CHECKPOINT_FIELDS), _checkpoint)
        for partition in range(partitions)
    ]
    return found


def entries(names: Names, partition: int, refs: Sequence[KeyRef]) -> Plan[dict[KeyRef, Entry | None]]:
    """The stored entries; None where there is none."""
    by_owner = _grouped(refs, lambda ref: ref.owner)
    replies = yield [
        Call(("HMGET", names.profile(partition, owner), *(field_of(ref.scope, ref.key) for ref in wanted)), list)
        for owner, wanted in by_owner.items()
    ]
    result: dict[KeyRef, Entry | None] = {}
    for wanted, values in zip(by_owner.values(), replies, strict=True):
        for ref, value in zip(wanted, values, strict=True):
            result[ref] = None if value is None else _stored_entry(value).entry
    return result


def event_sequences(names: Names, partition: int, refs: Sequence[EventRef]) -> Plan[dict[EventRef, int | None]]:
    """The sequences of the first copies; None where the owner has no event with that id."""
    by_owner = _grouped(refs, lambda ref: ref.owner)
    replies = yield [
        Call(("HMGET", names.events(partition, owner), *(ref.event_id for ref in wanted)), list)
        for owner, wanted in by_owner.items()
    ]
    result: dict[EventRef, int | None] = {}
    for wanted, values in zip(by_owner.values(), replies, strict=True):
        for ref, value in zip(wanted, values, strict=True):
            result[ref] = None if value is None else int(value)
    return result


def commit(
    names: Names, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
) -> Plan[None]:
    """Write entries, event ids and checkpoint in one step. Raises CommitRefused or OtherProjection."""
    keys = [names.checkpoint(partition)]
    index_of: dict[str, int] = {}

    def index(name: str) -> int:
        if name not in index_of:
            keys.append(name)
            index_of[name] = len(keys)
        return index_of[name]

    fields: list[str | bytes] = []
    if before is None:
        fields += ["genesis", jsontext.canonical(genesis.model_dump(mode="json"))]
        fields += ["clock", "broker" if changes.stamped else "publisher"]
    if changes.registry is not None:
        fields += ["registry", changes.registry.to_canonical()]
    arguments: list[str | bytes | int] = [
        f"{before.next_sequence:016d}" if before else "",
        f"{sequence_of(genesis.generation, changes.next_offset):016d}",
        genesis.log_id,
        FOLD_VERSION,
        len(fields) // 2,
        *fields,
        len(changes.entries),
    ]
    for ref, change in changes.entries.items():
        mark = change.entry.mark
        value = f"{mark}{now_ms:013d}".encode() + pack_entry(change.entry)
        profile = index(names.profile(partition, ref.owner))
        arguments += [profile, field_of(ref.scope, ref.key), change.before, change.mode, mark, value]
    arguments.append(len(changes.events))
    for event, sequence in changes.events:
        arguments += [index(names.events(partition, event.owner)), event.event_id, f"{sequence:016d}"]
    (reply,) = yield [script_call("commit", keys, arguments, list)]
    _check_commit(partition, genesis, reply)


def append(
    names: Names,
    partition: int,
    generation: int,
    records: Sequence[tuple[str, Record]],
    dead: Sequence[DeadLetter],
) -> Plan[None]:
    """Add records to owners' histories and a stub for each dead letter; what is already there stays."""
    keys: list[str] = []
    index_of: dict[str, int] = {}
    arguments: list[str | bytes | int] = []

    def add(name: str, sequence: int, data: bytes) -> None:
        if name not in index_of:
            keys.append(name)
            index_of[name] = len(keys)
        arguments.extend([index_of[name], f"{sequence:016d}", data])

    for owner, record in records:
        add(names.history(partition, owner), record.sequence, pack_record(record))
    for letter in dead:
        add(names.dead(partition), sequence_of(generation, letter.record.offset), letter.problem.encode())
    if arguments:
        yield [script_call("append", keys, arguments, int)]


def find(names: Names, partition: int, owner: str, sequence: int) -> Plan[Record | None]:
    """The owner's record of exactly that sequence."""
    arguments = [f"{sequence:016d}"]
    (found,) = yield [
        script_call(
            "find",
            [names.history(partition, owner)],
            arguments,
            lambda item: None if item is None else unpack_record(item[_SEQUENCE_LENGTH:]),
        )
    ]
    record: Record | None = found
    return record


def of_key(names: Names, partition: int, ref: KeyRef, below: int) -> Plan[list[Record]]:
    """The counting events of a key with a sequence below the one given."""
    found: list[Record] = []
    first = 0
    while True:
        name = names.history(partition, ref.owner)
        (items,) = yield [Call(("LRANGE", name, first, first + SLICE - 1), list)]
        for record in _records(items):
            if record.sequence >= below:
                return found
            if record.counts and (record.scope, record.key) == (ref.scope, ref.key):
                found.append(record)
        if len(items) < SLICE:
            return found
        first += SLICE


def read(
    names: Names, partition: int, owner: str, wanted: Sequence[tuple[str, str]] | None = None
) -> Plan[EntriesRead]:
    """Checkpoint and entries (those wanted, by scope and key, or all) of one owner, in one call."""
    keys = [names.checkpoint(partition), names.profile(partition, owner)]
    fields = [field_of(scope, key) for scope, key in wanted or ()]
    if wanted is not None and not fields:
        raise ValueError("nothing is wanted")
    (reply,) = yield [script_call("read", keys, fields, list)]
    if wanted is None:
        pairs = [(scope_and_key(name), value) for name, value in _pairs(reply[1])]
    else:
        pairs = [(at, value) for at, value in zip(wanted, reply[1], strict=True) if value is not None]
    return EntriesRead(_checkpoint(reply[0]), {at: _stored_entry(value) for at, value in pairs})


def history(names: Names, partition: int, owner: str) -> Plan[HistoryRead]:
    """All of an owner's records up to the checkpoint, as of the first look."""
    keys = [names.checkpoint(partition), names.history(partition, owner)]
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


def names_below(names: Names, partition: int, cursor: int = 0) -> Plan[tuple[int, list[bytes]]]:
    """Some keys of a partition, and the cursor to go on with (0 = that was all); for emptying a namespace."""
    pattern = _escaped(names.prefix(partition)) + "*"
    (reply,) = yield [Call(("SCAN", cursor, "MATCH", pattern, "COUNT", 1000), list)]
    return int(reply[0]), list(reply[1])


def remove(keys: Sequence[bytes]) -> Plan[None]:
    """Remove keys without blocking Redis."""
    if keys:
        yield [Call(("UNLINK", *keys), int)]


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


def _stored_entry(value: bytes) -> StoredEntry:
    return StoredEntry(unpack_entry(value[_HEAD_LENGTH:]), int(value[MARK_LENGTH:_HEAD_LENGTH]))


def _records(items: Sequence[bytes]) -> Iterator[Record]:
    return (unpack_record(item[_SEQUENCE_LENGTH:]) for item in items)


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _grouped(refs: Sequence[Any], owner_of: Callable[[Any], str]) -> Mapping[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for ref in refs:
        groups.setdefault(owner_of(ref), []).append(ref)
    return groups


def _escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]\\^" else char for char in text)
