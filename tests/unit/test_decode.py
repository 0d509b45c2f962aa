"""From bytes to something that can be judged: what is what, never an exception, and the same as the pydantic model."""

import itertools
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lastword_projector.engine.decode import (
    Decoded,
    Event,
    LogRecord,
    Malformed,
    Newer,
    Undecodable,
    decode,
    salvage,
)
from lastword_projector.engine.identities import Identities
from lastword_projector.engine.known import NotLoaded
from lastword_projector.engine.projection import Projection
from lastword_projector.engine.records import pack_record
from lastword_schemas import jsontext, limits
from lastword_schemas.authority import PLANNED_OPERATIONS
from lastword_schemas.control import GENESIS_KEY, REGISTRY_KEY, RegistryRecord, control_bytes
from lastword_schemas.envelope import Envelope
from lastword_schemas.errors import InvalidInput
from lastword_schemas.model import parse_instant, to_micros
from lastword_schemas.positions import Receipt, parse_receipt
from tests.support.logs import ADA, Log, event_id, registry_of

PLAIN: dict[str, Any] = {
    "v": 1,
    "event_id": event_id(1),
    "owner": ADA,
    "scope": "global",
    "key": "tone",
    "operation": "set",
    "actor": {"service": "app", "role": "service"},
    "authority": "stated",
    "published_at": "2026-03-01T12:00:00Z",
    "kid": "",
    "body": {"value": "brief"},
}
TURN: dict[str, Any] = {name: value for name, value in PLAIN.items() if name != "key"} | {
    "operation": "say",
    "thread": "t1",
    "message": "m1",
    "occurred_at": "2026-03-01T13:00:00.123456+01:00",
    "body": {"text": "no 🙂 yes"},
}
CANDIDATE: dict[str, Any] = PLAIN | {
    "actor": {"service": "reader", "role": "extractor"},
    "source_event_id": event_id(2),
    "source_receipt": str(Receipt("0123456789abcdef", 0, 0, 7, event_id(2))),
    "span": [3, 4],
    "confidence": 0.5,
    "expires_at": "2027-01-01T00:00:00Z",
    "body": {"value": {"a": [1, 2.5, None, {"b": "é"}]}, "quote": "🙂"},
}
DELETE: dict[str, Any] = PLAIN | {"operation": "delete", "expected_sequence": 5, "body": {}}
MOVE: dict[str, Any] = PLAIN | {
    "expected_sequence": 0,
    "retires": [{"scope": "project:Comet", "key": "tone"}, {"scope": "global", "key": "style"}],
}
BACKFILL: dict[str, Any] = PLAIN | {"backfill": 7, "occurred_at": "2024-03-01T12:00:00Z"}
CORRECTION: dict[str, Any] = PLAIN | {"withdraws": [event_id(3)]}
WITHDRAWAL: dict[str, Any] = {name: value for name, value in PLAIN.items() if name != "key"} | {
    "operation": "withdraw",
    "names": [event_id(3), event_id(4)],
    "saw": 17,
    "body": {"text": "that was a joke"},
}
CHOICE: dict[str, Any] = PLAIN | {"operation": "resolve", "names": [event_id(3), event_id(4)], "body": {}}
SHAPES = (PLAIN, TURN, CANDIDATE, DELETE, MOVE, BACKFILL, CORRECTION, WITHDRAWAL, CHOICE)


IDENTITIES = Identities(1)


def read(value: bytes | None, key: bytes | None = b"k") -> Decoded:
    """What these bytes are, identities checked as `Projection` checks them."""
    item = decode(LogRecord(7, 0, key, value))
    if isinstance(item, Event):
        try:
            IDENTITIES.record_key(IDENTITIES.owner(item.owner), item.scope, item.key)
        except InvalidInput as error:
            return salvage(value or b"", error.message)
    return item


def encoded(data: Any) -> bytes:
    return json.dumps(data).encode()


def repeated(value: bytes, name: str, other: Any, *, first: bool) -> bytes:
    """The same bytes with one more member of that name, before or after all the others."""
    member = encoded({name: other})[1:-1]
    return b"{" + member + b"," + value[1:] if first else value[:-1] + b"," + member + b"}"


def with_value(text: bytes) -> bytes:
    """A plain event with exactly this text as its value."""
    return encoded(PLAIN | {"body": {"value": "@"}}).replace(b'"@"', text)


