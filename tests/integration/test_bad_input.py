"""Bad input over HTTP and in the log: each with its own answer, nothing lost, nothing mixed up."""

import json
import unicodedata
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from lastword_producers.kafka_log import apply_registry
from lastword_schemas import limits
from lastword_schemas.authority import Authority
from lastword_schemas.identity import record_key
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import Receipt
from lastword_schemas.registry import Registry
from tests.support.running import RunningLastword

ONE_BROKER = pytest.mark.parametrize("broker", [pytest.param("kafka", marks=pytest.mark.real)], indirect=True)
PROBLEM = "application/problem+json"

STRANGE = {
    "slash": "a/b",
    "percent": "100%2F%",
    "colon": "a:b",
    "braces": "{}{p0}",
    "dots": "..",
    "star": "*?[a]",
    "emoji": "👩‍🚀🎉",
    "spaces": " a b ",
    "plus": "a+b&c=d#e",
    "quote": "'\"\\",
    "composed": unicodedata.normalize("NFC", "é"),
    "decomposed": unicodedata.normalize("NFD", "é"),
}


@pytest.fixture(scope="module")
def strange_keys(lastword: RunningLastword) -> Iterator[None]:
    """The strange texts are declared as keys."""
    declared = lastword.registry.keys
    keys = [*STRANGE.values(), "b/c", "c"]
    registry = Registry(keys=declared | dict.fromkeys(keys, declared["any"]))
    positions = apply_registry(lastword.worker_settings.kafka_settings, registry)
    statuses = lastword.worker.status.partitions
    lastword.until(
        lambda: all(statuses[at.partition].next_offset > at.offset for at in positions), "the registry to be in force"
    )
    yield
    apply_registry(lastword.worker_settings.kafka_settings, lastword.registry)


ABSENT: Any = object()
EXTRACTOR = {"service": "s", "role": "extractor"}
Door = dict[str, tuple[dict[str, Any], str, str | None]]
"""By name: changes to a valid request, code and field of the refusal."""


def new_owner() -> str:
    return f"main/user:{uuid.uuid4()}"


def statement(*without: str, **changes: Any) -> dict[str, Any]:
    """A valid statement with changes, and without some of its fields."""
    fields = {
        "operation": "set",
        "owner": new_owner(),
        "scope": "global",
        "key": "any",
        "value": 1,
        "actor": {"service": "tests"},
    } | changes
    return {name: value for name, value in fields.items() if name not in without}


def candidate(owner: str, source: str, **changes: Any) -> dict[str, Any]:
    """A valid candidate with changes."""
    actor = {"service": "extractor"}
    fields = {"owner": owner, "scope": "global", "key": "any", "value": 1, "actor": actor, "source_event_id": source}
    return fields | changes


def applied(lastword: RunningLastword, body: dict[str, Any], route: str = "events") -> httpx.Response:
    """Publish and wait for the verdict."""
    return lastword.post(f"/v1/{route}", body, wait="applied", wait_ms="20000")


def text_of(body: dict[str, Any]) -> str:
    """The JSON text without the absent fields; lone surrogates are escaped in it."""
    return json.dumps({name: value for name, value in body.items() if value is not ABSENT})


def check_problem(answer: httpx.Response, status: int, code: str, field: str | None) -> None:
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem.get("field")) == (status, code, field), answer.text
    assert answer.headers["content-type"] == PROBLEM
    assert problem["type"] == f"urn:lastword:problem:{code}"
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert isinstance(problem["retryable"], bool)


def nothing_is_in_the_log(lastword: RunningLastword, owner: str) -> bool:
    later = lastword.publisher.say(owner, "t", "the next event of this owner")
    events = lastword.get("/v1/history", owner=owner, at_least=str(later), wait_ms=20_000).json()["events"]
    return [event["operation"] for event in events] == ["say"]


