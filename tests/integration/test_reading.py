"""Reading over HTTP: boundaries, scopes, histories, waits and tokens, on both brokers."""

import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import jsonschema_rs
import pytest

from lastword_schemas.answers import (
    BatchAnswer,
    HistoryAnswer,
    InspectionRecord,
    ItemAnswer,
    OutcomeAnswer,
    ProfileAnswer,
    ValuesAnswer,
)
from lastword_schemas.authority import Authority
from lastword_schemas.model import Model, parse_instant
from lastword_schemas.positions import Receipt
from lastword_schemas.problems import Problem
from tests.support.running import RunningLastword
from tests.support.services import Broker

ONE_BROKER = pytest.mark.parametrize("broker", [pytest.param("kafka", marks=pytest.mark.real)], indirect=True)


@pytest.fixture
def owner() -> str:
    """A new owner."""
    return f"main/user:{uuid.uuid4()}"


def statement(owner: str, **changes: Any) -> dict[str, Any]:
    fields = {"operation": "set", "scope": "global", "key": "any", "value": 1, "actor": {"service": "tests"}}
    return {"owner": owner} | fields | changes


def events_of(lastword: RunningLastword, owner: str, **parameters: Any) -> list[dict[str, Any]]:
    answer = lastword.get("/v1/history", owner=owner, **parameters)
    assert answer.status_code == 200, answer.text
    events: list[dict[str, Any]] = answer.json()["events"]
    return events


def versions_of(lastword: RunningLastword, owner: str, key: str, **parameters: Any) -> list[dict[str, Any]]:
    answer = lastword.get("/v1/history", owner=owner, key=key, **parameters)
    assert answer.status_code == 200, answer.text
    versions: list[dict[str, Any]] = answer.json()["versions"]
    return versions


def recorded_at(lastword: RunningLastword, owner: str) -> list[str]:
    return [event["recorded_at"] for event in events_of(lastword, owner)]


