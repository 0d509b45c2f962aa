"""JSON as lastword takes it: strict, exact, one text per value."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastword_schemas import jsontext, limits
from lastword_schemas.errors import InvalidInput, TooLarge

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@given(VALUES)
def test_any_value_is_read_back_exactly_from_its_canonical_text(value: Any) -> None:
    text = jsontext.canonical(value)

    assert jsontext.parse(text) == value
    assert jsontext.canonical(jsontext.parse(text)) == text


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**64, 10**400, 0, -1])
def test_integers_of_any_size_are_exact(number: int) -> None:
    value = jsontext.parse(str(number))

    assert (value, type(value)) == (number, int)
    assert jsontext.canonical(value) == str(number)


def test_an_integer_and_a_float_stay_what_they_are() -> None:
    assert jsontext.canonical(jsontext.parse("[1, 1.0, 0.1]")) == "[1,1.0,0.1]"


@pytest.mark.parametrize("text", ["[]", "{}", "null", '""', "[[]]", '{"a":{}}', "false", "0"])
def test_empty_values_stay_what_they_are(text: str) -> None:
    assert jsontext.canonical(jsontext.parse(text)) == text


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "[NaN]", '{"a": -Infinity}'])
def test_nan_and_infinity_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a JSON value"):
        jsontext.parse(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")], {"a": float("nan")}])
def test_nan_and_infinity_cannot_be_written(value: Any) -> None:
    with pytest.raises(InvalidInput, match="not a JSON value"):
        jsontext.canonical(value)


def test_a_number_that_no_double_holds_is_refused_not_rounded() -> None:
    with pytest.raises(InvalidInput, match="out of range"):
        jsontext.parse("1e400")


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not usable JSON"):
        jsontext.parse("1" * 5000)


def test_a_member_that_stands_twice_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidInput, match="'tone' stands twice"):
        jsontext.parse('{"a": {"tone": 1, "tone": 1}}')


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":1,"a":2}', {"a": 2}),
        ('{"a":{"b":1},"a":{"c":2}}', {"a": {"c": 2}}),
        ('[{"a":{"b":1,"\\u0062":null}}]', [{"a": {"b": None}}]),
    ],
)
def test_a_member_that_stands_twice_in_the_log_counts_with_its_last_value(text: str, value: Any) -> None:
    assert jsontext.parse_stored(text) == value
    assert jsontext.parse_stored(text.encode()) == value


@given(VALUES)
def test_what_the_door_takes_is_read_from_the_log_alike(value: Any) -> None:
    text = jsontext.canonical(value)

    assert jsontext.canonical(jsontext.parse_stored(text)) == text


@pytest.mark.parametrize("text", [b"NaN", b"-Infinity", b"1e400", b"[1", b'"\xff"', b"1" * 5000, b"[" * 100_000])
def test_what_is_no_json_is_refused_in_the_log_too(text: bytes) -> None:
    with pytest.raises(InvalidInput):
        jsontext.parse_stored(text)


@pytest.mark.parametrize(
    "text", ["", " ", "{", "[1,]", "{'a': 1}", '"a', "01", "1 2", "undefined", "\ufeff1", '"a\nb"', "// c\n1"]
)
def test_what_is_not_json_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"not JSON: .+ at line \d+, column \d+"):
        jsontext.parse(text)


def test_bytes_that_are_not_utf_8_are_refused_with_their_place() -> None:
    with pytest.raises(InvalidInput, match="not UTF-8 at byte 1"):
        jsontext.parse(b'"\xff"')


def test_bottomless_nesting_is_refused_not_a_crash() -> None:
    with pytest.raises(InvalidInput, match="nested too deeply"):
        jsontext.parse("[" * 200_000)


@pytest.mark.parametrize("value", ["\ud800", ["a\udfff"], {"\ud800": 1}])
def test_lone_surrogates_cannot_be_written(value: Any) -> None:
    with pytest.raises(InvalidInput, match="lone surrogate"):
        jsontext.canonical(value)


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object()])
def test_what_json_does_not_have_cannot_be_written(value: Any) -> None:
    with pytest.raises(InvalidInput, match="not a JSON value"):
        jsontext.canonical(value)


def test_equal_values_have_one_text_however_they_were_written() -> None:
    texts = ('{"b": [1, 2], "a": "\\u00e9"}', '{"a":"é","b":[1,2]}', '\n{ "b":[1,2],"a" : "\\u00E9" }')

    assert {jsontext.canonical(jsontext.parse(text)) for text in texts} == {'{"a":"é","b":[1,2]}'}


def test_two_unicode_normal_forms_are_two_values() -> None:
    forms = [unicodedata.normalize(form, "é") for form in ("NFC", "NFD")]

    assert len({jsontext.canonical(form) for form in forms}) == 2


def test_control_characters_in_strings_are_escaped_and_kept() -> None:
    assert jsontext.canonical("a\0b\x1f") == '"a\\u0000b\\u001f"'
    assert jsontext.parse('"a\\u0000b"') == "a\0b"


def test_dump_keeps_the_order_of_members() -> None:
    assert jsontext.dump({"b": 1, "a": 2}) == '{"b":1,"a":2}'


def test_a_value_may_have_as_many_bytes_as_the_limit_says() -> None:
    quotes = 2
    largest = "x" * (limits.MAX_VALUE_BYTES - quotes)

    assert jsontext.check_value(largest) == f'"{largest}"'
    with pytest.raises(TooLarge, match=str(limits.MAX_VALUE_BYTES + 1)) as caught:
        jsontext.check_value(largest + "x")
    assert caught.value.field == "value"


def test_the_size_of_a_value_is_counted_in_utf_8() -> None:
    with pytest.raises(TooLarge):
        jsontext.check_value("🦊" * (limits.MAX_VALUE_BYTES // 4))


def test_a_value_may_nest_as_deep_as_the_limit_says() -> None:
    jsontext.check_value(nested(limits.MAX_VALUE_DEPTH))
    with pytest.raises(TooLarge, match=str(limits.MAX_VALUE_DEPTH)):
        jsontext.check_value(nested(limits.MAX_VALUE_DEPTH + 1))


def test_a_wide_value_is_not_a_deep_one() -> None:
    jsontext.check_value([{"a": []}] * 1000)


def test_a_bad_value_is_refused_under_the_name_of_its_field() -> None:
    with pytest.raises(InvalidInput, match=r"^schema: ") as caught:
        jsontext.check_value(float("nan"), field="schema")
    assert caught.value.field == "schema"