AT_THE_DOOR: Door = {
    "unknown operation": ({"operation": "upsert"}, "unknown-operation", "operation"),
    "no operation": ({"operation": ABSENT}, "malformed", "operation"),
    "operation that is no text": ({"operation": 7}, "malformed", "operation"),
    "planned operation": ({"operation": "erase"}, "not-yet", "operation"),
    "withdraws nothing": ({"withdraws": []}, "malformed", "withdraws"),
    "withdraws the same twice": ({"withdraws": ["a", "a"]}, "malformed", "withdraws"),
    "set that names": ({"names": ["a"]}, "malformed", "names"),
    "withdrawal that names nothing": ({"operation": "withdraw", "key": ABSENT, "value": ABSENT}, "malformed", "names"),
    "withdrawal of a key": ({"operation": "withdraw", "value": ABSENT, "names": ["a"]}, "malformed", "key"),
    "resolve that ends nothing": ({"operation": "resolve", "value": ABSENT, "names": ["a"]}, "malformed", "names"),
    "expected sequence below 0": ({"expected_sequence": -1}, "malformed", "expected_sequence"),
    "expected sequence that is a text": ({"expected_sequence": "3"}, "malformed", "expected_sequence"),
    "turn with a condition": (
        {"operation": "say", "key": ABSENT, "value": ABSENT, "text": "x", "thread": "t", "expected_sequence": 0},
        "malformed",
        "expected_sequence",
    ),
    "retires its own key": ({"retires": [{"scope": "global", "key": "any"}]}, "malformed", "retires.0"),
    "retires a key twice": ({"retires": [{"scope": "global", "key": "theme"}] * 2}, "malformed", "retires.1"),
    "retires too many keys": (
        {"retires": [{"scope": f"project:{number}", "key": "any"} for number in range(17)]},
        "malformed",
        "retires",
    ),
    "retires in a scope of no kind": ({"retires": [{"scope": "Comet", "key": "any"}]}, "malformed", "retires.0.scope"),
    "retires a pair": ({"retires": [["global", "theme"]]}, "malformed", "retires.0"),
    "retires an undeclared key": (
        {"retires": [{"scope": "global", "key": "nobody.declared.this"}]},
        "undeclared-key",
        "retires.0.key",
    ),
    "retires a key of more authority": (
        {"authority": "inferred", "retires": [{"scope": "global", "key": "theme"}]},
        "authority-too-low",
        "retires.0.key",
    ),
    "delete that retires": (
        {"operation": "delete", "value": ABSENT, "retires": [{"scope": "global", "key": "theme"}]},
        "malformed",
        "retires",
    ),
    "no owner": ({"owner": ABSENT}, "malformed", "owner"),
    "owner of no kind": ({"owner": "ada"}, "malformed", "owner"),
    "owner that is a number": ({"owner": 7}, "malformed", "owner"),
    "empty owner": ({"owner": "user:"}, "malformed", "owner"),
    "owner too long": ({"owner": f"user:{'a' * 257}"}, "malformed", "owner"),
    "no scope": ({"scope": ABSENT}, "malformed", "scope"),
    "scope of no kind": ({"scope": "Comet"}, "malformed", "scope"),
    "no key": ({"key": ABSENT}, "malformed", "key"),
    "empty key": ({"key": ""}, "malformed", "key"),
    "undeclared key": ({"key": "nobody.declared.this"}, "undeclared-key", "key"),
    "value against the schema": ({"key": "answer_detail", "value": "long"}, "value-schema", "value"),
    "value of 2 MB": ({"value": "x" * 2_000_000}, "too-large", "value"),
    "value nested too deeply": ({"value": json.loads("[" * 65 + "]" * 65)}, "too-large", "value"),
    "value nested far too deeply": ({"value": json.loads("[" * 400 + "]" * 400)}, "too-large", "value"),
    "delete with a value": ({"operation": "delete"}, "malformed", "value"),
    "turn without a text": ({"operation": "say", "key": ABSENT, "thread": "t"}, "malformed", "value"),
    "no actor": ({"actor": ABSENT}, "malformed", "actor"),
    "actor without a service": ({"actor": {}}, "malformed", "actor.service"),
    "unknown role": ({"actor": {"service": "s", "role": "god"}}, "malformed", "actor.role"),
    "extractor that makes a statement": ({"actor": EXTRACTOR}, "actor-not-allowed", "actor.role"),
    "service that confirms": ({"authority": "confirmed"}, "actor-not-allowed", "authority"),
    "authority below the key's": ({"key": "theme", "authority": "inferred"}, "authority-too-low", "authority"),
    "unknown field": ({"colour": "red"}, "malformed", "colour"),
    "event id too long": ({"event_id": "x" * 257}, "malformed", "event_id"),
    "time without an offset": ({"occurred_at": "2026-03-01T12:00:00"}, "malformed", "occurred_at"),
    "sequence": ({"sequence": 3}, "position-not-allowed", "sequence"),
    "source sequence": ({"source_sequence": 3}, "position-not-allowed", "source_sequence"),
    "offset": ({"offset": 3}, "position-not-allowed", "offset"),
    "time of the log": ({"recorded_at": "2026-03-01T12:00:00Z"}, "position-not-allowed", "recorded_at"),
    "NUL in the owner": ({"owner": "user:a\0b"}, "malformed", "owner"),
    "NUL in the scope": ({"scope": "project:a\0b"}, "malformed", "scope"),
    "NUL in the key": ({"key": "a\0b"}, "malformed", "key"),
    "NUL in the service": ({"actor": {"service": "a\0b"}}, "malformed", "actor.service"),
    "lone surrogate in the owner": ({"owner": "user:\ud800"}, "malformed", "owner"),
    "lone surrogate in the scope": ({"scope": "project:\ud800"}, "malformed", "scope"),
    "lone surrogate in the key": ({"key": "\ud800"}, "malformed", "key"),
    "lone surrogate in the event id": ({"event_id": "\ud800"}, "malformed", "event_id"),
    "lone surrogate in the value": ({"value": ["\udfff"]}, "malformed", "value"),
    "lone surrogate in a member of the value": ({"value": {"\ud800": 1}}, "malformed", "value"),
    "lone surrogate in the name of a field": ({"\ud800": 1}, "malformed", None),
}


@ONE_BROKER
@pytest.mark.parametrize("case", AT_THE_DOOR)
def test_a_bad_statement_is_refused_with_its_code_and_field(lastword: RunningLastword, case: str) -> None:
    changes, code, field = AT_THE_DOOR[case]

    answer = lastword.http.post("/v1/events", content=text_of(statement(**changes)))

    check_problem(answer, 422, code, field)


