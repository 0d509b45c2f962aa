"""The fold against a second, naive one; and what must never depend on batches, order of completion or crashes."""

import copy
import itertools
import json
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import event as note
from hypothesis import given, settings
from hypothesis import strategies as st

from lastword_projector.audit.choice import END, Range
from lastword_projector.audit.compare import compare_entries, compare_history
from lastword_projector.audit.recompute import Recomputed
from lastword_projector.engine import branch
from lastword_projector.engine.decisions import standing_of
from lastword_projector.engine.decode import LogRecord
from lastword_projector.engine.latest import fold, step
from lastword_projector.engine.policies import POLICIES
from lastword_projector.engine.projection import Changes, DeadLetter
from lastword_projector.engine.records import Entry, Mark, Record, mark_of, pack_record
from lastword_projector.engine.steps import NEEDS_HISTORY
from lastword_projector.projector import PartitionProjector
from lastword_projector.store.memory import MemoryStore, Settled
from lastword_projector.store.packing import pack_head, unpack_entry
from lastword_projector.store.ports import Checkpoint, CommitRefused
from lastword_query_api import versions
from lastword_query_api.answering import Entries, from_history
from lastword_schemas import jsontext
from lastword_schemas.answers import EventStatus
from lastword_schemas.authority import AuthorityRank
from lastword_schemas.control import Genesis
from lastword_schemas.model import from_micros, instant_text
from lastword_schemas.positions import Receipt
from tests.model import naive, naive_branch
from tests.model.deciding_logs import deciding_logs
from tests.model.logs import OWNERS, QUOTES, SCOPES, TEXT, Move, identifier, log_of, plans
from tests.support.logs import ADA, UNSET, Log, SentLetters, Stores, project, recorded_at

sizes = st.lists(st.integers(1, 9), min_size=1, max_size=5)

Told = tuple[str, str, object, str, int, int, Mark, Mark, bool, tuple[object, ...]]


def told(entry: Entry) -> Told:
    """Everything that an entry says."""
    value = None if entry.record.value is None else jsontext.canonical(jsontext.parse_stored(entry.record.value))
    return (
        entry.record.event_id.hex(),
        entry.record.operation,
        value,
        entry.record.verdict,
        entry.record.sequence,
        entry.started_at,
        entry.start,
        entry.previous,
        entry.unresolved,
        kept(entry),
    )


def instant(micros: int | None) -> str | None:
    return None if micros is None else instant_text(from_micros(micros))


def kept(entry: Entry) -> tuple[object, ...]:
    """What policy `branch` keeps, as the naive state tells it."""
    if entry.state is None:
        return ()
    marks = [branch.latest for branch in entry.state.branches] + [each.record.mark for each in entry.state.tombstones]
    assert entry.mark == max(marks) or (entry.state.resolves and entry.mark > max(marks))
    return (
        branch.why(entry),
        *(
            naive_branch.Kept(each.record.event_id.hex(), each.latest, each.count, instant(each.expires_at))
            for each in entry.state.branches
        ),
        *(
            naive_branch.Kept(
                each.branch.record.event_id.hex(),
                f"ended {each.branch.latest}",
                each.branch.count,
                instant(each.branch.expires_at),
            )
            for each in entry.state.ended
        ),
        *(
            naive_branch.Kept(each.record.event_id.hex(), "tied" if each.tied else "", 0)
            for each in entry.state.tombstones
        ),
    )


def told_naively(state: naive.State) -> Told:
    """The same of the naive state."""
    pointer = state.pointer
    return (
        pointer.event_id.replace("-", ""),
        pointer.header["operation"],
        pointer.says if "value" in pointer.body else None,
        pointer.verdict,
        pointer.sequence,
        state.started_at,
        mark_of(*state.start),
        mark_of(*state.previous) if state.previous else Mark(""),
        state.unresolved,
        tuple(
            each._replace(event_id=each.event_id.replace("-", "")) if isinstance(each, naive_branch.Kept) else each
            for each in state.kept
        ),
    )