class TestWhatIsWhat:
    def test_an_envelope_is_an_event(self) -> None:
        event = read(encoded(CANDIDATE))
        assert isinstance(event, Event)
        assert event.source_id == uuid.UUID(int=2).bytes
        assert (event.id, event.event_id) == (uuid.UUID(int=1).bytes, event_id(1))
        assert (event.owner, event.scope, event.key) == (ADA, "global", "tone")
        assert (event.span, event.body.quote, event.confidence) == ((3, 4), "🙂", 0.5)

    @pytest.mark.parametrize(
        "value",
        [
            None,
            b"",
            b"\x00\xff",
            b"not json",
            b"[]",
            b'"text"',
            b"{}",
            b'{"hello":"world"}',
            b'{"v":1}',
            b'{"v":1,"operation":"withdraw"}',
            b'{"v":1,"operation":"upsert","table":"orders"}',
            b'{"v":1,"owner":"nobody","event_id":"00000000-0000-0000-0000-000000000001","operation":"withdraw"}',
            b'{"v":true,"owner":"user:ada","event_id":"00000000-0000-0000-0000-000000000001"}',
            b'{"v":1,"owner":5,"event_id":"00000000-0000-0000-0000-000000000001"}',
            b'{"v":1,"owner":"user:ada","event_id":5}',
            b'{"v":1,"owner":"user:ada","event_id":null}',
            b'{"v":1,"owner":"user:ada","event_id":"not a uuid"}',
            b'{"v":1,"owner":"user:ada","event_id":"{00000000-0000-0000-0000-000000000001}"}',
            b'{"v":1,"owner":"nobody","event_id":"00000000-0000-0000-0000-000000000001"}',
            b'{"v":1,"owner":"user:\\ud800","event_id":"00000000-0000-0000-0000-000000000001"}',
            b"\xef\xbb\xbf" + encoded(PLAIN),
            encoded(PLAIN)[:-1],
            encoded(PLAIN) + b"x",
            encoded(PLAIN | {"body": {"text": "x" * limits.MAX_EVENT_BYTES}}),
        ],
    )
    def test_what_says_not_whose_it_is_is_undecodable(self, value: bytes | None) -> None:
        assert isinstance(read(value), Undecodable)

    @pytest.mark.parametrize(
        "change",
        [
            {"operation": []},
            {"operation": {}},
            {"operation": None},
            {"sequence": 5},
            {"scope": "nowhere"},
            {"scope": "project:\0"},
            {"key": ""},
            {"kid": 5},
            {"kid": ["a"]},
            {"actor": {}},
            {"actor": {"service": "app", "role": "root"}},
            {"authority": "certain"},
            {"confidence": 2},
            {"expires_at": "tomorrow"},
            {"published_at": "2026-03-01T12:00:00"},
            {"occurred_at": "0001-01-01T00:00:00+10:00"},
            {"body": {"value": 1, "more": 2}},
            {"span": [0, 1], "body": {"value": 1, "quote": "x"}},
            {"body": {}},
            {"body": None},
            {"thread": 5},
        ],
    )
    def test_a_wrong_field_is_malformed_under_its_owner(self, change: dict[str, Any]) -> None:
        item = read(encoded(PLAIN | change))
        assert isinstance(item, Malformed)
        assert (item.owner, item.event_id) == (ADA, uuid.UUID(int=1).bytes)

    @pytest.mark.parametrize("version", [2, 7, 2**70])
    def test_a_higher_version_is_newer_whatever_else_it_has(self, version: int) -> None:
        assert isinstance(read(encoded({"v": version, "what": "ever"})), Newer)

    @pytest.mark.parametrize("version", [0, -1, None, "1", "2", 1.5, True, [2]])
    def test_anything_else_is_no_version(self, version: Any) -> None:
        assert isinstance(read(encoded(PLAIN | {"v": version})), Undecodable)

    @pytest.mark.parametrize("operation", [*sorted(PLANNED_OPERATIONS), "frobnicate", "SET", "", "🙂", "x" * 1000])
    def test_an_operation_that_this_build_does_not_know_is_newer(self, operation: str) -> None:
        assert isinstance(read(encoded(PLAIN | {"operation": operation})), Newer)

    def test_an_operation_that_nobody_planned_is_not_repeated_in_what_is_told(self) -> None:
        item = read(encoded(PLAIN | {"operation": "somebody's secret"}))
        assert isinstance(item, Newer)
        assert "secret" not in item.problem

    def test_a_sealed_body_is_newer(self) -> None:
        assert isinstance(read(encoded(PLAIN | {"kid": "k1", "body": "c2VhbGVk"})), Newer)


