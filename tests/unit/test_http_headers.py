"""HTTP's own means: demands and positions in headers, idempotency keys, ETags, compression."""

import gzip
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from lastword.testing import InMemoryLastword
from lastword_schemas.ids import event_id_from

ADA = "user:ada"
TURN = {"operation": "say", "owner": ADA, "scope": "global", "thread": "t", "text": "hello"}


@pytest.fixture
def memory() -> Iterator[InMemoryLastword]:
    with InMemoryLastword() as memory:
        yield memory


@pytest.fixture
def http(memory: InMemoryLastword) -> Iterator[httpx.Client]:
    with httpx.Client(transport=memory.transport, base_url=memory.url) as http:
        yield http


def statement(value: Any = "brief", **changes: Any) -> dict[str, Any]:
    fields = {"operation": "set", "owner": ADA, "scope": "global", "key": "mail.tone", "value": value}
    return fields | {"actor": {"service": "tests"}} | changes


def publish(http: httpx.Client, body: dict[str, Any], **headers: str) -> httpx.Response:
    answer = http.post("/v1/events", json=body, headers=headers)
    assert answer.status_code == 202, answer.text
    return answer


def value_of(http: httpx.Client, *, headers: dict[str, str] | None = None, **parameters: Any) -> httpx.Response:
    return http.get("/v1/value", params={"owner": ADA, "key": "mail.tone"} | parameters, headers=headers)


READS: dict[str, dict[str, Any]] = {
    "a value": {"method": "GET", "url": "/v1/value", "params": {"owner": ADA, "key": "mail.tone"}},
    "several values": {"method": "POST", "url": "/v1/values/read", "json": {"owner": ADA, "keys": ["mail.tone"]}},
    "a profile": {"method": "GET", "url": "/v1/profile", "params": {"owner": ADA}},
    "a history": {"method": "GET", "url": "/v1/history", "params": {"owner": ADA}},
    "an outcome": {"method": "GET", "url": "/v1/outcomes", "params": {"owner": ADA, "id": "mine"}},
}


@pytest.mark.parametrize("read", READS)
def test_a_demand_in_the_header_is_met_and_the_answer_has_its_position(
    memory: InMemoryLastword, http: httpx.Client, read: str
) -> None:
    publish(http, statement(event_id="mine"))
    with memory.hold_projection():
        receipt = publish(http, statement("formal")).headers["Lastword-Position"]
        held = http.request(**READS[read], headers={"Lastword-At-Least": receipt})
    met = http.request(**READS[read], headers={"Lastword-At-Least": receipt})

    assert (held.status_code, held.json()["code"]) == (503, "not-projected-yet")
    assert met.status_code == 200, met.text
    token = met.json().get("position_token") or met.json()["selection"]["position_token"]
    assert met.headers["Lastword-Position"] == token
    again = http.request(**READS[read], headers={"Lastword-At-Least": token})
    assert again.status_code == 200


@pytest.mark.parametrize("read", READS)
def test_a_demand_may_stand_twice_only_if_it_is_the_same(http: httpx.Client, read: str) -> None:
    receipts = [publish(http, body).headers["Lastword-Position"] for body in (statement(event_id="mine"), statement())]
    asked = READS[read]
    place = "json" if "json" in asked else "params"
    both = asked | {place: asked[place] | {"at_least": receipts[0]}}

    same, other = (http.request(**both, headers={"Lastword-At-Least": receipt}) for receipt in receipts)

    assert same.status_code == 200, same.text
    assert (other.status_code, other.json()["field"]) == (422, "Lastword-At-Least")


def test_a_write_of_one_event_has_its_receipt_as_position(http: httpx.Client) -> None:
    accepted = publish(http, statement())
    deleted = http.delete("/v1/value", params={"owner": ADA, "scope": "global", "key": "mail.tone", "service": "tests"})
    reused = http.post("/v1/events?wait=applied", json=statement("other"), headers={"Idempotency-Key": "k"})
    refused = http.post("/v1/events?wait=applied", json=statement("another"), headers={"Idempotency-Key": "k"})

    assert (reused.status_code, refused.status_code) == (200, 422)
    for answer in (accepted, deleted, reused, refused):
        assert answer.headers["Lastword-Position"] == answer.json()["receipt"]["receipt"]


