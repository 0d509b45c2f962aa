"""Changes: that one entry became another by an event, and where. Never the value: that is read, and can be erased."""

import hashlib
import uuid
from typing import Final, Literal

from pydantic import ConfigDict

from lastword_schemas.model import Instant, Model
from lastword_schemas.verdicts import Effect

VERSION: Final = 1
CHANGE_NAMESPACE: Final = uuid.UUID("6f5a0a0e-6f0b-5c3c-9a55-6368616e6765")
_NAMESPACE_BYTES: Final = CHANGE_NAMESPACE.bytes

ChangeStatus = Literal["set", "deleted", "unresolved", "absent"]
"""What a reader finds there after it: a value, a tombstone, no single answer, or nothing: all of it was withdrawn."""

CHANGING: Final = frozenset({Effect.ADDED, Effect.UPDATED, Effect.DELETED, Effect.BRANCHED, Effect.CONFLICT})
"""The effects that make an entry another one. A restatement, a late event, a turn, a refused event and a duplicate
leave what is read as it was. Decisions tell of the entries that they made others themselves."""


class Change(Model):
    """One change, as the topic `lastword.changes` and the stream of `GET /v1/changes` tell it.

    Members that a reader does not know are to be ignored: later versions may have more.
    """

    model_config = ConfigDict(extra="ignore")

    kind: Literal["change"] = "change"
    """Records of other kinds may come to the same topic."""
    version: Literal[1] = VERSION
    change_id: str
    """The same whenever the change is told again: tell copies by it."""
    log_id: str
    owner: str
    scope: str
    key: str
    effect: Effect
    """`added`, `updated`, `deleted`, `branched` or `conflict`; of what a decision changed `resolved` or `withdrew`."""
    status: ChangeStatus
    sequence: int
    """The event's own sequence: its place in the log."""
    source_sequence: int
    """Of a candidate that of the event it cites, else its own."""
    event_id: str
    recorded_at: Instant
    part: int
    """Of the changes that the event made, which one this is, from 1: a set can retire other keys."""
    parts: int
    """How many changes the event made."""
    position_token: str
    """Demand it of a read (`at_least`) to see the state after the change; resume behind it (`after`)."""


def change_id(log_id: str, sequence: int, entry: str) -> str:
    """The name of a change, from the event's place and the entry's record key (`owner/scope/key`).

    The owner is in it because sequences are counted in each partition: two owners may have the same. It is a UUIDv5,
    made here by hand because the relay makes one for every change. Source: RFC 9562, section 5.5.
    """
    name = f"{log_id}/{sequence}/{entry}".encode()
    digits = hashlib.sha1(_NAMESPACE_BYTES + name, usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"