class TestControlRecords:
    def test_genesis_and_registry_are_read(self) -> None:
        genesis = Log().genesis
        record = RegistryRecord(registry=registry_of(tone={"schema": {"type": "string"}}))
        assert read(control_bytes(genesis), GENESIS_KEY.encode()) == genesis
        assert read(control_bytes(record), REGISTRY_KEY.encode()) == record

    def test_an_envelope_cannot_pose_as_one(self) -> None:
        assert not isinstance(read(encoded(PLAIN), GENESIS_KEY.encode()), Event)

    def test_a_control_record_under_another_key_is_none(self) -> None:
        assert isinstance(read(control_bytes(Log().genesis), b"k"), Undecodable)

    @pytest.mark.parametrize("value", [b'{"control":"registry","v":2}', b'{"control":"merge","v":1}'])
    def test_one_of_a_later_build_is_newer(self, value: bytes) -> None:
        assert isinstance(read(value, REGISTRY_KEY.encode()), Newer)

    @pytest.mark.parametrize("value", [None, b"", b"[]", b"\xff", b'{"control":"registry","v":1,"registry":[]}'])
    def test_garbage_under_its_key_is_undecodable(self, value: bytes | None) -> None:
        assert isinstance(read(value, REGISTRY_KEY.encode()), Undecodable)


class TestValues:
    @pytest.mark.parametrize(
        "text",
        [
            b"null",
            b"9007199254740993",
            b"-" + b"9" * 4300,
            b"18446744073709551616",
            b"1E5",
            b"-0",
            b"[]",
            b"{}",
            b'"\\ud83d\\ude42"',
            b'"\\u0000"',
            b' [ 1 , { "a" : 1 } ] ',
            b"[" * 64 + b"]" * 64,
            b'{"a":1,"a":2}',
            b'[{"a":{"b":1,"\\u0062":2}}]',
        ],
    )
    def test_a_value_keeps_its_text(self, text: bytes) -> None:
        event = read(with_value(text))
        assert isinstance(event, Event)
        assert event.value == text.strip()

    @pytest.mark.parametrize(
        "text",
        [
            b"NaN",
            b"1e400",
            b"1" * 4301,
            b"01",
            b'"\xff"',
            b'"\xed\xa0\x80"',
            b"[" * 100_000 + b"]" * 100_000,
        ],
    )
    def test_what_is_not_strict_json_is_undecodable(self, text: bytes) -> None:
        assert isinstance(read(with_value(text)), Undecodable)

    @pytest.mark.parametrize(
        "text",
        [
            b'"\\ud800"',
            b'"\\udc00x"',
            b"[" * 65 + b"]" * 65,
            b'"' + b"x" * limits.MAX_VALUE_BYTES + b'"',
            b"[" + b",".join([b"1e15"] * 13_000) + b"]",  # its canonical text is beyond the limit
        ],
    )
    def test_a_value_beyond_the_rules_is_malformed(self, text: bytes) -> None:
        assert isinstance(read(with_value(text)), Malformed)

    @pytest.mark.parametrize("repeated", [b',"scope":"project:Comet"}', b', "scope" : "project:Comet"}'])
    def test_a_member_that_stands_twice_counts_with_its_last_value(self, repeated: bytes) -> None:
        """In the log it can no longer be refused, and most readers take it so; the door refuses it."""
        value = encoded(PLAIN)[:-1] + repeated
        event = read(value)
        assert isinstance(event, Event)
        assert event.scope == "project:Comet"
        check_agreement(value)
        with pytest.raises(InvalidInput, match="stands twice"):
            jsontext.parse(value)

    @pytest.mark.parametrize(
        "first", [b'"scope":5', b'"body":[]', b'"body":{"what":1}', b'"operation":"frobnicate"', b'"v":"x"', b'"v":2']
    )
    def test_what_is_wrong_with_the_first_of_two_members_is_not_looked_at(self, first: bytes) -> None:
        value = b"{" + first + b"," + encoded(CANDIDATE)[1:]
        event = read(value)
        assert isinstance(event, Event)
        assert event_content(event) == event_content(must_be_event(encoded(CANDIDATE)))
        check_agreement(value)

    @pytest.mark.parametrize("last", [b'"scope":5', b'"body":{"what":1}', b'"body":{"value":1,"value":"\\ud800"}'])
    def test_what_is_wrong_with_the_last_of_two_members_is_malformed(self, last: bytes) -> None:
        value = encoded(CANDIDATE)[:-1] + b"," + last + b"}"
        assert isinstance(read(value), Malformed)
        check_agreement(value)

    def test_a_body_that_stands_twice_is_the_last_one(self) -> None:
        value = encoded(PLAIN)[:-1] + b',"body":{"value":1,"value":[2]}}'
        event = read(value)
        assert isinstance(event, Event)
        assert event.value == b"[2]"
        check_agreement(value)

    def test_colons_and_quotes_in_a_text_are_no_members(self) -> None:
        assert isinstance(
            read(encoded(TURN | {"body": {"text": 'she said "scope": "scope" : {"v": 1, "v": 2}'}})), Event
        )


