"""A record's verdict, as readers get it."""

import uuid

from lastword_projector.engine.records import Record
from lastword_schemas.positions import offset_of
from lastword_schemas.verdicts import Effect, Outcome, Reason, RetiredKey, Verdict


def verdict_of(record: Record, partition: int) -> Verdict:
    """The verdict on the event of a record in a partition."""
    outcome = {"refused": Outcome.REFUSED, "duplicate": Outcome.DUPLICATE}.get(record.verdict, Outcome.COUNTS)
    return Verdict(
        event_id=str(uuid.UUID(bytes=record.event_id)),
        outcome=outcome,
        effect=Effect(record.verdict) if outcome is Outcome.COUNTS else None,
        reason=None if record.reason is None else Reason(record.reason),
        detail=record.detail,
        sequence=record.sequence,
        partition=partition,
        offset=offset_of(record.sequence),
        sequences=list(record.related) if record.related else None,
        retires=retires_of(record),
    )


def retires_of(record: Record) -> list[RetiredKey] | None:
    """The keys that the event of a record retires; None for none."""
    if not record.retires:
        return None
    effects = [None if record.retired is None else Effect(delete.verdict) for delete in record.deletes()]
    return [
        RetiredKey(scope=scope, key=key, effect=effect)
        for (scope, key), effect in zip(record.retires, effects, strict=True)
    ]
