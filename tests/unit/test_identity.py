"""Owners, scopes, keys and what is made of them: exact, never mixed up, never folded."""

import itertools
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastword_schemas import limits
from lastword_schemas.control import GENESIS_KEY, REGISTRY_KEY
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import (
    Owner,
    check_key,
    check_name,
    check_scope,
    parse_record_key,
    record_key,
    scope_chain,
)
from lastword_schemas.ids import event_id_from, record_id, uuid7

COMPOSED = unicodedata.normalize("NFC", "é")
DECOMPOSED = unicodedata.normalize("NFD", "é")

ODD = [
    *("/", "a/b", "//", "%", "%2F", "%25", ":", "a:b", "{}", "{p17}", "..", ".", "*", "a*", "?", "#", "+", " ", "a b"),
    *("🦊", "👩‍👩‍👧", COMPOSED, DECOMPOSED, "A", "a", "ß", "ss", "'", '"', "\\", "&", "global", "lastword/genesis"),
]
"""Names that some layer or other would like to treat specially."""

PRINTABLE = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029"), min_size=1, max_size=20
)

Check = Callable[[str], object]
PARTS: dict[str, tuple[Check, str]] = {
    "owner": (Owner.parse, "user:"),
    "scope": (check_scope, "project:"),
    "key": (check_key, ""),
    "actor.service": (lambda text: check_name(text, "actor.service"), ""),
    "thread": (lambda text: check_name(text, "thread"), ""),
}
in_every_part = pytest.mark.parametrize("part", PARTS)


def refusal(part: str, name: str) -> InvalidInput:
    check, prefix = PARTS[part]
    with pytest.raises(InvalidInput) as caught:
        check(prefix + name)
    return caught.value


def test_an_owner_without_a_tenant_is_of_main() -> None:
    assert str(Owner.parse("user:ada")) == "main/user:ada"
    assert Owner.parse("main/user:ada") == Owner.parse("user:ada")


def test_an_owner_of_another_tenant_is_another_owner() -> None:
    assert str(Owner.parse("acme/org:world")) == "acme/org:world"
    assert Owner.parse("acme/user:ada") != Owner.parse("user:ada")


@pytest.mark.parametrize("name", ODD)
def test_an_odd_owner_is_read_back_from_its_text(name: str) -> None:
    owner = Owner.parse(f"user:{name}")

    assert owner.id == name
    assert Owner.parse(str(owner)) == owner


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_is_kept_as_it_is_in_scope_key_and_thread(name: str) -> None:
    assert check_scope(f"project:{name}") == f"project:{name}"
    assert check_key(name) == name
    assert check_name(name, "thread") == name


@pytest.mark.parametrize(
    "text",
    [
        *("", "ada", "user:", "user", ":ada", "robot:ada", "User:ada", "USER:ada", "user：ada", "/user:ada"),
        *("Acme/user:ada", "a/b/user:ada", "-a/user:ada", "ä/user:ada"),
    ],
)
def test_what_is_no_owner_is_refused_with_the_form_it_should_have(text: str) -> None:
    with pytest.raises(InvalidInput, match="user:<id>") as caught:
        Owner.parse(text)
    assert caught.value.field == "owner"


@pytest.mark.parametrize("text", ["", "Global", "GLOBAL", "global ", "project", "project:", ":Comet", "Project:Comet"])
def test_what_is_no_scope_is_refused_with_the_form_it_should_have(text: str) -> None:
    with pytest.raises(InvalidInput, match="<kind>:<name>") as caught:
        check_scope(text)
    assert caught.value.field == "scope"


def test_an_empty_key_is_refused() -> None:
    assert "key is empty" in refusal("key", "").message


@in_every_part
@pytest.mark.parametrize("character", ["\0", "\n", "\x7f", "\x85", "\u2028"])
def test_control_characters_are_refused_in_every_part(part: str, character: str) -> None:
    error = refusal(part, f"a{character}b")

    assert f"U+{ord(character):04X}" in error.message
    assert error.field == part


@in_every_part
@pytest.mark.parametrize("half", [chr(0xD83E), chr(0xDD8A)], ids=["first", "second"])
def test_lone_surrogates_are_refused_in_every_part(part: str, half: str) -> None:
    error = refusal(part, f"a{half}")

    assert "lone surrogate" in error.message
    assert error.field == part
    error.message.encode()  # the message itself can be sent


