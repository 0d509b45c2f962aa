"""The rules of reconciliation: what they choose, and what they leave to a person."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastword.reconciliation import (
    Assertion,
    LeaveOpen,
    Resolve,
    Rule,
    Withdraw,
    confidence_weighted,
    contradiction_pass,
    newest_stated,
)
from lastword_schemas.authority import Authority

INFERRED, STATED, CONFIRMED = Authority.INFERRED, Authority.STATED, Authority.CONFIRMED


def said(event_id: str, value: Any, sequence: int, authority: Authority = STATED, **more: Any) -> Assertion:
    return Assertion(event_id, value, authority, sequence, **more)


ACME, GLOBEX = said("a", "Acme", 10), said("b", "Globex", 40)


# --- newest_stated


def test_what_was_said_last_stands_and_the_other_has_ended() -> None:
    assert newest_stated([GLOBEX, ACME]) == Resolve("b", ("a",), "newest_stated: said last, at sequence 40")


def test_a_newer_guess_does_not_settle_anything() -> None:
    guess = said("c", "Initech", 90, INFERRED)
    assert newest_stated([ACME, GLOBEX, guess]) == Resolve("b", ("a", "c"), "newest_stated: said last, at sequence 40")
    assert isinstance(newest_stated([said("d", "Acme", 10, INFERRED), guess]), LeaveOpen)


def test_two_values_at_one_place_are_left_open() -> None:
    assert isinstance(newest_stated([said("a", "Acme", 40), GLOBEX]), LeaveOpen)


def test_the_later_words_of_one_turn_win() -> None:
    proposal = newest_stated([said("a", 8, 40, ordinal=3), said("b", 9, 40, ordinal=9)])
    assert isinstance(proposal, Resolve)
    assert proposal.chosen == "b"


def test_who_says_the_same_as_the_chosen_one_is_not_ended() -> None:
    proposal = newest_stated([said("a", {"x": 1, "y": 2}, 10), GLOBEX, said("c", {"y": 2, "x": 1}, 50)])
    assert proposal == Resolve("a", ("b",), "newest_stated: said last, at sequence 50")


# --- confidence_weighted


def test_two_witnesses_of_an_older_value_outweigh_a_newer_guess() -> None:
    assertions = [
        said("a", "Acme", 10, INFERRED, confidence=0.8, source_event_id="t1"),
        said("b", "Acme", 20, INFERRED, confidence=0.7, source_event_id="t2"),
        said("c", "Globex", 40, INFERRED, confidence=0.75, source_event_id="t3"),
    ]
    assert confidence_weighted(assertions) == Resolve("a", ("c",), "confidence_weighted: support 0.94 against 0.75")
    newest = [said(one.event_id, one.value, one.source_sequence) for one in assertions]
    by_date = newest_stated(newest)
    assert isinstance(by_date, Resolve)
    assert by_date.chosen == "c"  # where the two rules differ


def test_two_readings_of_one_turn_are_one_witness() -> None:
    assertions = [
        said("a", "Acme", 10, INFERRED, confidence=0.7, source_event_id="t1"),
        said("b", "Acme", 10, INFERRED, confidence=0.7, source_event_id="t1"),
        said("c", "Globex", 40, INFERRED, confidence=0.7, source_event_id="t2"),
    ]
    assert confidence_weighted(assertions) == LeaveOpen("a tie: support 0.70 against 0.70, a value must lead by 0.1")


@pytest.mark.parametrize(("other", "open_"), [(0.81, True), (0.79, False)])
def test_a_small_lead_is_a_tie(other: float, open_: bool) -> None:
    proposal = confidence_weighted([ACME, said("b", "Globex", 40, INFERRED, confidence=other)])
    assert isinstance(proposal, LeaveOpen) is open_


def test_what_has_no_confidence_counts_by_its_authority() -> None:
    proposal = confidence_weighted([said("a", "Acme", 10, CONFIRMED), said("b", "Globex", 40, INFERRED)])
    assert proposal == Resolve("a", ("b",), "confidence_weighted: support 0.99 against 0.50")


# --- contradiction_pass


def conditional(assertion: Assertion) -> str | None:
    return "hypothetical" if assertion.text and assertion.text.startswith("If ") else None


def test_what_its_own_source_refutes_is_withdrawn() -> None:
    doubtful = said("b", "Globex", 40, INFERRED, text="If I moved to Globex I would cycle to work.")
    proposal = contradiction_pass([ACME, doubtful], conditional)
    assert proposal == Withdraw(("b",), "contradiction_pass: hypothetical")


def test_two_equally_supported_values_stay_open() -> None:
    assert isinstance(contradiction_pass([ACME, GLOBEX], conditional), LeaveOpen)


def test_not_everything_is_withdrawn() -> None:
    assertions = [said(name, name, 1, text="If so") for name in "ab"]
    assert isinstance(contradiction_pass(assertions, conditional), LeaveOpen)


# --- every rule

ASSERTIONS = st.lists(
    st.builds(
        Assertion,
        event_id=st.uuids().map(str),
        value=st.sampled_from(["Acme", "Globex", 1, True]),
        authority=st.sampled_from(list(Authority)),
        source_sequence=st.integers(1, 5),
        confidence=st.none() | st.floats(0, 1),
        source_event_id=st.sampled_from(["", "t1", "t2"]),
    ),
    min_size=2,
    max_size=6,
    unique_by=lambda one: one.event_id,
)


@pytest.mark.parametrize("rule", [newest_stated, confidence_weighted])
@given(assertions=ASSERTIONS, order=st.randoms(use_true_random=False))
def test_the_order_of_the_assertions_plays_no_part(rule: Rule, assertions: list[Assertion], order: Any) -> None:
    proposal = rule(assertions)
    shuffled = list(assertions)
    order.shuffle(shuffled)
    assert rule(shuffled) == proposal


@pytest.mark.parametrize("rule", [newest_stated, confidence_weighted])
@given(assertions=ASSERTIONS)
def test_a_resolution_leaves_one_value(rule: Rule, assertions: list[Assertion]) -> None:
    proposal = rule(assertions)
    if isinstance(proposal, Resolve):
        left = [one for one in assertions if one.event_id not in proposal.others]
        assert proposal.chosen in {one.event_id for one in left}
        assert len({(type(one.value), one.value) for one in left}) == 1