# --- agreement with pydantic


def pydantic_reads(value: bytes) -> Envelope | None:
    """The envelope if these bytes are one as a publisher writes it.

    Stricter than the model in what only a draft may leave to lastword: the version is there and the integer 1, and
    ids and owner are written in full (the model would complete `user:ada`).
    """
    try:
        data = jsontext.parse_stored(value)
        if not isinstance(data, dict) or type(data.get("v")) is not int or len(value) > limits.MAX_EVENT_BYTES:
            return None
        envelope = Envelope.read(data)
    except InvalidInput:
        return None
    written = [data["event_id"], data["owner"], *map(data.get, ("source_event_id", "names", "withdraws"))]
    meant = [envelope.event_id, envelope.owner, envelope.source_event_id, envelope.names, envelope.withdraws]
    return envelope if written == meant else None


def content(envelope: Envelope) -> dict[str, Any]:
    """An envelope's content as an `Event` has it."""
    body = envelope.body
    return {
        "event_id": uuid.UUID(envelope.event_id).bytes,
        "owner": envelope.owner,
        "scope": envelope.scope,
        "key": envelope.key,
        "operation": envelope.operation,
        "service": envelope.actor.service,
        "role": envelope.actor.role,
        "authority": envelope.authority,
        "confidence": envelope.confidence,
        "source_event_id": envelope.source_event_id and uuid.UUID(envelope.source_event_id).bytes,
        "source_receipt": envelope.source_receipt,
        "span": envelope.span and tuple(envelope.span),
        "thread": envelope.thread,
        "message": envelope.message,
        "occurred_at": envelope.occurred_at and to_micros(envelope.occurred_at),
        "published_at": envelope.published_at and to_micros(envelope.published_at),
        "expires_at": envelope.expires_at and to_micros(envelope.expires_at),
        "expected_sequence": envelope.expected_sequence,
        "retires": tuple((other.scope, other.key) for other in envelope.retires) if envelope.retires else None,
        "names": envelope.names and tuple(envelope.names),
        "withdraws": envelope.withdraws and tuple(envelope.withdraws),
        "saw": envelope.saw,
        "backfill": envelope.backfill,
        "value": jsontext.canonical(body.value) if "value" in body.model_fields_set else None,
        "text": body.text,
        "quote": body.quote,
    }


def event_content(event: Event) -> dict[str, Any]:
    return {
        "event_id": event.id,
        "owner": event.owner,
        "scope": event.scope,
        "key": event.key,
        "operation": event.operation,
        "service": event.actor.service,
        "role": event.actor.role,
        "authority": event.authority,
        "confidence": event.confidence,
        "source_event_id": event.source_id,
        "source_receipt": event.source_receipt and str(parse_receipt(event.source_receipt, field="source_receipt")),
        "span": event.span,
        "thread": event.thread,
        "message": event.message,
        "occurred_at": event.occurred_at and to_micros(parse_instant(event.occurred_at)),
        "published_at": event.published_at and to_micros(parse_instant(event.published_at)),
        "expires_at": event.expires_at and to_micros(parse_instant(event.expires_at)),
        "expected_sequence": event.expected_sequence,
        "retires": event.retired_keys,
        "names": event.names,
        "withdraws": event.withdraws,
        "saw": event.saw,
        "backfill": event.backfill,
        "value": None if event.value is None else jsontext.canonical(jsontext.parse_stored(event.value)),
        "text": event.body.text,
        "quote": event.body.quote,
    }