BAD_CANDIDATES: Door = {
    "no source": ({"source_event_id": ABSENT}, "malformed", "source_event_id"),
    "empty source": ({"source_event_id": ""}, "malformed", "source_event_id"),
    "receipt cut off": ({"source_event_id": "r1.0123456789abcdef.0.1"}, "malformed", "source_event_id"),
    "condition": ({"expected_sequence": 0}, "malformed", "expected_sequence"),
    "sequence": ({"sequence": 1}, "position-not-allowed", "sequence"),
    "source sequence": ({"source_sequence": 1}, "position-not-allowed", "source_sequence"),
    "mark": ({"mark": 1}, "position-not-allowed", "mark"),
    "turn": ({"operation": "say"}, "unknown-operation", "operation"),
    "service": ({"actor": {"service": "s", "role": "service"}}, "actor-not-allowed", "actor.role"),
    "confirmed": ({"authority": "confirmed"}, "actor-not-allowed", "authority"),
    "quote without a span": ({"quote": "brief"}, "malformed", "span"),
    "span that ends before it starts": ({"quote": "brief", "span": [5, 2]}, "malformed", "span"),
    "NUL in the source": ({"source_event_id": "r1.\0"}, "malformed", "source_event_id"),
    "lone surrogate in the quote": ({"quote": "\ud800", "span": [0, 1]}, "malformed", "quote"),
    "confidence above one": ({"confidence": 1.5}, "malformed", "confidence"),
}


@ONE_BROKER
@pytest.mark.parametrize("case", BAD_CANDIDATES)
def test_a_bad_candidate_is_refused_at_the_door_with_its_code_and_field(lastword: RunningLastword, case: str) -> None:
    changes, code, field = BAD_CANDIDATES[case]

    answer = lastword.http.post("/v1/candidates", content=text_of(candidate(new_owner(), "turn", **changes)))

    check_problem(answer, 422, code, field)


@ONE_BROKER
def test_nothing_that_the_door_refuses_enters_the_log(lastword: RunningLastword) -> None:
    owner = new_owner()
    for changes, _, _ in AT_THE_DOOR.values():
        if "owner" not in changes:
            lastword.http.post("/v1/events", content=text_of(statement(**{"owner": owner} | changes)))

    assert nothing_is_in_the_log(lastword, owner)


BODIES: dict[str, tuple[bytes, int, str, str | None]] = {
    "empty": (b"", 422, "malformed", None),
    "broken JSON": (b'{"operation": ', 422, "malformed", None),
    "not UTF-8": (b'{"operation": "\xff"}', 422, "malformed", None),
    "NaN": (json.dumps(statement()).replace('"value": 1', '"value": NaN').encode(), 422, "malformed", None),
    "infinite": (json.dumps(statement()).replace('"value": 1', '"value": 1e400').encode(), 422, "malformed", None),
    "member twice": (b'{"operation": "set", "operation": "delete"}', 422, "malformed", None),
    "member twice in the value": (
        json.dumps(statement()).replace('"value": 1', '"value": {"a": 1, "a": 2}').encode(),
        422,
        "malformed",
        None,
    ),
    "nested without an end": (b"[" * 100_000, 422, "malformed", None),
    "number": (b"7", 422, "malformed", None),
    "list": (b"[]", 422, "malformed", None),
    "no events": (b'{"events": []}', 422, "malformed", "events"),
    "events that are none": (b'{"events": {}}', 422, "malformed", "events"),
    "events and more": (b'{"events": [1], "\\ud800": 1}', 422, "malformed", "\\ud800"),
    "too many events": (json.dumps({"events": [{}] * 1_001}).encode(), 422, "too-large", "events"),
    "huge": (b" " * (limits.MAX_BODY_BYTES + 1), 413, "request-too-large", None),
}


@ONE_BROKER
@pytest.mark.parametrize("case", BODIES)
def test_a_bad_body_is_refused_with_its_status_and_code(lastword: RunningLastword, case: str) -> None:
    body, status, code, field = BODIES[case]

    check_problem(lastword.http.post("/v1/events", content=body), status, code, field)


