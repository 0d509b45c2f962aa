"""From entries and records to what readers get. Pure: scope precedence, expiry, statuses, versions."""

import uuid
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lastword_projector.engine.decisions import standing_of
from lastword_projector.engine.policies import POLICIES, policy_name
from lastword_projector.engine.records import Entry, Record, same_value, sequence_in
from lastword_projector.store.packing import StoredEntry
from lastword_projector.store.ports import Checkpoint
from lastword_schemas import jsontext
from lastword_schemas.answers import (
    ActorAnswer,
    BranchAnswer,
    Decider,
    Identity,
    InspectionRecord,
    Mark,
    Position,
    Reading,
    Rule,
    Selection,
    Source,
    State,
    Status,
    Words,
)
from lastword_schemas.authority import Authority, AuthorityRank, Role
from lastword_schemas.envelope import ScopedKey
from lastword_schemas.ids import record_id
from lastword_schemas.model import from_micros
from lastword_schemas.positions import PositionToken, offset_of, owner_digest
from lastword_schemas.registry import Registry


@dataclass(frozen=True, slots=True)
class Found:
    """An entry, and when the profile was written (ms since 1970; None where it was folded from history)."""

    entry: Entry
    projected_at: int | None


Entries = Mapping[tuple[str, str], Found]
"""By scope and key."""
PolicyOf = Callable[[str, str], str]
"""By what policy a scope and key of one owner folds."""


def policies_of(entries: Mapping[tuple[str, str], StoredEntry], registry: Registry) -> PolicyOf:
    """The policies of an owner's keys, from all of the owner's entries: an entry keeps that under which it began."""

    def of(scope: str, key: str) -> str:
        stored = entries.get((scope, key))
        return policy_name(None if stored is None else stored.entry, key, registry)

    return of


def from_profile(entries: Mapping[tuple[str, str], StoredEntry]) -> Entries:
    """What the profile has, without what was withdrawn as a whole."""
    return {at: Found(stored.entry, stored.projected_at) for at, stored in entries.items() if not stored.entry.is_void}


def from_history(
    records: Iterable[Record],
    policies: PolicyOf,
    *,
    as_of: int | None,
    known_at: int,
    wanted: Container[tuple[str, str]] | None = None,
) -> Entries:
    """State(known_at, as_of): the fold of the records up to `known_at` whose source sequence is at most `as_of`; of the
    scopes and keys that are wanted, or of all. Each folds by its policy. Decisions obey `known_at` alone."""
    by_key: dict[tuple[str, str], list[Record]] = {}
    records = list(records)
    standing = standing_of(records, known_at=known_at)
    for record in standing.counting(records):
        if counts_within(record, as_of=as_of, known_at=known_at):
            for part in record.parts():
                at = part.scope, part.key or ""
                if wanted is None or at in wanted:
                    by_key.setdefault(at, []).append(part)
    folded = {at: POLICIES[policies(*at)].fold(found, standing.resolves(*at)) for at, found in by_key.items()}
    return {at: Found(entry, None) for at, entry in folded.items() if entry is not None}


def counts_within(record: Record, *, as_of: int | None, known_at: int) -> bool:
    """Whether a record counts and is within both boundaries."""
    return record.counts and record.sequence <= known_at and (as_of is None or record.source_sequence <= as_of)


def inspection(
    reading: Reading, checkpoint: Checkpoint, entries: Entries, scopes: Sequence[str], key: str, moment: int
) -> InspectionRecord:
    """The answer for one key along a scope chain. `moment` is what expiry is compared with, microseconds since 1970."""
    declaration = checkpoint.registry.keys.get(key)
    scope, found, rule = choose(entries, scopes, key, moment, declaration is not None and declaration.falls_through)
    identity = Identity(
        record_id=None if scope is None else record_id(reading.owner, scope, key),
        owner=reading.owner,
        scope=scopes[0],
        answered_scope=scope,
        key=key,
        declared=declaration is not None,
    )
    selection = Selection(
        representation=reading.representation,
        as_of=reading.as_of,
        known_at=reading.known_at,
        rule=rule,
        provisional=reading.provisional,
        clock=reading.clock,
        position_token=reading.position_token,
    )
    if found is None:
        return InspectionRecord(identity=identity, state=State(status=Status.ABSENT), source=None, selection=selection)
    partition = checkpoint.genesis.partition
    return InspectionRecord(
        identity=identity,
        state=_state(found.entry, moment),
        source=_source_of(found.entry.record, found.projected_at, partition),
        selection=selection,
        branches=_branches(found, partition),
    )


def choose(
    entries: Entries, scopes: Sequence[str], key: str, moment: int, falls_through: bool
) -> tuple[str | None, Found | None, Rule]:
    """The first scope of the chain that has an entry. A tombstone or expired value stops there unless the key falls
    through."""
    stopped: tuple[str, Found, Rule] | None = None
    for scope in scopes:
        found = entries.get((scope, key))
        if found is None:
            continue
        found = Found(read_at(found.entry, moment), found.projected_at)
        status = status_of(found.entry, moment)
        if status is Status.SET:
            if stopped is not None:
                return scope, found, Rule.FELL_THROUGH
            return scope, found, Rule.EXACT if scope == scopes[0] else Rule.FALLBACK
        if stopped is None:
            stopped = (scope, found, Rule.TOMBSTONE if status is Status.DELETED else Rule.EXPIRED)
        if not falls_through:
            break
    return stopped or (None, None, Rule.ABSENT)


