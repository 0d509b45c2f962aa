"""One partition of a log through the projector: what is passed over, what waits, what is refused, what comes again."""

import json
import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from lastword_projector import projector as projector_module
from lastword_projector.engine import known as known_module
from lastword_projector.engine.decode import LogRecord
from lastword_projector.engine.known import EventRef, KeyRef, Needs, NotLoaded
from lastword_projector.engine.projection import Changes, DeadLetter, PartitionWaits, Projection, WrongGenesis
from lastword_projector.engine.records import LEDGER, sequence_in
from lastword_projector.projector import MAX_BYTES, MAX_EVENTS
from lastword_projector.store.memory import MemoryStore, Settled
from lastword_projector.store.ports import Checkpoint, CommitRefused, Loaded, OtherProjection
from lastword_schemas.control import GENESIS_KEY, REGISTRY_KEY, Genesis, control_bytes
from lastword_schemas.partitions import partition_for
from lastword_schemas.verdicts import Reason
from tests.support.logs import ADA, BEN, REGISTRY, UNSET, Log, SentLetters, Stores, event_id, project, registry_of


@pytest.fixture
def log() -> Log:
    return Log()


class TestDeadLetters:
    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (None, None),
            (b"k", b"\xff\x00garbage"),
            (b"k", b'{"hello": "from another system"}'),
            (b"k", b'{"v":1,"owner":"main/user:ada","operation":[]}'),
            (b"k", b'{"v":1,"operation":"frobnicate"}'),
            (b"k", b"[" * 200_000),
            (REGISTRY_KEY.encode(), b"garbage"),
            (GENESIS_KEY.encode(), b"{}"),
        ],
    )
    def test_garbage_is_a_dead_letter_and_the_rest_goes_on(
        self, log: Log, key: bytes | None, value: bytes | None
    ) -> None:
        log.set(ADA, "tone", "brief")
        offset = log.append(key, value)
        log.set(ADA, "tone", "long")
        stores = project(log)
        assert stores.value(ADA, "tone") == "long"
        (letter,) = stores.dead.letters
        assert (letter.record.offset, letter.record.key, letter.record.value) == (offset, key, value)
        assert [stub.record.offset for _, stub in stores.store.dead] == [offset]

    def test_an_event_of_another_partition_is_a_dead_letter(self) -> None:
        here = partition_for(ADA, 8)
        log = Log(partitions=8, partition=here)
        stranger = next(
            f"main/user:u{number}" for number in range(99) if partition_for(f"main/user:u{number}", 8) != here
        )
        log.set(stranger, "tone", "brief")
        log.append(b"k", f'{{"v":1,"owner":"{stranger}","event_id":"{event_id(9)}"}}'.encode())
        log.set(ADA, "tone", "long")
        stores = project(log)
        assert [letter.record.offset for letter in stores.dead.letters] == [2, 3]
        assert stores.records(stranger) == []
        assert stores.value(ADA, "tone") == "long"

    @pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"pattern": "("}, {"$ref": "https://x.invalid/s"}, 5])
    def test_a_registry_that_cannot_be_used_leaves_the_one_before_in_force(self, log: Log, schema: Any) -> None:
        log.apply(registry_of(tone={"schema": schema}))
        receipt = log.set(ADA, "tone", "brief")
        stores = project(log)
        assert stores.verdict(receipt) == "added"
        assert [letter.record.offset for letter in stores.dead.letters] == [2]

    def test_nothing_is_written_before_its_dead_letters_are_acknowledged(self, log: Log) -> None:
        class Unreachable(SentLetters):
            def send(self, genesis: Genesis, letters: Sequence[DeadLetter]) -> None:
                raise ConnectionError

        log.append(b"k", b"garbage")
        log.set(ADA, "tone", "brief")
        stores = Stores(dead=Unreachable())
        with pytest.raises(ConnectionError):
            stores.project(log)
        assert stores.store.checkpoint(0) is None
        assert stores.records(ADA) == []
        stores.dead = SentLetters()
        stores.project(log)
        assert stores.snapshot(log) == project(log).snapshot(log)