READS: dict[str, tuple[str, int, str, str | None]] = {
    "unknown query parameter": ("/v1/value?owner=user:a&key=any&sequence=3", 422, "malformed", "sequence"),
    "no owner": ("/v1/value?key=any", 422, "malformed", "owner"),
    "empty key": ("/v1/value?owner=user:a&key=", 422, "malformed", "key"),
    "bad scope": ("/v1/value?owner=user:a&key=any&scope=Comet", 422, "malformed", "scope"),
    "NUL": ("/v1/value?owner=user:a%00b&key=any", 422, "malformed", "owner"),
    "bytes that are no UTF-8": ("/v1/value?owner=user:a%FF&key=any", 422, "malformed", "owner"),
    "lone surrogate": ("/v1/value?owner=user:%ED%A0%80&key=any", 422, "malformed", "owner"),
    "owner twice": ("/v1/value?owner=user:a&owner=user:b&key=any", 422, "malformed", "owner"),
    "as_of that is neither": ("/v1/value?owner=user:a&key=any&as_of=yesterday", 422, "malformed", "as_of"),
    "as_of below zero": ("/v1/value?owner=user:a&key=any&as_of=-1", 422, "malformed", "as_of"),
    "as_of beyond 2**53": ("/v1/value?owner=user:a&key=any&as_of=9007199254740992", 422, "malformed", "as_of"),
    "as_of without an offset": ("/v1/value?owner=user:a&key=any&as_of=2026-03-01T12:00:00", 422, "malformed", "as_of"),
    "known_at as an instant": (
        "/v1/value?owner=user:a&key=any&known_at=2026-03-01",
        422,
        "malformed",
        "known_at",
    ),
    "at_least that is none": ("/v1/value?owner=user:a&key=any&at_least=7", 422, "malformed", "at_least"),
    "wait beyond the limit": ("/v1/value?owner=user:a&key=any&wait_ms=30001", 422, "malformed", "wait_ms"),
    "limit of zero": ("/v1/profile?owner=user:a&limit=0", 422, "malformed", "limit"),
    "page that is none": ("/v1/profile?owner=user:a&page=7", 422, "malformed", "page"),
    "empty page": ("/v1/profile?owner=user:a&page=", 422, "malformed", "page"),
    "unknown view": ("/v1/history?owner=user:a&view=graph", 422, "malformed", "view"),
    "versions of no key": ("/v1/history?owner=user:a&view=versions", 422, "malformed", "key"),
    "outcome of no id": ("/v1/outcomes?owner=user:a", 422, "malformed", "id"),
    "outcome of an unknown id": ("/v1/outcomes?owner=user:a&id=never", 404, "unknown-event", None),
    "unknown route": ("/v1/values", 404, "not-found", None),
    "identity in the path": ("/v1/value/user:a/any", 404, "not-found", None),
    "wrong method": ("/v1/events", 405, "method-not-allowed", None),
}


@ONE_BROKER
@pytest.mark.parametrize("case", READS)
def test_a_bad_question_is_refused_with_its_status_code_and_field(lastword: RunningLastword, case: str) -> None:
    path, status, code, field = READS[case]

    check_problem(lastword.http.get(path), status, code, field)


READ_BODIES: Door = {
    "no keys": ({"keys": []}, "malformed", "keys"),
    "too many keys": ({"keys": ["any"] * 501}, "malformed", "keys"),
    "empty key among others": ({"keys": ["any", ""]}, "malformed", "keys.1"),
    "bad scope in the chain": ({"keys": ["any"], "scopes": ["global", "Comet"]}, "malformed", "scopes.1"),
    "scope and chain": ({"keys": ["any"], "scope": "global", "scopes": ["global"]}, "malformed", "scopes"),
    "as_of that is a fraction": ({"keys": ["any"], "as_of": 1.5}, "malformed", "as_of"),
    "as_of below zero": ({"keys": ["any"], "as_of": -1}, "malformed", "as_of"),
    "unknown member": ({"keys": ["any"], "sequence": 1}, "malformed", "sequence"),
    "no owner": ({"owner": None, "keys": ["any"]}, "malformed", "owner"),
}


@ONE_BROKER
@pytest.mark.parametrize("case", READ_BODIES)
def test_a_bad_question_in_a_body_is_refused_with_its_code_and_field(lastword: RunningLastword, case: str) -> None:
    body, code, field = READ_BODIES[case]

    check_problem(lastword.post("/v1/values/read", {"owner": "user:a"} | body), 422, code, field)


@ONE_BROKER
def test_a_demand_in_the_query_of_a_read_with_a_body_is_refused_not_ignored(lastword: RunningLastword) -> None:
    answer = lastword.post("/v1/values/read", {"owner": "user:a", "keys": ["any"]}, at_least="p1.0.0.0")

    check_problem(answer, 422, "malformed", "at_least")


@ONE_BROKER
def test_a_wrong_method_is_told_the_right_one(lastword: RunningLastword) -> None:
    assert lastword.http.get("/v1/events").headers["allow"] == "POST"


@ONE_BROKER
def test_unknown_parameters_of_a_write_are_refused_and_nothing_is_written(lastword: RunningLastword) -> None:
    owner = new_owner()

    check_problem(lastword.post("/v1/events", statement(owner=owner), sequence="3"), 422, "malformed", "sequence")
    check_problem(lastword.post("/v1/events", statement(owner=owner), wait="forever"), 422, "malformed", "wait")

    assert nothing_is_in_the_log(lastword, owner)