def read_at(entry: Entry, moment: int) -> Entry:
    """The entry as it reads at a moment (microseconds since 1970): see `Policy.at`."""
    return POLICIES[entry.policy].at(entry, moment)


def status_of(entry: Entry, moment: int) -> Status:
    """What an entry that reads so at a moment (microseconds since 1970) says."""
    if entry.record.is_delete:
        return Status.DELETED
    expiry = expires_at(entry)
    return Status.EXPIRED if expiry is not None and expiry <= moment else Status.SET


def expires_at(entry: Entry) -> int | None:
    """When what an entry says expires, microseconds since 1970."""
    return POLICIES[entry.policy].expires_at(entry)


def status_at(entry: Entry, moment: int) -> Status:
    """What an entry says at a moment (microseconds since 1970)."""
    return status_of(read_at(entry, moment), moment)


def reading_of(
    owner: str,
    checkpoint: Checkpoint,
    *,
    known_at: int,
    as_of: int | None = None,
    from_profile: bool = False,
    provisional: bool = False,
) -> Reading:
    """What every answer of one read has in common."""
    return Reading(
        owner=owner,
        representation="profile" if from_profile else "history",
        as_of=as_of,
        known_at=known_at,
        provisional=provisional,
        clock=checkpoint.clock,
        position_token=position_token_of(owner, checkpoint),
    )


def position_token_of(owner: str, checkpoint: Checkpoint) -> str:
    """How far the projection was, as a text that can be demanded."""
    return str(PositionToken(checkpoint.genesis.log_id, owner_digest(owner), checkpoint.last_sequence))


def _state(entry: Entry, moment: int) -> State:
    record, status, expiry = entry.record, status_of(entry, moment), expires_at(entry)
    return State(
        status=status,
        value=value_of(record) if status is Status.SET else None,
        resolution_state="unresolved" if entry.unresolved else "resolved",
        resolution_reason=POLICIES[entry.policy].why(entry),
        operation=record.operation,
        authority=authority_of(record),
        version_start=sequence_in(entry.start),
        version_started_at=source_time(entry.started_at),
        mark=Mark(
            source_sequence=record.source_sequence,
            authority=AuthorityRank(record.authority).authority,
            ordinal=record.ordinal,
        ),
        supersedes=[sequence_in(entry.previous)] if entry.previous else [],
        expires_at=None if expiry is None else from_micros(expiry),
    )


def _branches(found: Found, partition: int) -> list[BranchAnswer]:
    """What stands side by side, the earliest first; then what was ended; then the deletes that may still end what is
    read late."""
    entry, state = found.entry, found.entry.state
    if state is None:
        return []
    said = [
        BranchAnswer(
            operation="set",
            value=value_of(each.record),
            current=by is None and same_value(each.record, entry.record),
            authority=AuthorityRank(each.record.authority).authority,
            source=_source_of(each.record, found.projected_at, partition),
            latest=sequence_in(each.latest),
            assertions=each.count,
            expires_at=None if each.expires_at is None else from_micros(each.expires_at),
            ended_by=by,
        )
        for each, by in [
            *((each, None) for each in state.branches),
            *((each.branch, decider(each.by, each.sequence)) for each in state.ended),
        ]
    ]
    deletes = [
        BranchAnswer(
            operation="delete",
            current=each.record == entry.record,
            authority=AuthorityRank(each.record.authority).authority,
            source=_source_of(each.record, found.projected_at, partition),
            latest=each.record.source_sequence,
            assertions=1,
            expires_at=None,
        )
        for each in state.tombstones
    ]
    return said + deletes


def _source_of(record: Record, projected_at: int | None, partition: int) -> Source:
    return Source(
        source_sequence=record.source_sequence,
        position=position_of(record, partition),
        event_id=str(uuid.UUID(bytes=record.event_id)),
        source=words_of(record),
        actor=actor_of(record),
        confidence=record.confidence,
        occurred_at=None if record.occurred_at is None else from_micros(record.occurred_at),
        updated_at=source_time(record.source_recorded_at),
        retired_by=retired_by_of(record),
        projected_at=None if projected_at is None else from_micros(projected_at * 1000),
    )


def decider(event_id: bytes, sequence: int) -> Decider:
    """The event that decided something."""
    return Decider(event_id=str(uuid.UUID(bytes=event_id)), sequence=sequence)


def source_time(recorded_at: int) -> datetime | None:
    """The instant of a source event's `recorded_at` (ms since 1970); None for 0: before the log."""
    return from_micros(recorded_at * 1000) if recorded_at else None


def position_of(record: Record, partition: int) -> Position:
    """Where the record stands."""
    return Position(partition=partition, offset=offset_of(record.sequence), sequence=record.sequence)


def words_of(record: Record) -> Words:
    """Where it was said."""
    return Words(
        event_id=str(uuid.UUID(bytes=record.source_event_id or record.event_id)),
        thread=record.thread,
        message=record.message,
        span=None if record.span is None else list(record.span),
        quote=record.quote,
    )


def actor_of(record: Record) -> ActorAnswer:
    """Who published it."""
    return ActorAnswer(service=record.service, role=Role(record.role))


def retired_by_of(record: Record) -> ScopedKey | None:
    """Of the delete of a retired key: the key that was set."""
    return None if record.retired_by is None else ScopedKey(scope=record.retired_by[0], key=record.retired_by[1])


def authority_of(record: Record) -> Authority | None:
    """Its authority; None of a malformed event."""
    return AuthorityRank(record.authority).authority if record.authority else None


def value_of(record: Record) -> Any:
    """The value as Python has JSON."""
    return None if record.value is None else jsontext.parse_stored(record.value)