@pytest.mark.parametrize("key", ["order-7", '"order-7"', "2f3b0c1e-6d0d-4c65-9d3e-0d0c3a9c1c11"])
def test_an_idempotency_key_is_the_event_id(http: httpx.Client, key: str) -> None:
    answers = [publish(http, statement(), **{"Idempotency-Key": key}) for _ in range(2)]

    named = key.strip('"')
    assert {answer.json()["receipt"]["event_id"] for answer in answers} == {event_id_from(named)}
    publish(http, statement(event_id=named), **{"Idempotency-Key": key})
    events = http.get("/v1/history", params={"owner": ADA}).json()["events"]
    assert [event["outcome"] for event in events] == ["counts", "duplicate", "duplicate"]


def test_a_delete_takes_an_idempotency_key_too(http: httpx.Client) -> None:
    query = {"owner": ADA, "scope": "global", "key": "mail.tone", "service": "tests"}
    answer = http.delete("/v1/value", params=query, headers={"Idempotency-Key": "mine"})

    assert answer.json()["receipt"]["event_id"] == event_id_from("mine")


REFUSED_KEYS: dict[str, tuple[str, dict[str, Any]]] = {
    "another event id": ("/v1/events", {"json": statement(event_id="another")}),
    "an event id that is none": ("/v1/events", {"json": statement(event_id=7)}),
    "a batch": ("/v1/events", {"json": {"events": [statement()]}}),
    "candidates": ("/v1/candidates", {"json": {"candidates": [statement()]}}),
    "JSON lines": ("/v1/events", {"content": b"{}", "headers": {"Content-Type": "application/x-ndjson"}}),
}


@pytest.mark.parametrize("case", REFUSED_KEYS)
def test_an_idempotency_key_is_refused_beside(http: httpx.Client, case: str) -> None:
    path, sent = REFUSED_KEYS[case]
    headers = sent.get("headers", {}) | {"Idempotency-Key": "mine"}

    answer = http.post(path, **sent | {"headers": headers})

    assert (answer.status_code, answer.json()["field"]) == (422, "Idempotency-Key")
    assert http.get("/v1/history", params={"owner": ADA}).json()["events"] == []


@pytest.mark.parametrize("key", ["", '""', "x" * 257, "é"])
def test_an_idempotency_key_that_is_no_event_id_is_refused(http: httpx.Client, key: str) -> None:
    headers = {b"Idempotency-Key": key.encode("latin-1")}

    assert http.post("/v1/events", json=statement(), headers=headers).status_code == 422


@pytest.mark.parametrize("path", ["/v1/value", "/v1/profile"])
def test_an_answer_that_says_the_same_is_not_sent_again(http: httpx.Client, path: str) -> None:
    publish(http, statement())
    query = {"owner": ADA} | ({"key": "mail.tone"} if path == "/v1/value" else {})
    first = http.get(path, params=query)
    etag = first.headers["ETag"]
    moved = publish(http, TURN | {"actor": {"service": "tests"}}).headers["Lastword-Position"]

    for known in (etag, f'"other", {etag}', etag.removeprefix("W/"), "*"):
        again = http.get(path, params=query | {"at_least": moved}, headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b""), known
        assert again.headers["ETag"] == etag
        assert again.headers["Lastword-Position"] != first.headers["Lastword-Position"]
    assert etag.startswith('W/"')
    assert http.get(path, params=query, headers={"If-None-Match": 'W/"other"'}).json() != first.json()


def test_a_demand_that_is_not_met_is_no_304(memory: InMemoryLastword, http: httpx.Client) -> None:
    publish(http, statement())
    etag = value_of(http).headers["ETag"]
    with memory.hold_projection():
        receipt = publish(http, statement("formal")).headers["Lastword-Position"]
        assert value_of(http, at_least=receipt, headers={"If-None-Match": etag}).status_code == 503


