"""What a publisher may hand in, what becomes of it, and what is refused at the door with which words."""

import unicodedata
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given

from lastword_schemas import jsontext, limits
from lastword_schemas.authority import PLANNED_OPERATIONS, Authority, Role
from lastword_schemas.drafts import (
    ASSIGNED_BY_THE_LOG,
    CandidateDraft,
    EventDraft,
    NotAllowed,
    PositionNotAllowed,
    read_draft,
    to_envelope,
)
from lastword_schemas.envelope import Envelope
from lastword_schemas.errors import InvalidInput, LastwordError, NotYet, TooLarge, UnknownOperation
from lastword_schemas.ids import event_id_from
from lastword_schemas.positions import Receipt
from tests.unit.test_jsontext import VALUES, nested

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MADE_ID = str(uuid.UUID(int=7))
SOURCE_ID = str(uuid.UUID(int=8))
RECEIPT = Receipt("0123456789abcdef", 0, 3, 17, SOURCE_ID)
PRIVATE = "hunter2"

SET: dict[str, Any] = {
    "operation": "set",
    "owner": "user:ada",
    "scope": "global",
    "key": "tone",
    "value": "brief",
    "actor": {"service": "settings-page"},
}
DELETE = {name: value for name, value in SET.items() if name != "value"} | {"operation": "delete"}
TURN: dict[str, Any] = {
    "operation": "say",
    "owner": "user:ada",
    "scope": "global",
    "thread": "t1",
    "text": "I like it brief.",
    "actor": {"service": "chat"},
}
CANDIDATE: dict[str, Any] = {
    "owner": "user:ada",
    "scope": "global",
    "key": "tone",
    "value": "brief",
    "actor": {"service": "reader"},
    "source_event_id": SOURCE_ID,
}


def cases(field: str, *values: object) -> list[tuple[str, object]]:
    return [(field, value) for value in values]


def without(data: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in names}


def accept(data: Any) -> Envelope:
    """The envelope as the log has it: written to bytes and read back."""
    kind = CandidateDraft if "source_event_id" in data else EventDraft
    envelope = to_envelope(read_draft(data, kind), event_id=MADE_ID, published_at=NOW)
    assert Envelope.read(jsontext.parse(envelope.to_bytes())) == envelope
    return envelope


def refuse(data: Any, kind: type[EventDraft] | type[CandidateDraft] = EventDraft) -> LastwordError:
    with pytest.raises(LastwordError) as caught:
        to_envelope(read_draft(data, kind), event_id=MADE_ID, published_at=NOW)
    assert not caught.value.retryable
    caught.value.message.encode()
    return caught.value


# --- what is accepted


def test_a_statement_is_stated_by_a_service_unless_it_says_otherwise() -> None:
    envelope = accept(SET)

    assert (envelope.owner, envelope.scope, envelope.key) == ("main/user:ada", "global", "tone")
    assert (envelope.authority, envelope.actor.role) == (Authority.STATED, Role.SERVICE)
    assert envelope.body.value == "brief"
    assert not envelope.is_candidate


def test_a_turn_carries_its_words_and_its_thread() -> None:
    envelope = accept(TURN | {"message": "m1"})

    assert (envelope.key, envelope.thread, envelope.message) == (None, "t1", "m1")
    assert envelope.body.text == "I like it brief."


def test_a_candidate_is_inferred_by_an_extractor_and_cites_its_source() -> None:
    envelope = accept(CANDIDATE | {"span": [10, 15], "quote": "brief"})

    assert (envelope.authority, envelope.actor.role) == (Authority.INFERRED, Role.EXTRACTOR)
    assert (envelope.source_event_id, envelope.span, envelope.body.quote) == (SOURCE_ID, [10, 15], "brief")


def test_a_candidate_may_cite_a_receipt_and_keeps_both() -> None:
    envelope = accept(CANDIDATE | {"source_event_id": str(RECEIPT)})

    assert (envelope.source_event_id, envelope.source_receipt) == (SOURCE_ID, str(RECEIPT))


