"""The fold of policy `latest`: the greatest mark wins, a tombstone included.

One pure function, `step`, folds one more event into an entry whatever the order of arrival. Nearly always the entry is
enough; where it is not, `step` says `NEEDS_HISTORY` and `fold` over the key's events gives the entry.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from lastword_projector.engine.records import NO_MARK, Decided, Entry, Mark, Record, same_value, sequence_in
from lastword_projector.engine.steps import NEEDS_HISTORY, NeedsHistory, Step
from lastword_schemas.verdicts import Effect, Unresolved


def step(entry: Entry | None, record: Record) -> Step:
    """Fold one counting `set` or `delete` into the entry of its key."""
    mark = record.mark
    if entry is None:
        return Step(Effect.DELETED if record.is_delete else Effect.ADDED, _begin(record, mark, NO_MARK))
    if mark > entry.mark:
        return _newer(entry, record, mark)
    if mark == entry.mark:
        return _tie(entry, record)
    return Step(Effect.LATE, _late(entry, record, mark), (entry.record.source_sequence, record.source_sequence))


def refold(entry: Entry | None, record: Record, history: Iterable[Record], resolves: Sequence[Decided] = ()) -> Step:
    """The same where the entry alone does not tell: with all counting events of the key before this one."""
    del resolves  # there are none
    refolded = fold([*history, record])
    if refolded is None:
        raise AssertionError("a fold of events has an entry")
    return step(entry, record)._replace(entry=refolded)


def fold(records: Iterable[Record], resolves: Sequence[Decided] = ()) -> Entry | None:
    """The entry of one key from its counting events, in any order; None if there are none."""
    del resolves  # nothing stands side by side
    entry: Entry | None = None
    for record in sorted(records, key=lambda record: (record.mark, record.event_id)):
        folded = step(entry, record).entry
        if folded is NEEDS_HISTORY:
            raise AssertionError("events in the order of their marks fold one by one")
        entry = folded
    return entry


def is_told(entry: Entry, oldest: int) -> bool:
    """Whether events with a source sequence of at most `oldest` could not change the entry: the version and the mark
    below it are above that."""
    return bool(entry.previous) and sequence_in(entry.previous) > oldest


def why(entry: Entry) -> Unresolved | None:
    """Why the entry is unresolved: another value has the very same mark."""
    return Unresolved.EQUAL_VERSION_CONFLICT if entry.unresolved else None


def at(entry: Entry, moment: int) -> Entry:
    """The entry as it reads at a moment: there is one value, expired or not."""
    del moment
    return entry


def expires_at(entry: Entry) -> int | None:
    """When what the entry says expires, microseconds since 1970."""
    return entry.record.expires_at


def _begin(record: Record, mark: Mark, previous: Mark) -> Entry:
    return Entry(record, mark, mark, record.source_recorded_at, previous)


def _newer(entry: Entry, record: Record, mark: Mark) -> Step:
    if same_value(entry.record, record) and not entry.unresolved:
        goes_on = Entry(record, mark, entry.start, entry.started_at, entry.previous)
        return Step(Effect.DELETED if record.is_delete else Effect.RESTATED, goes_on)
    added = Effect.ADDED if entry.record.is_delete else Effect.UPDATED
    return Step(Effect.DELETED if record.is_delete else added, _begin(record, mark, entry.mark))


def _tie(entry: Entry, record: Record) -> Step:
    """Equal marks: the pointer is on the smaller event id, the same in any order of arrival."""
    smaller = record.event_id < entry.record.event_id
    if same_value(entry.record, record):
        return Step(Effect.RESTATED, replace(entry, record=record) if smaller else entry)
    if smaller:
        return Step(Effect.CONFLICT, NEEDS_HISTORY)
    return Step(Effect.CONFLICT, replace(entry, unresolved=True))


def _late(entry: Entry, record: Record, mark: Mark) -> Entry | NeedsHistory:
    """An event below the entry's mark never changes the value; it may change where the version began."""
    if mark < entry.previous:
        return entry
    if mark == entry.previous:
        return NEEDS_HISTORY
    same = same_value(entry.record, record)
    if mark < entry.start:  # and above all that the version replaced
        if same:
            return replace(entry, start=mark, started_at=record.source_recorded_at)
        return replace(entry, previous=mark)
    return entry if same else NEEDS_HISTORY
