"""The outbox: what commits changed, kept in Redis until the topic of changes has it."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from lastword_projector.engine.changes import changes_of, pack_changes
from lastword_projector.engine.projection import Changes
from lastword_projector.store.calls import Call, Plan, script_call
from lastword_projector.store.names import Names
from lastword_schemas.control import Genesis
from lastword_schemas.positions import sequence_of


class Outgoing(NamedTuple):
    """What a commit brings to the outbox."""

    item: bytes = b""
    """Empty if it is nothing."""
    told: str = ""
    """The *next* sequence to be put in after that (16 digits); empty if that stays as it is."""


def outgoing(genesis: Genesis, changes: Changes, told_below: int) -> Outgoing:
    """What a commit changes, without what was put into the outbox before."""
    upcoming = sequence_of(genesis.generation, changes.next_offset)
    if upcoming <= told_below:
        return Outgoing()
    found = [
        changed
        for owner, record in changes.records
        if record.sequence >= told_below
        for changed in changes_of(owner, record)
    ]
    return Outgoing(pack_changes(found) if found else b"", f"{upcoming:016d}")


def told_below(names: Names, partition: int, log_id: str) -> Plan[int]:
    """The sequence below which changes of this log went into the outbox; 0 if that is not known."""
    (told,) = yield [Call(("HMGET", names.of(partition).told, "log", "next"), list)]
    log, upcoming = told
    return int(upcoming) if log == log_id.encode() else 0


def count_as_told(names: Names, genesis: Genesis, next_offset: int) -> Plan[None]:
    """Where it is not known what was told of this log, count everything below the *next* offset as told."""
    told = names.of(genesis.partition).told
    (log,) = yield [Call(("HGET", told, "log"), lambda reply: reply)]
    if log != genesis.log_id.encode():
        upcoming = f"{sequence_of(genesis.generation, next_offset):016d}"
        yield [Call(("HSET", told, "log", genesis.log_id, "next", upcoming), int)]


def waiting(names: Names, partition: int, most: int) -> Plan[list[bytes]]:
    """The first items that wait, at most so many."""
    (items,) = yield [Call(("LRANGE", names.of(partition).outbox, 0, most - 1), list)]
    found: list[bytes] = items
    return found


def length(names: Names, partition: int) -> Plan[int]:
    """How many items wait."""
    (count,) = yield [Call(("LLEN", names.of(partition).outbox), int)]
    found: int = count
    return found


def relayed(names: Names, partition: int, items: Sequence[bytes]) -> Plan[int]:
    """Take items that were sent off the head, if they still are there; how many were."""
    sent = [hashlib.sha1(item, usedforsecurity=False).hexdigest() for item in items]
    (taken,) = yield [script_call("relayed", [names.of(partition).outbox], sent, int)]
    found: int = taken
    return found