def soon(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def sleep_past(moment: datetime) -> None:
    time.sleep(max(0.0, (moment - datetime.now(UTC)).total_seconds()) + 0.05)


def changed_mind(lastword: RunningLastword, owner: str, key: str, values: Sequence[Any]) -> list[Receipt]:
    """Set each value in turn, a few milliseconds apart; None deletes. Returns when all are projected."""
    receipts = []
    for value in values:
        publisher = lastword.publisher
        receipts.append(
            publisher.delete(owner, "global", key) if value is None else publisher.set(owner, "global", key, value)
        )
        time.sleep(0.005)
    lastword.projected(receipts)
    return receipts


def test_as_of_a_sequence_is_inclusive_and_echoed(lastword: RunningLastword, owner: str) -> None:
    first, second, deleted = changed_mind(lastword, owner, "any", ["a", "b", None])

    before = lastword.value(owner, "any", as_of=first.sequence - 1)
    states = [lastword.value(owner, "any", as_of=at.sequence) for at in (first, second, deleted)]

    assert before["state"]["status"] == "absent"
    assert [one["state"].get("value") for one in states] == ["a", "b", None]
    assert [one["state"]["status"] for one in states] == ["set", "set", "deleted"]
    assert [one["selection"]["rule"] for one in states] == ["exact", "exact", "tombstone"]
    assert [one["selection"]["as_of"] for one in states] == [first.sequence, second.sequence, deleted.sequence]
    assert [one["state"]["supersedes"] for one in states] == [[], [first.sequence], [second.sequence]]
    assert {one["selection"]["representation"] for one in states} == {"history"}
    assert {one["selection"]["provisional"] for one in states} == {False}


def test_as_of_an_instant_is_inclusive_and_echoed_as_its_sequence(lastword: RunningLastword, owner: str) -> None:
    receipts = changed_mind(lastword, owner, "any", ["a", "b", "c"])
    times = recorded_at(lastword, owner)
    just_before = (parse_instant(times[1]) - timedelta(microseconds=1)).isoformat()
    other_zone = parse_instant(times[1]).astimezone().isoformat()

    at = {instant: lastword.value(owner, "any", as_of=instant) for instant in (*times, just_before, other_zone)}
    early = lastword.value(owner, "any", as_of="2001-01-01T00:00:00Z")

    assert [at[instant]["state"]["value"] for instant in times] == ["a", "b", "c"]
    assert [at[instant]["selection"]["as_of"] for instant in times] == [receipt.sequence for receipt in receipts]
    assert at[just_before]["state"]["value"] == "a"
    assert at[other_zone]["state"]["value"] == "b"
    assert (early["state"]["status"], early["selection"]["as_of"]) == ("absent", 0)


def test_known_at_leaves_out_what_the_log_did_not_hold_and_as_of_what_had_not_been_said(
    lastword: RunningLastword, owner: str
) -> None:
    turn = lastword.publisher.say(owner, "t1", "brief, please")
    stated = lastword.publisher.set(owner, "global", "any", "detailed")
    late = lastword.candidates.set(owner, "global", "any", "brief", source_event_id=turn)
    lastword.projected([late])

    then = lastword.value(owner, "any", as_of=turn.sequence, known_at=stated.sequence)
    with_hindsight = lastword.value(owner, "any", as_of=turn.sequence)
    known = lastword.value(owner, "any", known_at=turn.sequence)

    assert then["state"]["status"] == "absent"
    assert then["selection"]["known_at"] == stated.sequence
    assert with_hindsight["state"]["value"] == "brief"
    assert with_hindsight["source"]["source_sequence"] == turn.sequence
    assert with_hindsight["source"]["position"]["sequence"] == late.sequence
    assert known["state"]["status"] == "absent"
    assert lastword.value(owner, "any")["state"]["value"] == "detailed"


def test_an_answer_at_a_boundary_stays_the_same_for_ever(lastword: RunningLastword, owner: str) -> None:
    receipts = changed_mind(lastword, owner, "any", ["a", "b"])
    first = lastword.value(owner, "any", known_at=receipts[-1].sequence)
    changed_mind(lastword, owner, "any", ["c", None])

    again = lastword.value(owner, "any", known_at=receipts[-1].sequence)

    del first["selection"]["position_token"], again["selection"]["position_token"]
    assert again == first


def test_the_exact_scope_answers_then_global_and_never_one_with_the_same_beginning(
    lastword: RunningLastword, owner: str
) -> None:
    receipts = [
        lastword.publisher.set(owner, "global", "any", "everywhere"),
        lastword.publisher.set(owner, "project:Comet", "any", "in Comet"),
        lastword.publisher.set(owner, "project:Orion", "theme", "in Orion"),
    ]
    lastword.projected(receipts)

    def rule(scope: str, key: str, **more: Any) -> tuple[str, str | None, Any]:
        record = lastword.value(owner, key, scope, **more)
        assert record["identity"]["scope"] == scope
        return record["selection"]["rule"], record["identity"]["answered_scope"], record["state"].get("value")

    assert rule("project:Comet", "any") == ("exact", "project:Comet", "in Comet")
    assert rule("project:Come", "any") == ("fallback", "global", "everywhere")
    assert rule("project:Comets", "any") == ("fallback", "global", "everywhere")
    assert rule("project:comet", "any") == ("fallback", "global", "everywhere")
    assert rule("global", "any") == ("exact", "global", "everywhere")
    assert rule("global", "theme") == ("absent", None, None)
    assert rule("project:Come", "any", fallback="false") == ("absent", None, None)


def test_a_project_tombstone_answers_deleted_and_falls_through_only_where_declared(
    lastword: RunningLastword, owner: str
) -> None:
    for key in ("any", "falls"):
        lastword.publisher.set(owner, "global", key, "everywhere")
        lastword.publisher.set(owner, "project:Comet", key, "in Comet")
        lastword.projected([lastword.publisher.delete(owner, "project:Comet", key)])

    stays, falls = (lastword.value(owner, key, "project:Comet") for key in ("any", "falls"))
    alone = lastword.value(owner, "falls", "project:Comet", fallback="false")

    assert (stays["state"]["status"], stays["selection"]["rule"]) == ("deleted", "tombstone")
    assert stays["identity"]["answered_scope"] == "project:Comet"
    assert "value" not in stays["state"]
    assert (falls["state"]["value"], falls["selection"]["rule"]) == ("everywhere", "fell-through")
    assert falls["identity"]["answered_scope"] == "global"
    assert (alone["state"]["status"], alone["selection"]["rule"]) == ("deleted", "tombstone")


def test_a_value_expires_by_itself_now_and_at_a_boundary(lastword: RunningLastword, owner: str) -> None:
    expires = soon(0.6)
    kept = lastword.publisher.set(owner, "global", "falls", "everywhere")
    mine = [
        lastword.publisher.set(owner, "project:Comet", key, "for now", expires_at=expires) for key in ("any", "falls")
    ]
    lastword.projected(mine)
    fresh = lastword.value(owner, "any", "project:Comet")
    sleep_past(expires)
    later = lastword.publisher.set(owner, "global", "theme", "dark")
    lastword.projected([later])

    expired, falls = (lastword.value(owner, key, "project:Comet") for key in ("any", "falls"))
    versions = versions_of(lastword, owner, "any", scope="project:Comet")
    then, now = (lastword.value(owner, "any", "project:Comet", as_of=at.sequence) for at in (mine[1], later))
    instant = lastword.value(owner, "any", "project:Comet", as_of=(expires - timedelta(milliseconds=1)).isoformat())

    assert fresh["state"]["status"] == "set"
    assert parse_instant(fresh["state"]["expires_at"]) == expires
    assert (expired["state"]["status"], expired["selection"]["rule"]) == ("expired", "expired")
    assert "value" not in expired["state"]
    assert (falls["state"]["value"], falls["selection"]["rule"]) == ("everywhere", "fell-through")
    assert falls["source"]["position"]["sequence"] == kept.sequence
    assert [version["status"] for version in versions] == ["expired"]
    assert versions[0]["ended"]["by"] == "expiry"
    assert parse_instant(versions[0]["ended"]["at"]) == expires
    assert [event["status"] for event in events_of(lastword, owner)] == ["current", "expired", "expired", "current"]
    assert (then["state"]["status"], now["state"]["status"]) == ("set", "expired")
    assert instant["state"]["status"] == "set"
    entries = lastword.get("/v1/profile", owner=owner).json()["entries"]
    assert [entry["identity"]["key"] for entry in entries] == ["falls", "theme"]


def test_many_keys_are_answered_in_the_order_asked_along_one_chain_at_one_moment(
    lastword: RunningLastword, owner: str
) -> None:
    receipts = [
        lastword.publisher.set(owner, "global", "theme", "dark"),
        lastword.publisher.set(owner, "team:Red", "theme", "light"),
        lastword.publisher.set(owner, "global", "any", 1),
        lastword.publisher.set(owner, "project:Comet", "answer_detail", "brief"),
    ]
    lastword.projected(receipts)
    keys = ["theme", "guess", "answer_detail", "any", "theme"]

    chain = ["project:Comet", "team:Red", "global"]
    answer = lastword.post("/v1/values/read", {"owner": owner, "scopes": chain, "keys": keys}).json()
    default = lastword.post("/v1/values/read", {"owner": owner, "scope": "project:Comet", "keys": keys}).json()
    past = {"owner": owner, "keys": ["theme", "any"], "as_of": receipts[1].sequence}
    then = lastword.post("/v1/values/read", past).json()

    assert [record["identity"]["key"] for record in answer["values"]] == keys
    assert [record["state"].get("value") for record in answer["values"]] == ["light", None, "brief", 1, "light"]
    assert [record["selection"]["rule"] for record in answer["values"]] == [
        "fallback",
        "absent",
        "exact",
        "fallback",
        "fallback",
    ]
    assert answer["scopes"] == chain
    assert default["scopes"] == ["project:Comet", "global"]
    assert default["values"][0]["state"]["value"] == "dark"
    assert len({record["selection"]["position_token"] for record in answer["values"]} | {answer["position_token"]}) == 1
    assert [record["state"]["status"] for record in then["values"]] == ["set", "absent"]
    assert then["as_of"] == receipts[1].sequence


def pages(lastword: RunningLastword, path: str, items: str, **parameters: Any) -> Iterator[list[dict[str, Any]]]:
    """Page after page."""
    page: str | None = None
    while True:
        answer = lastword.get(path, page=page, **parameters)
        assert answer.status_code == 200, answer.text
        yield answer.json()[items]
        if (page := answer.json()["next_page"]) is None:
            return


def test_pages_of_a_profile_are_of_one_moment_whatever_is_written_meanwhile(
    lastword: RunningLastword, owner: str
) -> None:
    expires = soon(0.5)
    scopes = [f"project:{number}" for number in range(7)]
    for number, scope in enumerate(scopes):
        lastword.publisher.set(owner, scope, "any", number, expires_at=expires if number == 5 else None)
    lastword.projected([lastword.publisher.delete(owner, scopes[2], "any")])
    sleep_past(expires)
    seen: list[tuple[str, Any]] = []

    for page in pages(lastword, "/v1/profile", "entries", owner=owner, limit=2):
        assert len(page) <= 2
        seen += [(entry["identity"]["scope"], entry["state"]["value"]) for entry in page]
        written = [lastword.publisher.set(owner, scope, "any", "new") for scope in (*scopes, "project:00")]
        lastword.projected(written)

    assert seen == [(scopes[number], number) for number in (0, 1, 3, 4, 6)]
    everything = list(pages(lastword, "/v1/profile", "entries", owner=owner, limit=3, everything="true"))
    assert [len(page) for page in everything] == [3, 3, 2]


def test_a_profile_shows_tombstones_and_expired_values_where_asked_and_one_scope_where_asked(
    lastword: RunningLastword, owner: str
) -> None:
    lastword.publisher.set(owner, "global", "theme", "dark")
    lastword.publisher.set(owner, "project:Comet", "theme", "light")
    lastword.publisher.set(owner, "global", "guess", 1, expires_at=soon(-1))
    lastword.projected([lastword.publisher.delete(owner, "global", "any")])

    def shown(**parameters: Any) -> list[tuple[str, str, str]]:
        entries = lastword.get("/v1/profile", owner=owner, **parameters).json()["entries"]
        return [(one["identity"]["scope"], one["identity"]["key"], one["state"]["status"]) for one in entries]

    assert shown() == [("global", "theme", "set"), ("project:Comet", "theme", "set")]
    assert shown(scope="project:Comet") == [("project:Comet", "theme", "set")]
    assert shown(everything="true", scope="global") == [
        ("global", "any", "deleted"),
        ("global", "guess", "expired"),
        ("global", "theme", "set"),
    ]


def test_pages_of_a_history_are_of_one_moment_whatever_is_written_meanwhile(
    lastword: RunningLastword, owner: str
) -> None:
    changed_mind(lastword, owner, "any", range(5))
    versions, events = [], []

    for page in pages(lastword, "/v1/history", "versions", owner=owner, key="any", limit=2):
        versions += [(version["value"], version["status"]) for version in page]
        changed_mind(lastword, owner, "any", ["new"])
    before = len(events_of(lastword, owner))
    for page in pages(lastword, "/v1/history", "events", owner=owner, limit=3):
        events += [event["position"]["sequence"] for event in page]
        changed_mind(lastword, owner, "any", ["newer"])

    assert versions == [(0, "superseded"), (1, "superseded"), (2, "superseded"), (3, "superseded"), (4, "current")]
    assert len(events) == before
    assert events == sorted(set(events))


def test_a_page_of_another_question_is_refused(lastword: RunningLastword, owner: str) -> None:
    changed_mind(lastword, owner, "any", range(3))
    changed_mind(lastword, owner, "theme", range(3))
    profile = lastword.get("/v1/profile", owner=owner, limit=1).json()["next_page"]
    versions = lastword.get("/v1/history", owner=owner, key="any", limit=1).json()["next_page"]
    events = lastword.get("/v1/history", owner=owner, limit=1).json()["next_page"]
    questions: list[tuple[str, dict[str, Any]]] = [
        ("/v1/profile", {"owner": owner, "page": versions}),
        ("/v1/profile", {"owner": f"{owner}x", "page": profile}),
        ("/v1/profile", {"owner": owner, "scope": "global", "page": profile}),
        ("/v1/profile", {"owner": owner, "everything": "true", "page": profile}),
        ("/v1/profile", {"owner": owner, "as_of": "3", "page": profile}),
        ("/v1/profile", {"owner": owner, "page": profile[:-3]}),
        ("/v1/history", {"owner": owner, "key": "theme", "page": versions}),
        ("/v1/history", {"owner": owner, "key": "any", "scope": "project:Comet", "page": versions}),
        ("/v1/history", {"owner": owner, "key": "any", "page": events}),
        ("/v1/history", {"owner": owner, "key": "any", "view": "events", "page": events}),
        ("/v1/history", {"owner": owner, "page": profile}),
    ]

    for path, parameters in questions:
        answer = lastword.get(path, **parameters)
        assert (answer.status_code, answer.json()["field"]) == (422, "page"), parameters

    assert lastword.get("/v1/profile", owner=owner, page=profile, limit=500).status_code == 200


def test_versions_say_how_long_each_value_applied_and_what_ended_it(lastword: RunningLastword, owner: str) -> None:
    turn = lastword.publisher.say(owner, "t1", "I usually prefer morning flights.", message="m1")
    receipts = [
        lastword.candidates.set(
            owner,
            "global",
            "any",
            "morning",
            source_event_id=turn,
            span=[17, 24],
            quote="morning",
            authority=Authority.STATED,
        ),
        lastword.publisher.set(owner, "global", "any", "evening"),
        lastword.publisher.set(owner, "global", "any", "evening"),
        lastword.publisher.delete(owner, "global", "any"),
        lastword.publisher.set(owner, "global", "any", "noon"),
    ]
    lastword.projected(receipts)
    reading, evening, again, deleted, noon = receipts
    times = recorded_at(lastword, owner)

    versions = versions_of(lastword, owner, "any")

    assert [version.get("value") for version in versions] == ["morning", "evening", None, "noon"]
    assert [version["status"] for version in versions] == ["superseded", "deleted", "superseded", "current"]
    assert [version["start"] for version in versions] == [at.sequence for at in (turn, evening, deleted, noon)]
    assert [version["latest"] for version in versions] == [at.sequence for at in (turn, again, deleted, noon)]
    assert [version["event_ids"] for version in versions] == [
        [reading.event_id],
        [evening.event_id, again.event_id],
        [deleted.event_id],
        [noon.event_id],
    ]
    assert [version["started_at"] for version in versions] == [times[0], times[2], times[4], times[5]]
    assert [version["ended"] for version in versions] == [
        {"by": "set", "sequence": evening.sequence, "event_id": evening.event_id, "at": times[2], "decided_by": None},
        {
            "by": "delete",
            "sequence": deleted.sequence,
            "event_id": deleted.event_id,
            "at": times[4],
            "decided_by": None,
        },
        {"by": "set", "sequence": noon.sequence, "event_id": noon.event_id, "at": times[5], "decided_by": None},
        None,
    ]
    assert versions[0]["source"] == {
        "event_id": turn.event_id,
        "thread": "t1",
        "message": "m1",
        "span": [17, 24],
        "quote": "morning",
    }
    assert versions_of(lastword, owner, "any", as_of=evening.sequence)[-1]["ended"] is None


def test_a_restatement_goes_on_with_its_version(lastword: RunningLastword, owner: str) -> None:
    first, _, last = changed_mind(lastword, owner, "any", [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 2}])

    record = lastword.value(owner, "any")

    assert record["state"]["version_start"] == first.sequence
    assert record["state"]["mark"]["source_sequence"] == last.sequence
    assert record["state"]["supersedes"] == []
    assert record["state"]["version_started_at"] == recorded_at(lastword, owner)[0]
    assert record["source"]["updated_at"] == recorded_at(lastword, owner)[2]


