"""The assertions of a key that stand, from its owner's history."""

import uuid
from collections.abc import Sequence

from lastword.reconciliation.assertions import Assertion
from lastword_projector.engine.decisions import Standing, standing_of
from lastword_projector.engine.records import Record
from lastword_projector.engine.resolving import resolved
from lastword_query_api.runs import of_branch
from lastword_schemas import jsontext
from lastword_schemas.authority import AuthorityRank


def standing_assertions(records: Sequence[Record], scope: str, key: str, moment: int) -> list[Assertion]:
    """Every assertion of a `branch` key that stands at a moment (microseconds since 1970), restatements too, from all
    of the owner's records. What has expired is left out."""
    standing = standing_of(records)
    parts = [part for record in records if (part := record.part_of(scope, key)) is not None]
    counting, resolves = standing.counting(parts), standing.resolves(scope, key)
    going_on = {
        event.event_id
        for run in of_branch(counting, resolves)
        if run.ended_by is run.decided_by is None and not run.first.is_delete
        for event in run.events
    }
    texts = {record.event_id: record.text for record in records}
    return [
        _assertion(record, texts.get(record.source_event_id or b""), standing)
        for record in resolved(counting, resolves).records
        if record.event_id in going_on and (record.expires_at is None or record.expires_at > moment)
    ]


def _assertion(record: Record, text: str | None, standing: Standing) -> Assertion:
    event_id = str(uuid.UUID(bytes=record.event_id))
    return Assertion(
        event_id,
        jsontext.parse_stored(record.value or b"null"),
        AuthorityRank(standing.authority_of(record)).authority,
        record.source_sequence,
        record.ordinal,
        str(uuid.UUID(bytes=record.source_event_id)) if record.source_event_id is not None else event_id,
        record.confidence,
        text,
        record.span,
        record.sequence,
    )