@pytest.mark.parametrize(
    ("part", "longest"),
    [("owner", limits.MAX_OWNER_ID_BYTES), ("scope", limits.MAX_SCOPE_BYTES - 8), ("key", limits.MAX_KEY_BYTES)],
)
def test_the_limit_on_a_part_counts_its_bytes(part: str, longest: int) -> None:
    check, prefix = PARTS[part]
    check(prefix + "🦊" * (longest // 4))

    assert "bytes" in refusal(part, "🦊" * (longest // 4) + "a").message


def test_the_limit_on_names_of_services_and_threads_counts_characters() -> None:
    check_name("🦊" * limits.MAX_SERVICE_LENGTH, "thread")

    assert str(limits.MAX_SERVICE_LENGTH) in refusal("thread", "a" * (limits.MAX_SERVICE_LENGTH + 1)).message


def test_a_slash_in_a_part_never_meets_the_separator() -> None:
    keys = {
        record_key("main/user:ada", "project:a/b", "c"),
        record_key("main/user:ada", "project:a", "b/c"),
        record_key("main/user:ada/project:a", "b", "c"),
    }

    assert len(keys) == 3


def test_no_two_identities_share_a_record_key() -> None:
    owners = [f"main/user:{name}" for name in ODD]
    scopes = ["global", *(f"project:{name}" for name in ODD)]
    triples = [*itertools.product(owners, scopes[:6], [*ODD, None]), *itertools.product(owners[:6], scopes, ODD)]

    assert len({record_key(*triple) for triple in triples}) == len(set(triples))


@given(PRINTABLE, PRINTABLE, st.none() | PRINTABLE)
def test_a_record_key_is_read_back_exactly(owner: str, scope: str, key: str | None) -> None:
    text = record_key(owner, scope, key)

    assert text.isascii()
    assert parse_record_key(text) == (owner, scope, key)


@given(PRINTABLE)
def test_no_event_has_the_record_key_of_a_control_record(name: str) -> None:
    owner = str(Owner("main", "user", name))

    assert record_key(owner, "global", name) not in (GENESIS_KEY, REGISTRY_KEY)


@pytest.mark.parametrize("text", ["", "a", "a/b", "a/b/c/d", "%FF/global/c"])
def test_what_is_no_record_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="record key"):
        parse_record_key(text)


def test_two_unicode_normal_forms_are_two_identities() -> None:
    assert Owner.parse(f"user:{COMPOSED}") != Owner.parse(f"user:{DECOMPOSED}")
    assert record_key("main/user:a", f"project:{COMPOSED}", "k") != record_key(
        "main/user:a", f"project:{DECOMPOSED}", "k"
    )
    assert record_id("main/user:a", "global", COMPOSED) != record_id("main/user:a", "global", DECOMPOSED)


def test_case_and_prefixes_make_different_identities() -> None:
    ids = {record_id("main/user:a", scope, "k") for scope in ("project:Comet", "project:comet", "project:Come")}

    assert len(ids) == 3


def test_the_scope_chain_ends_in_global() -> None:
    assert scope_chain("project:Comet") == ("project:Comet", "global")
    assert scope_chain("global") == ("global",)
    assert scope_chain("project:Comet", fallback=False) == ("project:Comet",)


def test_a_record_id_is_the_same_in_every_release() -> None:
    assert record_id("main/user:ada", "global", "theme") == "569166f3-1946-565c-9917-8cc14f50c9bd"


def test_a_uuid_stays_the_event_id_in_one_spelling() -> None:
    text = "0197C0DE-0000-7000-8000-0123456789AB"

    assert event_id_from(text) == text.lower()
    assert event_id_from(text.lower()) == text.lower()


def test_any_other_event_id_becomes_the_same_uuid_every_time() -> None:
    assert event_id_from("order-17") == "0c5d0fec-81b9-5f4e-83f4-5d1a7e018098"
    assert event_id_from("x" * 36) != event_id_from("x" * 35)


@pytest.mark.parametrize("text", ["", "x" * (limits.MAX_EVENT_ID_LENGTH + 1), "\ud800"])
def test_what_can_be_no_event_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        event_id_from(text)
    assert caught.value.field == "event_id"


def test_made_event_ids_sort_by_their_time() -> None:
    early, late = uuid7(1_772_366_400_000, b"\xff" * 10), uuid7(1_772_366_400_001, b"\0" * 10)

    assert early < late
    assert early[14] == "7"
    assert early[19] in "89ab"
    assert early[:13].replace("-", "") == f"{1_772_366_400_000:012x}"
