"""What every `Store` does. A test class of an implementation subclasses `StoreContract`."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import pytest

from lastword_projector.engine.decode import LogRecord
from lastword_projector.engine.known import EventRef, KeyRef, Needs, SourceRef
from lastword_projector.engine.projection import FOLD_VERSION, Changes, DeadLetter
from lastword_projector.engine.records import NO_MARK, Entry, Mark, Record
from lastword_projector.store.ports import Checkpoint, CommitRefused, OtherProjection, Pending, Store
from lastword_schemas.control import Genesis
from lastword_schemas.positions import offset_of
from lastword_schemas.registry import Registry
from tests.support.logs import ADA, BEN, START_MS, registry_of

NOW_MS = START_MS
TONE, THEME = KeyRef(ADA, "global", "tone"), KeyRef(ADA, "global", "theme")
BENS_TONE = KeyRef(BEN, "global", "tone")
ALL = 2**53
"""Above every sequence."""

EXOTIC = (
    *("main/user:{p0}", "main/user:}{", "main/user:a/b:c", "acme/org:*?[x]^", "main/user:%2F%00", "main/user: "),
    *("main/user:🙂", "main/user:e\u0301", "main/user:\u00e9", "main/user:" + "é" * 128),
)
"""Owners that a store could trip over; each is another one."""
ODD_NAMES = (
    *("global", "project:{p1}", "project:a/b", "project:..", "project:🙂", "project:%", "project:'\"\\"),
    "a:" + "x" * 254,
)
"""Scopes; with their colon they serve as keys too."""


@dataclass
class Write:
    """An entry to be written, and what it is taken to replace."""

    ref: KeyRef
    sequence: int
    before: Mark = NO_MARK
    value: bytes = b'"brief"'
    with_record: bool = True
    """Whether the record of its pointer is new; else it is one that the history has already."""


def record(sequence: int, value: bytes | None = b'"brief"', key: str | None = "tone", verdict: str = "added") -> Record:
    """A statement's record."""
    return Record(
        sequence=sequence,
        recorded_at=START_MS + sequence,
        event_id=uuid.UUID(int=sequence).bytes,
        operation="set" if value is not None else "delete",
        scope="global",
        key=key,
        authority=2,
        service="app",
        role="service",
        verdict=verdict,
        value=value,
    )


FULL = Record(
    sequence=2**53 - 1,
    recorded_at=1,
    event_id=bytes(range(16)),
    operation="set",
    scope="project:{p0}/🙂",
    key="k e\u0301",
    authority=1,
    service="s",
    role="extractor",
    verdict="late",
    value=bytes(range(256)),
    cited_sequence=2**52,
    cited_recorded_at=2,
    source_event_id=b"\xff" * 16,
    span=(2, 3),
    quote="🙂",
    text="\0\n🙂",
    thread="t",
    message="m",
    confidence=0.1,
    occurred_at=-1,
    expires_at=2**53,
    reason="r",
    detail="d",
    related=(1, 2),
    expected_sequence=2**53 - 1,
    retires=(("global", "k"), ("project:{p0}/🙂", "\u00e9")),
    retired=("deleted", "late"),
    retired_by=("global", "k2"),
    backfill=999_999,
)
"""Every field has something."""


def entry(sequence: int, value: bytes = b'"brief"', ref: KeyRef = TONE) -> Entry:
    """An entry that begins with that statement."""
    made = msgspec.structs.replace(record(sequence, value), scope=ref.scope, key=ref.key)
    return Entry(made, made.mark, made.mark, made.source_recorded_at)


def genesis(partition: int = 0, *, topic_id: str = "topic", generation: int = 0) -> Genesis:
    return Genesis(generation=generation, partition=partition, partitions=8, cluster_id="c", topic_id=topic_id)


def changes(next_offset: int, *writes: Write, events: Sequence[tuple[EventRef, int]] = ()) -> Changes:
    """Changes with entries and events, and the records that they are of."""
    made = Changes(next_offset)
    records: dict[tuple[int, str], Record] = {}
    for write in writes:
        written = entry(write.sequence, write.value, write.ref)
        made.entries[write.ref] = (write.before, written)
        if write.with_record:
            records[write.sequence, write.ref.owner] = written.record
    for ref, sequence in events:
        made.events.append((ref, sequence))
        records.setdefault((sequence, ref.owner), record(sequence))
    made.records = [(owner, records[sequence, owner]) for sequence, owner in sorted(records)]
    return made


