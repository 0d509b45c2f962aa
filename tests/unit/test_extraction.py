"""The extractor by rules: what lasts is proposed, and all else is refused by its reason."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastword.extraction import Admission, Candidate, Extraction, Message, Why
from lastword_schemas.authority import Authority
from lastword_schemas.registry import parse_registry_file
from tests.support.extraction import PRACTICE, WRITTEN, Case, cases, extractor, message, named, score

RULES = extractor()
WORDS = sorted({word for case in cases() for word in case.text.split()})


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.text[:50])
def test_a_message_gives_exactly_what_lasts(case: Case) -> None:
    assert {named(one) for one in RULES.read(message(case.text)).candidates} == case.expected


@pytest.mark.parametrize("table", [WRITTEN, PRACTICE])
def test_a_table_lets_nobody_elses_words_in(table: str) -> None:
    got = score(table)
    assert (got.precision > 0.98, got.recall > 0.9) == (True, True), got
    assert not {"hypothetical", "quoted", "negated", "other-person"} & got.false.keys()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Keep this one answer short.", Why.ONE_OFF),
        ("She said “I prefer dark mode”.", Why.QUOTED),
        ("> I live in Berlin", Why.QUOTED),
        ("If I moved to Oslo, I'd tell you.", Why.HYPOTHETICAL),
        ("I never sit at the window.", Why.NEGATED),
        ("My boss prefers detailed answers.", Why.OTHER_PERSON),
        ("Is the dark theme better for me?", Why.QUESTION),
        ("I used to live in Berlin.", Why.PAST),
        ("I'm going to move to Bern.", Why.NOT_YET),
        ("We prefer morning flights.", Why.SEVERAL_OWNERS),
        ("Use metric units in project Comet and imperial ones in project Atlas.", Why.SEVERAL_SCOPES),
        ("I like morning or evening flights.", Why.SEVERAL_VALUES),
        ("I love marzipan.", Why.NO_KEY),
        ("My condition is asthma.", Why.SENSITIVE),
        ("I prefer morning flights" + " and window seats" * 100, Why.TOO_LONG),
    ],
)
def test_what_is_not_proposed_says_why(text: str, why: Why) -> None:
    read = RULES.read(message(text))
    assert (read.candidates, why in {one.why for one in read.refused}) == ((), True), read


def test_a_quote_stands_at_its_span_in_code_points_and_is_stated() -> None:
    text = "🎈🎈 Grüße! I live in Zürich. Ça va?"
    (found,) = RULES.read(message(text)).candidates
    assert found.span is not None
    assert (text[slice(*found.span)], found.quote, found.value) == ("I live in Zürich.", "I live in Zürich.", "Zürich")
    assert found.authority is Authority.STATED


def test_of_two_values_in_one_message_the_later_words_win() -> None:
    (found,) = RULES.read(message("I live in Porto. Sorry, I live in Braga.")).candidates
    assert found.value == "Braga"


def test_a_message_that_is_not_in_the_log_proposes_nothing() -> None:
    read = RULES.read(Message("Call me Sam."))
    assert [one.why for one in read.refused] == [Why.UNTRACEABLE]
    assert not read.candidates


def test_what_memory_recalled_into_the_prompt_is_no_new_evidence() -> None:
    read = RULES.read(Message("I live in Lisbon.", source="turn-1", recalled=("Known: I live in Lisbon.",)))
    assert [one.why for one in read.refused] == [Why.RECALLED]


def test_extracting_is_reading() -> None:
    assert asyncio.run(RULES.extract(message("I'm vegan."))) == RULES.read(message("I'm vegan."))


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=8), max_size=30).map(" ".join))
def test_any_text_gives_candidates_that_can_be_traced_and_the_same_again(text: str) -> None:
    read = RULES.read(message(text))
    assert read == RULES.read(message(text))
    for one in read.candidates:
        assert one.span is not None
        assert text[slice(*one.span)] == one.quote
    for refused in read.refused:
        assert 0 <= refused.span[0] <= refused.span[1] <= len(text)


REGISTRY = parse_registry_file(
    '[keys.theme]\npolicy = "latest"\nschema = { enum = ["dark"] }\n'
    '[keys.draft]\npolicy = "latest"\nextraction = "not-kept"\n'
)
TEXT = "Use dark. "


def _candidate(**changed: object) -> Candidate:
    fields = {"key": "theme", "value": "dark", "span": (0, 10), "quote": TEXT, "authority": Authority.STATED}
    return Candidate(**(fields | {"confidence": 1.0} | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, None),
        ({"span": (0, 9)}, Why.UNTRACEABLE),
        ({"span": (1, 11)}, Why.UNTRACEABLE),
        ({"span": None, "quote": None}, Why.UNTRACEABLE),
        ({"span": None, "quote": None, "authority": Authority.INFERRED}, None),
        ({"key": "invented"}, Why.NO_KEY),
        ({"key": "noted.colour"}, None),
        ({"key": "noted." + "x" * 300}, Why.NO_KEY),
        ({"value": "pink"}, Why.NO_VALUE),
        ({"key": "draft"}, Why.NOT_KEPT),
        ({"key": "noted.card", "value": "4111 1111 1111 1111"}, Why.SENSITIVE),
        ({"scope": "project:Comet"}, Why.OTHER_SCOPE),
        ({"scope": "project:Use"}, None),
        ({"scope": "team:Use"}, Why.OTHER_SCOPE),
    ],
)
def test_every_candidate_has_to_earn_its_place(changed: dict[str, object], why: Why | None) -> None:
    assert Admission(REGISTRY, ("noted",)).judge(message(TEXT), _candidate(**changed)) is why


def test_no_reading_is_more_than_stated() -> None:
    admitted = Admission(REGISTRY).admit(message(TEXT), Extraction((_candidate(authority=Authority.CONFIRMED),)))
    assert [one.authority for one in admitted.candidates] == [Authority.STATED]
