"""What a search compares: texts of any script as terms."""

import pytest

from lastword_query_api.search.words import FUNCTION_WORDS, MOST_CHARACTERS, key_terms, terms, value_text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Morning FLIGHTS", "morning flight"),
        ("Café Müller", "cafe\u0301 MU\u0308LLER"),
        ("STRASSE", "straße"),
        ("cities boxes seats addresses", "city box seat address"),
        ("ﬁne №1 ①", "fine No1 1"),
        ("שָׁלוֹם", "שלום"),
        ("مُحَمَّد كـتـاب", "محمد كتاب"),
        ("Ёлка", "елка"),
        ("한국어 여행", "한국어 여행"),
    ],
)
def test_what_differs_in_form_alone_is_one_term(one: str, other: str) -> None:
    assert terms(one) == terms(other)
    assert terms(one)


@pytest.mark.parametrize(
    ("one", "other"), [("हिन्दी", "हन्द"), ("がく", "かく"), ("class", "clas"), ("bus", "bu"), ("is", "i")]
)
def test_what_differs_in_meaning_stays_apart(one: str, other: str) -> None:
    assert terms(one) != terms(other)


def test_scripts_without_spaces_are_found_by_characters_and_pairs() -> None:
    assert terms("東京へ行く") == ["東", "京", "へ", "行", "く", "東京", "京へ", "へ行", "行く"]
    assert set(terms("東京")) <= set(terms("来週東京に行きます"))
    assert set(terms("猫")) <= set(terms("黒猫"))
    assert set(terms("กรุงเทพ")) <= set(terms("ไปกรุงเทพพรุ่งนี้"))
    assert terms("Tokyo東京") == ["tokyo", "東", "京", "東京"]


def test_symbols_are_terms_and_punctuation_is_none() -> None:
    assert terms("I ♥ 🎉!") == ["i", "♥", "🎉"]
    assert terms("❤️") == ["❤"]
    assert terms(" ?!… — _ ") == []


def test_keys_are_taken_apart() -> None:
    assert key_terms("travel.flight_time") == key_terms("travel.flightTime") == ["travel", "flight", "time"]


def test_a_value_is_found_by_all_that_stands_in_it() -> None:
    assert value_text(b'"window"') == "window"
    assert value_text(b'"caf\\u00e9"') == "café"
    assert value_text(b'{"from":"09:00","days":["Mon",3,true,null]}') == "from 09:00 days Mon 3 true"
    assert value_text(b"null") == ""


def test_a_very_long_text_is_looked_at_as_far_as_it_says() -> None:
    assert len(terms("word " * MOST_CHARACTERS)) <= MOST_CHARACTERS // 5 + 1


def test_function_words_are_terms_as_they_are_compared() -> None:
    assert all(terms(word) == [word] for word in FUNCTION_WORDS)