def must_be_event(value: bytes) -> Event:
    event = read(value)
    assert isinstance(event, Event)
    return event


def check_agreement(value: bytes) -> None:
    envelope, event = pydantic_reads(value), read(value)
    if envelope is None:
        assert not isinstance(event, Event), value
    else:
        assert isinstance(event, Event), (value, event)
        assert event_content(event) == content(envelope)


ODD_KEY: dict[str, Any] = {"scope": "global", "key": "other"}
ODD: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 1.0, 0.5, 1e300, 2**53 + 1, 2**64, 10**400),
    *("", " ", "x", "\0", "\u2028", "🙂", "é", "e\u0301", "\ud800", "x" * 129, "x" * 256, "é" * 129),
    *([], {}, [0, 1], [1, 0], [0, 1, 2], [0.0, 1.0], [True, 2], ["0", "1"]),
    *({"service": "a"}, {"service": "a", "x": 1}, {"service": "a", "role": None}),
    *("user:ada", "acme/user:ada", "main/user:a/b:c", "main/org:*", "Main/user:ada", "main/user:", "main/user:\ud800"),
    *("global", "project:Comet", "project:a/b", "project:", "Global", "..", "{}", "%2F"),
    *(event_id(1), event_id(2), event_id(2).replace("2", "A"), f"{{{event_id(2)}}}", event_id(2).replace("-", "")),
    *("set", "delete", "say", "add", "service", "person", "extractor", "inferred", "stated", "confirmed"),
    *("2026-03-01T12:00:00Z", "2026-03-01T12:00:00.123456789Z", "2026-03-01 12:00:00+01:00", "2026-03-01T12:00:00"),
    *("2026-03-01t12:00:00z", "20260301T120000.000Z", "2026-03-01T12:00:60Z", "2026-W09-7T12:00:00Z"),
    *("2026-03-01T24:00:00Z", "2026-03-01T12:00:00,5Z", "2026-03-01T12:00:00+0100", "2026-03-01T12:00:00+01:00:30"),
    *("0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00", "2026-03-01", "1740830400"),
    *("r1.x", CANDIDATE["source_receipt"], "r1.0123456789abcdef.00.0.007." + event_id(2)),
    *("r1.0123456789abcdef.9999.0.7." + event_id(2), "r1.0123456789abcdef.0.0.9999999999999." + event_id(2)),
    *({"value": 1}, {"value": None}, {"value": []}, {"value": "\ud800"}, {"value": {"\ud800": 1}}),
    *({"text": "x"}, {"text": ""}, {"text": None, "value": 2}, {"text": "\udfff"}, {"text": "x" * 32_769}),
    *(999_999, 1_000_000),
    *(2**53 - 1, 2**53, ODD_KEY, [ODD_KEY], [ODD_KEY, ODD_KEY], [ODD_KEY | {"x": 1}], [{"scope": "global"}], [None]),
    *([ODD_KEY | {"key": f"k{number}"} for number in range(count)] for count in (16, 17)),
    *([ODD_KEY | {name: value}] for name in ODD_KEY for value in (None, "", "\0", "tone", "\ud800", 5, "global:")),
    *([event_id(number)] for number in (1, 2, 3)),
    *([event_id(2), event_id(3)], [event_id(2)] * 2, ["x"], [event_id(2).replace("2", "A")]),
    *([event_id(number) for number in range(2, count)] for count in (66, 67)),
    *({"quote": "q"}, {"quote": "x" * 4097, "value": 1}, {"quote": "x" * 4096, "value": 1}),
)
NAMES = (*Envelope.model_fields, "sequence", "mark", "", "\0", "V", "Scope")
INNER = ("service", "role", "value", "text", "quote", "kid", "")

Mutation = Callable[[dict[str, Any]], None]


def _drop(name: str) -> Mutation:
    return lambda data: data.pop(name, None)