def event(number: int, owner: str = ADA) -> EventRef:
    return EventRef(owner, uuid.UUID(int=number).bytes)


def mark(sequence: int) -> Mark:
    return entry(sequence).mark


def checkpoint(next_sequence: int) -> Checkpoint:
    """The checkpoint of partition 0 where no registry was applied."""
    return Checkpoint(next_sequence, genesis(), FOLD_VERSION, Registry())


def commit(store: Store, before: Checkpoint | None, made: Changes, of: Genesis | None = None) -> None:
    """Commit, and wait for it."""
    live = of or genesis()
    store.commit(live.partition, live, before, made, NOW_MS).result()


def append(
    store: Store, records: Sequence[tuple[str, Record]], dead: Sequence[DeadLetter] = (), *, partition: int = 0
) -> None:
    """Commit records (as first copies of their ids) and dead letters only, one offset further."""
    before = store.checkpoint(partition)
    made = Changes(offset_of(before.next_sequence) + 1 if before else 1)
    made.records, made.dead = list(records), list(dead)
    made.events = [((owner, each.event_id), each.sequence) for owner, each in records]
    commit(store, before, made, genesis(partition))


def entries(store: Store, refs: Sequence[KeyRef], partition: int = 0) -> dict[KeyRef, Entry | None]:
    found = store.load(partition, Needs(entries=refs)).result().entries
    return {KeyRef(*ref): found[ref] for ref in found}


def events(store: Store, refs: Sequence[EventRef], partition: int = 0) -> dict[EventRef, Record | None]:
    found = store.load(partition, Needs(events=refs)).result().events
    return {EventRef(*ref): found[ref] for ref in found}


def sequences(store: Store, refs: Sequence[EventRef], partition: int = 0) -> dict[EventRef, int | None]:
    """Of the first copies."""
    found = events(store, refs, partition)
    return {ref: None if first is None else first.sequence for ref, first in found.items()}


def of_key(store: Store, ref: KeyRef = TONE, *, below: int = ALL, partition: int = 0) -> list[Record]:
    return store.key_history(partition, ref, below=below)


