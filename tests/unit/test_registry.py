"""The key registry: what a file may say, and what becomes of it in the log."""

import json
from typing import Any

import pytest

from lastword_projector.engine.keys import compile_registry
from lastword_schemas import limits
from lastword_schemas.authority import Authority
from lastword_schemas.control import Genesis, RegistryRecord, control_bytes, parse_control
from lastword_schemas.errors import InvalidInput, NotYet, TooLarge
from lastword_schemas.registry import PLANNED_POLICIES, Registry, parse_registry_file

FILE = """
v = 1

[keys."mail.tone"]
policy = "latest"
description = "How to write mails."
schema = { type = "string", enum = ["brief", "detailed"] }
min_authority = "confirmed"
falls_through = true
aliases = ["style", "Schreibstil"]
group = "mail"

[keys.theme]
policy = "latest"
"""


def refusal(text: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        parse_registry_file(text, name="keys.toml")
    assert caught.value.message.startswith("keys.toml")
    return caught.value


def declared(schema: Any) -> Registry:
    return Registry.read({"keys": {"tone": {"policy": "latest", "schema": schema}}})


def test_a_file_declares_keys_with_all_that_is_said_of_them() -> None:
    registry = parse_registry_file(FILE)

    tone = registry.keys["mail.tone"]
    assert (tone.policy, tone.description) == ("latest", "How to write mails.")
    assert tone.schema_ == {"type": "string", "enum": ["brief", "detailed"]}
    assert (tone.min_authority, tone.falls_through) == (Authority.CONFIRMED, True)
    assert (tone.aliases, tone.group) == (["style", "Schreibstil"], "mail")


def test_a_key_keeps_guesses_out_and_stops_at_a_tombstone_unless_it_says_otherwise() -> None:
    theme = parse_registry_file(FILE).keys["theme"]

    assert (theme.min_authority, theme.falls_through, theme.schema_) == (Authority.STATED, False, None)


def test_an_empty_file_declares_nothing() -> None:
    assert parse_registry_file("").keys == {}


@pytest.mark.parametrize("policy", sorted(PLANNED_POLICIES))
def test_a_policy_of_a_later_release_is_not_yet_supported(policy: str) -> None:
    error = refusal(f'[keys.employer]\npolicy = "{policy}"')

    assert isinstance(error, NotYet)
    assert error.code == "not-yet"
    assert error.field == "keys.employer.policy"
    assert "'latest'" in error.message


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('[keys.a]\npolicy = "newest"', "keys.a.policy"),
        ('[keys.a]\npolicy = ["latest"]', "keys.a.policy"),
        ('[keys.a]\npolicy = { is = "latest" }', "keys.a.policy"),
        ('[keys.a]\ndescription = "no policy"', "keys.a.policy"),
        ('[keys.a]\npolicy = "latest"\ncolour = "red"', "keys.a.colour"),
        ('[keys.a]\npolicy = "latest"\nmin_authority = "certain"', "keys.a.min_authority"),
        ('[keys.a]\npolicy = "latest"\nfalls_through = "yes"', "keys.a.falls_through"),
        ('[keys.a]\npolicy = "latest"\naliases = "style"', "keys.a.aliases"),
        ('[keys.a]\npolicy = "latest"\naliases = ["style", " "]', "keys.a.aliases.1"),
        ('[keys.a]\npolicy = "latest"\naliases = ["a\\u0000"]', "keys.a.aliases.0"),
        ('[keys.a]\npolicy = "latest"\ngroup = "Mail"', "keys.a.group"),
        ('[keys.a]\npolicy = "latest"\ngroup = ""', "keys.a.group"),
        ('[keys.a]\npolicy = "latest"\nschema = { const = 2026-03-01 }', "keys.a.schema.dict.const"),
        ("[keys]\na = 1", "keys.a"),
        ("keys = 1", "keys"),
        ("v = 2", "v"),
        ('undeclared = "perhaps"', "undeclared"),
        ('former = { a = "latest" }', "former"),
        ('[keys.""]\npolicy = "latest"', "keys."),
        ('[keys."a\\u0000"]\npolicy = "latest"', "keys.a\0"),
    ],
)
def test_a_mistake_in_a_file_is_refused_with_its_place(text: str, field: str) -> None:
    assert refusal(text).field == field


def test_a_mistyped_field_is_named_and_not_the_one_that_is_missing_for_it() -> None:
    assert refusal('[keys.a]\npolcy = "latest"').field == "keys.a.polcy"


