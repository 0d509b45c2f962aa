"""What every reader of a store answers. A test class of an implementation subclasses `ReaderContract`."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import pytest

from lastword_producers.desk import ProjectionPort
from lastword_projector.engine.decode import LogRecord
from lastword_projector.engine.records import Record
from lastword_projector.projector import PartitionProjector
from lastword_projector.store.plans import EntriesRead, HistoryRead, StateRead
from lastword_projector.store.ports import Checkpoint, Store
from lastword_query_api.changes import ChangesReader
from lastword_query_api.readings import ReaderPort
from lastword_schemas import jsontext
from lastword_schemas.positions import Receipt
from tests.support.logs import ADA, BEN, REGISTRY, START_MS, Log, SentLetters, event_id


class ReadingPort(ReaderPort, ProjectionPort, ChangesReader, Protocol):
    """What reads, streams and the door need together."""


T = TypeVar("T")
Question = Callable[[ReadingPort], Awaitable[T]]
TONE, THEME, GUESS = ("global", "tone"), ("global", "theme"), ("global", "guess")
IN_COMET = ("project:Comet", "tone")
LATER = "2099-01-01T00:00:00Z"


class Scene:
    """A log and what is projected of it."""

    def __init__(self, store: Store) -> None:
        self.log = Log()
        self._worker = PartitionProjector(self.log.genesis, store, SentLetters(), now_ms=lambda: START_MS)

    def project(self, upto: Receipt | None = None) -> None:
        """Project all that was not projected yet, or as far as a receipt."""
        records: list[LogRecord] = [
            record for record in self.log.records if upto is None or record.offset <= upto.offset
        ]
        self._worker.project(records)


def values(found: EntriesRead | StateRead) -> dict[tuple[str, str], Any]:
    """The value of each entry; None of a tombstone."""
    if isinstance(found, EntriesRead):
        records = {at: stored.entry.record for at, stored in found.entries.items()}
    else:
        records = {at: entry.record for at, entry in found.entries.items()}
    return {at: None if each.value is None else jsontext.parse_stored(each.value) for at, each in records.items()}


class ReaderContract:
    """Subclass it with a fixture `kept` that gives an empty store, and with `ask` and `set_back`."""

    @pytest.fixture
    def kept(self) -> Store:
        raise NotImplementedError

    @pytest.fixture
    def scene(self, kept: Store) -> Scene:
        return Scene(kept)

    def ask(self, store: Store, question: Question[T]) -> T:
        """The answer of a reader of that store."""
        raise NotImplementedError

    def set_back(self, store: Store, checkpoint: Checkpoint) -> None:
        """Set the stored checkpoint of partition 0 back, and nothing else."""
        raise NotImplementedError

    def test_before_the_first_projection_nothing_is_known(self, kept: Store) -> None:
        assert self.ask(kept, lambda reader: reader.checkpoint(0)) is None
        assert self.ask(kept, lambda reader: reader.checkpoints(3)) == [None] * 3
        assert self.ask(kept, lambda reader: reader.entries(0, ADA)) == EntriesRead(None, {})
        assert self.ask(kept, lambda reader: reader.entries(0, ADA, [TONE])) == EntriesRead(None, {})
        assert self.ask(kept, lambda reader: reader.history(0, ADA)) == HistoryRead(None, [])
        nothing = self.ask(kept, lambda reader: reader.state_at(0, ADA, [TONE], as_of=None, known_at=None))
        assert nothing == StateRead(None, {}, None)
        assert self.ask(kept, lambda reader: reader.event(0, ADA, bytes(16))) is None

    def test_checkpoints_say_how_far_each_partition_is_and_which_registry_is_in_force(
        self, kept: Store, scene: Scene
    ) -> None:
        last = scene.log.set(ADA, "tone", "brief")
        scene.project()
        found = self.ask(kept, lambda reader: reader.checkpoint(0))
        assert found is not None
        assert (found.last_sequence, found.genesis, found.registry) == (last.sequence, scene.log.genesis, REGISTRY)
        assert self.ask(kept, lambda reader: reader.checkpoints(2)) == [found, None]

    def test_entries_are_those_wanted_that_are_there_or_all_of_the_owner(self, kept: Store, scene: Scene) -> None:
        scene.log.set(ADA, "tone", "brief")
        scene.log.set(ADA, "tone", "formal", scope="project:Comet")
        scene.log.set(BEN, "tone", "loud")
        scene.log.set(ADA, "theme", "dark")
        last = scene.log.delete(ADA, "theme")
        scene.project()
        every = self.ask(kept, lambda reader: reader.entries(0, ADA))
        some = self.ask(kept, lambda reader: reader.entries(0, ADA, [IN_COMET, GUESS]))
        assert values(every) == {TONE: "brief", IN_COMET: "formal", THEME: None}
        assert values(some) == {IN_COMET: "formal"}
        for read in (every, some):
            assert read.checkpoint is not None
            assert read.checkpoint.last_sequence == last.sequence
            assert {stored.projected_at for stored in read.entries.values()} == {START_MS}

    def test_a_state_at_a_boundary_has_what_had_been_said_and_what_was_known(self, kept: Store, scene: Scene) -> None:
        log = scene.log
        turn = log.say(ADA, "brief, please")
        first = log.set(ADA, "guess", "detailed")
        late = log.candidate(ADA, "guess", "brief", source=turn)
        log.delete(ADA, "guess")
        scene.project()

        def at(as_of: Receipt | None, known_at: Receipt | None) -> Any:
            boundary = {
                "as_of": as_of.sequence if as_of else None,
                "known_at": known_at.sequence if known_at else None,
            }
            return values(self.ask(kept, lambda reader: reader.state_at(0, ADA, [GUESS, TONE], **boundary)))

        assert at(None, None) == {GUESS: None}
        assert at(turn, None) == {GUESS: "brief"}
        assert at(turn, first) == {}
        assert at(first, None) == {GUESS: "detailed"}
        assert at(None, first) == {GUESS: "detailed"}
        assert at(None, late) == {GUESS: "detailed"}
        assert at(None, turn) == {}

    def test_a_state_at_a_boundary_knows_what_was_retired(self, kept: Store, scene: Scene) -> None:
        scene.log.set(ADA, "tone", "brief")
        moved = scene.log.set(ADA, "theme", "dark", retires=[{"scope": "global", "key": "tone"}])
        scene.project()
        wanted = [TONE, THEME]
        now = self.ask(kept, lambda reader: reader.state_at(0, ADA, wanted, as_of=moved.sequence, known_at=None))
        before = self.ask(kept, lambda reader: reader.state_at(0, ADA, wanted, as_of=moved.sequence - 1, known_at=None))
        assert values(now) == {TONE: None, THEME: "dark"}
        assert values(before) == {TONE: "brief"}

    def test_a_state_at_a_boundary_obeys_the_decisions_that_were_known(self, kept: Store, scene: Scene) -> None:
        """Over a history that is longer than what is read of it at once."""
        log = scene.log
        said = log.set(ADA, "tone", "brief")
        wrong = [log.set(ADA, "tone", f"no {number}") for number in range(40)]
        other = log.set(ADA, "theme", "dark")
        withdrawn = log.withdraw(ADA, other, *wrong)
        restored = log.withdraw(ADA, withdrawn)
        scene.project()

        def at(known_at: Receipt | None, as_of: Receipt | None = None) -> Any:
            boundary = {
                "as_of": as_of.sequence if as_of else None,
                "known_at": known_at.sequence if known_at else None,
            }
            return values(self.ask(kept, lambda reader: reader.state_at(0, ADA, [TONE, THEME], **boundary)))

        assert at(other) == {TONE: "no 39", THEME: "dark"}
        assert at(withdrawn) == {TONE: "brief"}
        assert at(withdrawn, as_of=wrong[3]) == {TONE: "brief"}
        assert at(restored) == at(None) == {TONE: "no 39", THEME: "dark"}
        assert at(restored, as_of=said) == {TONE: "brief"}
        every = self.ask(kept, lambda reader: reader.entries(0, ADA))
        assert set(every.entries) == {TONE, THEME}

    def test_the_last_record_within_the_boundary_comes_along_where_an_entry_can_expire(
        self, kept: Store, scene: Scene
    ) -> None:
        lasting = scene.log.set(ADA, "theme", "dark")
        fleeting = scene.log.set(ADA, "tone", "brief", expires_at=LATER)
        turn = scene.log.say(ADA, "thanks")
        scene.project()

        def last(wanted: tuple[str, str], as_of: Receipt | None, known_at: Receipt | None) -> int | None:
            boundary = {"as_of": as_of.sequence if as_of else None, "known_at": known_at.sequence if known_at else None}
            found = self.ask(kept, lambda reader: reader.state_at(0, ADA, [wanted], **boundary)).last
            return None if found is None else found.sequence

        assert last(THEME, None, None) is None
        assert last(TONE, None, None) == turn.sequence
        assert last(TONE, fleeting, None) == fleeting.sequence
        assert last(TONE, turn, fleeting) == fleeting.sequence
        assert last(TONE, lasting, None) is None  # there is no such entry yet

    def test_a_history_is_all_of_one_owner_in_accepted_order_up_to_the_checkpoint(
        self, kept: Store, scene: Scene
    ) -> None:
        receipts = [scene.log.set(ADA, "tone", "brief"), scene.log.set(ADA, "nobody declared this", 1)]
        scene.log.set(BEN, "tone", "loud")
        receipts.append(scene.log.copy(receipts[0]))
        scene.project()
        found = self.ask(kept, lambda reader: reader.history(0, ADA))
        assert [record.sequence for record in found.records] == [receipt.sequence for receipt in receipts]
        assert [record.verdict for record in found.records] == ["added", "refused", "duplicate"]

        assert found.checkpoint is not None
        self.set_back(kept, replace(found.checkpoint, next_sequence=receipts[1].sequence))
        earlier = self.ask(kept, lambda reader: reader.history(0, ADA))
        assert [record.sequence for record in earlier.records] == [receipts[0].sequence]

    def test_a_history_above_a_sequence_is_the_rest_of_it(self, kept: Store, scene: Scene) -> None:
        receipts = [scene.log.set(ADA, "tone", number) for number in range(4)]
        scene.log.set(BEN, "tone", "loud")
        scene.project()
        whole = self.ask(kept, lambda reader: reader.history(0, ADA))

        def above(sequence: int) -> HistoryRead:
            return self.ask(kept, lambda reader: reader.history_above(0, ADA, sequence))

        assert above(0) == whole
        assert above(receipts[1].sequence) == HistoryRead(whole.checkpoint, whole.records[2:])
        assert above(receipts[3].sequence) == HistoryRead(whole.checkpoint, [])

    def test_the_last_record_is_told_also_where_the_checkpoint_was_set_back(self, kept: Store, scene: Scene) -> None:
        receipts = [scene.log.set(ADA, "tone", "brief"), scene.log.say(ADA, "hello")]
        scene.log.set(BEN, "tone", "loud")
        scene.project()

        found = self.ask(kept, lambda reader: reader.last_record(0, ADA))
        assert [record.sequence for record in found.records] == [receipts[1].sequence]
        assert self.ask(kept, lambda reader: reader.last_record(0, "main/user:nobody")).records == []

        assert found.checkpoint is not None
        back = replace(found.checkpoint, next_sequence=receipts[1].sequence)
        self.set_back(kept, back)
        assert self.ask(kept, lambda reader: reader.last_record(0, ADA)) == HistoryRead(back, found.records)

    def test_an_event_is_found_by_owner_and_id_and_is_the_first_copy(self, kept: Store, scene: Scene) -> None:
        first = scene.log.set(ADA, "tone", "brief", event_id=event_id(77))
        scene.log.copy(first)
        scene.project()

        def find(owner: str, number: int) -> Record | None:
            return self.ask(kept, lambda reader: reader.event(0, owner, number.to_bytes(16)))

        found = find(ADA, 77)
        assert found is not None
        assert (found.sequence, found.verdict) == (first.sequence, "added")
        assert find(ADA, 78) is None
        assert find(BEN, 77) is None

    def test_a_record_is_found_by_exactly_its_sequence(self, kept: Store, scene: Scene) -> None:
        first = scene.log.set(ADA, "tone", "brief")
        bens = scene.log.set(BEN, "tone", "loud")
        last = scene.log.say(ADA, "thanks")
        scene.project()

        def found(sequence: int) -> str | None:
            record = self.ask(kept, lambda reader: reader.record(0, ADA, sequence))
            return None if record is None else record.verdict

        assert [found(receipt.sequence) for receipt in (first, bens, last)] == ["added", None, "recorded"]
        assert found(last.sequence + 1) is None

    def test_whether_the_checkpoint_is_past_a_sequence_is_told_at_once_or_in_time(
        self, kept: Store, scene: Scene
    ) -> None:
        first = scene.log.set(ADA, "tone", "brief")
        second = scene.log.set(ADA, "tone", "formal")
        scene.project(upto=first)

        async def wait(reader: ReadingPort) -> tuple[bool, bool, bool]:
            past = await reader.wait_past(0, first.sequence, 20)
            in_vain = await reader.wait_past(0, second.sequence, 0.02)
            waiting = asyncio.create_task(reader.wait_past(0, second.sequence, 20))
            await asyncio.sleep(0.01)
            await asyncio.to_thread(scene.project)
            return past, in_vain, await waiting

        assert self.ask(kept, wait) == (True, False, True)

    def test_partitions_know_nothing_of_each_other(self, kept: Store, scene: Scene) -> None:
        scene.log.set(ADA, "tone", "brief")
        scene.project()
        assert self.ask(kept, lambda reader: reader.entries(1, ADA)) == EntriesRead(None, {})
        assert self.ask(kept, lambda reader: reader.history(1, ADA)) == HistoryRead(None, [])
