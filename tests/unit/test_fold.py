"""The fold of policy `latest`: what one more event does to an entry."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastword_projector.engine.latest import fold, step
from lastword_projector.engine.records import (
    NO_MARK,
    Entry,
    Record,
    mark_of,
    pack_record,
    same_value,
    sequence_in,
)
from lastword_projector.engine.steps import NEEDS_HISTORY
from lastword_projector.store.packing import pack_head, unpack_entry
from lastword_schemas import jsontext
from lastword_schemas.verdicts import Effect
from tests.support.logs import recorded_at

BRIEF, LONG = b'"brief"', b'"long"'


def record(
    source: int, value: bytes | None = BRIEF, *, ordinal: int = 0, authority: int = 2, ident: int = 0, at: int = 0
) -> Record:
    """A reading of `source` that arrived at `at`; a delete where the value is None."""
    return Record(
        sequence=at or source,
        recorded_at=recorded_at(at or source),
        event_id=(ident or source).to_bytes(16, "big"),
        operation="delete" if value is None else "set",
        scope="global",
        key="tone",
        authority=authority,
        service="app",
        role="service",
        verdict="",
        cited_sequence=source if at else None,
        cited_recorded_at=recorded_at(source) if at else None,
        value=value,
        span=(ordinal, ordinal + 1),
    )


def entry_of(*records: Record) -> Entry:
    """The entry after records that came in that order, each in one step."""
    entry: Entry | None = None
    for item in records:
        stepped = step(entry, item).entry
        assert stepped is not NEEDS_HISTORY
        entry = stepped
    assert entry is not None
    return entry


def test_the_first_set_is_added() -> None:
    first = record(5)
    effect, entry, related = step(None, first)
    assert (effect, related) == (Effect.ADDED, None)
    assert entry == Entry(first, first.mark, start=first.mark, started_at=recorded_at(5), previous=NO_MARK)


def test_the_first_delete_is_a_tombstone() -> None:
    effect, entry, _ = step(None, record(5, None))
    assert effect is Effect.DELETED
    assert isinstance(entry, Entry)
    assert entry.record.is_delete


def test_another_value_with_a_greater_mark_updates_and_begins_a_version() -> None:
    effect, entry, _ = step(entry_of(record(5)), record(7, LONG))
    assert effect is Effect.UPDATED
    assert isinstance(entry, Entry)
    assert entry.record.value == LONG
    assert (sequence_in(entry.start), entry.started_at, sequence_in(entry.previous)) == (7, recorded_at(7), 5)


def test_the_same_value_with_a_greater_mark_is_restated_and_keeps_the_start() -> None:
    effect, entry, _ = step(entry_of(record(3, LONG), record(5)), record(7, b' "brief"'))
    assert effect is Effect.RESTATED
    assert isinstance(entry, Entry)
    assert (sequence_in(entry.mark), sequence_in(entry.start), sequence_in(entry.previous)) == (7, 5, 3)
    assert entry.started_at == recorded_at(5)


def test_a_set_after_a_tombstone_is_added() -> None:
    effect, entry, _ = step(entry_of(record(5), record(6, None)), record(7))
    assert effect is Effect.ADDED
    assert isinstance(entry, Entry)
    assert (sequence_in(entry.start), sequence_in(entry.previous)) == (7, 6)


def test_a_delete_after_a_set_is_deleted_and_keeps_its_mark() -> None:
    effect, entry, _ = step(entry_of(record(5)), record(7, None))
    assert effect is Effect.DELETED
    assert isinstance(entry, Entry)
    assert sequence_in(entry.mark) == 7


def test_a_second_delete_goes_on_with_the_first() -> None:
    effect, entry, _ = step(entry_of(record(5), record(6, None)), record(7, None))
    assert effect is Effect.DELETED
    assert isinstance(entry, Entry)
    assert (sequence_in(entry.mark), sequence_in(entry.start), sequence_in(entry.previous)) == (7, 6, 5)


def test_an_older_source_is_late_with_both_sequences_and_changes_no_value() -> None:
    before = entry_of(record(20))
    effect, entry, related = step(before, record(10, LONG, at=31))
    assert (effect, related) == (Effect.LATE, (20, 10))
    assert isinstance(entry, Entry)
    assert entry.record == before.record


def test_an_older_source_never_resurrects_a_tombstone() -> None:
    effect, entry, _ = step(entry_of(record(45, None)), record(20, at=50))
    assert effect is Effect.LATE
    assert isinstance(entry, Entry)
    assert entry.record.is_delete


def test_authority_decides_between_words_of_one_source() -> None:
    guess, stated = record(5, LONG, authority=1, ident=1), record(5, authority=2, ident=2)
    assert entry_of(guess, stated).record.value == BRIEF
    effect, entry, related = step(entry_of(stated), guess)
    assert (effect, related) == (Effect.LATE, (5, 5))
    assert isinstance(entry, Entry)
    assert entry.record.value == BRIEF


def test_a_later_source_wins_over_a_higher_authority() -> None:
    assert entry_of(record(5, authority=3), record(6, LONG, authority=1)).record.value == LONG


def test_the_later_words_of_one_source_win_in_any_order_of_arrival() -> None:
    at_eight, no_nine = record(5, b"8", ordinal=3, ident=2), record(5, b"9", ordinal=10, ident=1)
    for order in itertools.permutations([at_eight, no_nine]):
        assert entry_of(*order).record.value == b"9"


def test_marks_compare_as_their_tuples_do() -> None:
    tuples = [(9, 3, 5), (10, 1, 0), (10, 1, 9), (10, 1, 10), (10, 2, 0), (2**53 - 1, 1, 32767)]
    assert [mark_of(*each) for each in tuples] == sorted(mark_of(*each) for each in tuples)
    assert {len(mark_of(*each)) for each in tuples} == {23}
    assert sequence_in(mark_of(2**53 - 1, 3, 32767)) == 2**53 - 1


class TestTies:
    def test_another_value_with_the_same_mark_is_a_conflict(self) -> None:
        effect, entry, related = step(entry_of(record(5, ident=1)), record(5, LONG, ident=2))
        assert (effect, related) == (Effect.CONFLICT, None)
        assert isinstance(entry, Entry)
        assert entry.unresolved

    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
    def test_the_pointer_is_on_the_smaller_event_id_in_any_order(self, order: tuple[int, ...]) -> None:
        before = record(3, LONG, ident=99)
        tied = [record(5, ident=7), record(5, LONG, ident=4), record(5, b"3", ident=9)]
        arrived = [before, *(tied[at] for at in order)]
        entry: Entry | None = None
        for count, item in enumerate(arrived, start=1):
            stepped = step(entry, item).entry
            entry = fold(arrived[:count]) if stepped is NEEDS_HISTORY else stepped
        assert entry is not None
        assert entry.unresolved
        assert entry.record == tied[1]
        assert (sequence_in(entry.start), entry.previous) == (3, NO_MARK)  # the pointer says what 3 said

    def test_the_same_value_with_the_same_mark_is_no_conflict(self) -> None:
        one, other = record(5, ident=1), record(5, b'"brie\\u0066"', ident=2)
        for order in itertools.permutations([one, other]):
            entry = entry_of(*order)
            assert entry.record == one
            assert not entry.unresolved
        assert step(entry_of(one), other).effect is Effect.RESTATED

    def test_a_set_and_a_delete_of_the_same_mark_conflict(self) -> None:
        assert step(entry_of(record(5, ident=1)), record(5, None, ident=2)).effect is Effect.CONFLICT

    def test_a_newer_event_resolves_a_conflict_and_begins_a_version_even_with_the_same_value(self) -> None:
        unresolved = entry_of(record(5, ident=1), record(5, LONG, ident=2))
        effect, entry, _ = step(unresolved, record(6))
        assert effect is Effect.UPDATED
        assert isinstance(entry, Entry)
        assert not entry.unresolved
        assert (sequence_in(entry.start), sequence_in(entry.previous)) == (6, 5)

    def test_an_older_event_leaves_a_conflict_unresolved(self) -> None:
        unresolved = entry_of(record(5, ident=1), record(5, LONG, ident=2))
        effect, entry, _ = step(unresolved, record(4, b"3"))
        assert effect is Effect.LATE
        assert isinstance(entry, Entry)
        assert entry.unresolved
        assert sequence_in(entry.previous) == 4


class TestLateEventsAndWhereTheVersionBegan:
    def test_the_same_value_below_the_start_moves_the_start(self) -> None:
        effect, entry, _ = step(entry_of(record(3, LONG), record(8)), record(5))
        assert effect is Effect.LATE
        assert isinstance(entry, Entry)
        assert (sequence_in(entry.start), entry.started_at, sequence_in(entry.previous)) == (5, recorded_at(5), 3)

    def test_another_value_below_the_start_becomes_what_was_replaced(self) -> None:
        _, entry, _ = step(entry_of(record(3, LONG), record(8)), record(5, b"3"))
        assert isinstance(entry, Entry)
        assert (sequence_in(entry.start), sequence_in(entry.previous)) == (8, 5)

    def test_what_is_below_the_replaced_one_changes_nothing(self) -> None:
        before = entry_of(record(3, LONG), record(8))
        assert step(before, record(2)).entry is before

    def test_the_same_value_within_the_version_changes_nothing(self) -> None:
        before = entry_of(record(3), record(8))
        assert step(before, record(5)).entry is before

    def test_another_value_within_the_version_needs_the_history_and_splits_it(self) -> None:
        said = [record(3), record(8), record(5, LONG)]
        assert step(entry_of(*said[:2]), said[2]).entry is NEEDS_HISTORY
        entry = fold(said)
        assert entry is not None
        assert (sequence_in(entry.start), sequence_in(entry.previous)) == (8, 5)

    def test_a_tie_with_the_replaced_one_needs_the_history(self) -> None:
        said = [record(3, LONG, ident=1), record(8), record(3, b"3", ident=2)]
        assert step(entry_of(*said[:2]), said[2]).entry is NEEDS_HISTORY


def test_the_fold_of_nothing_is_nothing() -> None:
    assert fold([]) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b'{"a":1,"b":[]}', b'{ "b" : [], "a" : 1 }', True),
        (b"1", b"1.0", False),
        (b"9007199254740993", b"9007199254740992", False),
        (b"-0", b"0", True),
        (b"-0", b"-0.0", False),
        (b"1", b"-1", False),
        (b'"a\\/"', b'"a/"', True),
        (b'"a"', b'"b"', False),
        (b'"1"', b"1", False),
        (b"null", b"false", False),
        (b'{"a":1,"a":2}', b'{"a":2}', True),  # a member that stands twice in the log counts with its last value
        (b"[]", b"{}", False),
        (b"null", None, False),
        (None, None, True),
        (b'"e\xcc\x81"', b'"\xc3\xa9"', False),
    ],
)
def test_values_are_the_same_when_their_canonical_json_is(one: bytes | None, other: bytes | None, same: bool) -> None:
    assert same_value(record(1, one), record(2, other)) is same
    assert same_value(record(2, other), record(1, one)) is same


SPELLED = st.sampled_from(
    (
        *(b"0", b"-0", b"0.0", b"1", b"1.0", b"1e0", b"10", b"null", b"true", b"false", b'""', b'"1"', b'"null"'),
        *(b'"a"', b' "a"', b'"\\u0061"', b'"\\/"', b'"/"', b'"\xc3\xa9"', b'"\\u00e9"'),
        *(b"[]", b"[ ]", b"{}", b'{"a":1}'),
    )
)


@given(SPELLED, SPELLED)
def test_values_are_the_same_exactly_when_their_canonical_texts_are(one: bytes, other: bytes) -> None:
    """Most values are told apart without making those texts."""
    canonical = jsontext.canonical(jsontext.parse(one)) == jsontext.canonical(jsontext.parse(other))
    assert same_value(record(1, one), record(2, other)) is canonical


STORED = {
    "its first value": [record(3, '"\U0001f642"'.encode())],
    "a reading": [record(3, at=9)],
    "a tombstone": [record(3, None)],
    "another value": [record(3, LONG), record(8)],
    "restated": [record(3, LONG), record(5), record(8)],
    "restated from the beginning": [record(3), record(8)],
    "unresolved": [record(3), record(5, ident=1), record(5, LONG, ident=2)],
    "unresolved from the beginning": [record(5, ident=1), record(5, LONG, ident=2)],
    "began earlier than it was heard": [record(3, LONG), record(8), record(5, at=9)],
}


@pytest.mark.parametrize("said", STORED.values(), ids=STORED)
def test_an_entry_survives_packing(said: list[Record]) -> None:
    entry = entry_of(*said)
    stored = unpack_entry(pack_head(entry, "1772366400000") + pack_record(entry.record))
    assert (stored.entry, stored.projected_at) == (entry, 1_772_366_400_000)


def test_a_stored_entry_begins_with_its_mark_the_time_of_projection_and_its_flags() -> None:
    """Lua and people read this: see `packing`."""
    first, second, third = record(3, LONG), record(5), record(8)
    assert pack_head(entry_of(first), "1772366400000") == f"{first.mark}17723664000000".encode()
    assert pack_head(entry_of(first, second), "1772366400000") == f"{second.mark}17723664000004{first.mark}".encode()
    restated = pack_head(entry_of(first, second, third), "1772366400000")
    assert restated == f"{third.mark}17723664000006{second.mark}{recorded_at(5):013d}{first.mark}".encode()
    unresolved = entry_of(record(5, ident=1), record(5, LONG, ident=2))
    assert pack_head(unresolved, "1772366400000") == f"{unresolved.mark}17723664000001".encode()