def test_a_batch_with_a_mix_is_a_207_and_each_item_has_its_own_answer_in_order(lastword: RunningLastword) -> None:
    owner = new_owner()
    used = lastword.publisher.set(owner, "global", "any", "first", event_id="used")
    items: list[Any] = [
        statement(owner=owner, value="good"),
        statement(owner=owner, operation="upsert"),
        "no event",
        statement(owner=owner, key="nobody.declared.this"),
        statement(owner=owner, event_id="used", value="other content"),
        statement(owner=owner, event_id="used", value="first"),
        statement(owner=owner, value="also good"),
    ]

    accepted = lastword.post("/v1/events", {"events": items[:4]})
    judged = applied(lastword, {"events": items})

    assert accepted.status_code == judged.status_code == 207
    assert [item["outcome"] for item in accepted.json()["results"]] == ["accepted", *["refused"] * 3]
    results = judged.json()["results"]
    assert [item["outcome"] for item in results] == ["applied", *["refused"] * 4, "applied", "applied"]
    codes = [item["problem"]["code"] for item in results if "problem" in item]
    assert codes == ["unknown-operation", "malformed", "undeclared-key"]
    assert results[4]["verdict"]["reason"] == "event-id-reused"
    assert results[5]["verdict"]["sequence"] == used.sequence
    assert lastword.value(owner, "any")["state"]["value"] == "also good"
    assert lastword.value(owner, "any")["state"]["supersedes"] == [results[0]["receipt"]["sequence"]]


@ONE_BROKER
def test_a_batch_whose_items_fare_alike_has_their_status(lastword: RunningLastword) -> None:
    good, bad = statement(), statement(operation="upsert")

    assert lastword.post("/v1/events", {"events": [good, good]}).status_code == 202
    assert applied(lastword, {"events": [good]}).status_code == 200
    assert lastword.post("/v1/events", {"events": [bad, bad]}).status_code == 422


VALUES: dict[str, Any] = {
    "beyond a double's integers": 2**53 + 1,
    "far beyond": -(10**300) - 1,
    "microseconds": "2026-03-01T12:00:00.123456Z",
    "fraction": 0.1,
    "smallest fraction": 5e-324,
    "empty list": [],
    "empty object": {},
    "nested empties": {"a": [], "b": {}, "c": [[], {}], "": None},
    "null": None,
    "false": False,
    "zero": 0,
    "empty text": "",
    "NUL in a text": "a\0b",
    "emoji": "👩‍🚀",
    "order of members": {"z": 1, "a": 2},
    "as large as allowed": "x" * (limits.MAX_VALUE_BYTES - 2),
}


@pytest.mark.parametrize("case", VALUES)
def test_a_value_comes_back_exactly(lastword: RunningLastword, case: str) -> None:
    owner, value = new_owner(), VALUES[case]

    written = applied(lastword, statement(owner=owner, value=value))

    assert written.status_code == 200, written.text
    text = json.dumps(value)
    state = lastword.value(owner, "any")["state"]
    assert state["status"] == "set"
    assert json.dumps(state["value"]) == text
    versions = lastword.get("/v1/history", owner=owner, key="any").json()["versions"]
    assert json.dumps(versions[0]["value"]) == text
    assert json.dumps(lastword.value(owner, "any", as_of=2**40)["state"]["value"]) == text


@ONE_BROKER
def test_a_null_value_is_a_value_and_differs_from_a_deleted_and_an_absent_one(lastword: RunningLastword) -> None:
    owner = new_owner()
    applied(lastword, statement(owner=owner, value=None))
    null = lastword.value(owner, "any")["state"]
    applied(lastword, statement("value", owner=owner, operation="delete"))
    deleted = lastword.value(owner, "any")["state"]
    absent = lastword.value(owner, "theme")["state"]

    assert (null["status"], null["value"]) == ("set", None)
    assert deleted["status"] == "deleted"
    assert "value" not in deleted
    assert absent["status"] == "absent"
    assert "value" not in absent


@pytest.mark.usefixtures("strange_keys")
@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_text_in_every_part_is_kept_exactly(lastword: RunningLastword, name: str) -> None:
    text = STRANGE[name]
    owner, scope = f"main/user:{uuid.uuid4()}{text}", f"project:{text}"
    event_id, actor = f"{uuid.uuid4()}{text}", {"service": text}
    mine = statement(owner=owner, scope=scope, key=text, value=text, event_id=event_id, actor=actor)
    words = {"text": text, "thread": text, "message": text}
    turn = statement("key", "value", owner=owner, scope=scope, operation="say", **words)
    assert applied(lastword, {"events": [mine, turn]}).status_code == 200

    record = lastword.value(owner, text, scope)
    assert [record["identity"][part] for part in ("owner", "scope", "key")] == [owner, scope, text]
    assert record["state"]["value"] == text
    assert record["source"]["actor"]["service"] == text
    body = {"owner": owner, "scope": scope, "keys": [text]}
    assert lastword.post("/v1/values/read", body).json()["values"][0]["state"]["value"] == text
    (entry,) = lastword.get("/v1/profile", owner=owner).json()["entries"]
    assert (entry["identity"]["scope"], entry["identity"]["key"]) == (scope, text)
    said, told = lastword.get("/v1/history", owner=owner).json()["events"]
    assert (said["scope"], said["key"], said["value"]) == (scope, text, text)
    assert (told["text"], told["source"]["thread"], told["source"]["message"]) == (text, text, text)
    assert lastword.get("/v1/outcomes", owner=owner, id=event_id).json()["effect"] == "added"
    deleted = lastword.http.delete(
        "/v1/value",
        params={"owner": owner, "scope": scope, "key": text, "service": text, "wait": "applied", "wait_ms": 20_000},
    )
    assert deleted.status_code == 200
    assert lastword.value(owner, text, scope)["state"]["status"] == "deleted"


