"""Runs: events of a key that say the same and follow on each other, and what ended them. Pure.

Under `latest` a run ends where the next one begins. Under `branch` those of different values go on side by side.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from lastword_projector.engine import branch
from lastword_projector.engine.records import (
    NO_MARK,
    Decided,
    Entry,
    Mark,
    Record,
    canonical_value,
    mark_of,
    same_value,
)
from lastword_projector.engine.resolving import resolved
from lastword_schemas.verdicts import Unresolved


class Run:
    """Events that follow on each other in source order and say the same."""

    def __init__(self, first: Record) -> None:
        self.events = [first]
        self.latest = first
        """The last of them: of those with the greatest mark the one with the smallest id."""
        self.unresolved = False
        self.ended_by: Record | None = None
        """The event that took its place or deleted it, if one did."""
        self.decided_by: Record | Decided | None = None
        """What settled that later, if something did; or what withdrew it."""
        self.is_withdrawn = False
        self.expires_at = first.expires_at
        """When it ends by itself, microseconds since 1970."""

    @property
    def first(self) -> Record:
        """Its beginning."""
        return self.events[0]

    def go_on(self, record: Record) -> None:
        """Another event that says the same."""
        self.events.append(record)
        if record.mark > self.latest.mark:
            self.latest = record


def run_withdrawn(record: Record, by: Decided) -> Run:
    """The run of an event that was withdrawn: it is by itself, whatever was said around it."""
    run = Run(record)
    run.decided_by, run.is_withdrawn = by, True
    return run


def of_latest(records: Sequence[Record], resolves: Sequence[Decided] = ()) -> list[Run]:
    """The runs of a key of policy `latest`, one after the other. What lost a tie is in none."""
    del resolves  # nothing stands side by side
    runs: list[Run] = []
    ordered = sorted(records, key=_place)
    for _, group in groupby(ordered, key=lambda record: record.mark):
        tied = list(group)
        pointer = tied[0]
        if runs and not runs[-1].unresolved and same_value(runs[-1].latest, pointer):
            runs[-1].go_on(pointer)
        else:
            if runs:
                runs[-1].ended_by = pointer
            runs.append(Run(pointer))
        runs[-1].events += [other for other in tied[1:] if same_value(pointer, other)]
        runs[-1].unresolved = any(not same_value(pointer, other) for other in tied[1:])
        runs[-1].expires_at = pointer.expires_at
    return runs


def of_branch(records: Sequence[Record], resolves: Sequence[Decided] = ()) -> list[Run]:
    """The runs of a key of policy `branch`, by where they begin: of each value while it was asserted without a break,
    and of deletes that follow on each other."""
    entry = branch.fold(records, resolves)
    if entry is None:
        return []
    said = resolved(records, resolves)
    ordered = sorted(said.records, key=_place)
    enders = _enders(ordered)
    for record, by in said.ended:
        ender = _Ender((mark_of(by.sequence, by.authority, 0), by.event_id), by)
        other = enders.get(_place(record))
        if other is None or other.place > ender.place or not other.is_delete:
            enders[_place(record)] = ender
    by_value: dict[str, list[Record]] = {}
    for record in ordered:
        if record.value is not None:
            by_value.setdefault(canonical_value(record.value), []).append(record)
    runs = [run for one in by_value.values() for run in _joined(one, enders)]
    _settle(runs)
    runs += _runs_of_deletes(ordered, _contested(entry))
    for run in runs:
        run.unresolved = entry.unresolved and run.ended_by is run.decided_by is None
    return sorted(runs, key=lambda run: _place(run.first))


Place = tuple[Mark, bytes]
_NOWHERE: Final[Place] = (NO_MARK, b"")


class _Ender(NamedTuple):
    """What ended an assertion."""

    place: Place
    by: Record | Decided

    @property
    def is_delete(self) -> bool:
        return isinstance(self.by, Record) and self.by.is_delete


Runs = Callable[[Sequence[Record], Sequence[Decided]], list[Run]]
RUNS: Final[Mapping[str, Runs]] = {"latest": of_latest, "branch": of_branch}
"""By policy: the runs of a key from its counting events and the resolves of it that count."""


def _settle(runs: Sequence[Run]) -> None:
    """Say what took the place of each run that a stronger assertion or a resolve ended: the first event of the value
    that was chosen, if it is newer. The event that ended it settled that, then, and may have come much later."""
    run_of = {event.event_id: run for run in runs for event in run.events}
    for run in runs:
        by = run.decided_by
        chosen = run_of.get(by.resolves[0] if isinstance(by, Decided) else by.event_id) if by is not None else None
        first = chosen.first if chosen is not None and chosen.first.mark > run.first.mark else None
        if isinstance(by, Record):
            run.ended_by = first or by
            if run.ended_by.event_id == by.event_id:
                run.decided_by = None
        elif by is not None:
            run.ended_by = first


def _enders(ordered: Sequence[Record]) -> dict[Place, _Ender]:
    """By assertion: the event that ended it, which is the earliest delete or superseding assertion."""
    found: dict[Place, _Ender] = {}
    deletes: dict[int, Record] = {}
    assertions: dict[int, Record] = {}
    """By authority: the earliest one of those that were passed, from the end."""
    for _, group in groupby(reversed(ordered), key=lambda record: record.mark):
        tied = list(group)
        deletes |= {record.authority: record for record in tied if record.is_delete}
        said = [record for record in tied if not record.is_delete]
        for record in said:
            ending = [other for rank, other in deletes.items() if rank >= record.authority]
            ending += [other for rank, other in assertions.items() if rank > record.authority]
            if ending:
                first = min(ending, key=_place)
                found[_place(record)] = _Ender(_place(first), first)
        assertions |= {record.authority: record for record in said}
    return found


def _joined(said: Sequence[Record], enders: Mapping[Place, _Ender]) -> Iterator[Run]:
    """Runs of one value: an assertion goes on with a run that had not ended when it was made."""
    run: Run | None = None
    reach: Place | None = None
    """How far the run goes; None: it has not ended."""
    for record in said:
        ender = enders.get(_place(record))
        goes_on = run is not None and (reach is None or record.mark <= reach[0])
        if run is not None and goes_on:
            run.go_on(record)
            run.expires_at = branch.later(run.expires_at, record.expires_at)
        else:
            if run is not None:
                yield run
            run, reach = Run(record), _NOWHERE
        if ender is None:
            run.ended_by, run.decided_by, reach = None, None, None
        elif reach is not None and ender.place > reach:
            reach = ender.place
            if isinstance(ender.by, Record) and ender.by.is_delete:
                run.ended_by, run.decided_by = ender.by, None
            else:
                run.ended_by, run.decided_by = None, ender.by
    if run is not None:
        yield run


def _contested(entry: Entry) -> set[bytes]:
    """The deletes that keep an entry unresolved because those who said it have more authority."""
    state = entry.state
    if state is None or branch.why(entry) is not Unresolved.WEAKER_DELETE:
        return set()
    return {tombstone.record.event_id for tombstone in state.tombstones}


def _runs_of_deletes(ordered: Sequence[Record], contested: Container[bytes]) -> Iterator[Run]:
    run: Run | None = None
    for record in ordered:
        if record.is_delete and run is None:
            run = Run(record)
        elif record.is_delete and run is not None:
            run.go_on(record)
        elif run is not None:
            if not any(event.event_id in contested for event in run.events):
                run.ended_by = record
            yield run
            run = None
    if run is not None:
        yield run


def _place(record: Record) -> Place:
    return record.mark, record.event_id