def test_an_etag_changes_with_what_the_answer_says(memory: InMemoryLastword, http: httpx.Client) -> None:
    tags = [value_of(http, scope="project:Comet").headers["ETag"]]

    def changes() -> bool:
        tags.append(value_of(http, scope="project:Comet").headers["ETag"])
        return tags[-1] not in tags[:-1]

    publish(http, statement())
    assert changes(), "the global scope answers"
    publish(http, statement())
    assert changes(), "it was said again"
    soon = memory.clock.now() + timedelta(hours=1)
    publish(http, statement(scope="project:Comet", expires_at=soon.isoformat()))
    assert changes(), "the project has its own"
    memory.clock.advance(hours=2)
    assert changes(), "which expired"
    memory.declare("mail.tone", falls_through=True)
    assert changes(), "and now falls through"


def test_a_profile_s_etag_changes_when_another_page_follows(http: httpx.Client) -> None:
    publish(http, statement(key="mail.signature"))
    query: dict[str, Any] = {"owner": ADA, "limit": 1}
    first = http.get("/v1/profile", params=query)
    publish(http, statement(key="mail.tone"))
    second = http.get("/v1/profile", params=query, headers={"If-None-Match": first.headers["ETag"]})
    publish(http, statement(key="units", value="metric"))
    third = http.get("/v1/profile", params=query, headers={"If-None-Match": second.headers["ETag"]})

    assert (first.json()["next_page"], second.status_code, third.status_code) == (None, 200, 304)


def test_large_answers_are_compressed_for_those_who_take_it(http: httpx.Client) -> None:
    for number in range(5):
        publish(http, statement(scope=f"project:{number}"))
    plain = http.get("/v1/profile", params={"owner": ADA}, headers={"Accept-Encoding": "identity"})
    with http.stream("GET", "/v1/profile", params={"owner": ADA}, headers={"Accept-Encoding": "gzip"}) as answer:
        packed = b"".join(answer.iter_raw())

    assert "Content-Encoding" not in plain.headers
    assert answer.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in answer.headers["Vary"]
    assert gzip.decompress(packed) == plain.content
    assert len(packed) < len(plain.content) / 2
    assert plain.headers["ETag"] == answer.headers["ETag"]
    assert "Content-Encoding" not in value_of(http).headers


ANSWERS: dict[str, tuple[str, str, int]] = {
    "an answer": ("GET", "/v1/value?owner=user:ada&key=mail.tone", 200),
    "a problem": ("GET", "/v1/value?owner=user:ada", 422),
    "no such route": ("GET", "/nowhere", 404),
    "no such method": ("PUT", "/v1/value", 405),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_every_answer_has_the_request_id_that_it_was_given(http: httpx.Client, case: str) -> None:
    method, path, status = ANSWERS[case]
    given = f"svc-1.{uuid.uuid4()}"

    answer = http.request(method, path, headers={"X-Request-ID": given})

    assert (answer.status_code, answer.headers["X-Request-ID"]) == (status, given)


def test_a_wrong_method_is_told_all_that_the_path_takes(http: httpx.Client) -> None:
    answers = [http.put("/v1/value"), http.get("/v1/events"), http.post("/healthz")]

    assert [answer.status_code for answer in answers] == [405] * 3
    assert [answer.headers["Allow"] for answer in answers] == ["DELETE, GET", "POST", "GET"]


@pytest.mark.parametrize("given", [None, b"", b"a b", b"two\tparts", b"x" * 129, "é".encode()])
def test_a_request_without_a_sane_id_gets_one_of_its_own(http: httpx.Client, given: bytes | None) -> None:
    headers = {} if given is None else {b"X-Request-ID": given}

    made = {http.get("/healthz", headers=headers).headers["X-Request-ID"] for _ in range(2)}

    assert len(made) == 2
    assert all(len(text) == 16 and text.isalnum() for text in made)
