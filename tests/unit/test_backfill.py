"""Statements from before the log: they fill what nothing else has touched, and have an order among themselves."""

from typing import Any

import pytest

from lastword_projector.engine.decisions import ALL_STAND
from lastword_projector.engine.records import Record
from lastword_projector.store.ports import Checkpoint
from lastword_query_api.answering import from_history, inspection, reading_of
from lastword_query_api.versions import versions
from lastword_schemas.answers import InspectionRecord
from tests.support.logs import ADA, UNSET, Log, Stores, event_id, project

LATER = 2**60
"""A moment in microseconds, for expiry."""


@pytest.fixture
def log() -> Log:
    return Log()


def answer(stores: Stores, log: Log, key: str = "tone", **boundary: Any) -> InspectionRecord:
    """What a reader gets within a boundary."""
    checkpoint = stores.store.checkpoint(0)
    assert isinstance(checkpoint, Checkpoint)
    known_at = boundary.get("known_at", checkpoint.last_sequence)
    entries = from_history(stores.records(ADA), stores.policies(ADA), as_of=boundary.get("as_of"), known_at=known_at)
    return inspection(reading_of(ADA, checkpoint, known_at=known_at), checkpoint, entries, ["global"], key, LATER)


def test_it_fills_what_is_absent(log: Log) -> None:
    imported = log.set(ADA, "tone", "brief", backfill=0)
    stores = project(log)
    assert stores.verdict(imported) == "added"
    assert stores.value(ADA, "tone") == "brief"


@pytest.mark.parametrize("first", [True, False])
def test_it_never_replaces_what_was_said_since(log: Log, first: bool) -> None:
    imported = log.set(ADA, "tone", "formal", backfill=999_999, authority="confirmed", role="person") if first else None
    log.set(ADA, "tone", "brief", authority="stated")
    imported = imported or log.set(ADA, "tone", "formal", backfill=999_999, authority="confirmed", role="person")
    stores = project(log)
    assert stores.value(ADA, "tone") == "brief"
    assert stores.verdict(imported) == ("added" if first else "late")


def test_it_never_comes_back_over_a_tombstone(log: Log) -> None:
    log.delete(ADA, "tone")
    imported = log.set(ADA, "tone", "brief", backfill=5)
    stores = project(log)
    assert stores.value(ADA, "tone") is UNSET
    assert stores.record(imported).related == (2, 0)


def test_of_two_the_greater_place_is_the_latest_in_any_order_of_arrival(log: Log) -> None:
    log.set(ADA, "tone", "formal", backfill=8)
    log.set(ADA, "tone", "brief", backfill=7)
    assert project(log).value(ADA, "tone") == "formal"


def test_two_values_with_one_place_are_unresolved_until_something_is_said(log: Log) -> None:
    log.set(ADA, "tone", "brief", backfill=7)
    other = log.set(ADA, "tone", "formal", backfill=7)
    stores = project(log)
    assert stores.verdict(other) == "conflict"
    assert answer(stores, log).state.resolution_state == "unresolved"
    log.set(ADA, "tone", "friendly")
    assert answer(project(log), log).state.resolution_state == "resolved"


def test_a_copy_with_another_place_is_a_duplicate_and_a_live_one_is_not(log: Log) -> None:
    log.set(ADA, "tone", "brief", backfill=0, event_id=event_id(70))
    shifted = log.set(ADA, "tone", "brief", backfill=3, event_id=event_id(70))
    live = log.set(ADA, "tone", "brief", event_id=event_id(70))
    stores = project(log)
    assert [stores.verdict(copy) for copy in (shifted, live)] == ["duplicate", "event-id-reused"]


def test_what_reads_it_counts_from_before_the_log_too(log: Log) -> None:
    imported = log.set(ADA, "theme", "She flies in the evening.", backfill=4)
    log.set(ADA, "tone", "brief")
    on_tone = log.candidate(ADA, "tone", "formal", source=imported, authority="stated")
    on_guess = log.candidate(ADA, "guess", "evening", source=imported)
    stores = project(log)
    assert [stores.verdict(reading) for reading in (on_tone, on_guess)] == ["late", "added"]
    mark = answer(stores, log, "guess").state.mark
    assert mark is not None
    assert (mark.source_sequence, mark.ordinal) == (0, 4)


def test_every_as_of_includes_it_and_known_at_only_from_where_it_stands(log: Log) -> None:
    log.set(ADA, "theme", "dark")
    imported = log.set(ADA, "tone", "brief", backfill=0)
    stores = project(log)
    assert answer(stores, log, as_of=0).state.value == "brief"
    assert answer(stores, log, known_at=imported.sequence - 1).state.status.value == "absent"


def test_answers_say_that_it_was_before_the_log_and_when_by_its_publisher(log: Log) -> None:
    log.set(ADA, "tone", "brief", backfill=0, occurred_at="2024-03-01T12:00:00Z")
    record = answer(project(log), log)
    assert record.source is not None
    assert (record.state.version_start, record.state.version_started_at, record.source.updated_at) == (0, None, None)
    assert record.source.occurred_at is not None
    assert record.source.occurred_at.year == 2024


def test_versions_begin_before_the_log_and_are_ended_by_what_was_said_in_it(log: Log) -> None:
    imported = [log.set(ADA, "tone", value, backfill=place) for value, place in (("brief", 0), ("formal", 1))]
    said = log.set(ADA, "tone", "friendly")
    records: list[Record] = project(log).records(ADA)
    found = versions(("global", "tone"), records, "latest", LATER, ALL_STAND)
    assert [version.value for version in found] == ["brief", "formal", "friendly"]
    assert [version.started_at for version in found[:2]] == [None, None]
    ends = [version.ended for version in found]
    assert [end and (end.sequence, end.at is None) for end in ends] == [(0, True), (said.sequence, False), None]
    assert ends[0] is not None
    assert ends[0].event_id == imported[1].event_id


def test_a_live_restatement_goes_on_with_it(log: Log) -> None:
    log.set(ADA, "tone", "brief", backfill=0)
    again = log.set(ADA, "tone", "brief")
    stores = project(log)
    assert stores.verdict(again) == "restated"
    assert answer(stores, log).state.version_start == 0


def test_a_condition_on_nothing_holds_where_only_an_import_is(log: Log) -> None:
    log.set(ADA, "tone", "brief", backfill=0)
    said = log.set(ADA, "tone", "formal", expected_sequence=0)
    assert project(log).verdict(said) == "updated"
