"""The history of a key as versions with intervals, and of an owner as events with statuses. Pure."""

import uuid
from collections.abc import Iterable, Sequence
from typing import Literal

from lastword_projector.engine.decisions import Standing
from lastword_projector.engine.outcome import retires_of
from lastword_projector.engine.policies import POLICIES
from lastword_projector.engine.records import Decided, Decision, Record
from lastword_query_api.answering import (
    PolicyOf,
    actor_of,
    authority_of,
    decider,
    position_of,
    retired_by_of,
    source_time,
    value_of,
    words_of,
)
from lastword_query_api.runs import RUNS, Run, run_withdrawn
from lastword_schemas.answers import Ended, EventAnswer, EventStatus, Version
from lastword_schemas.authority import DECISIONS, AuthorityRank, Operation
from lastword_schemas.model import from_micros
from lastword_schemas.verdicts import Outcome

_MAX_EVENT_IDS = 100


At = tuple[str, str]
"""Scope and key."""


def versions(at: At, records: Sequence[Record], policy: str, moment: int, standing: Standing) -> list[Version]:
    """The versions of one key from its events that were not refused. `moment`: microseconds since 1970, for expiry."""
    return [version for version, _ in told(at, records, policy, moment, standing)]


def told(
    at: At, records: Sequence[Record], policy: str, moment: int, standing: Standing
) -> list[tuple[Version, Record]]:
    """The same, each with the last of its events."""
    found = RUNS[policy](standing.counting(records), standing.resolves(*at))
    withdrawn = [run_withdrawn(record, by) for record in records if (by := standing.withdrawal_of(record)) is not None]
    runs = sorted([*found, *withdrawn], key=lambda run: (run.first.mark, run.first.event_id))
    return [(_version(run, moment), run.latest) for run in runs]


Place = tuple[int, str, str | None]


def place_of(record: Record) -> Place:
    """What tells the parts of events apart: sequence, scope and key."""
    return record.sequence, record.scope, record.key


def statuses(
    records: Sequence[Record], policies: PolicyOf, moment: int, standing: Standing
) -> dict[Place, EventStatus]:
    """What has become of each event and each delete that one brought, from all of an owner's records within the
    boundary."""
    found: dict[Place, EventStatus] = {}
    by_key: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.verdict in ("refused", "duplicate"):
            found[place_of(record)] = EventStatus(record.verdict)
        elif standing.withdrawal_of(record) is not None:
            found |= dict.fromkeys(map(place_of, (record, *record.parts())), EventStatus.WITHDRAWN)
            continue
        elif record.key is None or record.operation == Operation.RESOLVE:
            found[place_of(record)] = EventStatus.RECORDED
        for part in record.parts():
            by_key.setdefault((part.scope, part.key or ""), []).append(part)
    for at, events in by_key.items():
        policy = policies(*at)
        resolves = standing.resolves(*at)
        entry = POLICIES[policy].fold(events, resolves)
        for run in RUNS[policy](events, resolves):
            status = _run_status(run, moment)
            for event in run.events:
                found[place_of(event)] = EventStatus(status)
        for event in events:  # those that lost a tie are in no run
            tied = entry is not None and event.mark == entry.mark
            found.setdefault(place_of(event), EventStatus.CURRENT if tied else EventStatus.SUPERSEDED)
    return found


