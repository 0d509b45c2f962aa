"""Conditional writes and retired keys over HTTP: verdicts, profiles, histories and boundaries, on both brokers."""

import threading
import uuid
from typing import Any

import httpx
import pytest

from tests.support.running import RunningLastword


@pytest.fixture
def owner() -> str:
    """A new owner."""
    return f"main/user:{uuid.uuid4()}"


def write(lastword: RunningLastword, owner: str, value: Any = 1, **fields: Any) -> httpx.Response:
    """A set of `any`, unless said otherwise, that waits for its verdict."""
    body = {"operation": "set", "scope": "global", "key": "any", "value": value, "actor": {"service": "tests"}}
    if fields.get("operation") == "delete":
        del body["value"]
    return lastword.post("/v1/events", {"owner": owner} | body | fields, wait="applied", wait_ms="20000")


def sequence_of(answer: httpx.Response) -> int:
    assert answer.status_code == 200, answer.text
    sequence: int = answer.json()["receipt"]["sequence"]
    return sequence


def scoped(*keys: str, scope: str = "global") -> list[dict[str, str]]:
    return [{"scope": scope, "key": key} for key in keys]


def history(lastword: RunningLastword, owner: str, **parameters: Any) -> list[dict[str, Any]]:
    answer = lastword.get("/v1/history", owner=owner, **parameters).json()
    items: list[dict[str, Any]] = answer["events"] if answer["versions"] is None else answer["versions"]
    return items


def status(lastword: RunningLastword, owner: str, key: str, **parameters: Any) -> str:
    found: str = lastword.value(owner, key, **parameters)["state"]["status"]
    return found


def test_a_value_is_changed_only_if_nobody_changed_it_since_it_was_read(lastword: RunningLastword, owner: str) -> None:
    assert sequence_of(write(lastword, owner, "first", expected_sequence=0))
    read = lastword.value(owner, "any")["source"]["source_sequence"]

    mine = write(lastword, owner, "mine", expected_sequence=read)
    theirs = write(lastword, owner, "theirs", expected_sequence=read)

    assert sequence_of(mine)
    assert theirs.status_code == 422
    problem = theirs.json()
    assert (problem["code"], problem["verdict"]["reason"]) == ("refused", "expected-sequence")
    assert f"expected_sequence is {read}, the entry's source sequence is {sequence_of(mine)}" in problem["detail"]
    assert lastword.value(owner, "any")["state"]["value"] == "mine"
    again = write(lastword, owner, "theirs", expected_sequence=sequence_of(mine))
    deleted = lastword.http.delete(
        "/v1/value",
        params={"owner": owner, "scope": "global", "key": "any", "service": "tests", "wait": "applied"}
        | {"expected_sequence": sequence_of(mine)},
    )
    assert (again.status_code, deleted.status_code) == (200, 422)
    assert deleted.json()["verdict"]["reason"] == "expected-sequence"


