"""Which namespace holds the projection that is in force: the one that the settings name, or one that was rebuilt.

A rebuild makes a new namespace, and one key says that from now on that is the one. Workers look at it whenever they
open a partition, the API now and then. What they have begun in the old one they end there; it is dropped some time
after.
"""

from typing import Final

from lastword_projector.engine.upcasting import AS_WRITTEN, Upcasters
from lastword_projector.store import outbox, plans
from lastword_projector.store.calls import Call, Plan, script_call
from lastword_projector.store.names import MOST_NAMESPACE, Names
from lastword_projector.store.ports import OtherProjection
from lastword_schemas.control import Genesis
from lastword_schemas.errors import InvalidInput
from lastword_schemas.positions import offset_of, sequence_of

_LOCKED_MS: Final = 60_000


class Pointer:
    """The namespace in force, as of the last look."""

    def __init__(self, namespace: str) -> None:
        """`namespace` is the one that the settings name."""
        self.namespace = namespace
        self.names = Names(namespace)
        """Of the namespace in force."""
        self.upcasters = AS_WRITTEN
        """Under which that is folded."""

    def look(self) -> Plan[Names]:
        """The namespace in force now. Raises OtherProjection where a newer build has made it."""
        (found,) = yield [Call(("GET", current_name(self.namespace)), _text)]
        names = Names(found or self.namespace)
        (upcasters,) = yield [Call(("GET", names.upcasters), _text)]
        try:
            self.names, self.upcasters = names, Upcasters.read(upcasters) if upcasters else AS_WRITTEN
        except InvalidInput as error:
            raise OtherProjection(
                f"namespace {names.namespace}: {error.message}; run the build that made it"
            ) from error
        return names


class Fixed(Pointer):
    """One namespace, whatever the pointer says."""

    def __init__(self, names: Names, upcasters: Upcasters = AS_WRITTEN) -> None:
        super().__init__(names.namespace)
        self.names, self.upcasters = names, upcasters

    def look(self) -> Plan[Names]:
        """See `Pointer`."""
        yield from ()
        return self.names


def candidate(namespace: str, upcasters: Upcasters) -> Plan[Names]:
    """A new namespace to rebuild into, which nobody reads yet. Raises InvalidInput where the names are used up."""
    (number,) = yield [Call(("INCR", f"lw:{namespace}:rebuilds"), int)]
    name = f"{namespace}-r{number}"
    if len(name) > MOST_NAMESPACE:
        raise InvalidInput(
            f"namespace '{namespace}' is too long to be rebuilt: '{name}' has more than {MOST_NAMESPACE} characters",
            field="namespace",
        )
    names = Names(name)
    yield [
        Call(("SADD", _candidates(namespace), name), int),
        Call(("SET", names.upcasters, upcasters.to_canonical()), _text),
    ]
    return names


def left_over(namespace: str) -> Plan[list[Names]]:
    """Namespaces that rebuilds have begun, and that are not in force: broken off, or given up."""
    current, begun = yield [
        Call(("GET", current_name(namespace)), _text),
        Call(("SMEMBERS", _candidates(namespace)), lambda names: sorted(name.decode() for name in names)),
    ]
    return [Names(name) for name in begun if name != current]


def take_back(partition: int, old: Names, left: Names) -> Plan[None]:
    """Undo a hand-over that was broken off before the new namespace was in force."""
    before, after = old.of(partition), left.of(partition)
    (closed, waits) = yield [
        Call(("HGET", before.checkpoint, "closed"), _text),
        Call(("EXISTS", after.outbox), int),
    ]
    if closed == left.namespace:
        if waits:
            yield [Call(("RENAME", after.outbox, before.outbox), _text)]
        yield [Call(("HDEL", before.checkpoint, "closed"), int)]


def reached(genesis: Genesis, old: Names) -> Plan[int | None]:
    """The *next* offset up to which a namespace that takes over may fold, so that no change goes untold.

    That of the old one, or of what it has told; None where it has nothing of this log.
    """
    own = old.of(genesis.partition)
    (upcoming,) = yield [Call(("HGET", own.checkpoint, "next"), lambda reply: reply)]
    if upcoming not in (None, plans.BEING_EMPTIED):
        found = yield from plans.checkpoint(old, genesis.partition)
        if found is not None and found.genesis == genesis:
            return offset_of(found.next_sequence)
    told = yield from outbox.told_below(old, genesis.partition, genesis.log_id)
    return offset_of(told) if told else None


def hand_over(genesis: Genesis, old: Names, new: Names, log_end: int) -> Plan[None]:
    """Close a partition of the old namespace, and let the new one go on with what is to be told."""
    before, after = old.of(genesis.partition), new.of(genesis.partition)
    keys = [before.checkpoint, before.outbox, before.told, after.outbox, after.told]
    upcoming = f"{sequence_of(genesis.generation, log_end):016d}"
    yield [script_call("hand_over", keys, [new.namespace, genesis.log_id, upcoming], int)]


def begin(namespace: str, token: str) -> Plan[bool]:
    """Whether nobody else rebuilds the namespace; if so, nobody may for a minute from now on."""
    (done,) = yield [Call(("SET", _lock(namespace), token, "NX", "PX", _LOCKED_MS), bool)]
    taken: bool = done
    return taken


def go_on(namespace: str, token: str) -> Plan[bool]:
    """Whether that still holds; if so, for another minute."""
    (holder,) = yield [Call(("GET", _lock(namespace)), _text)]
    if holder == token:
        yield [Call(("PEXPIRE", _lock(namespace), _LOCKED_MS), int)]
    return bool(holder == token)


def end(namespace: str) -> Plan[None]:
    """Others may rebuild it."""
    yield [Call(("UNLINK", _lock(namespace)), int)]


def flip(namespace: str, old: Names, new: Names) -> Plan[None]:
    """From now on `new` is in force, and `old` is left over."""
    yield [Call(("SADD", _candidates(namespace), old.namespace), int)]
    yield [Call(("SET", current_name(namespace), new.namespace), _text)]


def forget(namespace: str, names: Names, partitions: int) -> Plan[None]:
    """Remove the last of a namespace that was emptied."""
    own = [names.of(partition) for partition in range(partitions)]
    yield [Call(("UNLINK", name), int) for each in own for name in (each.outbox, each.told, each.checkpoint)]
    yield [Call(("UNLINK", names.upcasters), int), Call(("SREM", _candidates(namespace), names.namespace), int)]


def current_name(namespace: str) -> str:
    """String: the namespace in force, once that is another one than the settings name."""
    return f"lw:{namespace}:current"


def _lock(namespace: str) -> str:
    return f"lw:{namespace}:rebuilding"


def _candidates(namespace: str) -> str:
    return f"lw:{namespace}:candidates"


def _text(reply: bytes | None) -> str | None:
    return None if reply is None else reply.decode()