def pack_entry(entry: Entry) -> bytes:
    """Every byte of an entry as it is stored; when it was written is left out."""
    return pack_head(entry, f"{0:013d}") + pack_record(entry.record)


def listen(log: Log) -> naive.Listened:
    genesis = log.genesis
    return naive.listen(log.records, genesis.generation, genesis.log_id, genesis.partition)


def history(stores: Stores) -> dict[str, list[Record]]:
    return {owner: stores.records(owner) for owner in OWNERS}


def profile(stores: Stores) -> dict[tuple[str, str, str], Entry]:
    """All entries of the stores."""
    found = {
        (owner, part.scope, part.key): stores.entry(owner, part.key, part.scope)
        for owner, records in history(stores).items()
        for record in records
        for part in (record, *record.deletes())
        if part.key is not None
    }
    return {at: entry for at, entry in found.items() if entry is not None and not entry.is_void}


def packed(owner: str, entries: Entries) -> dict[tuple[str, str, str], bytes]:
    return {(owner, scope, key): pack_entry(found.entry) for (scope, key), found in entries.items()}


logs = plans.map(log_of) | deciding_logs


@given(logs)
@settings(max_examples=300, deadline=None)
def test_every_verdict_is_the_naive_one(log: Log) -> None:
    records = history(project(log, batch=7))
    ours = {
        (owner, record.sequence): (
            record.event_id.hex(),
            record.verdict,
            record.reason,
            record.related,
            record.retired or (),
        )
        for owner in OWNERS
        for record in records[owner]
    }
    heard = listen(log)
    for event in heard:
        note(event.reason or event.verdict)
        for effect in event.retired or ():
            note(f"retired: {effect}")
    assert ours == {
        (event.owner, event.sequence): (
            event.event_id.replace("-", ""),
            event.verdict,
            event.reason,
            event.related,
            event.retired or (),
        )
        for event in heard
    }


@given(logs)
@settings(max_examples=300, deadline=None)
def test_the_profile_is_the_naive_state(log: Log) -> None:
    ours = {at: told(entry) for at, entry in profile(project(log, batch=7)).items()}
    states = naive.states(listen(log), known_at=log.next_offset)
    for state in states.values():
        note("unresolved" if state.unresolved else "resolved")
    assert ours == {at: told_naively(state) for at, state in states.items()}


@given(logs, st.integers(0, 45), st.integers(0, 45))
@settings(max_examples=300, deadline=None)
def test_a_reading_within_boundaries_is_the_naive_state(log: Log, known_at: int, as_of: int) -> None:
    stores = project(log)
    ours = {
        (owner, scope, key): told(found.entry)
        for owner, records in history(stores).items()
        for (scope, key), found in from_history(records, stores.policies(owner), as_of=as_of, known_at=known_at).items()
    }
    states = naive.states(listen(log), known_at=known_at, as_of=as_of)
    assert ours == {at: told_naively(state) for at, state in states.items()}


@given(logs)
@settings(max_examples=200, deadline=None)
def test_current_is_what_belongs_to_the_naive_states_version_key_by_key(log: Log) -> None:
    stores = project(log)
    ours = {
        (owner, *place)
        for owner, records in history(stores).items()
        for place, status in versions.statuses(records, stores.policies(owner), 0, standing_of(records)).items()
        if status is EventStatus.CURRENT
    }
    heard = listen(log)
    states = naive.states(heard, known_at=log.next_offset)
    assert ours == {
        (said.owner, said.sequence, *at[1:])
        for at, state in states.items()
        for said in naive.current(naive.said_of(heard, at), state, heard.rules.policy_at(at))
    }


@given(logs, st.data())
@settings(max_examples=250, deadline=None)
def test_known_at_answers_as_a_replay_of_the_prefix(log: Log, data: st.DataObject) -> None:
    known_at = data.draw(st.integers(0, log.next_offset - 1))
    prefix = copy.copy(log)
    prefix.records = [record for record in log.records if record.offset <= known_at]
    now, then = project(log, batch=11), project(prefix, batch=4)
    recalled: dict[tuple[str, str, str], bytes] = {}
    for owner, records in history(now).items():
        assert [record for record in records if record.sequence <= known_at] == then.records(owner)
        recalled |= packed(owner, from_history(records, now.policies(owner), as_of=None, known_at=known_at))
    assert recalled == {at: pack_entry(entry) for at, entry in profile(then).items()}