class TestWaiting:
    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (b"k", b'{"v":2}'),
            (b"k", f'{{"v":1,"owner":"{ADA}","event_id":"{event_id(9)}","operation":"erase"}}'.encode()),
            (b"k", f'{{"v":1,"owner":"{ADA}","event_id":"{event_id(9)}","operation":"frobnicate"}}'.encode()),
            (b"k", f'{{"v":1,"owner":"{ADA}","event_id":"{event_id(9)}","operation":""}}'.encode()),
            (b"k", f'{{"v":1,"owner":"{ADA}","event_id":"{event_id(9)}","kid":"k1"}}'.encode()),
            (REGISTRY_KEY.encode(), b'{"control":"registry","v":2}'),
        ],
    )
    def test_what_only_a_newer_build_reads_is_waited_at_and_what_precedes_is_committed(
        self, log: Log, key: bytes, value: bytes
    ) -> None:
        log.set(ADA, "tone", "brief")
        offset = log.append(key, value)
        log.set(ADA, "tone", "long")
        stores = Stores()
        worker = stores.open(log)
        with pytest.raises(PartitionWaits, match=f"partition 0 waits at offset {offset}") as caught:
            worker.project(log.records)
        assert (caught.value.partition, caught.value.offset) == (0, offset)
        assert worker.waits is caught.value
        assert stores.value(ADA, "tone") == "brief"
        checkpoint = stores.store.checkpoint(0)
        assert checkpoint is not None
        assert checkpoint.next_sequence == worker.next_offset == offset
        assert stores.dead.letters == []

    def test_it_still_waits_when_it_is_tried_again(self, log: Log) -> None:
        log.append(b"k", b'{"v":2}')
        stores = Stores()
        for _ in range(2):
            with pytest.raises(PartitionWaits):
                stores.project(log)
        assert stores.open(log).next_offset == 2


