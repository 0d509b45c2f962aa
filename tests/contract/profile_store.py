"""What every `ProfileStore` does. A test class of an implementation subclasses `ProfileStoreContract`."""

import uuid
from dataclasses import dataclass
from typing import Literal

import pytest

from lastword_projector.engine.projection import FOLD_VERSION, Changes, EntryChange, EventRef, KeyRef
from lastword_projector.engine.records import NO_MARK, Entry, Mark, Record
from lastword_projector.store.ports import Checkpoint, CommitRefused, OtherProjection, ProfileStore
from lastword_schemas.control import Genesis
from lastword_schemas.registry import Registry
from tests.support.logs import ADA, BEN, START_MS, registry_of

NOW_MS = START_MS
TONE, THEME = KeyRef(ADA, "global", "tone"), KeyRef(ADA, "global", "theme")

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
    mode: Literal["above", "equal"] = "above"
    value: bytes = b'"brief"'


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
        source_sequence=sequence,
        source_recorded_at=START_MS + sequence,
        value=value,
    )


def entry(sequence: int, value: bytes = b'"brief"') -> Entry:
    """An entry that begins with that statement."""
    made = record(sequence, value)
    return Entry(made, made.mark, made.source_recorded_at)


def genesis(partition: int = 0, *, topic_id: str = "topic", generation: int = 0) -> Genesis:
    return Genesis(generation=generation, partition=partition, partitions=8, cluster_id="c", topic_id=topic_id)


def changes(next_offset: int, *writes: Write, events: tuple[tuple[EventRef, int], ...] = ()) -> Changes:
    made = Changes(next_offset)
    for write in writes:
        made.entries[write.ref] = EntryChange(write.before, entry(write.sequence, write.value), write.mode)
    made.events.extend(events)
    return made


def event(number: int, owner: str = ADA) -> EventRef:
    return EventRef(owner, uuid.UUID(int=number).bytes)


def mark(sequence: int) -> Mark:
    return entry(sequence).mark


