"""Many events in few requests: what becomes of each, and what is sent again, in which order."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from lastword import Backpressure, Client, InvalidInput, NotSent, Refused, UnknownOutcome, Unreachable
from lastword_schemas.limits import MAX_BODY_BYTES
from tests.support.network import NO_ANSWER, REFUSED_CONNECTION, URL, Network, Step, problem, receipt


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


def client_of(*steps: Step, **options: Any) -> tuple[Client, Network]:
    network = Network(*steps)
    return Client(URL, transport=httpx.MockTransport(network), **options), network


def results(outcome: Callable[[int, dict[str, Any]], dict[str, Any] | httpx.Response]) -> Step:
    """Answers a batch item by item; an item may be a problem's response."""

    def answer(request: httpx.Request) -> httpx.Response:
        (events,) = json.loads(request.content).values()
        items = []
        for number, event in enumerate(events):
            item = outcome(number, event)
            if isinstance(item, httpx.Response):
                document = item.json()
                kind = "unknown" if document["code"] == "unknown-outcome" else "refused"
                item = {"outcome": "failed" if item.status_code in (502, 503) else kind, "problem": document}
            items.append(item)
        return httpx.Response(207, json={"results": items})

    return answer


def taken(_: int, event: dict[str, Any]) -> dict[str, Any]:
    return {"outcome": "accepted", "receipt": receipt(event["event_id"])}


FULL = problem("backpressure", retryable=True)


def values_of(network: Network) -> list[list[Any]]:
    return [[event["value"] for event in draft["events"]] for draft in network.drafts]


def test_events_go_a_thousand_a_request_in_their_order() -> None:
    client, network = client_of(results(taken))
    drafts = client.user("ada").draft

    done = client.publish_many(drafts.set("mail.tone", number) for number in range(2_500))

    assert [len(values) for values in values_of(network)] == [1_000, 1_000, 500]
    assert [value for values in values_of(network) for value in values] == list(range(2_500))
    assert all(result.ok and result.outcome == "accepted" for result in done)
    assert [result.receipt.event_id for result in done if result.receipt] == [result.event_id for result in done]


def test_requests_stay_below_the_limit_in_bytes() -> None:
    client, network = client_of(results(taken))
    drafts = client.user("ada").draft

    client.publish_many(drafts.set("mail.tone", "x" * 60_000) for _ in range(200))

    assert len(network.requests) == 3
    assert all(len(request.content) < MAX_BODY_BYTES for request in network.requests)


def test_candidates_go_to_their_own_route_without_overtaking() -> None:
    client, network = client_of(results(taken))
    drafts = client.user("ada").draft
    turn = receipt("0" * 36)["receipt"]

    client.publish_many(
        [
            drafts.set("mail.tone", 1),
            drafts.suggest("mail.tone", 2, source=turn),
            drafts.suggest_delete("mail.tone", source=turn),
            drafts.set("mail.tone", 3),
        ]
    )

    routes = [request.url.path for request in network.requests]
    assert routes == ["/v1/events", "/v1/candidates", "/v1/events"]
    assert [len(next(iter(draft.values()))) for draft in network.drafts] == [1, 2, 1]


def test_each_event_has_the_outcome_of_its_own() -> None:
    def outcome(number: int, event: dict[str, Any]) -> dict[str, Any] | httpx.Response:
        return problem("undeclared-key", field="key") if number == 1 else taken(number, event)

    client, network = client_of(results(outcome))
    drafts = client.user("ada").draft

    done = client.publish_many(drafts.set("mail.tone", number) for number in range(3))

    assert [result.outcome for result in done] == ["accepted", "refused", "accepted"]
    assert isinstance(done[1].error, Refused)
    assert done[1].error.reason == "undeclared-key"
    assert done[1].error.event_id == done[1].event_id
    assert len(network.requests) == 1


def test_what_had_no_room_is_sent_again_as_the_same_events_before_what_follows() -> None:
    def two_fit(number: int, event: dict[str, Any]) -> dict[str, Any] | httpx.Response:
        return FULL if number >= 2 else taken(number, event)

    client, network = client_of(results(two_fit), results(two_fit), results(taken))
    drafts = client.user("ada").draft

    done = client.publish_many(drafts.set("mail.tone", number) for number in range(6))

    assert values_of(network) == [[0, 1, 2, 3, 4, 5], [2, 3, 4, 5], [4, 5]]
    ids = {event["value"]: event["event_id"] for event in network.drafts[0]["events"]}
    assert [event["event_id"] for event in network.drafts[2]["events"]] == [ids[4], ids[5]]
    assert all(result.ok for result in done)


def test_an_unknown_event_is_sent_again_alone() -> None:
    def unknown(number: int, event: dict[str, Any]) -> dict[str, Any] | httpx.Response:
        return problem("unknown-outcome", retryable=True) if number == 1 else taken(number, event)

    client, network = client_of(results(unknown), results(taken))

    done = client.publish_many(client.user("ada").draft.set("mail.tone", number) for number in range(3))

    assert values_of(network) == [[0, 1, 2], [1]]
    assert all(result.ok for result in done)


def test_if_something_does_not_get_through_what_follows_is_not_sent() -> None:
    client, network = client_of(results(taken), results(lambda *_: FULL), retries=2)

    done = client.publish_many(client.user("ada").draft.set("mail.tone", number) for number in range(2_001))

    assert len(network.requests) == 1 + 3
    assert [type(result.error) for result in (done[999], done[1_000], done[2_000])] == [
        type(None),
        Backpressure,
        NotSent,
    ]
    assert [done[place].outcome for place in (999, 1_000, 2_000)] == ["accepted", "failed", "failed"]


@pytest.mark.parametrize(
    ("failure", "outcome", "kind"),
    [(REFUSED_CONNECTION, "failed", Unreachable), (NO_ANSWER, "unknown", UnknownOutcome)],
)
def test_a_lost_connection_is_the_outcome_of_every_event_and_none_is_raised(
    failure: Exception, outcome: str, kind: type[Exception]
) -> None:
    client, _ = client_of(failure, retries=1)

    done = client.publish_many(client.user("ada").draft.set("mail.tone", number) for number in range(3))

    assert [(result.outcome, type(result.error)) for result in done] == [(outcome, kind)] * 3
    if kind is UnknownOutcome:
        assert [getattr(result.error, "event_id", None) for result in done] == [result.event_id for result in done]


def test_the_written_positions_are_remembered() -> None:
    client, _ = client_of(results(taken))
    ada = client.user("ada")

    (done,) = client.publish_many(
        [{"operation": "set", "owner": "user:ada", "scope": "global", "key": "x", "value": 1}]
    )

    assert ada.position == str(done.receipt)


def test_an_event_that_is_not_json_is_refused_before_anything_is_sent() -> None:
    client, network = client_of(results(taken))
    drafts = client.user("ada").draft

    with pytest.raises(InvalidInput) as error:
        client.publish_many([drafts.set("mail.tone", 1), drafts.set("mail.tone", float("nan"))])

    assert error.value.field == "events.1.value"
    assert network.requests == []


def test_nothing_to_write_is_nothing_to_send() -> None:
    client, network = client_of(results(taken))

    assert client.publish_many([]) == []
    assert network.requests == []
