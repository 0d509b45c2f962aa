"""The employer: two sessions say different things. Nothing is overwritten; every answer is what was known then."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from lastword_schemas.authority import Authority
from lastword_schemas.positions import Receipt, parse_receipt
from tests.support.running import RunningLastword
from tests.support.services import Broker

ACME, GLOBEX = "I started at Acme this week.", "Lunch at Globex was good again."


@pytest.fixture(scope="module")
def lastword(broker: Broker, store_url: str) -> Iterator[RunningLastword]:
    with RunningLastword(broker.bootstrap_servers, store_url) as running:
        yield running


@pytest.fixture
def owner() -> str:
    return f"main/user:{uuid.uuid4()}"


def heard(lastword: RunningLastword, owner: str, thread: str, text: str, employer: str) -> tuple[Receipt, Receipt]:
    """A turn, and what an extractor infers from it."""
    turn = lastword.publisher.say(owner, thread, text, message="m1")
    start = text.index(employer)
    reading = lastword.candidates.set(
        owner,
        "global",
        "employer",
        employer,
        source_event_id=turn,
        quote=employer,
        span=(start, start + len(employer)),
        authority=Authority.INFERRED,
        confidence=0.8,
    )
    return turn, reading


def told(record: dict[str, Any]) -> tuple[str, Any, str, str | None]:
    state = record["state"]
    return state["status"], state.get("value"), state["resolution_state"], state["resolution_reason"]


def test_what_two_sessions_say_stands_side_by_side_until_a_person_decides(
    lastword: RunningLastword, owner: str
) -> None:
    turn_a, acme = heard(lastword, owner, "session A", ACME, "Acme")
    turn_b, globex = heard(lastword, owner, "session B", GLOBEX, "Globex")
    lastword.projected([acme, globex])

    record = lastword.value(owner, "employer")
    assert told(record) == ("set", "Acme", "unresolved", "values_differ")
    assert [
        (branch["value"], branch["current"], branch["authority"], branch["assertions"], branch["source"]["confidence"])
        for branch in record["branches"]
    ] == [("Acme", True, "inferred", 1, 0.8), ("Globex", False, "inferred", 1, 0.8)]
    words = [branch["source"]["source"] for branch in record["branches"]]
    assert [(word["thread"], word["message"], word["quote"]) for word in words] == [
        ("session A", "m1", "Acme"),
        ("session B", "m1", "Globex"),
    ]
    assert [branch["source"]["source_sequence"] for branch in record["branches"]] == [turn_a.sequence, turn_b.sequence]
    assert told(lastword.value(owner, "employer", as_of=turn_a.sequence)) == ("set", "Acme", "resolved", None)
    assert lastword.get("/v1/profile", owner=owner).json()["entries"][0]["branches"] == record["branches"]

    decided = {"operation": "set", "owner": owner, "scope": "global", "key": "employer", "value": "Globex"}
    by_person = {"authority": "confirmed", "actor": {"service": "settings page", "role": "person"}}
    answer = lastword.post("/v1/events", decided | by_person, wait="applied", wait_ms=20_000)
    assert (answer.status_code, answer.json()["verdict"]["effect"]) == (200, "updated")

    assert told(lastword.value(owner, "employer")) == ("set", "Globex", "resolved", None)
    assert told(lastword.value(owner, "employer", as_of=turn_b.sequence)) == told(record)
    versions = lastword.get("/v1/history", owner=owner, scope="global", key="employer", view="versions").json()
    assert [(one["value"], one["status"], one["ended"] and one["ended"]["by"]) for one in versions["versions"]] == [
        ("Acme", "superseded", "set"),
        ("Globex", "current", None),
    ]


def test_however_late_a_reading_completes_the_answer_is_the_same(lastword: RunningLastword, owner: str) -> None:
    turn_a = lastword.publisher.say(owner, "session A", ACME)
    _, globex = heard(lastword, owner, "session B", GLOBEX, "Globex")
    acme = lastword.candidates.set(
        owner, "global", "employer", "Acme", source_event_id=turn_a, authority=Authority.INFERRED
    )
    lastword.projected([globex, acme])

    assert told(lastword.value(owner, "employer")) == ("set", "Acme", "unresolved", "values_differ")

    deleted = lastword.publisher.delete(owner, "global", "employer")
    late = lastword.candidates.set(
        owner, "global", "employer", "Initech", source_event_id=turn_a, authority=Authority.INFERRED
    )
    lastword.projected([deleted, late])

    record = lastword.value(owner, "employer")
    assert told(record) == ("deleted", None, "resolved", None)
    assert [branch["operation"] for branch in record["branches"]] == ["delete"]


def versions_of(lastword: RunningLastword, owner: str, **boundary: Any) -> list[tuple[str, str, int | None]]:
    """Value, status, and the source sequence at which it ended, of each version."""
    asked = {"owner": owner, "scope": "global", "key": "employer", "view": "versions"}
    found = lastword.get("/v1/history", **asked, **boundary).json()["versions"]
    return [(one["value"], one["status"], one["ended"] and one["ended"]["sequence"]) for one in found]


def decide(lastword: RunningLastword, owner: str, operation: str, *named: Receipt, **more: Any) -> dict[str, Any]:
    """A person's decision; its receipt."""
    draft = {"operation": operation, "owner": owner, "scope": "global", "names": [each.event_id for each in named]}
    by_person = {"authority": "confirmed", "actor": {"service": "settings page", "role": "person"}}
    answer = lastword.post("/v1/events", draft | by_person | more, wait="applied", wait_ms=20_000)
    assert answer.status_code == 200, answer.text
    receipt: dict[str, Any] = answer.json()["receipt"]
    return receipt