def test_each_event_of_a_history_says_what_became_of_it(lastword: RunningLastword, owner: str) -> None:
    publisher, candidates = lastword.publisher, lastword.candidates
    turn = publisher.say(owner, "t1", "brief, please")
    publisher.set(owner, "global", "any", "a", event_id="mine")
    publisher.set(owner, "global", "any", "a", event_id="mine")
    publisher.set(owner, "global", "any", "b", event_id="mine")
    stated = publisher.set(owner, "global", "any", "c")
    late = candidates.set(owner, "global", "any", "d", source_event_id=turn)
    publisher.set(owner, "global", "theme", "dark")
    last = publisher.delete(owner, "global", "theme")
    lastword.projected([last])

    events = events_of(lastword, owner)
    of_key = events_of(lastword, owner, key="any", view="events")

    assert [(event["status"], event["effect"]) for event in events] == [
        ("recorded", "recorded"),
        ("superseded", "added"),
        ("duplicate", None),
        ("refused", None),
        ("current", "updated"),
        ("superseded", "late"),
        ("deleted", "added"),
        ("current", "deleted"),
    ]
    assert events[0]["text"] == "brief, please"
    assert events[2]["sequences"] == [events[1]["position"]["sequence"]]
    assert "value" not in events[2]
    assert events[3]["reason"] == "event-id-reused"
    assert events[5]["sequences"] == [stated.sequence, turn.sequence]
    assert events[5]["position"]["sequence"] == late.sequence
    assert [event["position"] for event in of_key] == [event["position"] for event in events[1:6]]


