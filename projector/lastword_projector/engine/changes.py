"""What an event changed, from its record alone: so that a stream told now and one read from history say the same."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal
from urllib.parse import quote

import msgspec
from msgspec import structs

from lastword_projector.engine.records import Record
from lastword_schemas.changes import CHANGING, VERSION, ChangeStatus, change_id
from lastword_schemas.model import from_micros, instant_text
from lastword_schemas.positions import PositionToken, owner_digest
from lastword_schemas.verdicts import Effect

_CHANGING = frozenset(effect.value for effect in CHANGING)
_STATUS: dict[str, ChangeStatus] = {
    Effect.DELETED.value: "deleted",
    Effect.BRANCHED.value: "unresolved",
    Effect.CONFLICT.value: "unresolved",
}


class Changed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """That an event made one entry another one: what the outbox keeps until it is told."""

    owner: str
    scope: str
    key: str
    effect: str
    sequence: int
    source_sequence: int
    event_id: bytes
    recorded_at: int
    """ms since 1970."""
    part: int = 1
    parts: int = 1
    status: str | None = None
    """Where the effect does not tell it."""


class ToldChange(msgspec.Struct, gc=False):
    """The JSON document of a change; `lastword_schemas.changes.Change` describes it."""

    change_id: str
    log_id: str
    owner: str
    scope: str
    key: str
    effect: str
    status: str
    sequence: int
    source_sequence: int
    event_id: str
    recorded_at: str
    part: int
    parts: int
    position_token: str
    kind: Literal["change"] = "change"
    version: int = VERSION


def changes_of(owner: str, record: Record) -> Sequence[Changed]:
    """What the event of a record changed, key by key."""
    if record.retires is None and record.decision is None:
        return (_changed(owner, record, 1, 1),) if record.verdict in _CHANGING else ()
    changing = [part for part in record.parts() if part.verdict in _CHANGING]
    decided = record.decision.changed if record.decision is not None and record.counts else ()
    parts = len(changing) + len(decided)
    found = [_changed(owner, part, number, parts) for number, part in enumerate(changing, 1)]
    effect = Effect.RESOLVED if record.verdict == Effect.RESOLVED else Effect.WITHDREW
    for number, (scope, key, status) in enumerate(decided, len(changing) + 1):
        whole = _changed(owner, record, number, parts)
        found.append(structs.replace(whole, scope=scope, key=key, effect=effect.value, status=status))
    return found


def _changed(owner: str, record: Record, part: int, parts: int) -> Changed:
    return Changed(
        owner,
        record.scope,
        record.key or "",
        record.verdict,
        record.sequence,
        record.source_sequence,
        record.event_id,
        record.recorded_at,
        part,
        parts,
    )


def told(log_id: str, changed: Changed) -> bytes:
    """The JSON document of a change."""
    owner, scope, key, sequence = changed.owner, changed.scope, changed.key, changed.sequence
    event = changed.event_id.hex()
    return _encode(
        ToldChange(
            change_id(log_id, sequence, key_of(owner, scope, key)),
            log_id,
            owner,
            scope,
            key,
            changed.effect,
            _STATUS.get(changed.effect, "set") if changed.status is None else changed.status,
            sequence,
            changed.source_sequence,
            f"{event[:8]}-{event[8:12]}-{event[12:16]}-{event[16:20]}-{event[20:]}",
            _instant(changed.recorded_at),
            changed.part,
            changed.parts,
            f"{_token_begin(log_id, owner)}{sequence}",
        )
    )


_encode = msgspec.json.Encoder().encode
pack_changes = msgspec.msgpack.Encoder().encode
"""The bytes of an item of the outbox: what one commit changed."""
unpack_changes = msgspec.msgpack.Decoder(list[Changed]).decode
"""What such an item holds."""


def key_of(owner: str, scope: str, key: str) -> str:
    """`record_key`, for parts that come again and again."""
    return f"{_quoted(owner)}/{_quoted(scope)}/{_quoted(key)}"


@lru_cache(maxsize=50_000)
def _quoted(part: str) -> str:
    return quote(part, safe="")


@lru_cache(maxsize=20_000)
def _token_begin(log_id: str, owner: str) -> str:
    """What stands before the sequence in every position token of an owner."""
    return str(PositionToken(log_id, owner_digest(owner), 0)).removesuffix("0")


@lru_cache(maxsize=1_024)
def _instant(ms: int) -> str:
    return instant_text(from_micros(ms * 1_000))