def test_of_many_who_change_the_same_value_at_once_one_succeeds(lastword: RunningLastword, owner: str) -> None:
    answers: list[httpx.Response] = []

    def change(number: int) -> None:
        answers.append(write(lastword, owner, number, expected_sequence=0))

    threads = [threading.Thread(target=change, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answer.status_code for answer in answers) == [200] + [422] * 7
    (won,) = (answer.json() for answer in answers if answer.status_code == 200)
    assert lastword.value(owner, "any")["source"]["event_id"] == won["receipt"]["event_id"]


def test_a_retry_gets_the_first_verdict_and_another_condition_is_other_content(
    lastword: RunningLastword, owner: str
) -> None:
    first = write(lastword, owner, event_id="mine", expected_sequence=0)
    refused = write(lastword, owner, event_id="other", expected_sequence=0)
    now = sequence_of(write(lastword, owner, 2))

    assert write(lastword, owner, event_id="mine", expected_sequence=0).json()["verdict"] == first.json()["verdict"]
    retried = write(lastword, owner, event_id="other", expected_sequence=0)
    assert (retried.status_code, retried.json()["verdict"]) == (422, refused.json()["verdict"])
    changed = write(lastword, owner, event_id="other", expected_sequence=now)
    assert changed.json()["verdict"]["reason"] == "event-id-reused"
    item = history(lastword, owner)[1]
    assert (item["status"], item["reason"], item["expected_sequence"]) == ("refused", "expected-sequence", 0)


def test_the_scope_is_exactly_that_of_the_event_whatever_a_chain_would_answer(
    lastword: RunningLastword, owner: str
) -> None:
    everywhere = sequence_of(write(lastword, owner, "everywhere"))

    there = write(lastword, owner, "here", scope="project:Comet", expected_sequence=everywhere)

    assert there.status_code == 422
    assert "there is no entry (0)" in there.json()["detail"]
    assert sequence_of(write(lastword, owner, "here", scope="project:Comet", expected_sequence=0))


def test_a_preference_moves_to_another_scope_in_one_step(lastword: RunningLastword, owner: str) -> None:
    before = sequence_of(write(lastword, owner, "dark", key="theme"))

    moved = write(lastword, owner, "dark", key="theme", scope="project:Comet", retires=scoped("theme", "falls"))

    at = sequence_of(moved)
    assert moved.json()["verdict"]["retires"] == [
        {"scope": "global", "key": "theme", "effect": "deleted"},
        {"scope": "global", "key": "falls", "effect": "deleted"},
    ]
    assert status(lastword, owner, "theme", scope="project:Comet") == "set"
    gone = lastword.value(owner, "theme")
    assert (gone["state"]["status"], gone["state"]["operation"]) == ("deleted", "delete")
    assert gone["state"]["supersedes"] == [before]
    assert gone["source"]["event_id"] == moved.json()["receipt"]["event_id"]
    assert gone["source"]["retired_by"] == {"scope": "project:Comet", "key": "theme"}
    for boundary in ({"as_of": at}, {"known_at": at}, {"as_of": "2100-01-01T00:00:00Z"}):
        assert status(lastword, owner, "theme", **boundary) == "deleted"
    for boundary in ({"as_of": at - 1}, {"known_at": at - 1}):
        assert status(lastword, owner, "theme", **boundary) == "set"
    profile = lastword.get("/v1/profile", owner=owner, as_of=str(at), everything="true").json()["entries"]
    assert [(entry["identity"]["scope"], entry["state"]["status"]) for entry in profile] == [
        ("global", "deleted"),
        ("global", "deleted"),
        ("project:Comet", "set"),
    ]


def test_the_history_of_a_retired_key_has_the_event_that_retired_it(lastword: RunningLastword, owner: str) -> None:
    first = write(lastword, owner, "dark", key="theme")
    moved = write(lastword, owner, "dark", scope="project:Comet", key="theme", retires=scoped("theme", "falls"))
    last = write(lastword, owner, "light", key="theme")
    at, event_id = sequence_of(moved), moved.json()["receipt"]["event_id"]

    versions = history(lastword, owner, key="theme")
    assert [(version["operation"], version["status"]) for version in versions] == [
        ("set", "deleted"),
        ("delete", "superseded"),
        ("set", "current"),
    ]
    assert (versions[0]["ended"]["by"], versions[0]["ended"]["event_id"]) == ("delete", event_id)
    assert (versions[1]["event_ids"], versions[1]["start"]) == ([event_id], at)
    assert [version["retired_by"] for version in versions] == [None, {"scope": "project:Comet", "key": "theme"}, None]
    assert [version["status"] for version in history(lastword, owner, key="theme", known_at=at)] == [
        "deleted",
        "current",
    ]

    events = history(lastword, owner)
    assert [(event["operation"], event["status"]) for event in events] == [
        ("set", "deleted"),
        ("set", "current"),
        ("set", "current"),
    ]
    assert [other["key"] for other in events[1]["retires"]] == ["theme", "falls"]
    of_key = history(lastword, owner, key="theme", scope="global", view="events")
    assert [event["position"]["sequence"] for event in of_key] == [sequence_of(first), at, sequence_of(last)]
    assert (of_key[1]["operation"], of_key[1]["effect"], of_key[1]["status"]) == ("delete", "deleted", "superseded")
    assert (of_key[1]["event_id"], of_key[1]["retired_by"]["scope"]) == (event_id, "project:Comet")
    assert "value" not in of_key[1]
    pages: list[tuple[str, str]] = []
    page: str | None = None
    while page is not None or not pages:
        more: dict[str, Any] = {} if page is None else {"page": page}
        answer = lastword.get("/v1/history", owner=owner, scope="global", view="events", limit=1, **more).json()
        pages += [(event["key"], event["operation"]) for event in answer["events"]]
        page = answer["next_page"]
    assert pages == [("theme", "set"), ("theme", "delete"), ("falls", "delete"), ("theme", "set")]


def test_a_late_reading_retires_at_the_place_of_what_it_read(lastword: RunningLastword, owner: str) -> None:
    older = write(lastword, owner, "dark", key="falls")
    turn = lastword.publisher.say(owner, "t1", "light, here")
    newer = write(lastword, owner, "dark", key="guess")
    candidate: dict[str, Any] = {"owner": owner, "scope": "project:Comet", "key": "theme", "value": "light"}
    candidate |= {"source_event_id": turn.event_id, "actor": {"service": "reader"}}
    candidate |= {"span": [0, 5], "quote": "light", "authority": "stated"}

    read = lastword.post(
        "/v1/candidates", candidate | {"retires": scoped("falls", "guess")}, wait="applied", wait_ms="20000"
    )

    assert [other["effect"] for other in read.json()["verdict"]["retires"]] == ["deleted", "late"]
    assert (status(lastword, owner, "falls"), status(lastword, owner, "guess")) == ("deleted", "set")
    assert status(lastword, owner, "falls", as_of=turn.sequence) == "deleted"
    assert status(lastword, owner, "falls", as_of=turn.sequence - 1) == "set"
    assert status(lastword, owner, "falls", as_of=turn.sequence, known_at=sequence_of(newer)) == "set"
    (first, retired) = history(lastword, owner, key="falls")
    assert (first["event_ids"], retired["start"]) == ([older.json()["receipt"]["event_id"]], turn.sequence)


def test_what_is_refused_retires_nothing_and_is_in_no_other_keys_history(lastword: RunningLastword, owner: str) -> None:
    write(lastword, owner, "dark", key="theme")

    refused = write(lastword, owner, retires=scoped("theme"), expected_sequence=10**6)

    assert refused.json()["verdict"]["retires"] == [{"scope": "global", "key": "theme"}]
    assert status(lastword, owner, "theme") == "set"
    assert len(history(lastword, owner, key="theme", view="events")) == 1
    assert history(lastword, owner)[1]["retires"] == [{"scope": "global", "key": "theme", "effect": None}]


def test_readers_see_a_move_whole_or_not_at_all(lastword: RunningLastword, owner: str) -> None:
    """The value is under exactly one of two scopes, whenever it is looked at."""
    write(lastword, owner, 0)
    seen: list[list[str]] = []
    done = threading.Event()

    def look() -> None:
        with lastword.new_client() as client:
            while not done.is_set():
                entries = client.get("/v1/profile", params={"owner": owner}).json()["entries"]
                seen.append([entry["identity"]["scope"] for entry in entries])

    reader = threading.Thread(target=look)
    reader.start()
    scopes = ["global", "project:Comet"]
    for number in range(1, 61):
        old, new = scopes[(number - 1) % 2], scopes[number % 2]
        body = {"owner": owner, "operation": "set", "scope": new, "key": "any", "value": number}
        lastword.post("/v1/events", body | {"actor": {"service": "tests"}, "retires": scoped("any", scope=old)})
    sequence_of(write(lastword, owner, "last"))
    done.set()
    reader.join()

    assert {tuple(places) for places in seen} == {("global",), ("project:Comet",)}