@pytest.mark.usefixtures("strange_keys")
def test_parts_that_join_to_the_same_text_never_meet(lastword: RunningLastword) -> None:
    unique = uuid.uuid4().hex
    places = [
        (f"user:{unique}", "project:a/b", "c"),
        (f"user:{unique}", "project:a", "b/c"),
        (f"user:{unique}/project:a", "project:b", "c"),
        (f"user:{unique}", "project:a%2Fb", "c"),
        (f"{unique}/user:x", "project:a/b", "c"),
    ]
    events = [statement(owner=owner, scope=scope, key=key, value=n) for n, (owner, scope, key) in enumerate(places)]
    answer = applied(lastword, {"events": events})
    assert answer.status_code == 200

    records = [lastword.value(owner, key, scope) for owner, scope, key in places]

    assert [record["state"]["value"] for record in records] == list(range(len(places)))
    assert len({record["identity"]["record_id"] for record in records}) == len(places)


@pytest.mark.usefixtures("strange_keys")
def test_two_unicode_normal_forms_are_two_identities_in_every_part(lastword: RunningLastword) -> None:
    forms = [STRANGE["composed"], STRANGE["decomposed"]]
    unique = uuid.uuid4()
    places = [(f"user:{unique}{o}", f"project:{s}", k) for o in forms for s in forms for k in forms]
    events = [statement(owner=owner, scope=scope, key=key, value=n) for n, (owner, scope, key) in enumerate(places)]
    answer = applied(lastword, {"events": events})
    assert answer.status_code == 200

    assert [lastword.value(owner, key, scope)["state"]["value"] for owner, scope, key in places] == list(range(8))


def test_an_event_id_reused_with_other_content_is_refused_and_the_first_stays(lastword: RunningLastword) -> None:
    owner = new_owner()
    first = applied(lastword, statement(owner=owner, event_id="mine"))

    again = applied(lastword, statement(owner=owner, event_id="mine"))
    other = applied(lastword, statement(owner=owner, event_id="mine", value=2))
    elsewhere = applied(lastword, statement(event_id="mine", value=2))

    assert again.status_code == 200
    assert again.json()["verdict"] == first.json()["verdict"]
    check_problem(other, 422, "refused", None)
    assert other.json()["verdict"]["reason"] == "event-id-reused"
    assert other.json()["receipt"]["event_id"] == first.json()["receipt"]["event_id"]
    assert elsewhere.json()["verdict"]["effect"] == "added"
    assert lastword.value(owner, "any")["state"]["value"] == 1
    assert verdict_of(lastword, owner, "mine") == first.json()["verdict"]
    statuses = [event["status"] for event in lastword.get("/v1/history", owner=owner).json()["events"]]
    assert statuses == ["current", "duplicate", "refused"]


def verdict_of(lastword: RunningLastword, owner: str, event_id: str) -> dict[str, Any]:
    """The verdict as looked up, without what it does not have, nor how far the projection was."""
    answer = lastword.get("/v1/outcomes", owner=owner, id=event_id).json()
    assert answer.pop("position_token").startswith(f"p1.{lastword.log.log_id}.")
    return {name: value for name, value in answer.items() if value is not None}


def in_partition_of(lastword: RunningLastword, owner: str, *, same: bool) -> str:
    """Another new owner, in the same partition or in another one."""
    partitions = lastword.log.partitions
    while (partition_for(other := new_owner(), partitions) == partition_for(owner, partitions)) is not same:
        pass
    return other


def verdict_on(lastword: RunningLastword, body: dict[str, Any]) -> str:
    """The reason with which the log's reader refuses a candidate that the door lets in."""
    answer = applied(lastword, body, "candidates")
    check_problem(answer, 422, "refused", None)
    verdict = answer.json()["verdict"]
    assert verdict["outcome"] == "refused"
    assert verdict["detail"] in answer.json()["detail"]
    assert verdict_of(lastword, body["owner"], verdict["event_id"]) == verdict
    reason: str = verdict["reason"]
    return reason


