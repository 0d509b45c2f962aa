"""Searching over HTTP, with the client and on the command line: on both brokers, and in memory (`test_in_memory`)."""

import json
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from lastword_schemas import limits
from lastword_schemas.authority import Authority
from lastword_schemas.headers import AT_LEAST, POSITION
from lastword_schemas.search import SearchAnswer
from tests.support.running import RunningLastword


@pytest.fixture
def owner() -> str:
    """A new owner."""
    return f"main/user:{uuid.uuid4()}"


def searched(lastword: RunningLastword, owner: str, query: str, **more: Any) -> dict[str, Any]:
    """The answer of both routes, which must be the same 200."""
    parameters = {"owner": owner, "query": query} | more
    by_query = lastword.get("/v1/search", **parameters)
    by_body = lastword.post(
        "/v1/search", parameters | ({"groups": more["groups"].split(",")} if "groups" in more else {})
    )
    assert by_query.status_code == by_body.status_code == 200, by_query.text + by_body.text
    answer: dict[str, Any] = by_query.json()
    hits: list[dict[str, Any]] = by_body.json()["hits"]
    assert hits == answer["hits"]
    SearchAnswer.model_validate_json(by_query.text)
    return answer


def found(lastword: RunningLastword, owner: str, query: str, **more: Any) -> list[Any]:
    return [hit["fact"]["value"] for hit in searched(lastword, owner, query, **more)["hits"]]


def problem(answer: httpx.Response) -> tuple[int, str, str]:
    document = answer.json()
    return answer.status_code, document["code"], document["field"]


def test_a_task_that_does_not_name_the_fact_finds_it_with_its_source(lastword: RunningLastword, owner: str) -> None:
    turn = lastword.publisher.say(owner, "t1", "I usually prefer morning flights.")
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
    others = [
        lastword.publisher.set(owner, "global", key, value)
        for key, value in (("theme", "dark"), ("answer_detail", "brief"), ("travel.seat", "window"), ("any", 7))
    ]
    lastword.projected([reading, *others])

    answer = searched(lastword, owner, "Find a flight to Berlin")
    (hit,) = answer["hits"]

    assert hit["fact"] == {"scope": "global", "key": "travel.flight_time", "value": "morning"}
    assert (hit["status"], hit["source_sequence"], hit["rank"]) == ("current", turn.sequence, 1)
    assert hit["source"]["event_id"] == turn.event_id
    assert hit["source"]["quote"] == "morning flights"
    assert hit["updated_at"] is not None
    assert hit["why"]["matched"] == ["flight"]
    assert (answer["considered"], answer["representation"], answer["scopes"]) == (5, "profile", ["global"])


def test_what_was_replaced_or_deleted_is_in_no_search_from_its_projection_on(
    lastword: RunningLastword, owner: str
) -> None:
    for value in ("tea", "coffee", "cocoa"):
        receipt = lastword.publisher.set(owner, "global", "theme", value)
        assert found(lastword, owner, "theme", at_least=str(receipt), wait_ms=30_000) == [value]
        receipt = lastword.publisher.delete(owner, "global", "theme")
        assert found(lastword, owner, f"theme {value}", at_least=str(receipt), wait_ms=30_000) == []
    retired = lastword.publisher.set(owner, "global", "any", "tea")
    receipt = lastword.publisher.set(owner, "global", "theme", "x", retires=[("global", "any")])
    assert found(lastword, owner, "tea", at_least=str(receipt), wait_ms=30_000) == []

    past = searched(lastword, owner, "tea", include="history")["hits"]
    assert {(hit["status"], hit["source_sequence"]) for hit in past} >= {("deleted", retired.sequence)}
    assert all(hit["status"] == "deleted" for hit in past)


def test_nothing_of_another_owner_is_found(lastword: RunningLastword, owner: str) -> None:
    other = f"{owner}2"
    lastword.projected([lastword.publisher.set(other, "global", "theme", "secret")])

    assert found(lastword, owner, "secret", everywhere=True) == []
    assert searched(lastword, owner, "secret", everywhere=True, include="history")["considered"] == 0
    assert found(lastword, other, "secret") == ["secret"]


def test_a_search_is_of_its_boundary(lastword: RunningLastword, owner: str) -> None:
    first = lastword.publisher.set(owner, "global", "answer_detail", "brief")
    second = lastword.publisher.set(owner, "global", "answer_detail", "detailed")
    lastword.projected([second])

    assert found(lastword, owner, "detail", as_of=str(first.sequence)) == ["brief"]
    assert found(lastword, owner, "detail", known_at=str(first.sequence)) == ["brief"]
    assert found(lastword, owner, "detail", as_of=str(first.sequence - 1)) == []
    past = searched(lastword, owner, "detail", as_of=str(second.sequence), include="history", limit=10)
    assert {(hit["fact"]["value"], hit["status"]) for hit in past["hits"]} == {
        ("brief", "superseded"),
        ("detailed", "current"),
    }
    assert (past["as_of"], past["representation"]) == (second.sequence, "history")
    alone = searched(lastword, owner, "detail", as_of=str(first.sequence), include="history")
    assert [hit["status"] for hit in alone["hits"]] == ["current"]