class TestGenesis:
    def test_a_partition_that_begins_with_something_else_is_refused(self, log: Log) -> None:
        log.records[:1] = []
        log.records[0] = replace_offset(log.records[0], 0)
        with pytest.raises(WrongGenesis, match="does not begin with a genesis record"):
            Stores().project(log)

    def test_garbage_at_the_beginning_is_refused(self, log: Log) -> None:
        log.records[0] = LogRecord(0, 0, b"k", b"garbage")
        with pytest.raises(WrongGenesis):
            Stores().project(log)

    def test_the_genesis_of_another_log_is_refused(self, log: Log) -> None:
        other = Log(topic_id="other")
        log.records[0] = other.records[0]
        with pytest.raises(WrongGenesis, match="two logs were mixed"):
            Stores().project(log)

    def test_a_second_equal_genesis_is_ignored_and_a_different_one_refused(self, log: Log) -> None:
        log.append(GENESIS_KEY.encode(), control_bytes(log.genesis))
        log.set(ADA, "tone", "brief")
        assert project(log).value(ADA, "tone") == "brief"
        log.append(GENESIS_KEY.encode(), control_bytes(log.genesis.model_copy(update={"generation": 1})))
        with pytest.raises(WrongGenesis):
            project(log)

    def test_sequences_count_on_in_a_later_generation(self) -> None:
        log = Log(generation=3)
        receipt = log.set(ADA, "tone", "brief")
        stores = project(log)
        entry = stores.entry(ADA, "tone")
        assert entry is not None
        assert entry.record.sequence == sequence_in(entry.mark) == receipt.sequence == 3 * 2**40 + 2
        assert stores.open(log).next_offset == 3

    def test_the_checkpoint_of_another_log_is_refused_and_says_how_to_mend_it(self, log: Log) -> None:
        stores = project(log)
        with pytest.raises(OtherProjection, match=r"Was the topic recreated\?.*lastword rebuild"):
            stores.open(Log(topic_id="recreated"))

    def test_the_checkpoint_of_another_fold_is_refused(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        stores = project(log)
        monkeypatch.setattr(projector_module, "FOLD_VERSION", 2)
        with pytest.raises(OtherProjection, match="folded under version 1"):
            stores.open(log)


def replace_offset(record: LogRecord, offset: int) -> LogRecord:
    return LogRecord(offset, record.recorded_at, record.key, record.value)


class TestGoingOn:
    def test_records_that_were_folded_are_passed_over(self, log: Log) -> None:
        log.set(ADA, "tone", "brief")
        stores = Stores()
        worker = stores.open(log)
        assert worker.project(log.records) == 3
        assert worker.project(log.records) == 0
        assert worker.next_offset == 3

    def test_a_log_may_have_gaps(self, log: Log) -> None:
        receipt = log.set(ADA, "tone", "brief", at=10)
        stores = Stores()
        assert stores.project(log).next_offset == 11
        assert stores.record(receipt).sequence == 10

    def test_a_record_is_never_folded_twice(self, log: Log) -> None:
        projection = Projection(0, log.genesis)
        projection.apply(projection.read(log.records[0]))
        with pytest.raises(ValueError, match="folded already"):
            projection.apply(projection.read(log.records[0]))

    def test_the_registry_is_still_in_force_after_a_restart(self, log: Log) -> None:
        stores = project(log)
        receipt = log.set(ADA, "tone", "brief")
        stores.project(log)
        assert stores.verdict(receipt) == "added"

    def test_recorded_at_is_that_of_the_last_record_folded(self, log: Log) -> None:
        worker = Stores().open(log)
        assert worker.recorded_at is None
        worker.project(log.records)
        assert worker.recorded_at == log.records[-1].recorded_at

    @pytest.mark.parametrize("batch", [1, 2, 100])
    def test_late_events_find_where_a_version_began_across_commits(self, log: Log, batch: int) -> None:
        turns = [log.say(ADA, "brief brief long") for _ in range(4)]
        for turn, value, start in ((0, "long", 12), (1, "brief", 0), (3, "brief", 0)):
            log.candidate(ADA, "tone", value, source=turns[turn], quote=value, start=start)
        stores = Stores()
        stores.project(log, batch=batch)
        assert began(stores) == (turns[1].sequence, turns[0].sequence)
        log.candidate(ADA, "tone", "long", source=turns[2], quote="long", start=12)
        stores.project(log, batch=batch)
        assert began(stores) == (turns[3].sequence, turns[2].sequence)
        log.candidate(ADA, "tone", "brief", source=turns[2], quote="brief", start=0)  # earlier words of that turn
        stores.project(log, batch=batch)
        assert began(stores) == (turns[3].sequence, turns[2].sequence)
        assert stores.value(ADA, "tone") == "brief"

    @pytest.mark.parametrize("ids", [(70, 71), (71, 70)])
    @pytest.mark.parametrize("batch", [1, 100])
    def test_a_tie_is_unresolved_and_points_to_the_smaller_id(self, log: Log, ids: tuple[int, int], batch: int) -> None:
        log.set(ADA, "tone", "before")
        turn = log.say(ADA, "yes or no")
        for number in ids:
            value = {70: "yes", 71: "no"}[number]
            log.candidate(ADA, "tone", value, source=turn, quote="yes or no", event_id=event_id(number))
        stores = Stores()
        stores.project(log, batch=batch)
        entry = stores.entry(ADA, "tone")
        assert entry is not None
        assert entry.unresolved
        assert stores.value(ADA, "tone") == "yes"
        assert sequence_in(entry.previous) == 2

    @pytest.mark.parametrize("batch", [1, 2, 100])
    def test_a_key_that_is_folded_anew_meets_the_event_that_retired_it(self, log: Log, batch: int) -> None:
        """Words between a delete and the retirement after it; without the retirement they would be the last."""
        turns = [log.say(ADA, "brief") for _ in range(3)]
        retires = [{"scope": "global", "key": "tone"}]
        log.candidate(ADA, "tone", source=turns[0], quote="brief")
        log.candidate(ADA, "theme", "x", source=turns[2], quote="brief", retires=retires)
        stores = Stores()
        stores.project(log, batch=batch)
        log.candidate(ADA, "tone", "brief", source=turns[1], quote="brief")
        stores.project(log, batch=batch)
        assert stores.value(ADA, "tone") is UNSET
        assert began(stores) == (turns[2].sequence, turns[1].sequence)
        assert project(log).snapshot(log) == stores.snapshot(log)

    def test_a_tombstone_stays_whatever_older_words_come(self, log: Log) -> None:
        turn = log.say(ADA, "detailed")
        log.delete(ADA, "tone")
        late = log.candidate(ADA, "tone", "detailed", source=turn, quote="detailed")
        stores = Stores()
        stores.project(log, batch=1)
        assert stores.value(ADA, "tone") is UNSET
        assert stores.record(late).related == (3, 2)

    def test_owners_scopes_and_keys_never_touch_each_other(self, log: Log) -> None:
        for owner in (ADA, BEN, "main/user:ad", "acme/user:ada", "main/org:ada"):
            for scope in ("global", "project:Comet", "project:Come", "project:a/b"):
                for key in ("tone", "theme"):
                    log.set(owner, key, [owner, scope, key], scope=scope)
        log.delete(ADA, "tone")
        stores = project(log)
        assert stores.value(ADA, "tone") is UNSET
        assert stores.value(ADA, "tone", "project:a/b") == [ADA, "project:a/b", "tone"]
        assert stores.value(BEN, "tone") == [BEN, "global", "tone"]
        assert stores.value("main/user:ad", "theme") == ["main/user:ad", "global", "theme"]


def began(stores: Stores) -> tuple[int, int]:
    """Where the current version of Ada's tone began, and the last sequence of what it replaced."""
    entry = stores.entry(ADA, "tone")
    assert entry is not None
    return sequence_in(entry.start), sequence_in(entry.previous)


class TestOnceMore:
    @pytest.fixture
    def full(self, log: Log) -> Log:
        """A log with everything that a replay could get wrong."""
        turn = log.say(ADA, "yes or no")
        early = log.candidate(ADA, "tone", "no", source=turn, quote="no", start=7)
        log.set(ADA, "size", "medium", event_id=event_id(80))
        log.append(b"k", b"garbage")
        log.delete(ADA, "tone")
        log.set(ADA, "size", "small", event_id=event_id(80))
        log.copy(early)
        log.candidate(ADA, "tone", "yes", source=event_id(90))
        log.say(ADA, "the one that was cited too early", event_id=event_id(90))
        log.apply(registry_of(tone={}))
        log.set(ADA, "theme", "dark")
        log.append(b"k", f'{{"v":1,"owner":"{ADA}","event_id":"{event_id(81)}"}}'.encode())
        log.candidate(ADA, "tone", "yes", source=turn, quote="yes")
        return log

    def test_every_checkpoint_set_back_leaves_everything_byte_equal(self, full: Log) -> None:
        stores = project(full)
        before = stores.snapshot(full)
        for offset in range(full.next_offset):
            stores.set_back(full, offset)
            stores.project(full, batch=3)
            assert stores.snapshot(full) == before

    def test_a_replay_into_new_stores_is_byte_equal(self, full: Log) -> None:
        assert project(full, batch=1).snapshot(full) == project(full).snapshot(full)

    def test_a_history_that_is_ahead_of_the_checkpoint_is_taken_up(self, full: Log) -> None:
        """A commit is one step, but Redis keeps what a script wrote before it broke off; histories come first."""
        stores = Stores()
        stores.store._records, stores.store.dead = project(full).store._records, list(project(full).store.dead)
        stores.project(full, batch=2)
        assert stores.snapshot(full) == project(full).snapshot(full)

    def test_an_event_that_the_history_lost_stops_the_projection(self, log: Log) -> None:
        turn = log.say(ADA, "yes")
        stores = project(log)
        stores.store._records.clear()
        log.candidate(ADA, "tone", "yes", source=turn, quote="yes")
        with pytest.raises(OtherProjection, match="the history has lost the event at sequence 2"):
            stores.project(log)


class TestTwoWorkers:
    def test_the_slower_one_is_refused_and_goes_on_from_the_checkpoint(self, log: Log) -> None:
        stores = Stores()
        one, other = stores.open(log), stores.open(log)
        log.set(ADA, "tone", "brief")
        one.project(log.records)
        log.set(ADA, "tone", "long")
        with pytest.raises(CommitRefused):
            other.project(log.records)
        assert other.next_offset == 3
        assert other.project(log.records) == 1
        assert stores.snapshot(log) == project(log).snapshot(log)

    def test_one_that_folded_the_very_same_records_finds_its_commit_there_already(self, log: Log) -> None:
        """Also told of as refused once; but what is there is what it would have written, so it goes on."""
        stores = Stores()
        one, other = stores.open(log), stores.open(log)
        log.set(ADA, "tone", "brief")
        one.project(log.records)
        other.project(log.records)
        log.set(ADA, "tone", "brief")
        other.project(log.records)
        assert stores.snapshot(log) == project(log).snapshot(log)

    def test_a_worker_with_a_stale_cache_writes_no_wrong_verdict_into_the_history(self, log: Log) -> None:
        stores = Stores()
        stale, fresh = stores.open(log), stores.open(log)
        log.set(ADA, "tone", "brief")
        stale.project(log.records)
        fresh.reopen()
        log.set(ADA, "tone", "long")
        fresh.project(log.records)
        restated = log.set(ADA, "tone", "long")
        with pytest.raises(CommitRefused):
            stale.project(log.records)
        stores.project(log)
        assert stores.verdict(restated) == "restated"

    def test_stores_that_were_set_back_get_no_gap_in_the_history(self, log: Log) -> None:
        stores = project(log)
        checkpoint = stores.store.checkpoint(0)
        assert checkpoint is not None
        worker = stores.open(log)
        first = log.set(ADA, "tone", "brief")
        worker.project(log.records)
        lost: dict[str, object] = {"_records": {}, "stored_entries": {}, "_events": {}}
        vars(stores.store).update({"_checkpoints": {0: checkpoint}} | lost)  # the last write, in all of Redis
        last = log.set(ADA, "tone", "long")
        with pytest.raises(CommitRefused):
            worker.project(log.records)
        worker.project(log.records)
        assert [record.sequence for record in stores.records(ADA)] == [first.sequence, last.sequence]
        assert stores.verdict(last) == "updated"


class TestNeeds:
    def test_folding_asks_for_what_is_not_loaded_and_changes_nothing(self, log: Log) -> None:
        log.candidate(ADA, "guess", 1, source=event_id(99), event_id=event_id(7))
        projection = Projection(0, log.genesis)
        for record in log.records[:2]:
            projection.apply(projection.read(record))
        wanted: list[tuple[str, bytes]] = []
        for _ in range(2):
            with pytest.raises(NotLoaded) as caught:
                projection.apply(projection.read(log.records[2]))
            wanted += caught.value.needs.events
            projection.load(events=dict.fromkeys(caught.value.needs.events))
            assert (projection.next_offset, projection.changes.records) == (2, [])
        assert [event_id for _, event_id in wanted] == [uuid.UUID(event_id(7)).bytes, uuid.UUID(event_id(99)).bytes]
        made = projection.apply(projection.read(log.records[2]))
        assert made is not None
        assert made.reason == Reason.SOURCE_MISSING

    def test_it_says_beforehand_what_records_will_ask_for(self, log: Log) -> None:
        turn = log.say(ADA, "yes")
        log.candidate(ADA, "guess", 1, source=turn)
        projection = Projection(0, log.genesis)
        needs = projection.needs([projection.read(record) for record in log.records])
        assert set(needs.events) == {EventRef(ADA, uuid.UUID(event_id(number)).bytes) for number in (1, 2)}
        assert list(needs.entries) == [(ADA, *LEDGER), KeyRef(ADA, "global", "guess")]

    def test_the_keys_that_a_set_retires_are_asked_for_beforehand(self, log: Log) -> None:
        log.set(ADA, "tone", "brief", retires=[{"scope": "global", "key": "theme"}])
        projection = Projection(0, log.genesis)
        needs = projection.needs([projection.read(record) for record in log.records])
        assert list(needs.entries) == [KeyRef(ADA, "global", "tone"), KeyRef(ADA, "global", "theme")]

    def test_nothing_is_folded_before_all_that_a_set_retires_can_be(self, log: Log) -> None:
        """The tie of the last key needs its history; until that is there neither key has changed."""
        turn = log.say(ADA, "dark")
        log.candidate(ADA, "theme", "dark", source=turn, quote="dark", event_id=event_id(70))
        stores = Stores()
        stores.project(log)
        log.candidate(
            *(ADA, "tone", "x"),
            source=turn,
            quote="dark",
            event_id=event_id(60),
            retires=[{"scope": "global", "key": "theme"}],
        )
        projection = Projection(0, log.genesis, next_offset=log.next_offset - 1, registry=REGISTRY)
        read = projection.read(log.records[-1])
        needs = projection.needs([read])
        loaded = stores.store.load(0, needs).result()
        projection.load(loaded.events, loaded.entries)
        with pytest.raises(NotLoaded) as caught:
            projection.apply(read)
        assert list(caught.value.needs.histories) == [KeyRef(ADA, "global", "theme")]
        assert (projection.changes.entries, projection.changes.records) == ({}, [])
        stores.project(log)
        theme = stores.entry(ADA, "theme")
        assert theme is not None
        assert (theme.unresolved, theme.record.event_id) == (True, uuid.UUID(event_id(60)).bytes)

    def test_events_are_known_for_a_while_and_then_asked_for_again(
        self, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(known_module, "_MOST_EVENTS", 1)
        log.set(ADA, "tone", "brief")
        projection = Projection(0, log.genesis)
        for record in log.records[:2]:
            projection.apply(projection.read(record))
        read = projection.read(log.records[2])
        needs = projection.needs([read])
        projection.load(dict.fromkeys(needs.events), dict.fromkeys(needs.entries))
        projection.apply(read)
        assert projection.needs([read]) == Needs([], [])
        projection.forget_events()
        assert projection.needs([read]) == Needs([], [])
        projection.load({("somebody", b"else"): None})
        projection.forget_events()
        assert projection.needs([read]) == Needs(needs.events, [])

    def test_what_was_folded_is_a_first_copy_also_where_it_is_among_the_older_events(
        self, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(known_module, "_MOST_EVENTS", 1)
        first = log.set(ADA, "tone", "brief", event_id=event_id(1))
        log.set(ADA, "tone", "brief", event_id=event_id(1))
        projection = Projection(0, log.genesis)
        for record in log.records[:2]:
            projection.apply(projection.read(record))
        read, copy = (projection.read(record) for record in log.records[2:])
        needs = projection.needs([read])
        projection.load(dict.fromkeys(needs.events), dict.fromkeys(needs.entries))
        projection.apply(read)
        projection.forget_events()
        copied = projection.apply(copy)
        assert copied is not None
        assert (copied.verdict, copied.related) == ("duplicate", (first.sequence,))

    def test_entries_can_be_forgotten_between_commits(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(known_module, "_MOST_ENTRIES", 2)
        for number in range(30):
            log.set(ADA, "tone", number % 3, scope=f"project:{number % 7}")
        stores = Stores()
        stores.project(log, batch=4)
        assert stores.snapshot(log) == project(log).snapshot(log)


class WatchedStore(MemoryStore):
    """Remembers the next offset of each commit."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[int] = []

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> Settled[None]:
        self.commits.append(changes.next_offset)
        return super().commit(partition, genesis, before, changes, now_ms)


class TestBatches:
    def test_a_batch_has_at_most_so_many_records(self, log: Log) -> None:
        for number in range(2 * MAX_EVENTS - 1):
            log.append(b"k", b"x" if number % 3 else None)
        stores = Stores(watched := WatchedStore())
        stores.project(log)
        assert watched.commits == [MAX_EVENTS, 2 * MAX_EVENTS, 2 * MAX_EVENTS + 1]

    def test_a_batch_has_at_most_so_many_bytes_but_for_a_single_record(self, log: Log) -> None:
        stores = Stores(watched := WatchedStore())
        stores.project(log)
        for size in (MAX_BYTES // 2, MAX_BYTES // 2, 1, MAX_BYTES + 1, 1):
            log.append(b"k", b"x" * size)
        stores.project(log)
        assert watched.commits == [2, 4, 5, 6, 7]

    def test_each_batch_is_a_commit(self, log: Log) -> None:
        for number in range(2 * MAX_EVENTS):
            log.set(ADA, "tone", number)
        stores = Stores(watched := WatchedStore())
        stores.project(log)
        assert watched.commits == [MAX_EVENTS, 2 * MAX_EVENTS, 2 * MAX_EVENTS + 2]

    def test_what_is_there_already_is_no_commit(self, log: Log) -> None:
        stores = Stores(watched := WatchedStore())
        stores.project(log)
        stores.project(log)
        stores.open(log).project([])
        assert watched.commits == [2]


class TestThreeSteps:
    """`take`, `fold` and `settle` of a worker that does not wait between them."""

    def test_chunks_that_are_taken_before_the_last_is_settled_leave_the_same_bytes(self, log: Log) -> None:
        turn = log.say(ADA, "yes or no")
        first = log.set(ADA, "tone", "brief")
        for number in range(30):
            log.set(ADA, "tone", number % 3, scope=f"project:{number % 2}")
            log.copy(first)
            log.candidate(ADA, "tone", number % 2, source=turn, quote="yes", start=0)
        stores = Stores()
        worker = stores.open(log)
        for at in range(0, len(log.records), 7):
            assert worker.take(log.records[at : at + 7]) == len(log.records[at : at + 7])
            worker.settle()
            worker.fold()
            assert worker.unsettled
        worker.settle()
        assert not worker.unsettled
        assert stores.snapshot(log) == project(log).snapshot(log)

    def test_what_was_taken_is_dropped_when_the_commit_before_it_is_refused(self, log: Log) -> None:
        stores = Stores(counting := CountingStore())
        one, other = stores.open(log), stores.open(log)
        log.set(ADA, "tone", "brief")
        one.project(log.records[:2])
        other.take(log.records)
        other.fold()  # refused, but nobody has heard yet
        log.set(ADA, "tone", "long")
        other.take(log.records[3:])
        with pytest.raises(CommitRefused):
            other.settle()
        other.fold()
        other.settle()
        assert (other.next_offset, counting.refused) == (2, 1)
        other.project(log.records)
        assert stores.snapshot(log) == project(log).snapshot(log)

    def test_commits_sent_after_a_refused_one_are_refused_too(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(projector_module, "MAX_EVENTS", 5)
        stores = Stores(counting := CountingStore())
        one, other = stores.open(log), stores.open(log)
        one.project(log.records)
        for number in range(20):
            log.set(ADA, "tone", number % 3)
        with pytest.raises(CommitRefused):
            other.project(log.records)
        assert counting.refused == 5  # of 22 records, 5 at a time
        assert stores.records(ADA) == []
        assert other.next_offset == 2
        other.project(log.records)
        assert stores.snapshot(log) == project(log).snapshot(log)


class CountingStore(MemoryStore):
    """Counts refused commits."""

    refused = 0

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> Settled[None]:
        settled = super().commit(partition, genesis, before, changes, now_ms)
        try:
            settled.result()
        except CommitRefused:
            self.refused += 1
        return settled


class TestIdentities:
    """Owner, scope and key are checked when the event is folded; what is wrong with them is seen in the verdict."""

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"scope": "nowhere"}, "scope"),
            ({"scope": "project:\0"}, "scope"),
            ({"key": ""}, "key"),
            ({"key": "k" * 257}, "key"),
        ],
    )
    def test_a_wrong_scope_or_key_is_malformed_under_its_owner(
        self, log: Log, change: dict[str, str], field: str
    ) -> None:
        log.set(ADA, "tone", "brief")
        envelope = json.loads(log.records[-1].value or b"") | {"event_id": event_id(9)} | change
        log.append(b"k", json.dumps(envelope).encode())
        log.set(ADA, "tone", "long")
        stores = project(log)
        assert [record.verdict for record in stores.records(ADA)] == ["added", "refused", "updated"]
        refused = stores.records(ADA)[1]
        assert (refused.reason, refused.event_id) == (Reason.MALFORMED, uuid.UUID(event_id(9)).bytes)
        assert field in (refused.detail or "")
        assert stores.dead.letters == []

    def test_an_owner_that_is_not_written_in_full_is_malformed_under_it(self, log: Log) -> None:
        log.set(ADA, "tone", "brief")
        envelope = json.loads(log.records[-1].value or b"") | {"event_id": event_id(9), "owner": "user:ada"}
        log.append(b"k", json.dumps(envelope).encode())
        stores = project(log)
        assert [record.reason for record in stores.records(ADA)] == [None, Reason.MALFORMED]

    @pytest.mark.parametrize("owner", ["nobody", "main/user:", "main/user:\ud800", "MAIN/user:ada"])
    def test_an_owner_that_is_none_is_a_dead_letter(self, log: Log, owner: str) -> None:
        log.set(ADA, "tone", "brief")
        envelope = json.loads(log.records[-1].value or b"") | {"event_id": event_id(9), "owner": owner}
        offset = log.append(b"k", json.dumps(envelope).encode())
        stores = project(log)
        assert [letter.record.offset for letter in stores.dead.letters] == [offset]
        assert len(stores.records(ADA)) == 1


def test_what_a_large_batch_needs_is_asked_for_in_parts_that_do_not_block_the_store_for_long() -> None:
    class Counting(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.asked: list[int] = []

        def load(self, partition: int, needs: Needs) -> Settled[Loaded]:
            self.asked.append(max(len(needs.events), len(needs.entries)))
            return super().load(partition, needs)

    log = Log()
    for number in range(3 * MAX_EVENTS):
        log.set(f"main/user:u{number}", "tone", "brief")
    store = Counting()
    Stores(store=store).project(log)

    assert sum(store.asked) == 3 * MAX_EVENTS
    assert max(store.asked) == MAX_EVENTS
