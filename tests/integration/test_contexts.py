"""Contexts over HTTP and on the command line: on both brokers, and in memory (`test_in_memory`)."""

import json
import uuid
from typing import Any

import httpx
import pytest

from lastword_schemas import limits
from lastword_schemas.authority import Authority
from lastword_schemas.contexts import ContextAnswer, ContextCheck, parse_context_id
from lastword_schemas.headers import AT_LEAST, POSITION
from tests.support.running import RunningLastword

TASK = "Find a flight to Berlin"


@pytest.fixture
def owner() -> str:
    """A new owner."""
    return f"main/user:{uuid.uuid4()}"


def made(lastword: RunningLastword, owner: str, task: str = TASK, **more: Any) -> dict[str, Any]:
    """A context, which must be a 200."""
    answer = lastword.post("/v1/contexts", {"owner": owner, "task": task} | more)
    assert answer.status_code == 200, answer.text
    ContextAnswer.model_validate_json(answer.text)
    document: dict[str, Any] = answer.json()
    return document


def checked(lastword: RunningLastword, **body: Any) -> dict[str, Any]:
    """What has become of it, which must be a 200."""
    answer = lastword.post("/v1/contexts/check", body)
    assert answer.status_code == 200, answer.text
    ContextCheck.model_validate_json(answer.text)
    document: dict[str, Any] = answer.json()
    return document


def test_what_is_built_at_one_sequence_and_set_at_another_is_superseded_and_stays_as_it_was(
    lastword: RunningLastword, owner: str
) -> None:
    first = lastword.publisher.set(owner, "global", "travel.flight_time", "morning")
    context = made(lastword, owner, at_least=str(first), wait_ms=30_000)
    before = lastword.get("/v1/contexts", id=context["id"])
    assert (before.status_code, before.json()) == (200, context)
    second = lastword.publisher.set(owner, "global", "travel.flight_time", "evening")

    check = checked(lastword, id=context["id"], at_least=str(second), wait_ms=30_000)

    (item,) = check["items"]
    assert (check["stale"], item["status"]) == (True, "superseded")
    assert (item["supplied_sequence"], item["current_sequence"]) == (first.sequence, second.sequence)
    assert item["by"] == {"scope": "global", "source_sequence": second.sequence, "event_id": second.event_id}
    assert [change["now"]["value"] for change in check["delta"]["replace"]] == ["evening"]
    assert lastword.get("/v1/contexts", id=context["id"]).content == before.content
    items = [{"scope": "global", "key": "travel.flight_time", "source_sequence": first.sequence}]
    inline = checked(lastword, owner=owner, items=items, position=context["position_token"], task=TASK)
    assert inline["items"] == check["items"]
    assert (inline["id"], inline["delta"]) == (None, check["delta"])


def test_a_context_cites_its_sources_and_says_what_it_was_read_with(lastword: RunningLastword, owner: str) -> None:
    turn = lastword.publisher.say(owner, "t1", "I usually prefer morning flights.", message="m1")
    reading = lastword.candidates.set(
        owner,
        "global",
        "travel.flight_time",
        "morning",
        source_event_id=turn,
        quote="morning flights",
        span=(17, 32),
        authority=Authority.STATED,
    )
    other = lastword.publisher.set(owner, "global", "theme", "dark")
    lastword.projected([reading, other])

    context = made(lastword, owner, scopes=["project:Comet", "global"], budget=300)

    (item,) = context["items"]
    assert item["source"] == {
        "event_id": turn.event_id,
        "thread": "t1",
        "message": "m1",
        "span": [17, 32],
        "quote": "morning flights",
    }
    assert (item["source_sequence"], item["authority"], item["event_id"]) == (turn.sequence, "stated", reading.event_id)
    assert item["updated_at"] is not None
    assert context["left_out"] == [
        {"scope": "global", "key": "theme", "source_sequence": other.sequence, "reason": "no-match"}
    ]
    assert (context["considered"], context["scopes"]) == (2, ["project:Comet", "global"])
    assert context["tokens"] <= 300
    line = json.loads(context["prompt"].splitlines()[2])
    assert (line["value"], line["source"]["event_id"]) == ("morning", turn.event_id)
    assert parse_context_id(context["id"]).log_id == lastword.log.log_id


def test_a_demand_is_honoured_and_an_answer_says_how_far_it_goes(lastword: RunningLastword, owner: str) -> None:
    receipt = lastword.publisher.set(owner, "global", "theme", "dark")
    body = {"owner": owner, "at_least": str(receipt), "wait_ms": 30_000}
    answer = lastword.post("/v1/contexts", body)
    token = answer.headers[POSITION]
    assert token == answer.json()["position_token"]
    assert lastword.get("/v1/contexts", id=answer.json()["id"]).headers[POSITION] == token

    again = lastword.http.post("/v1/contexts", json={"owner": owner}, headers={AT_LEAST: token})
    assert again.status_code == 200
    prefix, _, sequence = token.rpartition(".")
    ahead = {"at_least": f"{prefix}.{int(sequence) + 9}", "wait_ms": 0}
    unseen = {"owner": owner, "items": [], "position": ahead["at_least"], "wait_ms": 0}
    for path, asked in (
        ("/v1/contexts", ahead | {"owner": owner}),
        ("/v1/contexts/check", ahead | {"id": answer.json()["id"]}),
        ("/v1/contexts/check", unseen),
        ("/v1/contexts/check", unseen | {"at_least": token}),
    ):
        refused = lastword.post(path, asked)
        assert (refused.status_code, refused.json()["code"]) == (503, "not-projected-yet")