class ProfileStoreContract:
    """Subclass it with a fixture `profile` that gives an empty store."""

    fold_version_at: str
    """Dotted name of the constant by which the implementation knows its own fold version."""

    @pytest.fixture
    def profile(self) -> ProfileStore:
        raise NotImplementedError

    @pytest.fixture
    def begun(self, profile: ProfileStore) -> ProfileStore:
        """A store at offset 10 with `tone` of sequence 5 and event 5."""
        profile.commit(0, genesis(), None, changes(10, Write(TONE, 5), events=((event(5), 5),)), NOW_MS)
        return profile

    def test_an_empty_store_knows_nothing(self, profile: ProfileStore) -> None:
        assert profile.checkpoint(0) is None
        assert profile.entries(0, [TONE, THEME]) == {TONE: None, THEME: None}
        assert profile.event_sequences(0, [event(1)]) == {event(1): None}
        assert profile.entries(0, []) == {}
        assert profile.event_sequences(0, []) == {}

    def test_a_commit_writes_entries_events_and_checkpoint(self, begun: ProfileStore) -> None:
        assert begun.checkpoint(0) == Checkpoint(10, genesis(), FOLD_VERSION, Registry())
        assert begun.entries(0, [TONE, THEME]) == {TONE: entry(5), THEME: None}
        assert begun.event_sequences(0, [event(5), event(6)]) == {event(5): 5, event(6): None}

    def test_a_commit_of_nothing_moves_the_checkpoint(self, begun: ProfileStore) -> None:
        begun.commit(0, genesis(), begun.checkpoint(0), changes(11), NOW_MS)
        checkpoint = begun.checkpoint(0)
        assert checkpoint is not None
        assert (checkpoint.next_sequence, checkpoint.last_sequence) == (11, 10)
        assert begun.entries(0, [TONE]) == {TONE: entry(5)}

    def test_later_commits_replace_entries_one_by_one(self, begun: ProfileStore) -> None:
        writes = Write(TONE, 11, before=mark(5)), Write(THEME, 12)
        begun.commit(0, genesis(), begun.checkpoint(0), changes(13, *writes), NOW_MS)
        begun.commit(0, genesis(), begun.checkpoint(0), changes(14, Write(THEME, 13, before=mark(12))), NOW_MS)
        assert begun.entries(0, [THEME, TONE]) == {THEME: entry(13), TONE: entry(11)}

    def test_an_entry_may_be_written_again_under_the_same_mark(self, begun: ProfileStore) -> None:
        refold = Write(TONE, 5, before=mark(5), mode="equal", value=b'"long"')
        begun.commit(0, genesis(), begun.checkpoint(0), changes(11, refold), NOW_MS)
        assert begun.entries(0, [TONE]) == {TONE: entry(5, b'"long"')}

    def test_the_registry_stays_until_the_next_one(self, profile: ProfileStore) -> None:
        first, second = registry_of(tone={"description": "é🙂"}), registry_of(theme={})
        for offset, registry in ((1, None), (2, first), (3, None), (4, second), (5, None)):
            made = changes(offset)
            made.registry = registry
            profile.commit(0, genesis(), profile.checkpoint(0), made, NOW_MS)
            checkpoint = profile.checkpoint(0)
            assert checkpoint is not None
            assert checkpoint.registry == (Registry() if offset == 1 else first if offset < 4 else second)

    @pytest.mark.parametrize("stamped", [True, False])
    def test_whose_clock_it_is_stays(self, profile: ProfileStore, stamped: bool) -> None:
        first = changes(1)
        first.stamped = stamped
        profile.commit(0, genesis(), None, first, NOW_MS)
        profile.commit(0, genesis(), profile.checkpoint(0), changes(2), NOW_MS)
        checkpoint = profile.checkpoint(0)
        assert checkpoint is not None
        assert checkpoint.clock == ("broker" if stamped else "publisher")

    def test_sequences_of_a_later_generation_are_exact(self, profile: ProfileStore) -> None:
        later, sequence = genesis(generation=8191), 8191 * 2**40 + 2**39 + 1
        made = changes(2**39 + 2, Write(TONE, sequence), events=((event(1), sequence),))
        profile.commit(0, later, None, made, NOW_MS)
        checkpoint = profile.checkpoint(0)
        assert checkpoint is not None
        assert checkpoint.last_sequence == sequence
        assert profile.event_sequences(0, [event(1)]) == {event(1): sequence}
        assert profile.entries(0, [TONE]) == {TONE: entry(sequence)}

    def test_partitions_know_nothing_of_each_other(self, begun: ProfileStore) -> None:
        assert begun.checkpoint(1) is None
        assert begun.entries(1, [TONE]) == {TONE: None}
        begun.commit(1, genesis(1), None, changes(3, Write(TONE, 2)), NOW_MS)
        assert begun.entries(0, [TONE]) == {TONE: entry(5)}
        checkpoint = begun.checkpoint(0)
        assert checkpoint is not None
        assert checkpoint.next_sequence == 10

    # --- all or nothing

    def refused(
        self, profile: ProfileStore, before: Checkpoint | None, *writes: Write, error: type[Exception] = CommitRefused
    ) -> None:
        """Such a commit is refused, and leaves nothing behind, wherever in it the fault is."""
        sound = (Write(THEME, 11), Write(KeyRef(BEN, "global", "tone"), 12))
        seen = [TONE, *(write.ref for write in (*sound, *writes))]
        was = profile.checkpoint(0), profile.entries(0, seen)
        for order in ((*writes, *sound), (*sound, *writes)):
            made = changes(20, *order, events=((event(11), 11), (event(12, BEN), 12)))
            made.registry = registry_of(theme={})
            with pytest.raises(error):
                profile.commit(0, genesis(), before, made, NOW_MS)
            assert (profile.checkpoint(0), profile.entries(0, seen)) == was
            assert set(profile.event_sequences(0, [event(11), event(12, BEN)]).values()) == {None}

    @pytest.mark.parametrize("next_sequence", [0, 9, 11, 100])
    def test_a_checkpoint_that_is_not_equal_is_refused_behind_and_ahead(
        self, begun: ProfileStore, next_sequence: int
    ) -> None:
        self.refused(begun, Checkpoint(next_sequence, genesis(), FOLD_VERSION, Registry()))

    def test_a_first_commit_on_a_store_that_has_begun_is_refused(self, begun: ProfileStore) -> None:
        self.refused(begun, None)

    def test_going_on_from_a_checkpoint_that_is_gone_is_refused(self, profile: ProfileStore) -> None:
        self.refused(profile, Checkpoint(10, genesis(), FOLD_VERSION, Registry()))

    @pytest.mark.parametrize("stored_mark", [NO_MARK, mark(4), mark(6)])
    def test_an_entry_that_was_folded_from_another_mark_is_refused(
        self, begun: ProfileStore, stored_mark: Mark
    ) -> None:
        self.refused(begun, begun.checkpoint(0), Write(TONE, 15, before=stored_mark))

    def test_an_entry_that_is_gone_is_refused(self, begun: ProfileStore) -> None:
        self.refused(begun, begun.checkpoint(0), Write(KeyRef(ADA, "project:x", "tone"), 15, before=mark(5)))

    @pytest.mark.parametrize("sequence", [4, 5])
    def test_a_mark_that_does_not_rise_is_refused(self, begun: ProfileStore, sequence: int) -> None:
        self.refused(begun, begun.checkpoint(0), Write(TONE, sequence, before=mark(5)))

    @pytest.mark.parametrize("sequence", [4, 6])
    def test_a_refold_to_another_mark_is_refused(self, begun: ProfileStore, sequence: int) -> None:
        self.refused(begun, begun.checkpoint(0), Write(TONE, sequence, before=mark(5), mode="equal"))

    def test_another_log_is_refused(self, begun: ProfileStore) -> None:
        was = begun.checkpoint(0)
        for next_offset in (10, 11):  # also where its target happens to be the stored one
            made = changes(next_offset, Write(THEME, 7), events=((event(7), 7),))
            with pytest.raises(OtherProjection, match=genesis().log_id):
                begun.commit(0, genesis(topic_id="recreated"), was, made, NOW_MS)
        assert begun.checkpoint(0) == was
        assert begun.entries(0, [THEME]) == {THEME: None}
        assert begun.event_sequences(0, [event(7)]) == {event(7): None}

    def test_another_fold_version_is_refused(self, begun: ProfileStore, monkeypatch: pytest.MonkeyPatch) -> None:
        was = begun.checkpoint(0)
        monkeypatch.setattr(self.fold_version_at, FOLD_VERSION + 1)
        self.refused(begun, was, error=OtherProjection)
        with pytest.raises(OtherProjection):
            begun.commit(0, genesis(), was, changes(10), NOW_MS)

    # --- once more

    def test_a_repeated_commit_succeeds_and_changes_nothing(self, profile: ProfileStore) -> None:
        first = changes(10, Write(TONE, 5), events=((event(5), 5),))
        for _ in range(2):
            profile.commit(0, genesis(), None, first, NOW_MS)
        before = profile.checkpoint(0)
        second = changes(20, Write(TONE, 15, before=mark(5)), events=((event(15), 15),))
        for _ in range(3):
            profile.commit(0, genesis(), before, second, NOW_MS + 1)
        assert profile.entries(0, [TONE]) == {TONE: entry(15)}
        assert profile.event_sequences(0, [event(5), event(15)]) == {event(5): 5, event(15): 15}
        with pytest.raises(CommitRefused):
            profile.commit(0, genesis(), None, first, NOW_MS)

    # --- odd names and values

    def test_owners_never_meet_however_they_are_written(self, profile: ProfileStore) -> None:
        writes = [Write(KeyRef(owner, "global", "tone"), at) for at, owner in enumerate(EXOTIC, start=1)]
        events = tuple((event(1, owner), at) for at, owner in enumerate(EXOTIC, start=1))
        profile.commit(0, genesis(), None, changes(100, *writes, events=events), NOW_MS)
        assert profile.entries(0, [write.ref for write in writes]) == {
            write.ref: entry(write.sequence) for write in writes
        }
        assert profile.event_sequences(0, [ref for ref, _ in events]) == dict(events)

    def test_scopes_and_keys_never_meet_however_they_are_written(self, profile: ProfileStore) -> None:
        refs = [KeyRef(ADA, scope, key) for scope in ODD_NAMES for key in ODD_NAMES]
        writes = [Write(ref, at) for at, ref in enumerate(refs, start=1)]
        profile.commit(0, genesis(), None, changes(100, *writes), NOW_MS)
        for write in writes:
            assert profile.entries(0, [write.ref]) == {write.ref: entry(write.sequence)}

    @pytest.mark.parametrize(
        "value",
        [b"", b"\0", b"\xff\xfe\r\n$-1\r\n", bytes(range(256)), b"[]", b"{}", b"9007199254740993", b"x" * 300_000],
        ids=["empty", "NUL", "protocol", "all bytes", "list", "object", "integer", "large"],
    )
    def test_values_come_back_byte_for_byte(self, profile: ProfileStore, value: bytes) -> None:
        profile.commit(0, genesis(), None, changes(10, Write(TONE, 5, value=value)), NOW_MS)
        found = profile.entries(0, [TONE])[TONE]
        assert found is not None
        assert found.record.value == value

    def test_event_ids_are_any_bytes(self, profile: ProfileStore) -> None:
        refs = [EventRef(ADA, bytes([first]) * 16) for first in (0, 10, 13, 36, 123, 125, 255)]
        profile.commit(0, genesis(), None, changes(10, events=tuple((ref, at) for at, ref in enumerate(refs))), NOW_MS)
        assert profile.event_sequences(0, refs) == {ref: at for at, ref in enumerate(refs)}

    def test_a_large_commit_is_one_step(self, profile: ProfileStore) -> None:
        writes = [Write(KeyRef(f"main/user:u{number % 9}", "global", f"k{number}"), number) for number in range(1, 201)]
        events = tuple((event(number, f"main/user:u{number % 9}"), number) for number in range(1, 201))
        profile.commit(0, genesis(), None, changes(201, *writes, events=events), NOW_MS)
        assert profile.entries(0, [write.ref for write in writes]) == {
            write.ref: entry(write.sequence) for write in writes
        }
        assert profile.event_sequences(0, [ref for ref, _ in events]) == dict(events)