@given(logs, sizes)
@settings(max_examples=250, deadline=None)
def test_batches_of_any_size_leave_the_same_bytes(log: Log, batches: list[int]) -> None:
    stores = Stores()
    worker = stores.open(log)
    for at, batch in enumerate(cut(log.records, batches)):
        if at % 3 == 2:
            worker = stores.open(log)
        worker.project(batch)
    assert stores.snapshot(log) == project(log).snapshot(log)


@given(logs, sizes, st.integers(1, 40))
@settings(max_examples=250, deadline=None)
def test_an_audit_recomputes_what_a_worker_projects(log: Log, batches: list[int], most_records: int) -> None:
    stores = project(log)
    low, seen = 0, set[str]()
    while low < END:
        chosen = Range(7, low)
        recomputed = Recomputed(log.genesis, chosen, most_records=most_records)
        for records in cut(log.records, batches):
            recomputed.take(records)
        for owner, state in recomputed.owners.items():
            assert list(compare_entries(0, owner, state.entries, stores.store.entries(0, owner))) == []
            items = [(record.sequence, pack_record(record)) for record in stores.store.history(0, owner)]
            assert list(compare_history(0, owner, state, items, recomputed.next_offset)) == []
        seen |= recomputed.owners.keys()
        low = chosen.high
    assert seen == {owner for owner, records in history(stores).items() if records}


# --- the order of completion


class Word(NamedTuple):
    """An event of one key: few sources and places, so that marks are equal as often as not."""

    source: int
    ordinal: int
    value: bytes | None
    authority: int = 2


words = st.lists(
    st.builds(Word, st.integers(1, 4), st.integers(0, 1), st.sampled_from([b'"no"', b'"yes"', None]), st.just(2)),
    max_size=7,
)


@given(words, st.randoms(use_true_random=False), st.integers(0, 7))
@settings(max_examples=600, deadline=None)
def test_events_of_one_key_in_any_order_leave_the_naive_state(
    said: list[Word], order: random.Random, already: int
) -> None:
    ids = list(range(1, len(said) + 1))
    order.shuffle(ids)
    records = [record_of(word, ident, at) for at, (word, ident) in enumerate(zip(said, ids, strict=True))]
    expected = naive.state([heard_of(record) for record in records])
    arrived = list(records)
    order.shuffle(arrived)
    entry = None
    for at, record in enumerate(arrived):
        stepped = step(entry, record)
        note(stepped.effect.value)
        if stepped.entry is NEEDS_HISTORY:
            note("needs history")
            entry = fold(arrived[: at + 1])
        else:
            entry = stepped.entry
    assert fold(records) == entry
    assert (entry is None) == (expected is None)
    assert entry is None or expected is None or told(entry) == told_naively(expected)


BRANCH = POLICIES["branch"]


def arrived_one_by_one(records: Sequence[Record]) -> Entry | None:
    """The entry of policy `branch` after records that arrived in this order."""
    entry = None
    for at, record in enumerate(records):
        stepped = BRANCH.step(entry, record)
        if stepped.entry is NEEDS_HISTORY:
            note("needs history")
            stepped = BRANCH.refold(entry, record, records[:at], ())
        note(stepped.effect.value)
        expected = naive_branch.effect(heard_of(record), [heard_of(other) for other in records[:at]])
        assert stepped.effect.value == expected, [word_of(record) for record in records[: at + 1]]
        assert isinstance(stepped.entry, Entry)
        entry = stepped.entry
    return entry


def word_of(record: Record) -> tuple[int, int, bytes | None]:
    return record.source_sequence, record.authority, record.value


def told_of_branch(records: Sequence[Record]) -> Told:
    """What the naive state of policy `branch` tells."""
    return told_naively(naive_branch.state([heard_of(record) for record in records]))