def test_verdicts_are_looked_up_by_owner_and_id(lastword: RunningLastword, owner: str) -> None:
    turn = lastword.publisher.say(owner, "t1", "brief, please")
    stated = lastword.publisher.set(owner, "global", "any", "detailed", event_id="the publisher's own name")
    late = lastword.candidates.set(owner, "global", "any", "brief", source_event_id=turn)
    refused = lastword.publisher.set(owner, "global", "nobody declared this", 1)
    lastword.projected([refused])

    def verdict(event_id: str) -> dict[str, Any]:
        answer = lastword.get("/v1/outcomes", owner=owner, id=event_id)
        assert answer.status_code == 200
        return OutcomeAnswer.model_validate_json(answer.content).model_dump(mode="json")

    assert (verdict(turn.event_id)["outcome"], verdict(turn.event_id)["effect"]) == ("counts", "recorded")
    assert verdict("the publisher's own name")["sequence"] == stated.sequence
    assert (verdict(late.event_id)["effect"], verdict(late.event_id)["sequences"]) == (
        "late",
        [stated.sequence, turn.sequence],
    )
    assert (verdict(refused.event_id)["outcome"], verdict(refused.event_id)["reason"]) == ("refused", "undeclared-key")
    assert lastword.get("/v1/outcomes", owner=f"{owner}x", id=turn.event_id).status_code == 404
    just_now = lastword.publisher.set(owner, "global", "any", 1)
    parameters = {"owner": owner, "id": just_now.event_id, "at_least": str(just_now), "wait_ms": "20000"}
    assert lastword.get("/v1/outcomes", **parameters).json()["effect"] == "updated"


