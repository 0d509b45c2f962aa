"""The pure parts of the audit: what is chosen, what is recomputed, how they are compared."""

import random
from collections import Counter

import pytest

from lastword_projector.audit.choice import OneOwner, Range
from lastword_projector.audit.compare import compare_entries, compare_history
from lastword_projector.audit.pace import Pace
from lastword_projector.audit.recompute import Recomputed
from lastword_projector.audit.violations import GroundingInvariantViolation, Violation, What
from lastword_projector.engine.records import pack_record
from lastword_projector.engine.upcasting import AS_WRITTEN
from lastword_projector.store.packing import pack_head
from lastword_schemas.positions import sequence_of
from tests.support.logs import ADA, BEN, Log, project

OWNERS = [f"main/user:{number}" for number in range(200)]


def crowd(events: int = 3) -> Log:
    """Everybody says something, in turns."""
    log = Log()
    for number in range(events):
        for owner in OWNERS:
            log.set(owner, "tone", number)
    return log


def recomputed(log: Log, choice: OneOwner | Range, **limits: int) -> Recomputed:
    made = Recomputed(log.genesis, choice, AS_WRITTEN, **limits)
    made.take(log.records)
    return made


def mixed() -> Log:
    """One of each: readings that are late, of one mark or refused, copies, tombstones, keys that are retired."""
    log = Log()
    turn = log.say(ADA, "Brief, or no, detailed.")
    first = log.set(ADA, "tone", "formal")
    log.candidate(ADA, "tone", "brief", source=turn, quote="Brief")
    log.candidate(ADA, "tone", "detailed", source=turn, quote="detailed", start=14)
    log.candidate(ADA, "guess", 1, source=turn)
    log.candidate(ADA, "guess", 2, source=turn)
    log.candidate(ADA, "vow", 2, source=turn)
    log.copy(first)
    log.set(BEN, "theme", "dark", retires=[{"scope": "global", "key": "tone"}])
    log.delete(BEN, "theme")
    log.append(b"foreign", b"garbage")
    log.set(BEN, "size", "huge")
    return log


def test_what_is_recomputed_is_what_a_worker_projects() -> None:
    log = mixed()
    made, stores = recomputed(log, Range(1)), project(log)

    for owner in (ADA, BEN):
        entries = stores.store.entries(0, owner)
        assert list(compare_entries(0, owner, made.of(owner).entries, entries)) == []
        items = [(record.sequence, pack_record(record)) for record in stores.store.history(0, owner)]
        assert list(compare_history(0, owner, made.of(owner), items, made.next_offset)) == []
        assert len(items) == len(made.of(owner).records)
    assert made.dead == [letter.record.offset for _, letter in stores.store.dead]
    checkpoint = stores.store.checkpoint(0)
    assert checkpoint is not None
    assert made.registry == checkpoint.registry


def test_one_owner_is_recomputed_alone() -> None:
    made = recomputed(mixed(), OneOwner(BEN))

    assert made.owners.keys() == {BEN}


@pytest.mark.parametrize("most", [1, 7, 50])
def test_ranges_that_hold_no_more_than_fits_cover_everybody_once(most: int) -> None:
    log, seen, low, passes = crowd(), Counter[str](), 0, 0
    while low < 1 << 64:
        chosen = Range(5, low)
        made = recomputed(log, chosen, most_records=most)
        seen.update(made.owners.keys())
        assert all(len(state.records) == 3 for state in made.owners.values())
        assert made.held <= max(most, 3)
        low, passes = chosen.high, passes + 1

    assert seen == Counter(OWNERS)
    assert passes >= len(OWNERS) * 3 / max(most, 3)


def test_nobody_is_dropped_any_more_once_the_choice_is_settled() -> None:
    """Else somebody who is compared after the others would have no events by then."""
    log = crowd(events=1)
    half = len(log.records) // 2
    made = Recomputed(log.genesis, Range(1), most_owners=20, most_records=20)
    made.take(log.records[:half])
    held = set(made.owners)
    made.settle()
    made.take(log.records[half:])

    assert held < made.owners.keys()
    for number in range(3):
        for owner in held:
            log.set(owner, "tone", f"again {number}")
    made.take(log.records[half * 2 :])
    assert held <= made.owners.keys()


def test_a_sample_is_of_the_size_asked_for_and_everybody_is_as_likely() -> None:
    log, seen = crowd(events=1), Counter[str]()
    for seed in range(60):
        made = recomputed(log, Range(seed), most_owners=20)
        assert len(made.owners) == 20
        seen.update(made.owners.keys())

    assert len(seen) > 190  # 60 * 20 of 200: each is left out with a chance of 0.2 %
    assert max(seen.values()) < 20


def test_the_records_may_come_in_any_portions() -> None:
    log, order = mixed(), random.Random(1)
    whole, cut = recomputed(log, Range(1)), Recomputed(log.genesis, Range(1))
    rest = list(log.records)
    while rest:
        count = order.randint(1, 3)
        cut.take(rest[:count])
        rest = rest[count:]

    for owner in (ADA, BEN):
        assert cut.of(owner).records == whole.of(owner).records
        assert cut.of(owner).entries == whole.of(owner).entries
        assert cut.of(owner).first_copies == whole.of(owner).first_copies


def test_events_at_or_above_the_checkpoint_are_not_missed() -> None:
    log = mixed()
    made = recomputed(log, Range(1))
    below = sequence_of(0, 6)
    items = [(sequence, data) for sequence, data in made.of(ADA).records.items() if sequence < below]

    assert list(compare_history(0, ADA, made.of(ADA), items, below)) == []


def test_an_entry_is_compared_but_for_the_time_it_was_written() -> None:
    made = recomputed(mixed(), Range(1))
    (at, entry), *_ = made.of(ADA).entries.items()
    data = {at: pack_head(entry, "1796000000000") + pack_record(entry.record)}

    assert list(compare_entries(0, ADA, {at: entry}, data)) == []


def test_a_violation_names_entry_and_event() -> None:
    found = Violation(What.ENTRY_MISSING, 3, ADA, "global", "tone", sequence_of(2, 17), bytes(16), "a tombstone")

    error = GroundingInvariantViolation([found] * 7, 7, then="Do this.")

    assert "main/user:ada global tone at sequence 2199023255569, event 00000000-" in str(found)
    assert "7 violations" in error.message
    assert "and 2 more" in error.message
    assert error.message.endswith("Do this.")
    assert error.members()["violations"][0]["offset"] == 17


def test_a_pace_is_kept_on_the_average() -> None:
    clock = [0.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock[0] += seconds

    pace = Pace(100, sleep=sleep, now=lambda: clock[0])
    for _ in range(10):
        pace.spend(10)
        clock[0] += 0.05
    Pace(None, sleep=sleep, now=lambda: clock[0]).spend(1_000_000)

    assert clock[0] == pytest.approx(1.0, abs=0.06)
    assert sum(slept) == pytest.approx(0.5, abs=0.06)
