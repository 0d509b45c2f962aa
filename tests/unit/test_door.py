"""What the door refuses by the key registry, and the words it does so with."""

from datetime import UTC, datetime
from typing import Any

import pytest

from lastword_producers.door import check_declared
from lastword_producers.errors import AuthorityTooLow, UndeclaredKey, ValueSchema
from lastword_producers.spelling import meant
from lastword_projector.engine.keys import Keys
from lastword_schemas.drafts import CandidateDraft, EventDraft, read_draft, to_envelope
from lastword_schemas.envelope import Envelope
from lastword_schemas.registry import Registry

PRIVATE = "hunter2"
KEYS = Keys(
    Registry.read(
        {
            "keys": {
                "tone": {"policy": "latest", "schema": {"enum": ["brief", None]}},
                "size": {"policy": "latest", "schema": {"type": "integer"}},
                "guess": {"policy": "latest", "min_authority": "inferred"},
                "vow": {"policy": "latest", "min_authority": "confirmed"},
            }
        }
    )
)


def event(**fields: Any) -> Envelope:
    data = {"operation": "set", "owner": "user:ada", "scope": "global", "actor": {"service": "app"}} | fields
    draft = read_draft(data, CandidateDraft if "source_event_id" in data else EventDraft)
    return to_envelope(draft, event_id="e1", published_at=datetime(2026, 3, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "fields",
    [
        {"key": "tone", "value": "brief"},
        {"key": "tone", "value": None},
        {"key": "tone", "operation": "delete"},
        {"key": "guess", "value": PRIVATE, "source_event_id": "e0"},
        {"key": "vow", "value": 1, "authority": "confirmed", "actor": {"service": "app", "role": "person"}},
        {"key": "guess", "value": 1, "retires": [{"scope": "global", "key": "tone"}, {"scope": "a:b", "key": "size"}]},
        {"operation": "say", "thread": "t1", "text": "no key to declare"},
    ],
)
def test_what_fits_its_declaration_passes(fields: dict[str, Any]) -> None:
    check_declared(event(**fields), KEYS)


@pytest.mark.parametrize("fields", [{"value": 1}, {"operation": "delete"}])
@pytest.mark.parametrize("key", ["colour", "Tone", "ton", "tone.mail", "tone "])
def test_an_undeclared_key_is_refused_with_the_file_to_put_it_in(key: str, fields: dict[str, Any]) -> None:
    with pytest.raises(UndeclaredKey, match=r"keys\.toml.*`lastword keys apply keys\.toml`") as caught:
        check_declared(event(key=key, **fields), KEYS)
    assert repr(key) in caught.value.message
    assert (caught.value.code, caught.value.field) == ("undeclared-key", "key")


@pytest.mark.parametrize(
    ("key", "meant"),
    [("ton", "tone"), ("Tone", "tone"), ("tonne", "tone"), ("tome", "tone"), ("voe", "vow"), ("gues", "guess")],
)
def test_an_undeclared_key_is_refused_with_the_one_that_is_meant(key: str, meant: str) -> None:
    with pytest.raises(UndeclaredKey, match=f"say '{meant}' if that is meant"):
        check_declared(event(key=key, value=1), KEYS)


@pytest.mark.parametrize("key", ["colour", "to", "tune-", "siz.e.", ""])
def test_no_key_is_meant_where_none_is_near(key: str) -> None:
    assert meant(key, KEYS) is None


@pytest.mark.parametrize(
    ("field", "key", "error"), [("retires.1.key", "colour", UndeclaredKey), ("retires.1.key", "vow", AuthorityTooLow)]
)
def test_a_key_that_is_retired_needs_what_its_delete_would(
    field: str, key: str, error: type[UndeclaredKey] | type[AuthorityTooLow]
) -> None:
    retires = [{"scope": "global", "key": "guess"}, {"scope": "global", "key": key}]
    with pytest.raises(error, match=repr(key)) as caught:
        check_declared(event(key="tone", value="brief", retires=retires), KEYS)
    assert caught.value.field == field


def test_a_null_value_is_checked_like_any_other() -> None:
    with pytest.raises(ValueSchema, match="schema of 'size' at /type"):
        check_declared(event(key="size", value=None), KEYS)


def test_a_delete_has_no_value_to_check() -> None:
    check_declared(event(key="size", operation="delete"), KEYS)


def test_a_value_against_its_schema_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueSchema, match="schema of 'tone' at /enum") as caught:
        check_declared(event(key="tone", value=PRIVATE), KEYS)
    assert (caught.value.code, caught.value.field) == ("value-schema", "value")
    assert PRIVATE not in caught.value.message


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"enum": ["brief", None]}, r'/enum \(it takes "brief" or null\): send'),
        ({"type": "integer"}, r"/type \(it takes integer\): send"),
        ({"enum": [str(number) for number in range(1_000)]}, "/enum: send"),
        ({"not": {}}, "/not: send"),
        (False, "/: send"),
    ],
)
def test_a_refused_value_is_told_what_fits_where_that_is_short(schema: Any, told: str) -> None:
    keys = Keys(Registry.read({"keys": {"k": {"policy": "latest", "schema": schema}}}))
    with pytest.raises(ValueSchema, match=told):
        check_declared(event(key="k", value=PRIVATE), keys)


@pytest.mark.parametrize(
    "fields",
    [
        {"key": "vow", "value": 1},
        {"key": "vow", "operation": "delete"},
        {"key": "tone", "value": "brief", "source_event_id": "e0"},
    ],
)
def test_less_authority_than_the_key_asks_for_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(AuthorityTooLow, match="or higher") as caught:
        check_declared(event(**fields), KEYS)
    assert (caught.value.code, caught.value.field) == ("authority-too-low", "authority")