def test_a_write_that_waits_answers_200_if_it_counts_422_if_not_and_202_if_that_is_not_known_in_time(
    lastword: RunningLastword, owner: str
) -> None:
    wait = {"wait": "applied", "wait_ms": "20000"}
    counts = lastword.post("/v1/events", statement(owner), **wait)
    reused = statement(owner, event_id=counts.json()["receipt"]["event_id"], value=2)
    refused = lastword.post("/v1/events", reused, **wait)
    no_time = lastword.post("/v1/events", statement(owner), wait="applied", wait_ms="0")
    not_asked = lastword.post("/v1/events", statement(owner))

    assert (counts.status_code, counts.json()["outcome"]) == (200, "applied")
    assert counts.json()["verdict"]["sequence"] == counts.json()["receipt"]["sequence"]
    assert refused.status_code == 422
    assert refused.json()["verdict"]["reason"] == "event-id-reused"
    assert refused.json()["receipt"]["sequence"] == refused.json()["verdict"]["sequence"]
    assert no_time.status_code in (200, 202)
    assert not_asked.status_code == 202
    assert not_asked.json().keys() == {"outcome", "receipt"}
    assert not_asked.json()["outcome"] == "accepted"


@ONE_BROKER
def test_a_write_that_waits_in_vain_is_a_202_with_its_receipt(broker: Broker, redis_url: str, owner: str) -> None:
    with RunningLastword(broker.bootstrap_servers, redis_url, partitions=1) as own:
        own.stop_worker()
        answer = own.post("/v1/events", statement(owner), wait="applied", wait_ms="50")
        receipt = answer.json()["receipt"]["receipt"]
        too_soon = own.get("/v1/value", owner=owner, key="any", at_least=receipt, wait_ms=0)
        own.start_worker()
        read = own.value(owner, "any", at_least=receipt, wait_ms=20_000)

    assert (answer.status_code, answer.json()["outcome"]) == (202, "accepted")
    assert (too_soon.status_code, too_soon.json()["code"]) == (503, "not-projected-yet")
    assert read["state"]["value"] == 1