def test_a_candidate_may_cite_an_event_by_its_publishers_own_name_for_it() -> None:
    assert accept(CANDIDATE | {"source_event_id": "order-17"}).source_event_id == event_id_from("order-17")


def test_the_bytes_leave_out_what_is_not_set() -> None:
    data = jsontext.parse(accept(DELETE).to_bytes())

    assert set(data) == {
        *("v", "event_id", "owner", "scope", "key", "operation", "actor", "authority", "published_at", "kid", "body")
    }
    assert data["body"] == {}


def test_an_event_without_an_id_gets_the_made_one_and_one_with_an_id_keeps_it() -> None:
    assert accept(SET).event_id == MADE_ID
    assert accept(SET | {"event_id": SOURCE_ID}).event_id == SOURCE_ID
    assert accept(SET | {"event_id": "order-17"}).event_id == event_id_from("order-17")


@pytest.mark.parametrize("operation", [SET, DELETE, TURN])
def test_a_person_in_a_control_may_confirm(operation: dict[str, Any]) -> None:
    confirmed = {"actor": {"service": "app", "role": "person"}, "authority": "confirmed"}

    assert accept(operation | confirmed).authority is Authority.CONFIRMED


@given(VALUES.filter(lambda value: len(jsontext.canonical(value)) < 1000))
def test_any_json_value_comes_back_exactly(value: Any) -> None:
    data = jsontext.parse(accept(SET | {"value": value}).to_bytes())

    assert jsontext.canonical(data["body"]["value"]) == jsontext.canonical(value)


@pytest.mark.parametrize(
    "value",
    [
        2**53 + 1,
        -(2**63) - 1,
        0.1,
        1.0,
        "2026-03-01T12:00:00.123456Z",
        "a\0b",
        "🦊",
        unicodedata.normalize("NFC", "é"),
        unicodedata.normalize("NFD", "é"),
        [],
        {},
        [[], {}, None],
        "",
        False,
        0,
    ],
)
def test_delicate_values_keep_their_exact_text(value: Any) -> None:
    text = accept(SET | {"value": value}).to_bytes().decode()

    assert f'"body":{{"value":{jsontext.canonical(value)}}}' in text


def test_a_null_value_is_a_value_and_differs_from_a_delete() -> None:
    null, deleted = accept(SET | {"value": None}), accept(DELETE)

    assert b'"body":{"value":null}' in null.to_bytes()
    assert b'"body":{}' in deleted.to_bytes()


def test_microseconds_and_offsets_of_instants_are_kept_as_utc() -> None:
    envelope = accept(SET | {"occurred_at": "2026-03-01T14:00:00.000001+02:00", "expires_at": "2026-04-01T00:00:00Z"})

    assert envelope.occurred_at == NOW + timedelta(microseconds=1)
    assert b'"occurred_at":"2026-03-01T12:00:00.000001Z"' in envelope.to_bytes()
    assert b'"expires_at":"2026-04-01T00:00:00Z"' in envelope.to_bytes()


def test_instants_may_be_given_as_python_has_them() -> None:
    paris = datetime(2026, 3, 1, 13, 0, tzinfo=timezone(timedelta(hours=1)))

    assert accept(SET | {"occurred_at": paris}).occurred_at == NOW


def test_the_largest_turn_fits_into_one_event() -> None:
    text = "\0" * limits.MAX_TEXT_LENGTH  # each is six bytes in JSON

    assert len(accept(TURN | {"text": text}).to_bytes()) <= limits.MAX_EVENT_BYTES


def test_a_condition_and_retired_keys_stand_in_the_header() -> None:
    retires = [{"scope": "project:Comet", "key": "tone"}]

    envelope = accept(SET | {"expected_sequence": 0, "retires": retires})

    assert b'"expected_sequence":0,' in envelope.to_bytes()
    assert b'"retires":[{"scope":"project:Comet","key":"tone"}]' in envelope.to_bytes()


# --- what is refused


def test_an_unknown_operation_is_refused_with_the_known_ones() -> None:
    error = refuse(SET | {"operation": "upsert"})

    assert isinstance(error, UnknownOperation)
    assert (error.code, error.field) == ("unknown-operation", "operation")
    assert "set, delete, say" in error.message