def test_each_candidate_with_a_bad_citation_is_refused_with_its_own_reason(lastword: RunningLastword) -> None:
    owner = new_owner()
    turn = lastword.publisher.say(owner, "t1", "🎉 brief, please")
    refused = lastword.publisher.set(owner, "global", "nobody declared this", 1)
    read = lastword.candidates.set(owner, "global", "guess", 1, source_event_id=turn)
    stated = lastword.publisher.set(owner, "global", "any", 1, authority=Authority.INFERRED)
    neighbour, stranger = (in_partition_of(lastword, owner, same=same) for same in (True, False))
    theirs = [lastword.publisher.say(other, "t1", "brief") for other in (neighbour, stranger)]
    future = Receipt(turn.log_id, turn.generation, turn.partition, turn.offset + 1_000_000, str(uuid.uuid4()))
    other_log = Receipt("0" * 16, turn.generation, turn.partition, turn.offset, turn.event_id)
    wrong_id = Receipt(turn.log_id, turn.generation, turn.partition, turn.offset, str(uuid.uuid4()))
    mine = str(uuid.uuid4())
    quote = {"authority": "stated", "quote": "brief"}

    reasons = {
        "the future": verdict_on(lastword, candidate(owner, str(future))),
        "itself": verdict_on(lastword, candidate(owner, mine, event_id=mine)),
        "nothing": verdict_on(lastword, candidate(owner, "never said")),
        "a neighbour's event by id": verdict_on(lastword, candidate(owner, theirs[0].event_id)),
        "a neighbour's event by receipt": verdict_on(lastword, candidate(owner, str(theirs[0]))),
        "a stranger's event by receipt": verdict_on(lastword, candidate(owner, str(theirs[1]))),
        "a receipt of another log": verdict_on(lastword, candidate(owner, str(other_log))),
        "a receipt with another id": verdict_on(lastword, candidate(owner, str(wrong_id))),
        "a candidate": verdict_on(lastword, candidate(owner, read.event_id)),
        "a refused event": verdict_on(lastword, candidate(owner, refused.event_id)),
        "a quote beside its span": verdict_on(lastword, candidate(owner, str(turn), span=[3, 8], **quote)),
        "a quote counted in bytes": verdict_on(lastword, candidate(owner, str(turn), span=[5, 10], **quote)),
        "a quote beyond the text": verdict_on(lastword, candidate(owner, str(turn), span=[95, 100], **quote)),
        "no quote": verdict_on(lastword, candidate(owner, str(turn), authority="stated")),
        "a weaker statement": verdict_on(lastword, candidate(owner, str(stated), authority="stated")),
    }

    assert reasons == {
        "the future": "source-later",
        "itself": "source-later",
        "nothing": "source-missing",
        "a neighbour's event by id": "source-missing",
        "a neighbour's event by receipt": "source-of-other-owner",
        "a stranger's event by receipt": "source-of-other-owner",
        "a receipt of another log": "source-missing",
        "a receipt with another id": "source-of-other-owner",
        "a candidate": "source-is-candidate",
        "a refused event": "source-refused",
        "a quote beside its span": "quote-not-at-span",
        "a quote counted in bytes": "quote-not-at-span",
        "a quote beyond the text": "quote-not-at-span",
        "no quote": "quote-missing",
        "a weaker statement": "authority-above-source",
    }
    good = candidate(owner, str(turn), key="theme", span=[2, 7], **quote)
    assert applied(lastword, good, "candidates").status_code == 200
    assert lastword.value(owner, "theme")["source"]["source"]["quote"] == "brief"


def test_as_of_in_the_future_is_answered_as_of_now_and_provisional(lastword: RunningLastword) -> None:
    owner = new_owner()
    written = applied(lastword, statement(owner=owner)).json()["receipt"]

    for boundary in ({"as_of": 2**40 - 1}, {"as_of": "2999-01-01T00:00:00Z"}, {"known_at": 2**40 - 1}):
        record = lastword.value(owner, "any", **boundary)
        assert record["state"]["value"] == 1
        assert record["selection"]["provisional"] is True
        assert record["selection"]["known_at"] >= written["sequence"]
    assert lastword.value(owner, "any", as_of=written["sequence"])["selection"]["provisional"] is False


def test_a_demand_that_is_not_reached_in_time_is_an_error_with_both_positions(lastword: RunningLastword) -> None:
    owner = new_owner()
    receipt = lastword.publisher.set(owner, "global", "any", 1)
    lastword.projected([receipt])
    later = Receipt(receipt.log_id, 0, receipt.partition, receipt.offset + 1_000_000, receipt.event_id)

    asked = {"/v1/value": {"key": "any"}, "/v1/profile": {}, "/v1/history": {}, "/v1/outcomes": {"id": "any"}}
    demand = {"owner": owner, "at_least": str(later), "wait_ms": "30"}
    answers = [lastword.get(path, **demand, **more) for path, more in asked.items()]
    body = {"owner": owner, "keys": ["any"], "at_least": str(later), "wait_ms": 30}
    answers.append(lastword.post("/v1/values/read", body))

    for answer in answers:
        check_problem(answer, 503, "not-projected-yet", None)
        assert answer.json()["demanded"] == later.sequence
        assert receipt.sequence <= answer.json()["projected"] < later.sequence
        assert answer.json()["retryable"] is True
        assert answer.headers["retry-after"] == "1"


def test_a_position_token_of_another_owner_or_another_log_is_refused(lastword: RunningLastword) -> None:
    owner = new_owner()
    neighbour, stranger = (in_partition_of(lastword, owner, same=same) for same in (True, False))
    token = lastword.value(owner, "any")["selection"]["position_token"]
    receipt = lastword.publisher.set(owner, "global", "any", 1)
    other_log = f"p1.{'0' * 16}.{token.split('.')[2]}.1"
    other_receipt = str(Receipt("0" * 16, 0, receipt.partition, receipt.offset, receipt.event_id))

    assert lastword.get("/v1/value", owner=owner, key="any", at_least=token).status_code == 200
    for other in (neighbour, stranger):
        answer = lastword.get("/v1/value", owner=other, key="any", at_least=token)
        check_problem(answer, 422, "malformed", "at_least")
    answer = lastword.get("/v1/value", owner=stranger, key="any", at_least=str(receipt))
    check_problem(answer, 422, "malformed", "at_least")
    for foreign in (other_log, other_receipt):
        answer = lastword.get("/v1/value", owner=owner, key="any", at_least=foreign)
        check_problem(answer, 409, "wrong-log", "at_least")