def test_delete_value_publishes_a_tombstone(lastword: RunningLastword, owner: str) -> None:
    lastword.projected([lastword.publisher.set(owner, "global", "any", 1)])
    asked = {"owner": owner, "scope": "global", "key": "any", "service": "settings page", "role": "person"}
    more = {"authority": "confirmed", "event_id": "mine", "wait": "applied", "wait_ms": "20000"}

    answer = lastword.http.delete("/v1/value", params=asked | more)
    again = lastword.http.delete("/v1/value", params=asked | more)
    refused = lastword.http.delete("/v1/value", params={"owner": owner, "scope": "global", "key": "any"})

    assert (answer.status_code, answer.json()["verdict"]["effect"]) == (200, "deleted")
    assert again.json()["verdict"] == answer.json()["verdict"]
    record = lastword.value(owner, "any")
    assert (record["state"]["status"], record["state"]["authority"]) == ("deleted", "confirmed")
    assert record["source"]["actor"] == {"service": "settings page", "role": "person"}
    assert (refused.status_code, refused.json()["field"]) == (422, "service")


def test_reads_that_hand_on_their_token_never_go_back_in_time(lastword: RunningLastword, owner: str) -> None:
    token: str | None = None
    sequences: list[int] = []
    for number in range(15):
        receipt = lastword.publisher.set(owner, "global", "any", number)
        for path, more in (("/v1/value", {"key": "any"}), ("/v1/profile", {}), ("/v1/history", {})):
            answer = lastword.get(path, owner=owner, at_least=token, wait_ms=20_000, **more)
            assert answer.status_code == 200, answer.text
            found = answer.json().get("selection", answer.json())
            token = found["position_token"]
            sequences.append(found["known_at"])
            assert found["representation"] == ("history" if path == "/v1/history" else "profile")
    lastword.projected([receipt])

    assert sequences == sorted(sequences)
    assert token is not None
    assert int(token.rpartition(".")[2]) == sequences[-1]


def test_a_read_that_demands_the_receipt_sees_the_write(lastword: RunningLastword, owner: str) -> None:
    for number in range(30):
        receipt = lastword.post("/v1/events", statement(owner, value=number)).json()["receipt"]["receipt"]
        assert lastword.value(owner, "any", at_least=receipt, wait_ms=20_000)["state"]["value"] == number


