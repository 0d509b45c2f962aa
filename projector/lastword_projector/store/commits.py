"""What a commit asks of Redis: history, entries, event ids and checkpoint in one step; key indexes; emptying."""

from collections.abc import Sequence
from typing import NamedTuple

from lastword_projector.engine.projection import FOLD_VERSION, Changes
from lastword_projector.engine.records import Record, pack_record
from lastword_projector.store.calls import Call, Plan, ScriptKeys, script_call
from lastword_projector.store.event_ids import EventIds, event_digest, run_item
from lastword_projector.store.names import Names, PartitionNames, bucket_of, escaped, field_of
from lastword_projector.store.outbox import Outgoing
from lastword_projector.store.packing import pack_head
from lastword_projector.store.plans import BEING_EMPTIED, SLICE, records_of
from lastword_projector.store.ports import Checkpoint, CommitRefused, OtherProjection
from lastword_schemas import jsontext
from lastword_schemas.control import Genesis
from lastword_schemas.positions import sequence_of


def commit(
    names: Names,
    partition: int,
    ids: EventIds,
    genesis: Genesis,
    before: Checkpoint | None,
    changes: Changes,
    now_ms: int,
    outgoing: Outgoing = Outgoing(),  # noqa: B008 (it is a tuple)
) -> Plan[None]:
    """Write history, entries, event ids, outbox and checkpoint in one step. Raises CommitRefused or OtherProjection.

    `ids` goes on with the events of this commit. Where a history has grown long, its key indexes are brought up to date
    after that.
    """
    own = names.of(partition)
    keys = ScriptKeys(own.checkpoint, own.written, own.runs, own.outbox, own.told)
    fields: list[str | bytes] = []
    if before is None:
        fields += ["genesis", jsontext.canonical(genesis.model_dump(mode="json"))]
        fields += ["clock", "broker" if changes.stamped else "publisher"]
    if changes.registry is not None:
        fields += ["registry", changes.registry.to_canonical()]
    groups = _groups(genesis, changes, f"{now_ms:013d}")
    for group in groups:
        owner = group.owner
        keys.names += (own.dead, own.dead) if owner is None else (own.history(owner), own.profile(owner))
    others, runs = _placed(own, keys, ids, changes.events)
    arguments: list[str | bytes | int] = [
        f"{before.next_sequence:016d}" if before else "",
        f"{sequence_of(genesis.generation, changes.next_offset):016d}",
        genesis.log_id,
        FOLD_VERSION,
        len(fields) // 2,
        len(groups),
        len(others) // 3,
        len(runs) // 4,
        ids.greatest.hex(),
        ids.run.hex(),
        ids.count,
        outgoing.item,
        outgoing.told,
        *fields,
    ]
    for group in groups:
        rising, falling = group.entries, group.refolded
        arguments += (len(group.items), (len(rising) + len(falling)) // 3, len(rising) // 3, *group.items)
        arguments += (*rising, *falling)
    arguments += others
    arguments += runs
    (reply,) = yield [script_call("commit", keys.names, arguments, list)]
    _check_commit(partition, genesis, reply)
    for number in reply[2:]:
        owner = groups[number].owner
        if owner is not None:
            yield from index(names, partition, owner)


class _Group:
    """What a commit brings of one owner; without an owner the stubs of dead letters."""

    __slots__ = ("entries", "items", "owner", "refolded")

    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        self.items: list[bytes] = []
        """Of the history: sequence and packed record."""
        self.entries: list[str | bytes] = []
        """Field, the mark folded from, value; and so on."""
        self.refolded: list[str | bytes] = []
        """The same of those that a decision changed."""


_NOTHING: tuple[Record | None, bytes] = (None, b"")


def _groups(genesis: Genesis, changes: Changes, projected_at: str) -> list[_Group]:
    of_owner: dict[str, _Group] = {}
    packed_of: dict[int, tuple[Record | None, bytes]] = {}
    for owner, record in changes.records:
        group = of_owner.get(owner)
        if group is None:
            group = of_owner[owner] = _Group(owner)
        packed = pack_record(record)
        packed_of[record.sequence] = (record, packed)
        group.items.append(b"%016d%b" % (record.sequence, packed))
    for (owner, scope, key), (started_from, entry) in changes.entries.items():
        group = of_owner.get(owner)
        if group is None:
            group = of_owner[owner] = _Group(owner)
        record = entry.record
        known, packed = packed_of.get(record.sequence, _NOTHING)
        value = pack_head(entry, projected_at) + (packed if known is record else pack_record(record))
        of_decisions = changes.refolded and (owner, scope, key) in changes.refolded
        (group.refolded if of_decisions else group.entries).extend((field_of(scope, key), started_from, value))
    groups = list(of_owner.values())
    if changes.dead:
        dead = _Group(None)
        for letter in changes.dead:
            sequence = sequence_of(genesis.generation, letter.record.offset)
            dead.items.append(f"{sequence:016d}{letter.problem}".encode())
        groups.append(dead)
    return groups


class _Run(NamedTuple):
    """What a commit adds to a run of event ids."""

    first_id: bytes
    """The run's name."""
    before: bytes | None
    """Of a new one: the first id of the run before it, empty if there is none. None if it goes on."""
    items: list[bytes]


def _placed(
    own: PartitionNames, keys: ScriptKeys, ids: EventIds, events: Sequence[tuple[tuple[str, bytes], int]]
) -> tuple[list[str | bytes | int], list[str | bytes | int]]:
    """The arguments for event ids that are in no run, and for runs."""
    others: list[str | bytes | int] = []
    run = _Run(ids.run, None, [])
    added, place = [run], ids.place
    for (owner, event_id), sequence in events:
        digest, first_id = event_digest(owner, event_id), place(event_id)
        if first_id is None:
            others += (keys.index(own.buckets[bucket_of(digest)]), digest, sequence)
            continue
        if first_id != run.first_id:
            run = _Run(first_id, run.first_id, [])
            added.append(run)
        run.items.append(run_item(digest, sequence))
    runs: list[str | bytes | int] = []
    for run in added:
        if run.items:
            opened = "" if run.before is None else run.first_id.hex()
            before = keys.index(own.run(run.before.hex())) if run.before else ""
            runs += (keys.index(own.run(run.first_id.hex())), opened, before, b"".join(run.items))
    return others, runs


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
        keys = ScriptKeys(mark)
        arguments: list[str | bytes | int] = [ended, ended + len(items)]
        for place, record in enumerate(records_of(items), ended):
            for part in record.parts():
                name = names.of(partition).key_index(owner, field_of(part.scope, part.key or ""))
                arguments += (keys.index(name), record.source_sequence, place)
        (done,) = yield [script_call("index", keys.names, arguments, int)]
        if not done or len(items) < SLICE:
            return


def clear(names: Names, partition: int) -> Plan[int]:
    """Remove everything of the partition in this namespace but what is to be told; how many keys there were.

    First the checkpoint becomes one that nobody can have folded from, so that no worker commits meanwhile; it goes
    last. If that is broken off, the partition stays closed until it is done again.
    """
    own = names.of(partition)
    checkpoint_name = own.checkpoint.encode()
    spared = {checkpoint_name, own.outbox.encode(), own.told.encode()}
    there, _ = yield [
        Call(("EXISTS", checkpoint_name), int),
        Call(("HSET", checkpoint_name, "next", BEING_EMPTIED), int),
    ]
    pattern = escaped(own.prefix) + "*"
    removed = cursor = 0
    while True:
        (reply,) = yield [Call(("SCAN", cursor, "MATCH", pattern, "COUNT", 1000), list)]
        cursor, found = int(reply[0]), [name for name in reply[1] if name not in spared]
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
            "use another namespace or replace this one with `lastword rebuild`"
        )
    if what == "fold":
        raise OtherProjection(
            f"partition {partition}: the namespace was folded under version {stored}, this build folds under "
            f"{FOLD_VERSION}; rebuild into another namespace"
        )
    if what == "closed":
        raise CommitRefused(partition, f"the namespace was given up for {stored}")
    if what == "checkpoint":
        raise CommitRefused(partition, f"the stored checkpoint is {stored or 'absent'}, not the one folded from")
    raise CommitRefused(partition, "a stored entry is not the one folded from")
