"""What a commit asks of Redis: history, entries, event ids and checkpoint in one step; key indexes; emptying."""

from lastword_projector.engine.projection import FOLD_VERSION, Changes
from lastword_projector.engine.records import Record, pack_record
from lastword_projector.store.calls import Call, Plan, ScriptKeys, script_call
from lastword_projector.store.names import Names, bucket_of, event_digest, field_of
from lastword_projector.store.packing import pack_head
from lastword_projector.store.plans import BEING_EMPTIED, SLICE, records_of
from lastword_projector.store.ports import Checkpoint, CommitRefused, OtherProjection
from lastword_schemas import jsontext
from lastword_schemas.control import Genesis
from lastword_schemas.positions import sequence_of


def commit(
    names: Names, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
) -> Plan[None]:
    """Write history, entries, event ids and checkpoint in one step. Raises CommitRefused or OtherProjection.

    Where a history has grown long, its key indexes are brought up to date after that.
    """
    own = names.of(partition)
    keys = ScriptKeys(own.checkpoint)
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
        number = numbers.get(entry.record.sequence) if entry.record.retired_by is None else None
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
    """Remove everything of the partition in this namespace; how many keys there were.

    First the checkpoint becomes one that nobody can have folded from, so that no worker commits meanwhile; it goes
    last. If that is broken off, the partition stays closed until it is done again.
    """
    checkpoint_name = names.of(partition).checkpoint.encode()
    there, _ = yield [
        Call(("EXISTS", checkpoint_name), int),
        Call(("HSET", checkpoint_name, "next", BEING_EMPTIED), int),
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


def _escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]\\^" else char for char in text)