branching_words = st.lists(
    st.builds(
        Word,
        st.integers(1, 4),
        st.integers(0, 1),
        st.sampled_from([b'"no"', b'"yes"', b'"yes"', None]),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=7,
)


@given(branching_words, st.randoms(use_true_random=False))
@settings(max_examples=600, deadline=None)
def test_events_of_a_branching_key_in_any_order_leave_the_naive_state(said: list[Word], order: random.Random) -> None:
    ids = list(range(1, len(said) + 1))
    order.shuffle(ids)
    records = [record_of(word, ident, at) for at, (word, ident) in enumerate(zip(said, ids, strict=True))]
    arrived = list(records)
    order.shuffle(arrived)
    entry = arrived_one_by_one(arrived)
    assert entry is not None
    assert BRANCH.fold(records, ()) == entry
    assert told(entry) == told_of_branch(records)
    assert unpack_entry(pack_head(entry, f"{0:013d}") + pack_record(entry.record)).entry == entry


def test_whatever_three_events_there_are_what_stands_does_not_depend_on_their_order() -> None:
    """Two values or a delete, three authorities, sources that are the same or not: every set, in every order."""
    words = [
        Word(source, 0, value, authority)
        for source in (1, 2, 3)
        for value in (b'"no"', b'"yes"', None)
        for authority in (1, 2, 3)
    ]
    for said in itertools.combinations_with_replacement(words, 3):
        records = [record_of(word, ident, 0) for ident, word in enumerate(said, 1)]
        expected = BRANCH.fold(records, ())
        assert expected is not None
        assert told(expected) == told_of_branch(records), said
        for arrived in itertools.permutations(records):
            entry = None
            for at, record in enumerate(arrived):
                stepped = BRANCH.step(entry, record).entry
                entry = BRANCH.fold(arrived[: at + 1], ()) if stepped is NEEDS_HISTORY else stepped
            assert entry == expected, said


def record_of(word: Word, ident: int, at: int) -> Record:
    return Record(
        sequence=100 + at,
        recorded_at=recorded_at(100 + at),
        event_id=ident.to_bytes(16, "big"),
        operation="delete" if word.value is None else "set",
        scope="global",
        key="tone",
        authority=word.authority,
        service="app",
        role="service",
        verdict="",
        cited_sequence=word.source,
        cited_recorded_at=recorded_at(word.source),
        value=word.value,
        span=(word.ordinal, word.ordinal + 1),
    )


def heard_of(record: Record) -> naive.Heard:
    return naive.Heard(
        sequence=record.sequence,
        recorded_at=record.recorded_at,
        owner=ADA,
        event_id=record.event_id.hex(),
        header={
            "operation": record.operation,
            "key": "tone",
            "authority": AuthorityRank(record.authority).authority,
            "span": record.span,
        },
        body={} if record.value is None else {"value": json.loads(record.value)},
        source=naive.Heard(record.source_sequence, record.source_recorded_at, ADA, ""),
    )


class Reading(msgspec.Struct, frozen=True):
    """A candidate of one of the turns or statements, and when it and its copies complete."""

    source: int
    key: str
    value: object
    quote: int
    scope: int
    retires: tuple[tuple[int, str], ...]
    """Scopes and keys, without the reading's own."""
    first: tuple[int, int]
    """Slots in two arrangements: after which turn or statement it arrives, if that is not before its source."""
    copies: tuple[int, ...]
    """Slots of copies in the second arrangement."""


SAID = 8
places = st.tuples(st.sampled_from([0, 0, 1]), st.sampled_from(["tone", "guess"]))
readings = st.builds(
    lambda source, value, quote, at, others, first, copies: Reading(
        source, at[1], value, quote, at[0], tuple(sorted({*others} - {at})), first, copies
    ),
    st.integers(0, SAID - 1),
    st.sampled_from(["no", "yes", UNSET]),
    st.integers(0, 4),
    places,
    st.lists(places, max_size=2),
    st.tuples(st.integers(0, SAID), st.integers(0, SAID)),
    st.lists(st.integers(0, SAID), max_size=2).map(tuple),
)
statements = st.lists(
    st.sampled_from(["say", "say", "say", "set no", "set yes", "delete", "undo", "withdraw the first"]),
    min_size=SAID,
    max_size=SAID,
)


def arrange(said: list[str], read: list[Reading], arrangement: int, seed: int, *, with_copies: bool) -> Log:
    """What was said stands at fixed offsets; the readings arrive in between as the arrangement has it."""
    log = Log()
    arrivals: dict[int, list[int]] = {}
    for number, reading in enumerate(read):
        slots = [reading.first[arrangement], *(reading.copies if with_copies else ())]
        for slot in slots:
            arrivals.setdefault(max(slot, reading.source), []).append(number)
    shuffle = random.Random(seed).shuffle
    sources: list[Receipt] = []
    done: dict[int, Receipt] = {}
    for slot, words in enumerate([*said, None]):
        at = 1000 * (slot + 1)
        if words == "say" or (words in ("undo", "withdraw the first") and not sources):
            sources.append(log.say(ADA, TEXT, at=at, event_id=identifier(slot)))
        elif words in ("undo", "withdraw the first"):
            named = sources[-1 if words == "undo" else 0]
            sources.append(log.withdraw(ADA, named, at=at, event_id=identifier(slot)))
        elif words == "delete":
            sources.append(log.delete(ADA, "tone", at=at, event_id=identifier(slot)))
        elif words is not None:
            sources.append(log.set(ADA, "tone", words.removeprefix("set "), at=at, event_id=identifier(slot)))
        coming = arrivals.get(slot, [])
        shuffle(coming)
        for number in coming:
            if number in done:
                log.copy(done[number])
            else:
                done[number] = complete(log, read[number], number, sources)
    return log


class Backfilled(msgspec.Struct, frozen=True):
    """A statement from before the log, and after which turn or statement it is imported."""

    key: str
    scope: int
    value: object
    place: int
    slots: tuple[int, int]
    """In two arrangements."""
    read_as: object
    """What an extractor reads from it at once, of the key `guess`; None for nothing."""


backfills = st.lists(
    st.builds(
        Backfilled,
        st.sampled_from(["tone", "tone", "guess"]),
        st.sampled_from([0, 0, 1]),
        st.sampled_from(["no", "yes", UNSET]),
        st.integers(0, 2),
        st.tuples(st.integers(0, SAID), st.integers(0, SAID)),
        st.sampled_from([None, "no", "yes"]),
    ),
    min_size=1,
    max_size=6,
)


def import_into(log: Log, items: list[Backfilled], said: list[str], arrangement: int, seed: int) -> Log:
    """What was said stands at fixed offsets; what is from before the log is imported in between."""
    slots: dict[int, list[int]] = {}
    for number, item in enumerate(items):
        slots.setdefault(min(item.slots[arrangement], len(said)), []).append(number)
    for slot, words in enumerate([*said, None]):
        at = 1000 * (slot + 1)
        if words == "delete":
            log.delete(ADA, "tone", at=at, event_id=identifier(slot))
        elif words is not None:
            log.set(ADA, "tone", words.removeprefix("set "), at=at, event_id=identifier(slot))
        coming = slots.get(slot, [])
        random.Random(seed).shuffle(coming)
        for number in coming:
            item = items[number]
            common: dict[str, Any] = {"event_id": identifier(100 + number), "scope": SCOPES[item.scope]}
            if item.value is UNSET:
                made = log.delete(ADA, item.key, backfill=item.place, **common)
            else:
                made = log.set(ADA, item.key, item.value, backfill=item.place, **common)
            if item.read_as is not None:
                log.candidate(ADA, "guess", item.read_as, source=made, event_id=identifier(200 + number))
    return log


@given(st.lists(st.sampled_from(["set no", "set yes", "delete"]), max_size=SAID), backfills, st.integers(0, 2**16))
@settings(max_examples=150, deadline=None)
def test_what_is_backfilled_leaves_one_state_wherever_in_the_log_it_is(
    said: list[str], items: list[Backfilled], seed: int
) -> None:
    one = project(import_into(Log(), items, said, 0, seed), batch=5)
    other = project(import_into(Log(), items, said, 1, seed + 1), batch=3)
    assert {at: settled(entry) for at, entry in profile(one).items()} == {
        at: settled(entry) for at, entry in profile(other).items()
    }


@given(st.lists(st.sampled_from(["set no", "set yes", "delete"]), max_size=SAID), backfills, st.integers(0, 2**16))
@settings(max_examples=100, deadline=None)
def test_what_is_backfilled_changes_no_value_that_was_said_since(
    said: list[str], items: list[Backfilled], seed: int
) -> None:
    without = profile(project(import_into(Log(), [], said, 0, seed)))
    imported = profile(project(import_into(Log(), items, said, 0, seed)))
    assert {at: imported[at].record for at in without} == {at: entry.record for at, entry in without.items()}


def complete(log: Log, reading: Reading, number: int, sources: list[Receipt]) -> Receipt:
    quote = QUOTES[reading.quote]
    words: dict[str, Any] = {} if quote is None else {"quote": quote[1], "start": quote[0]}
    if reading.retires and reading.value is not UNSET:
        words["retires"] = [{"scope": SCOPES[scope], "key": key} for scope, key in reading.retires]
    return log.candidate(
        ADA,
        reading.key,
        reading.value,
        source=sources[reading.source],
        scope=SCOPES[reading.scope],
        event_id=identifier(100 + number),
        **words,
    )


def settled(entry: Entry) -> bytes:
    """An entry without what is about the arrival of the event under its pointer.

    Left out: where the pointer's event stands and when it was appended (a moved candidate stands elsewhere), and its
    verdict, which says what it met when it arrived (`late` here, `updated` there), for each key. All else must be
    equal: which event it is and all its content, its source and mark, where the version began and what it replaced, and
    whether it is resolved.
    """
    record = msgspec.structs.replace(entry.record, sequence=0, recorded_at=0, verdict="", related=None, retired=None)
    return pack_entry(msgspec.structs.replace(entry, record=record))


@given(statements, st.lists(readings, min_size=1, max_size=10), st.integers(0, 2**16))
@settings(max_examples=200, deadline=None)
def test_moved_and_copied_completions_leave_one_state(said: list[str], read: list[Reading], seed: int) -> None:
    one = project(arrange(said, read, 0, seed, with_copies=False), batch=5)
    other = project(arrange(said, read, 1, seed + 1, with_copies=True), batch=3)
    assert counting(one) == counting(other)
    assert {at: settled(entry) for at, entry in profile(one).items()} == {
        at: settled(entry) for at, entry in profile(other).items()
    }


def counting(stores: Stores) -> dict[bytes, int]:
    """The events that count, with their source sequence."""
    return {record.event_id: record.source_sequence for record in stores.records(ADA) if record.counts}


# --- crashes, other workers, rollbacks


class Crash(Exception):
    """The worker dies here."""


class Fuse:
    """Dies at the steps given, counted from 0."""

    def __init__(self, steps: set[int]) -> None:
        self.steps, self.passed = steps, 0

    def step(self) -> None:
        self.passed += 1
        if self.passed - 1 in self.steps:
            raise Crash


class FragileStore(MemoryStore):
    """A commit is one step (one script in Redis): the worker dies before it, or after it without having heard."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self.fuse = fuse

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> Settled[None]:
        self.fuse.step()
        settled = super().commit(partition, genesis, before, changes, now_ms)
        self.fuse.step()
        return settled


class FragileLetters(SentLetters):
    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self.fuse = fuse

    def send(self, genesis: Genesis, letters: Sequence[DeadLetter]) -> None:
        self.fuse.step()
        super().send(genesis, letters)
        self.fuse.step()


@given(plans, sizes, st.sets(st.integers(0, 90), max_size=12), st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_crash_anywhere_leaves_the_same_bytes(
    plan: list[Move], batches: list[int], steps: set[int], same_process: bool
) -> None:
    log = log_of(plan)
    fuse = Fuse(steps)
    stores = Stores(FragileStore(fuse), FragileLetters(fuse))
    worker = stores.open(log)
    crashes = 0
    while worker.next_offset < log.next_offset:
        try:
            for batch in cut([record for record in log.records if record.offset >= worker.next_offset], batches):
                worker.project(batch)
        except Crash:
            crashes += 1
            if same_process:
                worker.reopen()
            else:
                worker = stores.open(log)
    note(f"crashes: {min(crashes, 3)}")
    whole = project(log)
    assert stores.snapshot(log) == whole.snapshot(log)
    assert {letter.record.offset for letter in stores.dead.letters} == {
        letter.record.offset for letter in whole.dead.letters
    }


@given(plans, st.lists(st.tuples(st.booleans(), st.integers(1, 9)), min_size=1, max_size=12))
@settings(max_examples=200, deadline=None)
def test_a_worker_that_lost_its_partition_without_noticing_changes_nothing(
    plan: list[Move], turns: list[tuple[bool, int]]
) -> None:
    log = log_of(plan)
    stores = Stores()
    workers = stores.open(log), stores.open(log)
    for which, size in turns:
        advance(workers[which], log, size)
    advance(workers[0], log, 1)
    while workers[0].next_offset < log.next_offset:
        advance(workers[0], log, 100)
    assert stores.snapshot(log) == project(log).snapshot(log)


@given(plans, sizes, st.integers(1, 40), st.integers(1, 40))
@settings(max_examples=150, deadline=None)
def test_stores_that_lost_their_last_writes_heal_by_replay(
    plan: list[Move], batches: list[int], kept: int, lost: int
) -> None:
    log = log_of(plan)
    stores = Stores()
    worker = stores.open(log)
    advance(worker, log, kept)
    earlier = copy.deepcopy({name: held for name, held in vars(stores.store).items() if name != "lock"})
    advance(worker, log, lost)
    vars(stores.store).update(earlier)
    while worker.next_offset < log.next_offset or stores.store.checkpoint(0) is None:
        advance(worker, log, batches[0])
    advance(worker, log, 1)
    stores.project(log)
    assert stores.snapshot(log) == project(log).snapshot(log)


@given(plans, sizes, st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_a_checkpoint_that_was_set_back_leaves_the_same_bytes(plan: list[Move], batches: list[int], back: int) -> None:
    log = log_of(plan)
    stores = project(log)
    before = stores.snapshot(log)
    stores.set_back(log, min(back, log.next_offset))
    worker = stores.open(log)
    for batch in cut([record for record in log.records if record.offset >= worker.next_offset], batches):
        worker.project(batch)
    assert stores.snapshot(log) == before


def advance(worker: PartitionProjector, log: Log, size: int) -> None:
    """One batch; where it is refused the worker goes on next time from what is stored."""
    try:
        worker.project([record for record in log.records if record.offset >= worker.next_offset][:size])
    except CommitRefused:
        note("refused")


def cut(records: Sequence[LogRecord], sizes: Sequence[int]) -> list[list[LogRecord]]:
    """The records in batches of the sizes given, over and over."""
    batches: list[list[LogRecord]] = []
    at = 0
    while at < len(records):
        size = sizes[len(batches) % len(sizes)]
        batches.append(list(records[at : at + size]))
        at += size
    return batches


def test_histories_are_kept_byte_for_byte() -> None:
    """What the other tests compare are bytes: a record that differs in anything is seen."""
    log = Log()
    receipt = log.set(ADA, "tone", "brief")
    record = project(log).record(receipt)
    assert pack_record(record) != pack_record(msgspec.structs.replace(record, recorded_at=record.recorded_at + 1))


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_a_log_longer_than_one_commit_leaves_the_same_bytes(size: int) -> None:
    log = Log()
    for number in range(450):
        log.set(ADA, "tone", number % 7, scope=f"project:{number % 5}")
    stores = Stores()
    stores.project(log, batch=size)
    assert stores.snapshot(log) == project(log).snapshot(log)