def test_an_answer_says_how_far_it_goes_and_a_demand_is_honoured(lastword: RunningLastword, owner: str) -> None:
    receipt = lastword.publisher.set(owner, "global", "theme", "dark")
    lastword.projected([receipt])
    answer = lastword.get("/v1/search", owner=owner, query="theme")
    token = answer.headers[POSITION]
    assert token == answer.json()["position_token"]

    again = lastword.http.get("/v1/search", params={"owner": owner, "query": "theme"}, headers={AT_LEAST: token})
    assert again.status_code == 200
    prefix, _, sequence = token.rpartition(".")
    ahead = lastword.get("/v1/search", owner=owner, query="theme", at_least=f"{prefix}.{int(sequence) + 9}", wait_ms=0)
    assert (ahead.status_code, ahead.json()["code"]) == (503, "not-projected-yet")


def test_a_scope_is_searched_along_its_chain(lastword: RunningLastword, owner: str) -> None:
    receipts = [
        lastword.publisher.set(owner, "global", "theme", "dark colours"),
        lastword.publisher.set(owner, "project:Comet", "theme", "light colours"),
        lastword.publisher.set(owner, "global", "any", "colours of the sea"),
    ]
    lastword.projected(receipts)

    def values(**more: Any) -> set[str]:
        return set(found(lastword, owner, "colours", limit=9, **more))

    assert values() == {"dark colours", "colours of the sea"}
    assert values(scope="project:Comet") == {"light colours", "colours of the sea"}
    assert values(everywhere=True) == {"dark colours", "light colours", "colours of the sea"}
    alone = lastword.get("/v1/search", owner=owner, query="colours", scope="project:Comet", fallback="false").json()
    assert [hit["fact"]["value"] for hit in alone["hits"]] == ["light colours"]
    chain = lastword.post("/v1/search", {"owner": owner, "query": "colours", "scopes": ["project:Comet"]}).json()
    assert (chain["scopes"], chain["hits"]) == (["project:Comet"], alone["hits"])


def test_filters_and_pages(lastword: RunningLastword, owner: str) -> None:
    receipts = [
        lastword.publisher.set(owner, "global", "travel.seat", "a seat in the evening"),
        lastword.publisher.set(owner, "global", "travel.flight_time", "evening"),
        lastword.publisher.set(owner, "global", "theme", "evening colours"),
        lastword.publisher.set(owner, "project:Comet", "theme", "evening lights"),
    ]
    lastword.projected(receipts)
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()

    assert len(found(lastword, owner, "evening", groups="travel,mail")) == 2
    assert found(lastword, owner, "evening", min_authority="confirmed") == []
    assert found(lastword, owner, "evening", updated_from=soon) == []
    assert len(found(lastword, owner, "evening", updated_before=soon)) == 3
    assert found(lastword, owner, "evening", exclude="unresolved") != []

    pages: list[int] = []
    page = None
    while page is not None or not pages:
        answer = lastword.get("/v1/search", owner=owner, query="evening", everywhere="true", limit=1, page=page).json()
        pages += [hit["source_sequence"] for hit in answer["hits"]]
        page = answer["next_page"]
        lastword.projected([lastword.publisher.set(owner, "global", "theme", "evening evening evening")])
    assert sorted(pages) == [receipt.sequence for receipt in receipts]


def test_any_script_and_any_length_is_searched(lastword: RunningLastword, owner: str) -> None:
    values = ["朝の便が好き", "פגישות בבוקר", "утренние рейсы", "กาแฟดำ", "café crème"]
    scopes = [f"project:{number}" for number in range(len(values))]
    lastword.projected(
        [lastword.publisher.set(owner, scope, "any", value) for scope, value in zip(scopes, values, strict=True)]
    )

    for query, value in zip(("朝", "בַּבּוֹקֶר", "РЕЙСЫ", "กาแฟ", "CAFE"), values, strict=True):
        assert found(lastword, owner, query, everywhere=True) == [value]
    long = ("unrelated words " * 3_000)[: limits.MAX_QUERY_LENGTH - 10] + " café"
    answer = lastword.post("/v1/search", {"owner": owner, "query": long, "everywhere": True})
    assert [hit["fact"]["value"] for hit in answer.json()["hits"]] == ["café crème"]


@pytest.mark.parametrize(
    ("wrong", "code", "field"),
    [
        ({"query": ""}, "malformed", "query"),
        ({"query": " ?! "}, "malformed", "query"),
        ({"query": "x" * (limits.MAX_QUERY_LENGTH + 1)}, "too-large", "query"),
        ({"query": "\ud800 x"}, "malformed", "query"),
        ({"limit": 0}, "malformed", "limit"),
        ({"include": "all"}, "malformed", "include"),
        ({"groups": ["Not A Group"]}, "malformed", "groups.0"),
        ({"min_authority": "sure"}, "malformed", "min_authority"),
        ({"updated_from": "yesterday"}, "malformed", "updated_from"),
        ({"page": "made-up"}, "malformed", "page"),
        ({"scope": "global", "scopes": ["global"]}, "malformed", "scopes"),
        ({"colour": "red"}, "malformed", "colour"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_its_field(
    lastword: RunningLastword, owner: str, wrong: dict[str, Any], code: str, field: str
) -> None:
    body = {"owner": owner, "query": "theme"} | wrong

    answer = lastword.http.post("/v1/search", content=json.dumps(body))

    assert problem(answer) == (422, code, field)


def test_an_expired_value_is_not_found(lastword: RunningLastword, owner: str) -> None:
    expires = datetime.now(UTC) + timedelta(seconds=1.5)
    lastword.projected([lastword.publisher.set(owner, "global", "theme", "for now", expires_at=expires)])
    assert found(lastword, owner, "theme") == ["for now"]

    time.sleep(max(0.0, (expires - datetime.now(UTC)).total_seconds()) + 0.05)
    assert found(lastword, owner, "theme") == []