@pytest.mark.parametrize("operation", sorted(PLANNED_OPERATIONS))
def test_an_operation_of_a_later_release_is_not_yet_supported(operation: str) -> None:
    error = refuse(SET | {"operation": operation})

    assert isinstance(error, NotYet)
    assert (error.code, error.field) == ("not-yet", "operation")


@pytest.mark.parametrize("field", sorted(ASSIGNED_BY_THE_LOG))
@pytest.mark.parametrize("kind", [EventDraft, CandidateDraft])
def test_a_client_cannot_supply_a_position(field: str, kind: type[EventDraft | CandidateDraft]) -> None:
    error = refuse((SET if kind is EventDraft else CANDIDATE) | {field: 5}, kind)

    assert isinstance(error, PositionNotAllowed)
    assert error.field == field
    assert "the log gives every event its place" in error.message


@pytest.mark.parametrize("text", ["tomorrow", "2026-03-01", "2026-03-01T12:00:00"])
def test_a_text_that_is_no_instant_is_refused_by_the_name_of_its_field(text: str) -> None:
    event = {"operation": "set", "owner": "user:ada", "scope": "global", "key": "k", "value": 1}
    refused = refuse(event | {"actor": {"service": "app"}, "expires_at": text})
    assert refused.message.startswith("expires_at: ")
    assert refused.field == "expires_at"


@pytest.mark.parametrize("field", ["operation", "owner", "scope", "key", "value", "actor"])
def test_a_missing_field_of_a_set_is_named(field: str) -> None:
    assert refuse(without(SET, field)).field == field


@pytest.mark.parametrize("field", ["owner", "scope", "key", "value", "actor", "source_event_id"])
def test_a_missing_field_of_a_candidate_is_named(field: str) -> None:
    assert refuse(without(CANDIDATE, field), CandidateDraft).field == field


@pytest.mark.parametrize("field", ["text", "thread"])
def test_a_missing_field_of_a_turn_is_named(field: str) -> None:
    assert refuse(without(TURN, field)).field == field


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (DELETE | {"value": None}, "value"),
        (DELETE | {"expires_at": "2026-03-01T12:00:00Z"}, "expires_at"),
        (DELETE | {"text": "words"}, "text"),
        (SET | {"text": "words"}, "text"),
        (TURN | {"key": "tone"}, "key"),
        (TURN | {"value": 1}, "value"),
        (TURN | {"expires_at": "2026-03-01T12:00:00Z"}, "expires_at"),
        (TURN | {"backfill": 0}, "backfill"),
        (SET | {"backfill": 0, "expected_sequence": 0}, "expected_sequence"),
        (SET | {"backfill": 0, "retires": [{"scope": "global", "key": "style"}]}, "retires"),
    ],
)
def test_a_field_that_does_not_belong_to_the_operation_is_refused(data: dict[str, Any], field: str) -> None:
    assert refuse(data).field == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *cases("owner", "ada", "", 5, None, ["user:ada"], "user:a\0", "user:\ud800"),
        *cases("scope", "", "Comet", "Global", 5, "project:\0", "project:\udfff"),
        *cases("key", "", 5, "a\nb", "\ud800", "k" * 257),
        *cases("value", float("nan"), float("inf"), "\ud800", {"\udfff": 1}, "x" * 2_000_000),
        ("value", nested(limits.MAX_VALUE_DEPTH + 1)),
        *cases("event_id", "", 5, "x" * 257, "\ud800"),
        *cases("authority", "certain", 2, "STATED"),
        *cases("confidence", -0.1, 1.1, "0.5", True, float("nan")),
        *cases("actor", None, "chat", []),
        *cases("thread", "", "a\0b", "t" * 129),
        *cases("occurred_at", "2026-03-01", "2026-03-01T12:00:00", "yesterday", 5, "", datetime.min),
        ("expires_at", "9999-12-31T23:59:59-23:59"),
        *cases("backfill", -1, limits.MAX_BACKFILL + 1, True, 1.0, "1"),
        ("colour", "red"),
        ("source_event_id", SOURCE_ID),
    ],
)
def test_a_bad_field_is_refused_by_its_name(field: str, value: Any) -> None:
    assert refuse(SET | {field: value}).field == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            ("span", value)
            for value in ([3], [3, 3], [5, 3], [-1, 3], [0, limits.MAX_TEXT_LENGTH + 1], [0, 1, 2], "01")
        ),
        *cases("quote", "", "q" * (limits.MAX_QUOTE_LENGTH + 1), "\ud800"),
        *cases("source_event_id", "", "r1.nonsense", f"r1.{'0' * 16}.9999.0.0.{SOURCE_ID}", None, 5),
        *cases("operation", "say", "upsert"),
        ("thread", "t1"),
        ("backfill", 0),
        ("source_receipt", str(RECEIPT)),
    ],
)
def test_a_bad_field_of_a_candidate_is_refused_by_its_name(field: str, value: Any) -> None:
    assert refuse(CANDIDATE | {"span": [0, 5], "quote": "brief"} | {field: value}, CandidateDraft).field == field