def test_updated_at_of_a_candidate_is_the_time_of_its_source(
    lastword: RunningLastword, broker: Broker, owner: str
) -> None:
    turn = lastword.publisher.say(owner, "t1", "brief, please", message="m1")
    time.sleep(0.05)
    reading = lastword.candidates.set(
        owner, "global", "any", "brief", source_event_id=turn, span=[0, 5], quote="brief", confidence=0.75
    )
    lastword.projected([reading])
    said_at, read_at = recorded_at(lastword, owner)

    record = lastword.value(owner, "any")

    assert parse_instant(read_at) - parse_instant(said_at) >= timedelta(milliseconds=50)
    assert record["source"]["updated_at"] == record["state"]["version_started_at"] == said_at
    assert parse_instant(record["source"]["projected_at"]) >= parse_instant(said_at)
    assert record["source"]["source_sequence"] == turn.sequence
    assert record["source"]["position"]["sequence"] == reading.sequence
    assert record["source"]["confidence"] == 0.75
    assert record["source"]["source"]["thread"] == "t1"
    assert record["state"]["mark"] == {"source_sequence": turn.sequence, "authority": "inferred", "ordinal": 0}
    assert record["selection"]["clock"] == {"kafka": "broker", "embedded": "publisher"}[broker.name]


def test_two_values_with_one_mark_are_unresolved_and_shown_so(lastword: RunningLastword, owner: str) -> None:
    turn = lastword.publisher.say(owner, "t1", "brief or detailed")
    one, other = (
        lastword.candidates.set(owner, "global", "any", value, source_event_id=turn) for value in ("brief", "detailed")
    )
    lastword.projected([one, other])
    smaller = min((one, "brief"), (other, "detailed"), key=lambda pair: pair[0].event_id)

    tied = lastword.value(owner, "any")
    as_of = lastword.value(owner, "any", as_of=turn.sequence)
    verdict = lastword.get("/v1/outcomes", owner=owner, id=other.event_id).json()
    (version,) = versions_of(lastword, owner, "any")
    settled = lastword.publisher.set(owner, "global", "any", "neither")
    lastword.projected([settled])
    after = lastword.value(owner, "any")

    for record in (tied, as_of):
        assert record["state"]["resolution_state"] == "unresolved"
        assert record["state"]["resolution_reason"] == "equal_version_conflict"
        assert record["state"]["value"] == smaller[1]
        assert record["source"]["event_id"] == smaller[0].event_id
    assert verdict["effect"] == "conflict"
    assert (version["resolution_state"], version["value"]) == ("unresolved", smaller[1])
    assert [event["status"] for event in events_of(lastword, owner)[1:3]] == ["superseded", "superseded"]
    assert (after["state"]["resolution_state"], after["state"]["value"]) == ("resolved", "neither")


def test_the_record_id_stays_over_updates_and_deletes(lastword: RunningLastword, owner: str) -> None:
    ids = set()
    for value in ("a", "b", None, "c"):
        changed_mind(lastword, owner, "any", [value])
        ids.add(lastword.value(owner, "any")["identity"]["record_id"])
    changed_mind(lastword, owner, "theme", ["dark"])

    assert len(ids) == 1
    assert lastword.value(owner, "theme")["identity"]["record_id"] not in ids


ROUTES = {
    ("post", "/v1/events"),
    ("post", "/v1/candidates"),
    ("get", "/v1/outcomes"),
    ("get", "/v1/value"),
    ("delete", "/v1/value"),
    ("post", "/v1/values/read"),
    ("get", "/v1/profile"),
    ("get", "/v1/changes"),
    ("get", "/v1/history"),
    ("get", "/v1/search"),
    ("post", "/v1/search"),
    ("post", "/v1/contexts"),
    ("get", "/v1/contexts"),
    ("post", "/v1/contexts/check"),
    ("get", "/healthz"),
    ("get", "/readyz"),
}


@ONE_BROKER
def test_the_openapi_document_names_every_route_and_everything_it_refers_to(
    lastword: RunningLastword,
) -> None:
    document = lastword.get("/openapi.json").json()
    components = document["components"]["schemas"]

    operations = {
        (method, path): operation for path, item in document["paths"].items() for method, operation in item.items()
    }

    def references(part: Any) -> Iterator[str]:
        if isinstance(part, dict):
            yield from [part["$ref"]] if isinstance(part.get("$ref"), str) else []
            part = list(part.values())
        for inner in part if isinstance(part, list) else []:
            yield from references(inner)

    assert document["openapi"].startswith("3.1")
    assert operations.keys() == ROUTES
    assert len({operation["operationId"] for operation in operations.values()}) == len(ROUTES)
    for reference in references(document):
        root, kind, name = reference.split("/")[1:]
        assert name in document[root][kind], reference
    for name, schema in components.items():
        jsonschema_rs.validator_for({"components": {"schemas": components}} | schema)
        assert "$defs" not in schema, name
    assert not {"HTTPValidationError", "ValidationError"} & components.keys()
    assert "{" not in "".join(document["paths"])
    for operation in operations.values():
        assert "application/problem+json" in operation["responses"]["default"]["content"]
    assert lastword.get("/docs").status_code == 200


