"""When the client tries again and what it raises in the end, against a network that is scripted."""

import json
import logging
import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from lastword import (
    AccessDenied,
    Backpressure,
    BeforeHorizon,
    CallFailed,
    Client,
    InvalidInput,
    LastwordError,
    Misconfigured,
    NotProjectedYet,
    PublishFailed,
    Refused,
    ServerError,
    Unavailable,
    UnexpectedAnswer,
    UnknownEvent,
    UnknownOutcome,
    Unreachable,
    WrongLog,
)
from lastword.client.attempts import Attempts, Deadline
from lastword.client.calls import Call
from tests.support.network import (
    BROKEN_OFF,
    LOG,
    NO_ANSWER,
    REFUSED_CONNECTION,
    URL,
    Network,
    Step,
    accepted,
    problem,
    record,
)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, without making them."""
    made: list[float] = []
    monkeypatch.setattr(time, "sleep", made.append)
    return made


Connect = Callable[..., tuple[Client, Network]]


@pytest.fixture
def connect(pauses: list[float]) -> Iterator[Connect]:
    clients: list[Client] = []

    def make(*steps: Step, **options: Any) -> tuple[Client, Network]:
        network = Network(*steps)
        clients.append(Client(URL, transport=httpx.MockTransport(network), **options))
        return clients[-1], network

    yield make
    for client in clients:
        client.close()


@pytest.mark.parametrize("failure", [REFUSED_CONNECTION, BROKEN_OFF, problem("store-unavailable", retryable=True)])
def test_a_read_is_made_again_until_it_is_answered(connect: Connect, failure: Step, pauses: list[float]) -> None:
    client, network = connect(failure, failure, record())

    assert client.user("ada").get("mail.tone").value == "brief"
    assert len(network.requests) == 3
    assert len(pauses) == 2


@pytest.mark.parametrize(
    "failure", [NO_ANSWER, BROKEN_OFF, REFUSED_CONNECTION, httpx.Response(502, text="bad gateway")]
)
def test_all_attempts_of_a_write_are_one_event(connect: Connect, failure: Step) -> None:
    client, network = connect(failure, failure, accepted)

    written = client.user("ada").set("mail.tone", "brief")

    assert {draft["event_id"] for draft in network.drafts} == {written.event_id}
    assert len({request.content for request in network.requests}) == 1
    assert len(network.requests) == 3


def test_two_writes_of_the_same_value_are_two_events(connect: Connect) -> None:
    client, network = connect(accepted)
    ada = client.user("ada")

    ada.set("mail.tone", "brief")
    ada.set("mail.tone", "brief")

    assert len({draft["event_id"] for draft in network.drafts}) == 2


@pytest.mark.parametrize("failure", [NO_ANSWER, BROKEN_OFF, httpx.Response(502), httpx.Response(504), problem("error")])
def test_a_write_that_may_be_in_the_log_has_an_unknown_outcome(connect: Connect, failure: Step) -> None:
    client, network = connect(failure, REFUSED_CONNECTION)

    with pytest.raises(UnknownOutcome) as unknown:
        client.user("ada").set("mail.tone", "brief")

    assert unknown.value.event_id == network.drafts[0]["event_id"]
    assert str(unknown.value.event_id) in str(unknown.value)


def test_a_write_that_the_log_did_not_acknowledge_is_tried_again_and_then_unknown(connect: Connect) -> None:
    client, network = connect(problem("unknown-outcome", retryable=True), retries=2)

    with pytest.raises(UnknownOutcome) as unknown:
        client.user("ada").set("mail.tone", "brief", event_id="mine")

    assert unknown.value.event_id == "mine"
    assert [draft["event_id"] for draft in network.drafts] == ["mine"] * 3


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (REFUSED_CONNECTION, Unreachable),
        (httpx.ConnectTimeout("timed out"), Unreachable),
        (problem("backpressure", retryable=True), Backpressure),
        (problem("broker-unavailable", retryable=True), Unavailable),
        (httpx.Response(503, text="draining"), Unavailable),
        (httpx.Response(429), Unavailable),
    ],
)
def test_a_write_that_certainly_is_not_in_the_log_says_so(
    connect: Connect, failure: Step, kind: type[CallFailed]
) -> None:
    client, network = connect(failure, retries=2)

    with pytest.raises(kind):
        client.user("ada").set("mail.tone", "brief")

    assert len(network.requests) == 3


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("malformed", InvalidInput),
        ("wrong-log", WrongLog),
        ("before-horizon", BeforeHorizon),
        ("unknown-event", UnknownEvent),
        ("not-found", UnexpectedAnswer),
        ("log-mismatch", Misconfigured),
        ("other-projection", Misconfigured),
        ("error", ServerError),
    ],
)
def test_a_read_that_cannot_succeed_is_not_made_again(connect: Connect, code: str, kind: type[LastwordError]) -> None:
    client, network = connect(problem(code, field="key", retryable=code == "unknown-event", history_from=3))

    with pytest.raises(kind, match=f"about {code}") as raised:
        client.user("ada").get("mail.tone")

    assert len(network.requests) == 1
    assert raised.value.field == "key"
    if isinstance(raised.value, BeforeHorizon):
        assert raised.value.history_from == 3


@pytest.mark.parametrize("code", ["undeclared-key", "value-schema", "too-large", "malformed", "a-reason-of-tomorrow"])
def test_what_the_door_refuses_is_refused_with_its_code_and_not_sent_again(connect: Connect, code: str) -> None:
    client, network = connect(problem(code, field="value"))

    with pytest.raises(Refused) as refused:
        client.user("ada").set("mail.tone", "brief")

    error = refused.value
    assert (error.reason, error.field, error.receipt) == (code, "value", None)
    assert error.event_id == network.drafts[0]["event_id"]
    assert len(network.requests) == 1


def test_a_refusal_is_an_answer_even_if_an_earlier_attempt_had_none(connect: Connect) -> None:
    client, _ = connect(NO_ANSWER, problem("undeclared-key"))

    with pytest.raises(Refused):
        client.user("ada").set("mail.tone", "brief")


def test_what_lastword_calls_not_retryable_is_not_tried_again(connect: Connect) -> None:
    client, network = connect(problem("of-tomorrow", status=503, retryable=False))

    with pytest.raises(Unavailable):
        client.user("ada").get("mail.tone")

    assert len(network.requests) == 1


def test_an_event_that_kafka_refuses_is_not_in_the_log(connect: Connect) -> None:
    client, network = connect(problem("publish-failed"))

    with pytest.raises(PublishFailed):
        client.user("ada").set("mail.tone", "brief")

    assert len(network.requests) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_is_not_taken_is_access_denied(connect: Connect, status: int) -> None:
    client, network = connect(httpx.Response(status, text="no"), token="hunter2")

    with pytest.raises(AccessDenied) as denied:
        client.user("ada").set("mail.tone", "brief")

    assert "hunter2" not in str(denied.value)
    assert network.requests[0].headers["authorization"] == "Bearer hunter2"


@pytest.mark.parametrize(
    "answer", [httpx.Response(200, text="<html>"), httpx.Response(404, text="nginx"), httpx.Response(301)]
)
def test_what_is_no_lastword_is_an_unexpected_answer(connect: Connect, answer: httpx.Response) -> None:
    client, _ = connect(answer)

    with pytest.raises(UnexpectedAnswer, match=URL):
        client.user("ada").get("mail.tone")


def test_an_error_has_the_id_of_its_request_if_something_answered(connect: Connect) -> None:
    answer = problem("error")
    answer.headers["x-request-id"] = "7f3a"
    for step, request_id in ((answer, "7f3a"), (problem("error"), None), (REFUSED_CONNECTION, None)):
        client, _ = connect(step)
        with pytest.raises(CallFailed) as failed:
            client.user("ada").get("mail.tone")
        assert failed.value.request_id == request_id


def test_pauses_obey_retry_after_and_are_of_random_length(connect: Connect, pauses: list[float]) -> None:
    for _ in range(8):
        client, _network = connect(problem("backpressure", retryable=True), accepted)
        client.user("ada").set("mail.tone", "brief")

    assert all(1 <= pause < 1.5 for pause in pauses)
    assert len(set(pauses)) > 1


def test_pauses_grow_up_to_a_bound() -> None:
    attempts = Attempts(Call("GET", "/"), Deadline(1000), url=URL, retries=8, chance=lambda: 1.0)

    assert [attempts.lost(REFUSED_CONNECTION) for _ in range(7)] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]


def test_nobody_pauses_beyond_the_deadline(connect: Connect, pauses: list[float]) -> None:
    client, network = connect(problem("backpressure", retryable=True))

    with pytest.raises(Backpressure):
        client.user("ada").within(0.9).set("mail.tone", "brief")

    assert len(network.requests) == 1
    assert not pauses


def test_a_call_has_no_more_time_than_the_timeout(connect: Connect) -> None:
    client, network = connect(record(), timeout=700)
    ada = client.user("ada")

    ada.get("mail.tone")
    ada.within(20).get("mail.tone")
    ada.within(1).get("mail.tone")

    limits = [request.extensions["timeout"] for request in network.requests]
    assert all(most - 10 < limit["read"] <= most for most, limit in zip((700, 20, 1), limits, strict=True))
    assert all(limit["connect"] <= most for most, limit in zip((3, 3, 1), limits, strict=True))
    waits = [int(request.url.params["wait_ms"]) for request in network.requests[1:]]
    assert 9_000 < waits[0] <= 19_000  # what it has seen is waited for, with time left to be told
    assert waits[1] <= 750


def test_a_position_that_is_not_reached_in_time_tells_how_far_it_is(connect: Connect) -> None:
    client, network = connect(problem("not-projected-yet", retryable=True, projected=4, demanded=9))

    with pytest.raises(NotProjectedYet) as behind:
        client.user("ada").get("mail.tone", at_least=f"r1.{LOG}.0.1.9.{'0' * 36}")

    assert (behind.value.projected, behind.value.demanded) == (4, 9)
    assert len(network.requests) == 1  # the API has waited as long as it may


def test_members_that_this_client_does_not_know_are_ignored(connect: Connect) -> None:
    answer = json.loads(record("brief").content)
    answer["of_tomorrow"] = answer["state"]["of_tomorrow"] = answer["selection"]["of_tomorrow"] = {"a": 1}
    client, _ = connect(httpx.Response(200, json=answer))

    assert client.user("ada").get("mail.tone").value == "brief"


def test_no_error_and_no_repr_shows_a_password_or_a_token() -> None:
    client = Client(
        "http://ada:hunter2@lastword.test",
        token="hunter3",
        retries=0,
        transport=httpx.MockTransport(Network(REFUSED_CONNECTION)),
    )

    with pytest.raises(Unreachable) as unreachable:
        client.user("ada").get("mail.tone")

    shown = f"{client!r} {client.user('ada')!r} {unreachable.value!r} {client.url}"
    assert "hunter" not in shown
    assert "lastword.test" in shown
    client.close()


def test_no_log_line_names_a_person_or_a_value(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client, _ = connect(REFUSED_CONNECTION, record("hunter2"))

    client.user("ada").get("mail.tone")

    assert "http://lastword.test/v1/value" in caplog.text
    assert "GET /v1/value: attempt 1 came to 'unreachable'" in caplog.text
    assert not [word for word in ("ada", "mail.tone", "hunter2") if word in caplog.text]


def test_errors_can_be_sent_to_another_process(connect: Connect) -> None:
    client, _ = connect(problem("undeclared-key", field="key"), NO_ANSWER)

    for kind in (Refused, UnknownOutcome):
        with pytest.raises(kind) as raised:
            client.user("ada").set("mail.tone", "brief")
        copy = pickle.loads(pickle.dumps(raised.value))  # noqa: S301
        assert type(copy) is kind
        assert str(copy) == str(raised.value)
        assert {**vars(copy), "problem": None} == {**vars(raised.value), "problem": None}
        assert vars(copy)["problem"] == vars(raised.value)["problem"]


@pytest.mark.parametrize("url", ["localhost:7411", "lastword", "ftp://x", "http://"])
def test_what_is_no_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidInput) as error:
        Client(url)

    assert error.value.field == "url"


def test_the_environment_names_url_and_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LASTWORD_URL", "https://memory.example/base/")
    monkeypatch.setenv("LASTWORD_SERVICE", "mail")

    with Client() as client:
        assert (client.url, client.service) == ("https://memory.example/base", "mail")
    with Client("http://other.example", service="chat") as client:
        assert (client.url, client.service) == ("http://other.example", "chat")
