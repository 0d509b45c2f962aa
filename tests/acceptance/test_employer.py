"""The employer: two sessions say different things. Nothing is overwritten; every answer is what was known then."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from lastword_schemas.authority import Authority
from lastword_schemas.positions import Receipt
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