def test_every_answer_is_what_the_models_and_the_openapi_document_say(lastword: RunningLastword, owner: str) -> None:
    document = lastword.get("/openapi.json").json()
    turn = lastword.publisher.say(owner, "t1", "brief, please")
    lastword.candidates.set(owner, "global", "any", {"a": [None]}, source_event_id=turn, span=[0, 5], quote="brief")
    lastword.publisher.set(owner, "global", "any", 1, expires_at=soon(60))
    lastword.projected([lastword.publisher.delete(owner, "project:Comet", "any")])
    wait = {"wait": "applied", "wait_ms": "20000"}
    good, bad = statement(owner), statement(owner, operation="upsert")
    reused = [statement(owner, event_id="mine", value=number) for number in (1, 2)]
    citing = {"owner": owner, "scope": "global", "key": "any", "value": 1, "actor": {"service": "x"}}
    citing["source_event_id"] = str(turn)
    delete = {"owner": owner, "scope": "global", "key": "any", "service": "tests"}
    page = lastword.get("/v1/history", owner=owner, limit=1).json()["next_page"]
    asked: list[tuple[type[Model], str, httpx.Response]] = [
        (InspectionRecord, "/v1/value", lastword.get("/v1/value", owner=owner, key="any")),
        (InspectionRecord, "/v1/value", lastword.get("/v1/value", owner=owner, key="any", scope="project:Comet")),
        (InspectionRecord, "/v1/value", lastword.get("/v1/value", owner=owner, key="theme")),
        (InspectionRecord, "/v1/value", lastword.get("/v1/value", owner=owner, key="any", as_of=turn.sequence)),
        (ValuesAnswer, "/v1/values/read", lastword.post("/v1/values/read", {"owner": owner, "keys": ["any", "x"]})),
        (ProfileAnswer, "/v1/profile", lastword.get("/v1/profile", owner=owner, everything="true")),
        (HistoryAnswer, "/v1/history", lastword.get("/v1/history", owner=owner)),
        (HistoryAnswer, "/v1/history", lastword.get("/v1/history", owner=owner, page=page)),
        (HistoryAnswer, "/v1/history", lastword.get("/v1/history", owner=owner, key="any")),
        (OutcomeAnswer, "/v1/outcomes", lastword.get("/v1/outcomes", owner=owner, id=turn.event_id)),
        (ItemAnswer, "/v1/events", lastword.post("/v1/events", good)),
        (ItemAnswer, "/v1/events", lastword.post("/v1/events", good, **wait)),
        (BatchAnswer, "/v1/events", lastword.post("/v1/events", {"events": [good, bad]})),
        (BatchAnswer, "/v1/events", lastword.post("/v1/events", {"events": reused}, **wait)),
        (ItemAnswer, "/v1/candidates", lastword.post("/v1/candidates", citing, **wait)),
        (BatchAnswer, "/v1/candidates", lastword.post("/v1/candidates", {"candidates": [citing]})),
        (ItemAnswer, "/v1/value", lastword.http.delete("/v1/value", params=delete | wait)),
        (Problem, "/v1/events", lastword.post("/v1/events", bad)),
        (Problem, "/v1/events", lastword.post("/v1/events", reused[1], **wait)),
        (Problem, "/v1/value", lastword.get("/v1/value", owner="ada", key="any")),
        (Problem, "/v1/outcomes", lastword.get("/v1/outcomes", owner=owner, id="never")),
    ]

    for model, path, answer in asked:
        model.model_validate_json(answer.content, extra=None if model is Problem else "forbid")
        operation = document["paths"][path][answer.request.method.lower()]
        response = operation["responses"].get(str(answer.status_code), operation["responses"]["default"])
        schema = response["content"][answer.headers["content-type"]]["schema"]
        validator = jsonschema_rs.validator_for({"components": document["components"]} | schema)
        problems = [error.message for error in validator.iter_errors(answer.json())]
        assert not problems, (path, answer.status_code, problems)
    statuses = [answer.status_code for _, _, answer in asked]
    assert statuses == [200] * 10 + [202, 200, 207, 207, 200, 202, 200, 422, 422, 422, 404]


def test_a_batch_waits_for_its_verdicts_together(lastword: RunningLastword, owner: str) -> None:
    events = [statement(owner, value=number) for number in range(100)]
    begun = time.monotonic()

    answer = lastword.post("/v1/events", {"events": events}, wait="applied", wait_ms=30_000)

    assert answer.status_code == 200, answer.text
    assert time.monotonic() - begun < 10  # a look every 250 ms for each of them would be 25 s


def test_health_says_alive_and_ready(lastword: RunningLastword) -> None:
    assert lastword.get("/healthz").json()["status"] == "ok"
    ready = lastword.get("/readyz")
    assert ready.status_code == 200
    assert ready.json() == {"status": "ok", "problems": {}, "log_id": lastword.log.log_id}