def test_a_dot_outside_of_quotation_marks_is_explained() -> None:
    refused = refusal('[keys.mail.tone]\npolicy = "latest"')
    assert refused.field == "keys.mail.tone"
    assert '[keys."mail.tone"]' in refused.message


def test_the_digest_is_of_what_is_declared_whatever_was_in_force_before() -> None:
    before = parse_registry_file('[keys.a]\npolicy = "latest"')
    applied = parse_registry_file('[keys.b]\npolicy = "latest"')
    in_force = applied.following(before)
    assert in_force.former == {"a": "latest"}
    assert in_force.digest == applied.digest != before.digest


def test_a_file_that_is_not_toml_is_refused_with_its_line() -> None:
    assert "line 2" in refusal("[keys.a]\npolicy = latest").message


def test_a_number_that_is_not_json_is_refused_in_a_schema() -> None:
    assert "not a JSON value" in refusal('[keys.a]\npolicy = "latest"\nschema = { minimum = nan }').message


def test_a_file_above_the_limit_is_refused() -> None:
    error = refusal(f'[keys.a]\npolicy = "latest"\ndescription = "{"x" * limits.MAX_REGISTRY_BYTES}"')

    assert isinstance(error, TooLarge)
    assert str(limits.MAX_REGISTRY_BYTES) in error.message


def test_equal_registries_have_one_digest_however_they_are_written() -> None:
    spelled_out = """
        [keys.theme]
        falls_through = false
        min_authority = "stated"
        policy = "latest"

        [keys."mail.tone"]
        schema = { enum = ["brief", "detailed"], type = "string" }
        description = "How to write mails."
        policy = "latest"
        falls_through = true
        group = "mail"
        aliases = ["style", "Schreibstil"]
        min_authority = "confirmed"
    """

    assert parse_registry_file(spelled_out).digest == parse_registry_file(FILE).digest
    assert parse_registry_file(FILE + "falls_through = true").digest != parse_registry_file(FILE).digest


def test_a_registry_that_says_nothing_for_search_is_the_text_that_it_always_was() -> None:
    registry = Registry.read({"keys": {"theme": {"policy": "latest", "description": "Colours."}}})

    assert registry.to_canonical() == '{"keys":{"theme":{"description":"Colours.","policy":"latest"}},"v":1}'


def test_a_registry_is_read_back_from_its_canonical_text() -> None:
    registry = parse_registry_file(FILE)

    assert Registry.read(json.loads(registry.to_canonical())) == registry


def test_a_registry_is_read_back_from_its_control_record() -> None:
    record = RegistryRecord(registry=parse_registry_file(FILE))

    assert parse_control(control_bytes(record)) == record


def test_the_largest_registry_fits_into_one_control_record() -> None:
    keys = {f"k{number}": {"policy": "latest"} for number in range(18_000)}
    registry = Registry.read({"keys": keys})
    assert limits.MAX_REGISTRY_BYTES * 0.9 < len(registry.to_canonical()) <= limits.MAX_REGISTRY_BYTES

    assert len(control_bytes(RegistryRecord(registry=registry))) < limits.MAX_REGISTRY_BYTES + 100


def test_a_genesis_is_read_back_from_its_control_record() -> None:
    genesis = Genesis(generation=3, partition=1, partitions=2, cluster_id="c", topic_id="t", restored_up_to=7)

    assert parse_control(control_bytes(genesis)) == genesis


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b'{"control":"other"}', b'{"control":"genesis","v":1}', b'{"control":"registry","v":2}', b"\xff"],
)
def test_what_is_no_control_record_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        parse_control(data)


def test_a_value_is_checked_against_its_keys_schema() -> None:
    keys = compile_registry(declared({"enum": ["brief", "detailed"]}).to_canonical())

    assert keys.value_problem("tone", b'"brief"') is None
    assert keys.value_problem("tone", b'"secret"') == "the value does not fit the schema of 'tone' at /enum"


@pytest.mark.parametrize("schema", [True, {}, {"type": ["string", "null"]}])
def test_any_json_schema_can_be_declared(schema: Any) -> None:
    assert compile_registry(declared(schema).to_canonical()).value_problem("tone", b'"brief"') is None


@pytest.mark.parametrize(
    "schema",
    [
        "string",
        ["string"],
        {"type": "text"},
        {"pattern": "("},
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "other.json"},
        {"$ref": "#/$defs/missing"},
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_under_its_key(schema: Any) -> None:
    with pytest.raises(InvalidInput, match="schema of 'tone'") as caught:
        compile_registry(declared(schema).to_canonical())
    assert caught.value.field == "keys.tone.schema"