def event_answer(record: Record, status: EventStatus, partition: int, standing: Standing) -> EventAnswer:
    """One event of a history."""
    decision, withdrawal = record.decision or Decision(), standing.withdrawal_of(record)
    is_decision = record.operation in DECISIONS
    outcome = {"refused": Outcome.REFUSED, "duplicate": Outcome.DUPLICATE}.get(record.verdict, Outcome.COUNTS)
    value = {} if record.value is None else {"value": value_of(record)}
    return EventAnswer.model_validate(
        {
            "position": position_of(record, partition),
            "event_id": str(uuid.UUID(bytes=record.event_id)),
            "operation": record.operation,
            "scope": record.scope,
            "key": record.key,
            "text": record.text,
            "authority": authority_of(record),
            "outcome": outcome,
            "effect": record.verdict if outcome is Outcome.COUNTS else None,
            "reason": record.reason,
            "detail": record.detail,
            "sequences": list(record.related) if record.related else None,
            "status": status,
            "source_sequence": record.source_sequence,
            "source": words_of(record) if record.is_candidate or record.thread else None,
            "actor": actor_of(record),
            "confidence": record.confidence,
            "recorded_at": from_micros(record.recorded_at * 1000),
            "occurred_at": None if record.occurred_at is None else from_micros(record.occurred_at),
            "expires_at": None if record.expires_at is None else from_micros(record.expires_at),
            "expected_sequence": record.expected_sequence,
            "retires": retires_of(record),
            "retired_by": retired_by_of(record),
            "names": _ids((*decision.withdraws, *decision.resolves)) if is_decision else None,
            "withdraws": _ids(decision.withdraws) if decision.withdraws and not is_decision else None,
            "saw": decision.saw,
            "withdrawn_by": None if withdrawal is None else decider(withdrawal.event_id, withdrawal.sequence),
        }
        | value
    )


def _ids(event_ids: Iterable[bytes]) -> list[str]:
    return [str(uuid.UUID(bytes=event_id)) for event_id in event_ids]


def _run_status(run: Run, moment: int) -> str:
    ended = _ended(run, moment)
    if ended is None:
        return "current"
    return _STATUS[ended.by]


def _ended(run: Run, moment: int) -> Ended | None:
    expires_at, by, decided = run.expires_at, run.ended_by, run.decided_by
    if run.is_withdrawn and decided is not None:
        return _ended_by(decided, "withdraw")
    settled = by or decided
    limit = moment if settled is None else (by.source_recorded_at if by else settled.recorded_at) * 1000
    if expires_at is not None and expires_at <= limit:
        return Ended(by="expiry", sequence=None, event_id=None, at=from_micros(expires_at))
    if by is None:
        return None if decided is None else _ended_by(decided, "resolve")
    return Ended(
        by="delete" if by.is_delete else "resolve" if isinstance(decided, Decided) else "set",
        sequence=by.source_sequence,
        event_id=str(uuid.UUID(bytes=by.event_id)),
        at=source_time(by.source_recorded_at),
        decided_by=None if decided is None else decider(decided.event_id, decided.sequence),
    )


def _ended_by(decided: Decided | Record, by: Literal["resolve", "withdraw"]) -> Ended:
    return Ended(
        by=by,
        sequence=decided.sequence,
        event_id=str(uuid.UUID(bytes=decided.event_id)),
        at=source_time(decided.recorded_at),
    )


_STATUS = {
    "set": "superseded",
    "delete": "deleted",
    "expiry": "expired",
    "resolve": "ended",
    "withdraw": "withdrawn",
}


def _version(run: Run, moment: int) -> Version:
    latest = run.latest
    ids = [str(uuid.UUID(bytes=event.event_id)) for event in run.events]
    if len(ids) > 2 * _MAX_EVENT_IDS:
        ids = ids[:_MAX_EVENT_IDS] + ids[-_MAX_EVENT_IDS:]
    value = {} if latest.is_delete else {"value": value_of(latest)}
    return Version.model_validate(
        {
            "status": _run_status(run, moment),
            "operation": latest.operation,
            "resolution_state": "unresolved" if run.unresolved else "resolved",
            "started_at": source_time(run.first.source_recorded_at),
            "start": run.first.source_sequence,
            "latest": latest.source_sequence,
            "authority": AuthorityRank(latest.authority).authority,
            "event_ids": ids,
            "source": words_of(latest),
            "actor": actor_of(latest),
            "retired_by": retired_by_of(latest),
            "ended": _ended(run, moment),
        }
        | value
    )