def test_what_is_no_event_becomes_a_dead_letter_with_its_bytes_and_position_and_the_worker_goes_on(
    lastword: RunningLastword,
) -> None:
    owner = new_owner()
    partition = partition_for(owner, lastword.log.partitions)
    stray = in_partition_of(lastword, owner, same=False)
    envelope = {"v": 1, "event_id": str(uuid.uuid4()), "owner": stray, "scope": "global", "operation": "set"}
    envelope |= {"key": "any", "actor": {"service": "s"}, "body": {"value": 1}, "kid": ""}
    foreign: list[tuple[bytes | None, bytes | None]] = [
        (b"\xff\xfe", b"\x00\x01 garbage"),
        (None, b""),
        (b"k", None),
        (b"k", b'{"their": "record"}'),
        (b"k", b"\x00\x00\x00\x00\x07avro"),
        (record_key(stray, "global", "any").encode(), json.dumps(envelope).encode()),
        (b"large", b"\x01" * 1_000_000),
        (b"large before compression", b"\x02" * 3_000_000),
    ]
    sent: list[Message] = []
    producer = Producer(
        {
            "bootstrap.servers": lastword.worker_settings.kafka,
            "message.max.bytes": 10_000_000,
            "compression.type": "gzip",
        }
    )
    for key, value in foreign:
        producer.produce(lastword.log.topic, value, key, partition, on_delivery=lambda _, message: sent.append(message))
        assert producer.flush(20) == 0

    after = lastword.publisher.set(owner, "global", "any", "after")

    lastword.projected([after])
    assert lastword.value(owner, "any")["state"]["value"] == "after"
    offsets = [message.offset() or 0 for message in sent if message.error() is None]
    assert len(offsets) == len(foreign)
    letters = {at(letter): letter for letter in dead_letters(lastword)}
    for offset, (key, value) in zip(offsets, foreign, strict=True):
        letter = letters[partition, offset]
        assert (letter.key(), letter.value() or b"") == (key, value or b"")
        assert headers_of(letter)["lastword-log"] == lastword.log.log_id
        assert headers_of(letter)["lastword-problem"]


def headers_of(letter: Message) -> dict[str, str]:
    headers: Any = letter.headers()
    return {name: value.decode() for name, value in headers}


def at(letter: Message) -> tuple[int, int]:
    """The partition and offset at which the record stood."""
    headers = headers_of(letter)
    return int(headers["lastword-partition"]), int(headers["lastword-offset"])


def dead_letters(lastword: RunningLastword) -> list[Message]:
    """All dead letters so far."""
    consumer = Consumer(
        {
            "bootstrap.servers": lastword.worker_settings.kafka,
            "group.id": "unused",
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 20_000_000,
        }
    )
    try:
        place = TopicPartition(lastword.worker_settings.dead_letter_topic, 0, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=20)
        consumer.assign([place])
        letters: list[Message] = []
        while len(letters) < end:
            message = consumer.poll(20)
            assert message is not None
            assert message.error() is None
            letters.append(message)
        return letters
    finally:
        consumer.close()


def test_an_event_that_went_past_the_door_is_refused_under_its_owner_not_lost(lastword: RunningLastword) -> None:
    owner = new_owner()
    envelope = {"v": 1, "event_id": str(uuid.uuid4()), "owner": owner, "scope": "global", "operation": "set"}
    envelope |= {"key": "any", "actor": {"service": "s"}, "body": {"value": 1}, "kid": ""}
    written = [
        (b"another key", envelope | {"event_id": str(uuid.uuid4())}),
        (None, envelope | {"event_id": str(uuid.uuid4()), "sequence": 3}),
        (None, envelope | {"event_id": str(uuid.uuid4()), "key": "nobody.declared.this"}),
        (None, envelope | {"event_id": str(uuid.uuid4()), "key": "answer_detail", "body": {"value": "long"}}),
        (None, envelope | {"event_id": str(uuid.uuid4()), "authority": "confirmed"}),
        (None, envelope | {"event_id": str(uuid.uuid4()), "key": "theme", "authority": "inferred"}),
    ]
    producer = Producer({"bootstrap.servers": lastword.worker_settings.kafka})
    for key, body in written:
        own_key = record_key(owner, "global", str(body["key"])).encode()
        producer.produce(lastword.log.topic, json.dumps(body), key or own_key, partition_for(owner, 4))
    assert producer.flush(20) == 0
    after = lastword.publisher.set(owner, "global", "any", "after")

    lastword.projected([after])
    events = lastword.get("/v1/history", owner=owner).json()["events"]
    assert [event["reason"] for event in events] == [
        "key-mismatch",
        "malformed",
        "undeclared-key",
        "value-schema",
        "actor-not-allowed",
        "authority-too-low",
        None,
    ]
    assert lastword.value(owner, "any")["state"]["supersedes"] == []