def test_acme_ended_when_globex_began_though_a_person_settles_that_much_later(
    lastword: RunningLastword, owner: str
) -> None:
    turn_a, acme = heard(lastword, owner, "session A", ACME, "Acme")
    turn_b, globex = heard(lastword, owner, "session B", GLOBEX, "Globex")
    decision = decide(lastword, owner, "resolve", globex, acme, key="employer", text="she says so")

    record = lastword.value(owner, "employer")
    assert told(record) == ("set", "Globex", "resolved", None)
    assert record["state"]["authority"] == "confirmed"
    assert [(one["value"], one["ended_by"] and one["ended_by"]["sequence"]) for one in record["branches"]] == [
        ("Globex", None),
        ("Acme", decision["sequence"]),
    ]
    asked = {"owner": owner, "scope": "global", "key": "employer"}
    was_acme, _ = lastword.get("/v1/history", **asked).json()["versions"]
    assert (was_acme["start"], was_acme["status"]) == (turn_a.sequence, "ended")
    ended = was_acme["ended"]
    assert (ended["by"], ended["sequence"], ended["decided_by"]["sequence"]) == (
        "resolve",
        turn_b.sequence,
        decision["sequence"],
    )
    assert told(lastword.value(owner, "employer", known_at=decision["sequence"] - 1))[2] == "unresolved"
    assert told(lastword.value(owner, "employer", as_of=turn_a.sequence)) == ("set", "Acme", "resolved", None)
    events = lastword.get("/v1/history", owner=owner).json()["events"]
    assert [(one["status"], one["text"]) for one in events if one["operation"] == "resolve"] == [
        ("recorded", "she says so")
    ]

    decide(lastword, owner, "withdraw", parse_receipt(decision["receipt"], field="receipt"))
    assert told(lastword.value(owner, "employer")) == ("set", "Acme", "unresolved", "values_differ")


def test_what_was_only_a_supposition_is_withdrawn_and_never_was_true(lastword: RunningLastword, owner: str) -> None:
    turn_a, acme = heard(lastword, owner, "session A", ACME, "Acme")
    turn_b, globex = heard(lastword, owner, "session B", "If I moved to Globex, what would change?", "Globex")
    lastword.projected([acme, globex])
    before = lastword.value(owner, "employer")

    decision = decide(lastword, owner, "withdraw", globex, text="a supposition, no statement")

    assert told(lastword.value(owner, "employer")) == ("set", "Acme", "resolved", None)
    assert versions_of(lastword, owner) == [("Acme", "current", None), ("Globex", "withdrawn", decision["sequence"])]
    assert told(lastword.value(owner, "employer", as_of=turn_b.sequence)) == ("set", "Acme", "resolved", None)
    assert told(lastword.value(owner, "employer", known_at=decision["sequence"] - 1)) == told(before)
    assert versions_of(lastword, owner, as_of=turn_a.sequence) == [("Acme", "current", None)]
    again = lastword.candidates.set(
        owner, "global", "employer", "Globex", source_event_id=turn_b, authority=Authority.INFERRED
    )
    lastword.projected([again])
    assert told(lastword.value(owner, "employer")) == ("set", "Acme", "unresolved", "values_differ")

    decide(lastword, owner, "withdraw", turn_b)
    late = lastword.candidates.set(
        owner, "global", "employer", "Globex Corp", source_event_id=turn_b, authority=Authority.INFERRED
    )
    lastword.projected([late])
    assert told(lastword.value(owner, "employer")) == ("set", "Acme", "resolved", None)
    outcome = lastword.get("/v1/outcomes", owner=owner, id=late.event_id).json()
    assert (outcome["effect"], outcome["sequences"][1]) == ("late", turn_b.sequence)
