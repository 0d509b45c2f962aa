"""The events of candidates, how far an extractor is, and what its model may use."""

import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastword.extraction import Candidate, Message
from lastword.extraction.budget import Budget, BudgetSpent
from lastword.extraction.candidates import event_of
from lastword.extraction.progress import Progress
from lastword_schemas.authority import Authority
from lastword_schemas.drafts import CandidateDraft
from lastword_schemas.positions import Receipt

SOURCE = "01a22eb8-2e49-7f9a-823c-102c43810bbf"
TEXT = "I live in Lisbon."
MESSAGE = Message(TEXT, "user:ada", source=SOURCE)
CANDIDATE = Candidate("home.city", "Lisbon", (0, 17), TEXT, Authority.STATED, 0.9)


def test_the_same_reading_is_the_same_event_whoever_publishes_it() -> None:
    receipt = Receipt("c3d12d90c0bb8dff", 0, 11, 4, SOURCE)
    event = event_of(CANDIDATE, MESSAGE, "rules-1")
    again = event_of(CANDIDATE, replace(MESSAGE, source=str(receipt)), "rules-1")
    assert uuid.UUID(event["event_id"]).version == 5
    assert event["event_id"] == again["event_id"]
    assert event["actor"] == again["actor"] == {"service": "rules-1", "role": "extractor"}


@pytest.mark.parametrize(
    "other",
    [{"span": (0, 16), "quote": TEXT[:16]}, {"key": "home.town"}, {"scope": "project:Comet"}, {"operation": "delete"}],
    ids=lambda other: next(iter(other)),
)
def test_another_reading_is_another_event(other: dict[str, object]) -> None:
    changed: Candidate = replace(CANDIDATE, **other)  # type: ignore[arg-type]
    ids = {event_of(one, MESSAGE, "rules-1")["event_id"] for one in (CANDIDATE, changed)}
    assert len(ids) == 2
    assert event_of(CANDIDATE, MESSAGE, "rules-2")["event_id"] not in ids


@pytest.mark.parametrize("operation", ["set", "delete"])
def test_an_event_is_a_draft_that_the_log_takes(operation: str) -> None:
    draft = CandidateDraft.read(event_of(replace(CANDIDATE, operation=operation), MESSAGE, "rules-1"))  # type: ignore[arg-type]
    assert (draft.source_event_id, draft.span, draft.quote) == (SOURCE, [0, 17], TEXT)


@given(st.permutations(range(5, 13)))
def test_the_checkpoint_is_the_lowest_offset_that_is_not_finished(order: list[int]) -> None:
    progress = Progress(5)
    for offset in range(5, 13):
        assert progress.begin(offset)
        assert not progress.begin(offset), "begun once"
    left = set(order)
    for offset in order:
        assert progress.checkpoint == min(left)
        progress.end(offset)
        left.remove(offset)
    assert progress.checkpoint == 13


def test_offsets_that_the_log_does_not_have_are_passed_over() -> None:
    progress = Progress(0)
    for offset in (2, 7):
        progress.begin(offset)
        progress.end(offset)
    assert progress.checkpoint == 8


def test_a_partition_that_comes_back_goes_on_behind_what_others_have_finished_and_what_is_under_way() -> None:
    progress = Progress(0)
    progress.begin(3)
    assert progress.resume(2) == 4
    assert progress.resume(9) == 9
    assert progress.checkpoint == 3, "the own one is still under way"


def test_a_budget_is_of_any_hour() -> None:
    now = 0.0
    budget = Budget(100, lambda: now)
    budget.check()
    budget.use(60)
    now = 1_800.0
    budget.use(60)
    with pytest.raises(BudgetSpent) as spent:
        budget.check()
    assert spent.value.retryable
    now = 3_601.0
    budget.check()