def test_one_that_nobody_wants_kept_has_no_id(lastword: RunningLastword, owner: str) -> None:
    lastword.projected([lastword.publisher.set(owner, "global", "theme", "dark")])

    context = made(lastword, owner, "", store=False)

    assert (context["id"], [item["chosen"] for item in context["items"]]) == (None, ["newest"])


def test_nothing_is_known_of_somebody_new(lastword: RunningLastword, owner: str) -> None:
    context = made(lastword, owner)

    assert (context["items"], context["prompt"], context["tokens"]) == ([], "", 0)
    receipt = lastword.publisher.set(owner, "global", "travel.flight_time", "morning")
    check = checked(lastword, id=context["id"], at_least=str(receipt), wait_ms=30_000)
    assert (check["stale"], [item["value"] for item in check["newer"]]) == (True, ["morning"])


ID = "c1.c3d12d90c0bb8dff.3559b75f8fc1536f.0.11.9f86d081884c7d659a2feaa0c55ad015"
ITEM = {"key": "theme", "source_sequence": 1}
OVERLAY = {"key": "theme", "value": 1}


@pytest.mark.parametrize(
    ("path", "wrong", "code", "field"),
    [
        ("", {"owner": "ada"}, "malformed", "owner"),
        ("", {"task": 7}, "malformed", "task"),
        ("", {"task": "x" * (limits.MAX_QUERY_LENGTH + 1)}, "too-large", "task"),
        ("", {"task": "\ud800"}, "malformed", "task"),
        ("", {"budget": 0}, "malformed", "budget"),
        ("", {"budget": limits.MAX_CONTEXT_TOKENS + 1}, "malformed", "budget"),
        ("", {"limit": -1}, "malformed", "limit"),
        ("", {"keys": ["a", ""]}, "malformed", "keys.1"),
        ("", {"groups": ["Not A Group"]}, "malformed", "groups.0"),
        ("", {"exclude": "all"}, "malformed", "exclude"),
        ("", {"scope": "global", "scopes": ["global"]}, "malformed", "scopes"),
        ("", {"overlay": [{"key": "theme"}]}, "malformed", "overlay.0.value"),
        ("", {"overlay": [OVERLAY, OVERLAY]}, "malformed", "overlay.1.key"),
        ("", {"overlay": [OVERLAY | {"scope": "project:Comet"}]}, "malformed", "overlay.0.scope"),
        ("", {"overlay": [OVERLAY | {"receipt": "r1.x"}]}, "malformed", "overlay.0.receipt"),
        ("", {"overlay": [OVERLAY | {"value": "x" * limits.MAX_VALUE_BYTES}]}, "too-large", "overlay.0.value"),
        ("", {"overlay": [OVERLAY | {"value": "\ud800"}]}, "malformed", "overlay.0.value"),
        ("", {"store": "no"}, "malformed", "store"),
        ("", {"colour": "red"}, "malformed", "colour"),
        ("/check", {"owner": None}, "malformed", "id"),
        ("/check", {"id": ID, "items": [ITEM]}, "malformed", "id"),
        ("/check", {"id": "c1.x"}, "malformed", "id"),
        ("/check", {"id": ID, "task": "x"}, "malformed", "task"),
        ("/check", {"items": [ITEM, {"key": "theme"}]}, "malformed", "items.1.source_sequence"),
        ("/check", {"items": [ITEM | {"scope": "project:Comet"}]}, "malformed", "items.0.scope"),
        ("/check", {"items": [ITEM], "position": "p1"}, "malformed", "position"),
    ],
)
def test_what_is_no_context_is_refused_with_its_field(
    lastword: RunningLastword, owner: str, path: str, wrong: dict[str, Any], code: str, field: str
) -> None:
    body = {name: one for name, one in ({"owner": owner} | wrong).items() if one is not None}

    answer = lastword.http.post(f"/v1/contexts{path}", content=json.dumps(body))

    document = answer.json()
    assert (answer.status_code, document["code"], document["field"]) == (422, code, field)


def test_an_id_that_leads_nowhere_is_unknown(lastword: RunningLastword, owner: str) -> None:
    lastword.projected([lastword.publisher.set(owner, "global", "theme", "dark")])
    known = made(lastword, owner)["id"]
    elsewhere = ".".join((*known.split(".")[:4], "999999", known.split(".")[5]))
    for ident in (ID, elsewhere, f"{known[:-4]}0000"):
        answers: list[httpx.Response] = [
            lastword.get("/v1/contexts", id=ident),
            lastword.post("/v1/contexts/check", {"id": ident}),
        ]
        assert [(one.status_code, one.json()["code"]) for one in answers] == [(404, "unknown-context")] * 2
    assert lastword.get("/v1/contexts", id="c2").json()["field"] == "id"
