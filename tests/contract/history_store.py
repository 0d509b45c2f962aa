"""What every `HistoryStore` does. A test class of an implementation subclasses `HistoryStoreContract`."""

import msgspec
import pytest

from lastword_projector.engine.decode import LogRecord
from lastword_projector.engine.projection import DeadLetter, KeyRef
from lastword_projector.engine.records import Record
from lastword_projector.store.ports import HistoryStore
from tests.contract.profile_store import EXOTIC, ODD_NAMES, TONE, record
from tests.support.logs import ADA, BEN

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
    source_sequence=2**52,
    source_recorded_at=2,
    value=bytes(range(256)),
    text="\0\n🙂",
    quote="🙂",
    span=(2, 3),
    source_event_id=b"\xff" * 16,
    thread="t",
    message="m",
    confidence=0.1,
    occurred_at=-1,
    expires_at=2**53,
    reason="r",
    detail="d",
    related=(1, 2),
)
"""Every field has something."""


class HistoryStoreContract:
    """Subclass it with a fixture `history` that gives an empty store."""

    @pytest.fixture
    def history(self) -> HistoryStore:
        raise NotImplementedError

    def test_an_empty_store_finds_nothing(self, history: HistoryStore) -> None:
        assert history.find(0, ADA, 1) is None
        assert history.of_key(0, TONE, below=2**53) == []

    def test_an_append_of_nothing_is_nothing(self, history: HistoryStore) -> None:
        history.append(0, [], [])
        assert history.of_key(0, TONE, below=2**53) == []

    def test_records_are_found_by_exactly_their_sequence(self, history: HistoryStore) -> None:
        kept = [record(sequence) for sequence in (2, 3, 7, 11, 10_000_000_000)]
        history.append(0, [(ADA, each) for each in kept], [])
        assert [history.find(0, ADA, each.sequence) for each in kept] == kept
        assert [history.find(0, ADA, sequence) for sequence in (0, 1, 4, 8, 12, 10**15)] == [None] * 6

    def test_every_field_comes_back(self, history: HistoryStore) -> None:
        bare = msgspec.structs.replace(record(1, None, None), value=None)
        history.append(0, [(ADA, bare), (ADA, FULL)], [])
        assert history.find(0, ADA, FULL.sequence) == FULL
        assert history.find(0, ADA, 1) == bare

    @pytest.mark.parametrize("value", [b"", b"\0", b"\r\n", b"x" * 300_000])
    def test_values_come_back_byte_for_byte(self, history: HistoryStore, value: bytes) -> None:
        history.append(0, [(ADA, record(5, value))], [])
        found = history.find(0, ADA, 5)
        assert found is not None
        assert found.value == value

    def test_a_key_has_its_counting_events_in_accepted_order(self, history: HistoryStore) -> None:
        turn = record(4, key=None, verdict="recorded")
        refused, copy = record(5, verdict="refused"), record(6, verdict="duplicate")
        theme, elsewhere = record(7, key="theme"), msgspec.structs.replace(record(8), scope="project:x")
        early = msgspec.structs.replace(record(9, verdict="late"), source_sequence=1)
        records = [record(3), turn, refused, copy, theme, elsewhere, early, record(12)]
        history.append(0, [(ADA, each) for each in records], [])
        assert history.of_key(0, TONE, below=2**53) == [record(3), early, record(12)]

    @pytest.mark.parametrize(("below", "count"), [(0, 0), (3, 0), (4, 1), (9, 1), (10, 2), (12, 2), (13, 3)])
    def test_a_key_has_only_what_is_below(self, history: HistoryStore, below: int, count: int) -> None:
        records = [record(3), record(9), record(12)]
        history.append(0, [(ADA, each) for each in records], [])
        assert history.of_key(0, TONE, below=below) == records[:count]

    def test_a_long_history_is_whole(self, history: HistoryStore) -> None:
        records = [record(sequence, key="tone" if sequence % 3 else "theme") for sequence in range(1, 1200)]
        for first in range(0, len(records), 100):
            history.append(0, [(ADA, each) for each in records[first : first + 100]], [])
        expected = [each for each in records if each.key == "tone"]
        assert history.of_key(0, TONE, below=2**53) == expected
        assert history.of_key(0, TONE, below=257) == [each for each in expected if each.sequence < 257]
        assert all(history.find(0, ADA, each.sequence) == each for each in records[::97])

    def test_an_append_done_again_adds_nothing_and_changes_nothing(self, history: HistoryStore) -> None:
        records = [record(sequence) for sequence in (3, 5, 8)]
        history.append(0, [(ADA, each) for each in records], [])
        history.append(0, [(ADA, each) for each in records], [])
        history.append(0, [(ADA, record(5, b'"another"'))], [])
        assert history.of_key(0, TONE, below=2**53) == records

    def test_one_append_with_a_record_twice_adds_it_once(self, history: HistoryStore) -> None:
        history.append(0, [(ADA, record(3)), (ADA, record(3)), (ADA, record(5)), (ADA, record(3))], [])
        assert history.of_key(0, TONE, below=2**53) == [record(3), record(5)]

    def test_an_append_that_overlaps_adds_what_is_new(self, history: HistoryStore) -> None:
        history.append(0, [(ADA, record(3)), (BEN, record(4)), (ADA, record(5))], [])
        history.append(0, [(BEN, record(4)), (ADA, record(5)), (BEN, record(6)), (ADA, record(7))], [])
        assert history.of_key(0, TONE, below=2**53) == [record(3), record(5), record(7)]
        assert history.of_key(0, KeyRef(BEN, "global", "tone"), below=2**53) == [record(4), record(6)]

    def test_owners_and_partitions_never_meet(self, history: HistoryStore) -> None:
        for at, owner in enumerate(EXOTIC, start=1):
            history.append(0, [(owner, record(at))], [])
            history.append(1, [(owner, record(at, b'"elsewhere"'))], [])
        for at, owner in enumerate(EXOTIC, start=1):
            ref = KeyRef(owner, "global", "tone")
            assert history.of_key(0, ref, below=2**53) == [record(at)]
            assert history.of_key(1, ref, below=2**53) == [record(at, b'"elsewhere"')]
            assert history.find(0, owner, at % len(EXOTIC) + 1) is None

    def test_scopes_and_keys_never_meet(self, history: HistoryStore) -> None:
        refs = [KeyRef(ADA, scope, key) for scope in ODD_NAMES for key in ODD_NAMES]
        records = [
            msgspec.structs.replace(record(at), scope=ref.scope, key=ref.key) for at, ref in enumerate(refs, start=1)
        ]
        history.append(0, [(ADA, each) for each in records], [])
        for ref, each in zip(refs, records, strict=True):
            assert history.of_key(0, ref, below=2**53) == [each]

    def test_dead_letters_leave_a_stub_once_and_no_record(self, history: HistoryStore) -> None:
        letters = [
            DeadLetter(LogRecord(offset, 0, b"k", b"\xff"), f"not an envelope: é🙂 {offset}") for offset in (4, 6)
        ]
        history.append(0, [(ADA, record(5))], letters[:1])
        history.append(0, [(ADA, record(5))], letters)
        assert self.stubs(history, 0) == [(4, "not an envelope: é🙂 4"), (6, "not an envelope: é🙂 6")]
        assert self.stubs(history, 1) == []
        assert history.of_key(0, TONE, below=2**53) == [record(5)]

    def stubs(self, history: HistoryStore, partition: int) -> list[tuple[int, str]]:
        """The implementation's stubs of a partition: sequence (of generation 0) and problem."""
        raise NotImplementedError