def _put(name: str, value: Any) -> Mutation:
    return lambda data: data.__setitem__(name, value)


def _rename(name: str, other: str) -> Mutation:
    return lambda data: data.__setitem__(other, data.pop(name, None))


def _within(part: str, name: str, value: Any) -> Mutation:
    def change(data: dict[str, Any]) -> None:
        if isinstance(data.get(part), dict):
            data[part] = data[part] | {name: value}

    return change


mutations = st.one_of(
    st.builds(_put, st.sampled_from(NAMES), st.sampled_from(ODD)),
    st.builds(_drop, st.sampled_from(NAMES)),
    st.builds(_rename, st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.builds(_within, st.sampled_from(["actor", "body"]), st.sampled_from(INNER), st.sampled_from(ODD)),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(SHAPES), json_values, st.booleans(), st.booleans())
@settings(max_examples=120, deadline=None)
def test_every_valid_envelope_is_read_as_pydantic_reads_it(
    shape: dict[str, Any], value: Any, spaced: bool, ascii_only: bool
) -> None:
    data = shape | ({"body": shape["body"] | {"value": value}} if shape["operation"] == "set" else {})
    text = json.dumps(data, separators=(" , ", " : ") if spaced else (",", ":"), ensure_ascii=ascii_only)
    check_agreement(text.encode("utf-8", "surrogatepass"))
    assert isinstance(read(Envelope.read(data).to_bytes()), Event)


@given(st.sampled_from(SHAPES), st.lists(mutations, min_size=1, max_size=3))
@settings(max_examples=250, deadline=None)
def test_a_mutated_envelope_is_refused_by_both_or_read_alike(shape: dict[str, Any], changes: list[Mutation]) -> None:
    data = json.loads(json.dumps(shape))
    for change in changes:
        change(data)
    check_agreement(json.dumps(data).encode())


@pytest.mark.parametrize(
    "shape", SHAPES, ids=["set", "say", "candidate", "delete", "move", "backfill", "correction", "withdraw", "resolve"]
)
def test_every_odd_value_in_every_field_is_refused_by_both_or_read_alike(shape: dict[str, Any]) -> None:
    for name in NAMES:
        for value in ODD:
            check_agreement(encoded(shape | {name: value}))
        check_agreement(encoded({other: value for other, value in shape.items() if other != name}))
    for part, name in itertools.product(["actor", "body"], INNER):
        for value in ODD:
            check_agreement(encoded(shape | {part: shape[part] | {name: value}}))


@given(st.sampled_from(SHAPES), st.sampled_from(NAMES[:-2]), st.sampled_from(ODD), st.booleans())
@settings(max_examples=250, deadline=None)
def test_a_member_that_stands_twice_is_refused_by_both_or_read_alike(
    shape: dict[str, Any], name: str, other: Any, first: bool
) -> None:
    check_agreement(repeated(encoded(shape), name, other, first=first))


@given(
    st.sampled_from([encoded(shape) for shape in SHAPES]),
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 3), st.binary(max_size=3)), max_size=3),
)
@settings(max_examples=300, deadline=None)
@example(with_value(b'"\\ud800\\u0041"'), [])
def test_damaged_bytes_are_refused_by_both_or_read_alike(value: bytes, cuts: list[tuple[int, int, bytes]]) -> None:
    for at, gone, put in cuts:
        value = value[:at] + put + value[at + gone :]
    check_agreement(value)


@given(st.one_of(st.binary(max_size=60), json_values.map(encoded)), st.sampled_from([b"k", None, GENESIS_KEY.encode()]))
@settings(max_examples=100, deadline=None)
def test_no_bytes_whatever_stop_the_projection(value: bytes, key: bytes | None) -> None:
    log = Log()
    log.append(key, value)
    log.append(None, None)
    last = log.set(ADA, "tone", "brief")
    projection = Projection(0, log.genesis)
    for record in log.records:
        read = projection.read(record)
        if isinstance(read.item, Newer):
            continue
        while True:
            try:
                projection.apply(read)
            except NotLoaded as missing:
                projection.load(dict.fromkeys(missing.needs.events), dict.fromkeys(missing.needs.entries))
            else:
                break
    assert [pack_record(made) for _, made in projection.changes.records if made.sequence == last.sequence]