class StoreContract:
    """Subclass it with a fixture `kept` that gives an empty store."""

    fold_version_at: str
    """Dotted name of the constant by which the implementation knows its own fold version."""

    @pytest.fixture
    def kept(self) -> Store:
        raise NotImplementedError

    @pytest.fixture
    def begun(self, kept: Store) -> Store:
        """A store at offset 10 with `tone` of sequence 5 and event 5."""
        commit(kept, None, changes(10, Write(TONE, 5), events=[(event(5), 5)]))
        return kept

    def test_an_empty_store_knows_nothing(self, kept: Store) -> None:
        assert kept.checkpoint(0) is None
        assert entries(kept, [TONE, THEME]) == {TONE: None, THEME: None}
        assert events(kept, [event(1)]) == {event(1): None}
        assert entries(kept, []) == {}
        assert events(kept, []) == {}
        assert of_key(kept) == []

    def test_a_commit_writes_entries_events_history_and_checkpoint(self, begun: Store) -> None:
        assert begun.checkpoint(0) == checkpoint(10)
        assert entries(begun, [TONE, THEME]) == {TONE: entry(5), THEME: None}
        assert events(begun, [event(5), event(6)]) == {event(5): record(5), event(6): None}
        assert of_key(begun) == [record(5)]

    def test_entries_and_events_are_loaded_together(self, begun: Store) -> None:
        loaded = begun.load(0, Needs([event(6), event(5)], [THEME, TONE, BENS_TONE])).result()
        assert loaded.entries == {THEME: None, TONE: entry(5), BENS_TONE: None}
        assert loaded.events == {event(6): None, event(5): record(5)}

    def test_a_commit_of_nothing_moves_the_checkpoint(self, begun: Store) -> None:
        commit(begun, begun.checkpoint(0), changes(11))
        stored = begun.checkpoint(0)
        assert stored is not None
        assert (stored.next_sequence, stored.last_sequence) == (11, 10)
        assert entries(begun, [TONE]) == {TONE: entry(5)}
        assert of_key(begun) == [record(5)]

    def test_later_commits_replace_entries_one_by_one(self, begun: Store) -> None:
        commit(begun, begun.checkpoint(0), changes(13, Write(TONE, 11, before=mark(5)), Write(THEME, 12)))
        commit(begun, begun.checkpoint(0), changes(14, Write(THEME, 13, before=mark(12))))
        assert entries(begun, [THEME, TONE]) == {THEME: entry(13, ref=THEME), TONE: entry(11)}

    def test_an_entry_may_be_written_again_under_the_same_mark(self, begun: Store) -> None:
        refold = Write(TONE, 5, before=mark(5), value=b'"long"', with_record=False)
        commit(begun, begun.checkpoint(0), changes(11, refold))
        assert entries(begun, [TONE]) == {TONE: entry(5, b'"long"')}
        assert of_key(begun) == [record(5)]

    def test_entries_of_new_and_of_older_records_are_written_together(self, begun: Store) -> None:
        """A late event of one key moves its start; the pointer stays on a record of long ago."""
        commit(begun, begun.checkpoint(0), changes(13, Write(THEME, 11), Write(BENS_TONE, 12)))
        writes = (
            Write(TONE, 5, before=mark(5), value=b'"once"', with_record=False),
            Write(KeyRef(ADA, "project:x", "tone"), 13),
            Write(THEME, 11, before=mark(11), value=b'"twice"', with_record=False),
            Write(BENS_TONE, 14, before=mark(12)),
        )
        commit(begun, begun.checkpoint(0), changes(15, *writes))
        assert entries(begun, [write.ref for write in writes]) == {
            write.ref: entry(write.sequence, write.value, write.ref) for write in writes
        }

    def test_a_set_and_the_deletes_that_it_brings_are_written_as_what_each_is(self, begun: Store) -> None:
        """They are of one event; the tombstone's record is none of the history's."""
        moved = msgspec.structs.replace(
            record(11, key="theme"), retires=(("global", "tone"),), retired=("deleted",), verdict="added"
        )
        (tone,) = moved.deletes()
        made = changes(12)
        made.records = [(ADA, moved)]
        whole = {ref: Entry(each, each.mark, each.mark, START_MS) for ref, each in ((THEME, moved), (TONE, tone))}
        made.entries = {THEME: (NO_MARK, whole[THEME]), TONE: (mark(5), whole[TONE])}
        commit(begun, begun.checkpoint(0), made)
        assert entries(begun, [THEME, TONE]) == whole
        assert of_key(begun) == [record(5), tone]

    def test_every_part_of_an_entry_comes_back(self, kept: Store) -> None:
        made = Changes(10)
        whole = {
            KeyRef(ADA, "global", f"k{number}"): Entry(
                record(9, b'"now"', f"k{number}"),
                mark(9),
                mark(9 - number % 2),
                START_MS + 9 - number % 3,
                (NO_MARK, mark(3))[number % 2],
                number > 2,
            )
            for number in range(6)
        }
        made.entries = {ref: (NO_MARK, each) for ref, each in whole.items()}
        commit(kept, None, made)
        assert entries(kept, list(whole)) == whole

    def test_the_registry_stays_until_the_next_one(self, kept: Store) -> None:
        first, second = registry_of(tone={"description": "é🙂"}), registry_of(theme={})
        for offset, registry in ((1, None), (2, first), (3, None), (4, second), (5, None)):
            made = changes(offset)
            made.registry = registry
            commit(kept, kept.checkpoint(0), made)
            stored = kept.checkpoint(0)
            assert stored is not None
            assert stored.registry == (Registry() if offset == 1 else first if offset < 4 else second)

    @pytest.mark.parametrize("stamped", [True, False])
    def test_whose_clock_it_is_stays(self, kept: Store, stamped: bool) -> None:
        first = changes(1)
        first.stamped = stamped
        commit(kept, None, first)
        commit(kept, kept.checkpoint(0), changes(2))
        stored = kept.checkpoint(0)
        assert stored is not None
        assert stored.clock == ("broker" if stamped else "publisher")

    def test_sequences_of_a_later_generation_are_exact(self, kept: Store) -> None:
        later, sequence = genesis(generation=8191), 8191 * 2**40 + 2**39 + 1
        commit(kept, None, changes(2**39 + 2, Write(TONE, sequence), events=[(event(1), sequence)]), later)
        stored = kept.checkpoint(0)
        assert stored is not None
        assert stored.last_sequence == sequence
        assert sequences(kept, [event(1)]) == {event(1): sequence}
        assert entries(kept, [TONE]) == {TONE: entry(sequence)}

    def test_partitions_know_nothing_of_each_other(self, begun: Store) -> None:
        assert begun.checkpoint(1) is None
        assert entries(begun, [TONE], 1) == {TONE: None}
        assert events(begun, [event(5)], 1) == {event(5): None}
        assert of_key(begun, partition=1) == []
        commit(begun, None, changes(3, Write(TONE, 2)), genesis(1))
        assert entries(begun, [TONE]) == {TONE: entry(5)}
        stored = begun.checkpoint(0)
        assert stored is not None
        assert stored.next_sequence == 10

    # --- all or nothing

    def refused(
        self, store: Store, before: Checkpoint | None, *writes: Write, error: type[Exception] = CommitRefused
    ) -> None:
        """Such a commit is refused, and leaves nothing behind, wherever in it the fault is."""
        sound = (Write(THEME, 11), Write(BENS_TONE, 12))
        seen = [TONE, *(write.ref for write in (*sound, *writes))]
        new = [event(11), event(12, BEN)]

        def all_of_it() -> object:
            histories = [of_key(store, ref) for ref in seen]
            return store.checkpoint(0), entries(store, seen), events(store, new), histories

        was = all_of_it()
        for order in ((*writes, *sound), (*sound, *writes)):
            made = changes(20, *order, events=[(new[0], 11), (new[1], 12)])
            made.registry = registry_of(theme={})
            made.dead = [DeadLetter(LogRecord(19, 0, b"k", b"\xff"), "garbage")]
            with pytest.raises(error):
                commit(store, before, made)
            assert all_of_it() == was
            assert self.stubs(store, 0) == []

    @pytest.mark.parametrize("next_sequence", [0, 9, 11, 100])
    def test_a_checkpoint_that_is_not_equal_is_refused_behind_and_ahead(self, begun: Store, next_sequence: int) -> None:
        self.refused(begun, checkpoint(next_sequence))

    def test_a_first_commit_on_a_store_that_has_begun_is_refused(self, begun: Store) -> None:
        self.refused(begun, None)

    def test_going_on_from_a_checkpoint_that_is_gone_is_refused(self, kept: Store) -> None:
        self.refused(kept, checkpoint(10))

    @pytest.mark.parametrize("stored_mark", [NO_MARK, mark(4), mark(6)])
    def test_an_entry_that_was_folded_from_another_mark_is_refused(self, begun: Store, stored_mark: Mark) -> None:
        self.refused(begun, begun.checkpoint(0), Write(TONE, 15, before=stored_mark))

    def test_an_entry_that_is_gone_is_refused(self, begun: Store) -> None:
        self.refused(begun, begun.checkpoint(0), Write(KeyRef(ADA, "project:x", "tone"), 15, before=mark(5)))

    @pytest.mark.parametrize("sequence", [0, 4])
    def test_a_mark_that_falls_is_refused(self, begun: Store, sequence: int) -> None:
        """One that stays is a late event or a refold; why it stays is no longer told apart."""
        self.refused(begun, begun.checkpoint(0), Write(TONE, sequence, before=mark(5)))

    def test_what_a_decision_changed_may_fall_and_nothing_else_may(self, begun: Store) -> None:
        fallen = changes(11, Write(TONE, 3, before=mark(5), with_record=False), Write(THEME, 10))
        fallen.refolded.add(TONE)
        commit(begun, checkpoint(10), fallen)
        found = entries(begun, [TONE])[TONE]
        assert found is not None
        assert found.mark == mark(3)
        again = changes(12, Write(TONE, 2, before=mark(3), with_record=False))
        again.refolded.add(THEME)
        with pytest.raises(CommitRefused):
            commit(begun, checkpoint(11), again)

    def test_an_entry_that_a_decision_changed_is_compared_too(self, begun: Store) -> None:
        fallen = changes(11, Write(TONE, 3, before=mark(4), with_record=False))
        fallen.refolded.add(TONE)
        with pytest.raises(CommitRefused):
            commit(begun, checkpoint(10), fallen)

    def test_another_log_is_refused(self, begun: Store) -> None:
        was = begun.checkpoint(0)
        for next_offset in (10, 11):  # also where its target happens to be the stored one
            made = changes(next_offset, Write(THEME, 7), events=[(event(7), 7)])
            with pytest.raises(OtherProjection, match=genesis().log_id):
                commit(begun, was, made, genesis(topic_id="recreated"))
        assert begun.checkpoint(0) == was
        assert entries(begun, [THEME]) == {THEME: None}
        assert events(begun, [event(7)]) == {event(7): None}
        assert of_key(begun, THEME) == []

    def test_another_fold_version_is_refused(self, begun: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        was = begun.checkpoint(0)
        monkeypatch.setattr(self.fold_version_at, FOLD_VERSION + 1)
        self.refused(begun, was, error=OtherProjection)
        with pytest.raises(OtherProjection):
            commit(begun, was, changes(10))

    # --- once more

    def test_a_repeated_commit_succeeds_and_changes_nothing(self, kept: Store) -> None:
        first = changes(10, Write(TONE, 5), events=[(event(5), 5)])
        for _ in range(2):
            commit(kept, None, first)
        before = kept.checkpoint(0)
        second = changes(20, Write(TONE, 15, before=mark(5)), events=[(event(15), 15)])
        for _ in range(3):
            commit(kept, before, second)
        assert entries(kept, [TONE]) == {TONE: entry(15)}
        assert sequences(kept, [event(5), event(15)]) == {event(5): 5, event(15): 15}
        assert of_key(kept) == [record(5), record(15)]
        with pytest.raises(CommitRefused):
            commit(kept, None, first)

    # --- sent ahead

    def test_commits_sent_ahead_take_effect_in_their_order(self, begun: Store) -> None:
        sent = [
            begun.commit(0, genesis(), checkpoint(at), changes(at + 1, Write(TONE, at, before=mark(was))), NOW_MS)
            for at, was in ((10, 5), (11, 10), (12, 11))
        ]
        assert begun.load(0, Needs(entries=[TONE])).result().entries == {TONE: entry(12)}
        assert [pending.result() for pending in sent] == [None, None, None]
        assert begun.checkpoint(0) == checkpoint(13)
        assert [each.sequence for each in of_key(begun)] == [5, 10, 11, 12]

    def test_a_load_sees_the_commits_before_it_and_none_after_it(self, begun: Store) -> None:
        needs = Needs([event(10), event(11)], [TONE])
        loads = [begun.load(0, needs)]
        sent = []
        for at, was in ((10, 5), (11, 10)):
            made = changes(at + 1, Write(TONE, at, before=mark(was)), events=[(event(at), at)])
            sent.append(begun.commit(0, genesis(), checkpoint(at), made, NOW_MS))
            loads.append(begun.load(0, needs))
        seen = [load.result() for load in reversed(loads)][::-1]  # asked for in any order
        for pending in sent:
            pending.result()
        assert [loaded.entries[TONE] for loaded in seen] == [entry(5), entry(10), entry(11)]
        assert [[ref for ref, found in loaded.events.items() if found] for loaded in seen] == [
            [],
            [event(10)],
            [event(10), event(11)],
        ]

    def test_commits_sent_after_a_refused_one_are_refused_too(self, begun: Store) -> None:
        sent: list[Pending[None]] = []
        for at, was in ((20, 5), (21, 20), (22, 21)):  # the stored checkpoint is 10
            made = changes(at + 1, Write(TONE, at, before=mark(was)), events=[(event(at), at)])
            sent.append(begun.commit(0, genesis(), checkpoint(at), made, NOW_MS))
        for pending in sent:
            with pytest.raises(CommitRefused):
                pending.result()
        assert begun.checkpoint(0) == checkpoint(10)
        assert entries(begun, [TONE]) == {TONE: entry(5)}
        assert sequences(begun, [event(20), event(21), event(22)]) == {event(number): None for number in (20, 21, 22)}
        assert of_key(begun) == [record(5)]

    def test_commits_of_several_partitions_are_refused_one_by_one(self, begun: Store) -> None:
        sent = [
            begun.commit(0, genesis(), None, changes(20, Write(THEME, 11)), NOW_MS),
            begun.commit(1, genesis(1), None, changes(20, Write(THEME, 11)), NOW_MS),
            begun.commit(0, genesis(), checkpoint(10), changes(20, Write(THEME, 12)), NOW_MS),
        ]
        with pytest.raises(CommitRefused, match="partition 0"):
            sent[0].result()
        assert [pending.result() for pending in sent[1:]] == [None, None]
        assert entries(begun, [THEME], 1) == {THEME: entry(11, ref=THEME)}
        assert entries(begun, [THEME]) == {THEME: entry(12, ref=THEME)}

    def test_after_a_reset_it_goes_on_from_what_is_stored(self, begun: Store) -> None:
        begun.load(0, Needs(entries=[TONE]))
        begun.reset()
        assert begun.checkpoint(0) == checkpoint(10)
        commit(begun, checkpoint(10), changes(11, Write(THEME, 10)))
        assert entries(begun, [TONE, THEME]) == {TONE: entry(5), THEME: entry(10, ref=THEME)}

    # --- history

    def test_records_are_found_by_exactly_their_id(self, kept: Store) -> None:
        made = [record(sequence) for sequence in (2, 3, 7, 11, 10_000_000_000)]
        append(kept, [(ADA, each) for each in made])
        found = events(kept, [EventRef(ADA, each.event_id) for each in made])
        assert list(found.values()) == made
        strangers = [event(number) for number in (0, 1, 4, 8, 12, 10**15)] + [event(3, BEN)]
        assert set(events(kept, strangers).values()) == {None}

    def test_every_field_comes_back(self, kept: Store) -> None:
        bare = msgspec.structs.replace(record(1, None, None), value=None)
        append(kept, [(ADA, bare), (ADA, FULL)])
        refs = [EventRef(ADA, each.event_id) for each in (FULL, bare)]
        assert list(events(kept, refs).values()) == [FULL, bare]
        assert of_key(kept, KeyRef(ADA, FULL.scope, FULL.key or ""), below=ALL) == [FULL]

    def test_a_key_has_its_counting_events_in_accepted_order(self, kept: Store) -> None:
        turn = record(4, key=None, verdict="recorded")
        refused, copy = record(5, verdict="refused"), record(6, verdict="duplicate")
        theme, elsewhere = record(7, key="theme"), msgspec.structs.replace(record(8), scope="project:x")
        early = msgspec.structs.replace(record(9, verdict="late"), cited_sequence=1, cited_recorded_at=START_MS)
        made = [record(3), turn, refused, copy, theme, elsewhere, early, record(12)]
        append(kept, [(ADA, each) for each in made])
        assert of_key(kept) == [record(3), early, record(12)]

    def test_a_key_has_the_deletes_that_sets_of_other_keys_brought(self, kept: Store) -> None:
        retires = (("global", "tone"), ("project:x", "theme"))
        moved = msgspec.structs.replace(record(4, key="theme"), retires=retires, retired=("deleted", "late"))
        refused = msgspec.structs.replace(moved, sequence=5, verdict="refused", retired=None)
        append(kept, [(ADA, record(3)), (ADA, moved), (ADA, refused), (ADA, record(6, key="other"))])
        tone, elsewhere = moved.deletes()
        assert (tone.verdict, tone.is_delete, tone.mark, tone.retired_by) == (
            "deleted",
            True,
            moved.mark,
            ("global", "theme"),
        )
        assert of_key(kept) == [record(3), tone]
        assert of_key(kept, KeyRef(ADA, "project:x", "theme")) == [elsewhere]
        assert of_key(kept, THEME) == [moved]

    def test_an_event_has_the_counting_candidates_that_cite_it(self, kept: Store) -> None:
        def citing(sequence: int, source: int, verdict: str = "late") -> Record:
            made = record(sequence, verdict=verdict)
            return msgspec.structs.replace(made, source_event_id=uuid.UUID(int=source).bytes, cited_sequence=source)

        turn = record(3, None, key=None, verdict="recorded")
        read = [citing(4, 3), citing(6, 3, "refused"), citing(7, 5), citing(400, 3)]
        others = [record(sequence) for sequence in range(8, 400)]
        append(kept, [(ADA, each) for each in (turn, *read[:3], *others, read[3])] + [(BEN, citing(401, 3))])
        source = SourceRef(ADA, turn.event_id, turn.sequence)
        assert kept.citing(0, source, below=ALL) == [read[0], read[3]]
        assert kept.citing(0, source, below=400) == [read[0]]

    @pytest.mark.parametrize(("below", "count"), [(0, 0), (3, 0), (4, 1), (9, 1), (10, 2), (12, 2), (13, 3)])
    def test_a_key_has_only_what_is_below(self, kept: Store, below: int, count: int) -> None:
        made = [record(3), record(9), record(12)]
        append(kept, [(ADA, each) for each in made])
        assert of_key(kept, below=below) == made[:count]

    def test_a_long_history_is_whole(self, kept: Store) -> None:
        made = [record(sequence, key="tone" if sequence % 3 else "theme") for sequence in range(1, 1200)]
        for first in range(0, len(made), 100):
            append(kept, [(ADA, each) for each in made[first : first + 100]])
        expected = [each for each in made if each.key == "tone"]
        assert of_key(kept) == expected
        assert of_key(kept, below=257) == [each for each in expected if each.sequence < 257]
        some = [EventRef(ADA, each.event_id) for each in made[::97]]
        assert list(events(kept, some).values()) == made[::97]

    def test_records_that_are_there_already_add_nothing_and_change_nothing(self, kept: Store) -> None:
        made = [record(sequence) for sequence in (3, 5, 8)]
        append(kept, [(ADA, each) for each in made])
        self.set_back(kept, 0)
        append(kept, [(ADA, each) for each in made])
        self.set_back(kept, 0)
        append(kept, [(ADA, record(5, b'"another"'))])
        assert of_key(kept) == made
        assert events(kept, [event(5)]) == {event(5): record(5)}

    def test_records_that_overlap_with_those_there_add_what_is_new(self, kept: Store) -> None:
        append(kept, [(ADA, record(3)), (BEN, record(4)), (ADA, record(5))])
        self.set_back(kept, 0)
        append(kept, [(BEN, record(4)), (ADA, record(5)), (BEN, record(6)), (ADA, record(7))])
        assert of_key(kept) == [record(3), record(5), record(7)]
        assert of_key(kept, BENS_TONE) == [record(4), record(6)]

    def test_an_event_that_the_history_lost_is_told(self, begun: Store) -> None:
        made = changes(12)
        made.events = [((ADA, event(11).event_id), 11)]
        commit(begun, begun.checkpoint(0), made)
        with pytest.raises(OtherProjection, match=r"lost the event at sequence 11; run `lastword rebuild`"):
            begun.load(0, Needs([event(5), event(11)], [TONE])).result()

    def test_dead_letters_leave_a_stub_once_and_no_record(self, kept: Store) -> None:
        letters = [
            DeadLetter(LogRecord(offset, 0, b"k", b"\xff"), f"not an envelope: é🙂 {offset}") for offset in (4, 6)
        ]
        append(kept, [(ADA, record(5))], letters[:1])
        self.set_back(kept, 0)
        append(kept, [(ADA, record(5))], letters)
        assert self.stubs(kept, 0) == [(4, "not an envelope: é🙂 4"), (6, "not an envelope: é🙂 6")]
        assert self.stubs(kept, 1) == []
        assert of_key(kept) == [record(5)]

    def set_back(self, store: Store, partition: int) -> None:
        """Set the checkpoint of a partition that has begun back to its beginning, and nothing else."""
        raise NotImplementedError

    def stubs(self, store: Store, partition: int) -> list[tuple[int, str]]:
        """The implementation's stubs of a partition: sequence (of generation 0) and problem."""
        raise NotImplementedError

    # --- odd names and values

    def test_owners_never_meet_however_they_are_written(self, kept: Store) -> None:
        writes = [Write(KeyRef(owner, "global", "tone"), at) for at, owner in enumerate(EXOTIC, start=1)]
        firsts = [(event(1, owner), at) for at, owner in enumerate(EXOTIC, start=1)]
        commit(kept, None, changes(100, *writes, events=firsts))
        assert entries(kept, [write.ref for write in writes]) == {write.ref: entry(write.sequence) for write in writes}
        assert sequences(kept, [ref for ref, _ in firsts]) == dict(firsts)

    def test_histories_of_owners_and_partitions_never_meet(self, kept: Store) -> None:
        for at, owner in enumerate(EXOTIC, start=1):
            append(kept, [(owner, record(at))])
            append(kept, [(owner, record(at, b'"elsewhere"'))], partition=1)
        for at, owner in enumerate(EXOTIC, start=1):
            ref = KeyRef(owner, "global", "tone")
            assert of_key(kept, ref) == [record(at)]
            assert of_key(kept, ref, partition=1) == [record(at, b'"elsewhere"')]
            assert events(kept, [event(at % len(EXOTIC) + 1, owner)]) == {event(at % len(EXOTIC) + 1, owner): None}

    def test_scopes_and_keys_never_meet_however_they_are_written(self, kept: Store) -> None:
        refs = [KeyRef(ADA, scope, key) for scope in ODD_NAMES for key in ODD_NAMES]
        writes = [Write(ref, at) for at, ref in enumerate(refs, start=1)]
        commit(kept, None, changes(100, *writes))
        for write in writes:
            expected = entry(write.sequence, ref=write.ref)
            assert entries(kept, [write.ref]) == {write.ref: expected}
            assert of_key(kept, write.ref) == [expected.record]

    @pytest.mark.parametrize(
        "value",
        [b"", b"\0", b"\xff\xfe\r\n$-1\r\n", bytes(range(256)), b"[]", b"{}", b"9007199254740993", b"x" * 300_000],
        ids=["empty", "NUL", "protocol", "all bytes", "list", "object", "integer", "large"],
    )
    def test_values_come_back_byte_for_byte(self, kept: Store, value: bytes) -> None:
        commit(kept, None, changes(10, Write(TONE, 5, value=value), events=[(event(5), 5)]))
        found, first = entries(kept, [TONE])[TONE], events(kept, [event(5)])[event(5)]
        assert found is not None
        assert first is not None
        assert found.record.value == first.value == value

    def test_event_ids_are_any_bytes(self, kept: Store) -> None:
        refs = [EventRef(ADA, bytes([first]) * 16) for first in (0, 10, 13, 36, 123, 125, 255)]
        commit(kept, None, changes(10, events=[(ref, at) for at, ref in enumerate(refs)]))
        assert sequences(kept, refs) == {ref: at for at, ref in enumerate(refs)}

    def test_a_large_commit_is_one_step(self, kept: Store) -> None:
        writes = [Write(KeyRef(f"main/user:u{number % 9}", "global", f"k{number}"), number) for number in range(1, 201)]
        firsts = [(event(number, f"main/user:u{number % 9}"), number) for number in range(1, 201)]
        commit(kept, None, changes(201, *writes, events=firsts))
        assert entries(kept, [write.ref for write in writes]) == {
            write.ref: entry(write.sequence, ref=write.ref) for write in writes
        }
        assert sequences(kept, [ref for ref, _ in firsts]) == dict(firsts)


Operation = Callable[[Store], object]
OPERATIONS: dict[str, Operation] = {
    "checkpoint": lambda store: store.checkpoint(0),
    "load": lambda store: entries(store, [TONE]),
    "commit": lambda store: commit(store, checkpoint(10), changes(11, Write(THEME, 10))),
    "key_history": of_key,
}
"""Each of what a store does."""
