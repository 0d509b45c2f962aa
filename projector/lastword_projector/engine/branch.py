"""The fold of policy `branch`: whatever differs stands side by side until somebody of more authority says otherwise.

An assertion (a `set`) or a delete is superseded by a later assertion of strictly higher authority; an assertion is
ended by a delete at or above its mark whose authority is not below its own. What is neither stands. Of equal values by
one authority only the earliest is kept, with the mark of the last: restatements are evidence, not versions. Where a
resolve acts on a key it is folded anew each time.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from msgspec.structs import replace

from lastword_projector.engine.records import (
    Branch,
    Branches,
    Decided,
    Ended,
    Entry,
    Mark,
    Record,
    Tombstone,
    canonical_value,
    same_value,
    sequence_in,
)
from lastword_projector.engine.resolving import Resolved, resolved
from lastword_projector.engine.steps import NEEDS_HISTORY, NeedsHistory, Step
from lastword_schemas.authority import AuthorityRank
from lastword_schemas.verdicts import Effect, Unresolved


def step(entry: Entry | None, record: Record) -> Step:
    """Fold one counting `set` or `delete` into the entry of its key."""
    state = Branches() if entry is None or entry.state is None else entry.state
    if state.resolves:
        return Step(Effect.UPDATED, NEEDS_HISTORY)
    after = _with_tombstone(state, record) if record.is_delete else _with_assertion(state, record)
    if after is NEEDS_HISTORY:
        return Step(Effect.UPDATED, NEEDS_HISTORY)
    return _step(entry, _entry(after), record)


def refold(entry: Entry | None, record: Record, history: Iterable[Record], resolves: Sequence[Decided] = ()) -> Step:
    """The same where the entry alone does not tell: with all counting events of the key before this one."""
    after = fold([*history, record], resolves)
    if after is None:
        raise AssertionError("a fold of events has an entry")
    return _step(entry, after, record)


def fold(records: Iterable[Record], resolves: Sequence[Decided] = ()) -> Entry | None:
    """The entry of one key from its counting events, in any order, and the resolves of it that count, in accepted
    order; None if there are no events."""
    if resolves:
        return _resolved_entry(resolved(records, resolves))
    state = _folded(records)
    return _entry(state) if state.branches or state.tombstones else None


def _folded(records: Iterable[Record]) -> Branches:
    state = Branches()
    for record in sorted(records, key=lambda record: (record.mark, record.event_id)):
        after = _with_tombstone(state, record) if record.is_delete else _with_assertion(state, record)
        if after is NEEDS_HISTORY:
            raise AssertionError("events in the order of their marks fold one by one")
        state = after
    return state


def _resolved_entry(said: Resolved) -> Entry | None:
    """The entry of a key that resolves acted on. Its mark is the greatest of all that counts, what ended included."""
    state = _folded(said.standing)
    if not (state.branches or state.tombstones):
        return None
    entry = _entry(state)
    if not said.acting:
        return entry
    by = {record.event_id: decided for record, decided in said.ended}
    ended = [
        Ended(each, by[each.record.event_id].event_id, by[each.record.event_id].sequence)
        for each in _grouped(record for record, _ in said.ended)
    ]
    mark = max([entry.mark, *(each.branch.latest for each in ended), *(record.mark for record in said.standing)])
    return replace(
        entry,
        mark=mark,
        state=replace(state, ended=tuple(ended), resolves=tuple(each.event_id for each in said.acting)),
    )


def _grouped(records: Iterable[Record]) -> Iterator[Branch]:
    """By value and authority, in the order of the earliest."""
    found: dict[tuple[str, int], Branch] = {}
    for record in sorted(records, key=_place):
        says = canonical_value(record.value or b""), record.authority
        if (known := found.get(says)) is None:
            found[says] = Branch(record, record.mark, 1, record.expires_at)
        else:
            expiry = later(known.expires_at, record.expires_at)
            found[says] = Branch(known.record, record.mark, known.count + 1, expiry)
    yield from found.values()


def is_told(entry: Entry, oldest: int) -> bool:
    """Whether events with a source sequence of at most `oldest` could not change the entry: a confirmed delete is above
    all of them."""
    return entry.state is not None and any(
        tombstone.record.authority == AuthorityRank.CONFIRMED and sequence_in(tombstone.record.mark) > oldest
        for tombstone in entry.state.tombstones
    )


def why(entry: Entry) -> Unresolved | None:
    """Why the entry is unresolved; None if it is not."""
    return None if entry.state is None else _why(entry.state)


def expires_at(entry: Entry) -> int | None:
    """When what the entry says expires, microseconds since 1970: with the last of those who say it."""
    if entry.state is None or entry.record.is_delete:
        return None
    saying = [each.expires_at for each in entry.state.branches if same_value(each.record, entry.record)]
    return reduce(later, saying)


def at(entry: Entry, moment: int) -> Entry:
    """The entry as it reads at a moment (microseconds since 1970): without what has expired, unless all of it has."""
    if entry.state is None:
        return entry
    branches = [each for each in entry.state.branches if each.expires_at is None or each.expires_at > moment]
    if not branches or len(branches) == len(entry.state.branches):
        return entry
    return replace(_entry(replace(entry.state, branches=tuple(branches))), mark=entry.mark)


def _with_assertion(state: Branches, record: Record) -> Branches | NeedsHistory:
    mark, authority = record.mark, record.authority
    for at, tombstone in enumerate(state.tombstones):
        if mark <= tombstone.record.mark and authority <= tombstone.record.authority:
            if mark != tombstone.record.mark or tombstone.tied:
                return state
            tied = replace(tombstone, tied=True)
            return replace(state, tombstones=(*state.tombstones[:at], tied, *state.tombstones[at + 1 :]))
    if _is_superseded(state, mark, authority):
        return state
    own = Branch(record, mark, 1, record.expires_at)
    kept = []
    for branch in state.branches:
        earliest = branch.record
        if earliest.authority < authority and earliest.mark < mark:
            if branch.latest > mark:
                return NEEDS_HISTORY
        elif earliest.authority == authority and same_value(earliest, record):
            first = min(earliest, record, key=_place)
            own = Branch(first, max(branch.latest, mark), branch.count + 1, later(branch.expires_at, own.expires_at))
        else:
            kept.append(branch)
    tombstones = [
        tombstone
        for tombstone in state.tombstones
        if tombstone.record.authority >= authority or tombstone.record.mark > mark
    ]
    return Branches(_in_order([*kept, own]), tuple(tombstones))


def _with_tombstone(state: Branches, record: Record) -> Branches | NeedsHistory:
    mark, authority = record.mark, record.authority
    own = Tombstone(record)
    tombstones = []
    for tombstone in state.tombstones:
        other = tombstone.record
        if other.mark == mark:
            own = Tombstone(min(other, record, key=_place), tombstone.tied)
        elif other.mark > mark and other.authority >= authority:
            return state
        elif other.mark > mark or other.authority > authority:
            tombstones.append(tombstone)
    if _is_superseded(state, mark, authority):
        return state
    branches = []
    for branch in state.branches:
        if branch.record.authority > authority or branch.record.mark > mark:
            branches.append(branch)
        elif branch.latest > mark:
            return NEEDS_HISTORY
        elif branch.latest == mark:
            own = replace(own, tied=True)
    return Branches(tuple(branches), tuple(sorted([*tombstones, own], key=lambda each: each.record.mark)))


def later(one: int | None, other: int | None) -> int | None:
    """Of two times of expiry the later; None is never."""
    return None if one is None or other is None else max(one, other)


def _is_superseded(state: Branches, mark: Mark, authority: int) -> bool:
    return any(branch.record.authority > authority and branch.latest > mark for branch in state.branches)


def _place(record: Record) -> tuple[Mark, bytes]:
    return record.mark, record.event_id


def _in_order(branches: Iterable[Branch]) -> tuple[Branch, ...]:
    return tuple(sorted(branches, key=lambda branch: _place(branch.record)))


def _entry(state: Branches) -> Entry:
    """The entry of what stands: the pointer is on the earliest of the highest authority, else on the last delete."""
    marks = [branch.latest for branch in state.branches] + [tombstone.record.mark for tombstone in state.tombstones]
    if not state.branches:
        pointer = first = state.tombstones[-1].record
    else:
        pointer = min((branch.record for branch in state.branches), key=lambda each: (-each.authority, *_place(each)))
        first = next(branch.record for branch in state.branches if same_value(branch.record, pointer))
    return Entry(
        pointer,
        max(marks),
        first.mark,
        first.source_recorded_at,
        unresolved=_why(state) is not None,
        state=state,
    )


def _why(state: Branches) -> Unresolved | None:
    branches = state.branches
    if not branches:
        return Unresolved.EQUAL_VERSION_CONFLICT if state.tombstones and state.tombstones[-1].tied else None
    differing = [branch.record for branch in branches if not same_value(branch.record, branches[0].record)]
    if differing:
        tied = any(
            one.record.mark == other.record.mark and not same_value(one.record, other.record)
            for one, other in itertools.pairwise(branches)
        )
        return Unresolved.EQUAL_VERSION_CONFLICT if tied else Unresolved.VALUES_DIFFER
    if any(
        branch.record.authority > tombstone.record.authority and branch.record.mark <= tombstone.record.mark
        for branch in branches
        for tombstone in state.tombstones
    ):
        return Unresolved.WEAKER_DELETE
    return None


def _step(before: Entry | None, after: Entry, record: Record) -> Step:
    effect = _effect_of_delete(before, after, record) if record.is_delete else _effect_of_set(before, after, record)
    if effect is Effect.LATE and before is not None:
        return Step(effect, after, (before.record.source_sequence, record.source_sequence))
    return Step(effect, after)


def _effect_of_set(before: Entry | None, after: Entry, record: Record) -> Effect:
    branches = () if after.state is None else after.state.branches
    stands = any(
        branch.record.authority == record.authority
        and branch.record.mark <= record.mark
        and same_value(branch.record, record)
        for branch in branches
    )
    if not stands:  # deleted or superseded already
        return Effect.CONFLICT if after.unresolved and before is not None and not before.unresolved else Effect.LATE
    if any(branch.record.mark == record.mark and not same_value(branch.record, record) for branch in branches):
        return Effect.CONFLICT
    if before is not None and _says(before) == _says(after):
        return Effect.RESTATED
    if after.unresolved:
        return Effect.BRANCHED
    return Effect.ADDED if before is None or before.record.is_delete else Effect.UPDATED


def _effect_of_delete(before: Entry | None, after: Entry, record: Record) -> Effect:
    if before is not None and _says(before) == _says(after):
        if record.mark < before.mark:
            return Effect.LATE
        newer = after.record.is_delete and record.mark > before.mark
        return Effect.DELETED if newer else Effect.RESTATED
    if after.record.is_delete:
        return Effect.CONFLICT if after.unresolved else Effect.DELETED
    return Effect.BRANCHED if after.unresolved else Effect.UPDATED


def _says(entry: Entry) -> tuple[frozenset[str], str | None, Unresolved | None]:
    """What a reader gets: the values that stand, the one that the pointer is on, and why that is not all."""
    value = entry.record.value
    branches = () if entry.state is None else entry.state.branches
    values = frozenset(canonical_value(branch.record.value or b"") for branch in branches)
    return values, None if value is None else canonical_value(value), why(entry)