@pytest.mark.parametrize("given", [{"span": [0, 5]}, {"quote": "brief"}])
def test_a_span_and_a_quote_go_together(given: dict[str, Any]) -> None:
    assert refuse(CANDIDATE | given, CandidateDraft).field == "span"


def test_a_value_of_two_megabytes_is_too_large() -> None:
    error = refuse(SET | {"value": "x" * 2_000_000})

    assert isinstance(error, TooLarge)
    assert error.code == "too-large"
    assert str(limits.MAX_VALUE_BYTES) in error.message


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (SET | {"actor": {"service": "reader", "role": "extractor"}}, "actor.role"),
        (TURN | {"actor": {"service": "reader", "role": "extractor"}}, "actor.role"),
        (SET | {"authority": "confirmed"}, "authority"),
        (CANDIDATE | {"actor": {"service": "app", "role": "service"}}, "actor.role"),
        (CANDIDATE | {"actor": {"service": "app", "role": "person"}}, "actor.role"),
        (CANDIDATE | {"authority": "confirmed"}, "authority"),
    ],
)
def test_an_actor_may_say_only_what_its_role_allows(data: dict[str, Any], field: str) -> None:
    error = refuse(data, CandidateDraft if "source_event_id" in data else EventDraft)

    assert isinstance(error, NotAllowed)
    assert (error.code, error.field) == ("actor-not-allowed", field)


@pytest.mark.parametrize("data", [None, 5, "set", [SET], []])
def test_what_is_no_json_object_is_refused(data: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^events\.3 is not a JSON object"):
        read_draft(data, EventDraft, at="events.3")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"key": ""}, "events.3.key"),
        ({"owner": 5}, "events.3.owner"),
        ({"actor": {"service": ""}}, "events.3.actor.service"),
        ({"sequence": 5}, "events.3.sequence"),
        ({"operation": "add"}, "events.3.operation"),
        ({"occurred_at": "yesterday"}, "events.3.occurred_at"),
    ],
)
def test_the_field_of_one_of_many_items_says_which_item(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_draft(SET | change, EventDraft, at="events.3")
    assert caught.value.field == field


@pytest.mark.parametrize(
    "change",
    [
        {"value": {"password": [PRIVATE, float("nan")]}},
        {"value": PRIVATE * 10_000},
        {"value": PRIVATE, "operation": "delete"},
        {"text": PRIVATE},
        {"value": PRIVATE, "key": ""},
    ],
)
def test_no_refusal_repeats_the_value(change: dict[str, Any]) -> None:
    assert PRIVATE not in refuse(SET | change).message


def test_an_envelope_never_has_a_sealed_body_yet() -> None:
    data = jsontext.parse(accept(SET).to_bytes()) | {"kid": "k1"}

    with pytest.raises(InvalidInput, match="sealed") as caught:
        Envelope.read(data)
    assert caught.value.field == "kid"
