"""From a history to what a rule is given, and from its proposal to a decision that counts."""

from dataclasses import replace
from typing import Any

import pytest

from lastword.reconciliation import Rule, confidence_weighted, newest_stated
from lastword.reconciliation.assertions import Assertion, LeaveOpen, Proposal, Withdraw
from lastword.reconciliation.decisions import decision, proposed
from lastword.reconciliation.rules import grammar
from lastword.reconciliation.standing import standing_assertions
from lastword_schemas.authority import Authority
from lastword_schemas.drafts import EventDraft, read_draft, to_envelope
from lastword_schemas.positions import Receipt
from tests.support.logs import ADA, PUBLISHED_AT, Log, project, registry_of

NOW = 2**60


@pytest.fixture
def log() -> Log:
    return Log(registry=registry_of(employer={"policy": "branch"}))


def standing(log: Log) -> list[Assertion]:
    return standing_assertions(project(log).records(ADA), "global", "employer", NOW)


def decided(log: Log, rule: Rule) -> Receipt | None:
    """What the rule decides goes into the log."""
    seen = standing(log)
    event = decision(ADA, "global", "employer", proposed(rule, seen), seen)
    if event is None:
        return None
    draft = read_draft(dict(event), EventDraft)
    return log.put(to_envelope(draft, event_id="unused", published_at=PUBLISHED_AT))


def value(log: Log) -> tuple[Any, bool]:
    entry = project(log).entry(ADA, "employer")
    assert entry is not None
    return entry.record.value, entry.unresolved


def read(log: Log, text: str, employer: str, **more: Any) -> Receipt:
    turn = log.say(ADA, text)
    return log.candidate(ADA, "employer", employer, source=turn, confidence=0.6, **more)


def test_every_restatement_is_a_witness_and_its_words_are_there(log: Log) -> None:
    read(log, "I am at Acme", "Acme", quote="Acme", start=8)
    read(log, "still at Acme", "Acme")
    read(log, "at Globex", "Globex")
    seen = standing(log)
    assert [(one.value, one.authority, one.text, one.span) for one in seen] == [
        ("Acme", Authority.STATED, "I am at Acme", (8, 12)),
        ("Acme", Authority.INFERRED, "still at Acme", None),
        ("Globex", Authority.INFERRED, "at Globex", None),
    ]
    assert all(one.confidence == 0.6 for one in seen)


def test_what_does_not_stand_is_not_seen(log: Log) -> None:
    read(log, "Initech", "Initech")
    log.delete(ADA, "employer")
    withdrawn = read(log, "Hooli", "Hooli")
    log.withdraw(ADA, withdrawn)
    acme, globex = read(log, "Acme", "Acme"), read(log, "Globex", "Globex")
    log.resolve(ADA, "employer", globex, acme)
    assert [one.value for one in standing(log)] == ["Globex"]


def test_what_was_said_last_is_decided_for_and_the_decision_counts(log: Log) -> None:
    log.set(ADA, "employer", "Acme")
    log.set(ADA, "employer", "Globex")
    log.set(ADA, "employer", "Acme Inc", authority="inferred")
    made = decided(log, newest_stated)
    assert made is not None
    record = project(log).record(made)
    assert record.verdict == "resolved"
    assert record.text == "newest_stated: said last, at sequence 3"
    assert record.decision is not None
    assert record.decision.saw == 4
    assert value(log) == (b'"Globex"', False)


def test_where_most_witnesses_agree_that_stands_though_another_was_later(log: Log) -> None:
    for text in ("Acme", "Acme again", "at Acme"):
        read(log, text, "Acme")
    read(log, "Globex", "Globex")
    assert decided(log, newest_stated) is None
    assert decided(log, confidence_weighted) is not None
    assert value(log) == (b'"Acme"', False)


def test_a_decision_that_was_withdrawn_is_not_made_again_before_something_new_is_said(log: Log) -> None:
    log.set(ADA, "employer", "Acme")
    log.set(ADA, "employer", "Globex")
    first = decided(log, newest_stated)
    assert first is not None
    log.withdraw(ADA, first, authority="confirmed", role="person")
    again = decided(log, newest_stated)
    assert again is not None
    assert project(log).record(again).verdict == "duplicate"
    assert value(log) == (b'"Acme"', True)
    log.set(ADA, "employer", "Hooli")
    decided(log, newest_stated)
    assert value(log) == (b'"Hooli"', False)


def test_what_a_person_confirmed_is_left_to_a_person(log: Log) -> None:
    log.set(ADA, "employer", "Acme", authority="confirmed", role="person")
    log.set(ADA, "employer", "Globex")

    def refute_everything_else(seen: Any) -> Proposal:
        return Withdraw((seen[0].event_id,), "contradiction_pass: hypothetical")

    assert isinstance(proposed(refute_everything_else, standing(log)), LeaveOpen)
    assert decided(log, newest_stated) is None


# --- the checker that comes with lastword


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("I work at Globex.", None),
        ("I started at Globex in May, and it is fine.", None),
        ("If I moved to Globex, I would be happy.", "hypothetical"),
        ("Suppose I work at Globex.", "hypothetical"),
        ('My boss said "I work at Globex".', "quoted"),
        ("I do not work at Globex.", "negated"),
        ("My sister works at Globex.", "other-person"),
        ("Should I join Globex?", "question"),
    ],
)
def test_what_the_words_do_not_say_of_the_person_as_it_is_is_refuted_from_them(text: str, why: str | None) -> None:
    start = text.index("Globex")
    assertion = Assertion(
        "e", "Globex", Authority.INFERRED, 1, source_event_id="s", text=text, span=(start, start + len("Globex"))
    )
    assert grammar(assertion) == why
    assert grammar(replace(assertion, text=None)) is None
