"""Runs: events of a key that say the same and follow on each other, and what ended them. Pure.

Under `latest` a run ends where the next one begins. Under `branch` those of different values go on side by side.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from lastword_projector.engine import branch
from lastword_projector.engine.records import NO_MARK, Entry, Mark, Record, canonical_value, same_value
from lastword_schemas.verdicts import Unresolved


class Run:
    """Events that follow on each other in source order and say the same."""

    def __init__(self, first: Record) -> None:
        self.events = [first]
        self.latest = first
        """The last of them: of those with the greatest mark the one with the smallest id."""
        self.unresolved = False
        self.ended_by: Record | None = None
        """The event that ended it, if one did."""
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


def of_latest(records: Sequence[Record]) -> list[Run]:
    """The runs of a key of policy `latest`, one after the other. What lost a tie is in none."""
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


def of_branch(records: Sequence[Record]) -> list[Run]:
    """The runs of a key of policy `branch`, by where they begin: of each value while it was asserted without a break,
    and of deletes that follow on each other."""
    entry = branch.fold(records)
    if entry is None:
        return []
    ordered = sorted(records, key=_place)
    enders = _enders(ordered)
    by_value: dict[str, list[Record]] = {}
    for record in ordered:
        if record.value is not None:
            by_value.setdefault(canonical_value(record.value), []).append(record)
    runs = [run for said in by_value.values() for run in _joined(said, enders)]
    runs += _runs_of_deletes(ordered, _contested(entry))
    for run in runs:
        run.unresolved = entry.unresolved and run.ended_by is None
    return sorted(runs, key=lambda run: _place(run.first))


Place = tuple[Mark, bytes]
_NOWHERE: Final[Place] = (NO_MARK, b"")

RUNS: Final[Mapping[str, Callable[[Sequence[Record]], list[Run]]]] = {"latest": of_latest, "branch": of_branch}
"""By policy: the runs of a key from its counting events."""


def _enders(ordered: Sequence[Record]) -> dict[Place, Record]:
    """By assertion: the event that ended it, which is the earliest delete or superseding assertion."""
    found: dict[Place, Record] = {}
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
                found[_place(record)] = min(ending, key=_place)
        assertions |= {record.authority: record for record in said}
    return found


def _joined(said: Sequence[Record], enders: Mapping[Place, Record]) -> Iterator[Run]:
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
            run.ended_by, reach = None, None
        elif reach is not None and _place(ender) > reach:
            run.ended_by, reach = ender, _place(ender)
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
