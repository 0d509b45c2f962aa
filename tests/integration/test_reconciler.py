"""The reconciler beside a running lastword, on each broker: conflicts are answered by what the key declares."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lastword.reconciliation.running import reconcile
from lastword.reconciliation.status import ReconcilerStatus
from lastword.settings import ReconcilerSettings
from lastword_schemas.authority import Authority
from lastword_schemas.positions import Receipt
from lastword_schemas.registry import parse_registry_file
from tests.support.running import RunningLastword
from tests.support.services import Broker

REGISTRY = """
[keys."employer"]
policy = "branch"
reconcile = "contradiction_pass"
aliases = ["work"]
description = "Where the person works."

[keys."city"]
policy = "branch"
reconcile = "newest_stated"

[keys."coach"]
policy = "branch"
reconcile = "confidence_weighted"

[keys."faith"]
policy = "branch"
"""


@pytest.fixture(scope="module")
def lastword(broker: Broker, store_url: str) -> Iterator[RunningLastword]:
    registry = parse_registry_file(REGISTRY)
    with RunningLastword(broker.bootstrap_servers, store_url, registry=registry) as running:
        yield running


@pytest.fixture
def owner() -> str:
    return f"main/user:{uuid.uuid4()}"


def settings_of(lastword: RunningLastword) -> ReconcilerSettings:
    common = lastword.worker_settings.model_dump(include=set(ReconcilerSettings.model_fields))
    session_s = 2 if lastword.log.cluster_id.startswith("lastword-") else 6  # Kafka allows no less
    group = {"reconciler_group": f"reconciler-{uuid.uuid4()}", "reconciler_session_s": session_s}
    return ReconcilerSettings.model_validate(common | group)


def run(lastword: RunningLastword, until: Callable[[ReconcilerStatus], bool]) -> ReconcilerStatus:
    """Reconcile until something holds; the status."""

    async def go() -> ReconcilerStatus:
        status, stop = ReconcilerStatus(), asyncio.Event()
        running = asyncio.create_task(reconcile(settings_of(lastword), lastword.log, status, stop))
        async with asyncio.timeout(60):
            while not await asyncio.to_thread(until, status):
                assert not running.done(), running.exception()
                await asyncio.sleep(0.1)
        stop.set()
        await running
        return status

    return asyncio.run(go())


def heard(lastword: RunningLastword, owner: str, key: str, text: str, value: str, confidence: float = 0.6) -> Receipt:
    turn = lastword.publisher.say(owner, uuid.uuid4().hex, text)
    start = text.index(value)
    return lastword.candidates.set(
        owner,
        "global",
        key,
        value,
        source_event_id=turn,
        quote=value,
        span=(start, start + len(value)),
        authority=Authority.INFERRED,
        confidence=confidence,
    )


def state(lastword: RunningLastword, owner: str, key: str) -> tuple[Any, str]:
    found = lastword.value(owner, key)["state"]
    return found.get("value"), found["resolution_state"]


def decisions(lastword: RunningLastword, owner: str) -> list[dict[str, Any]]:
    events = lastword.get("/v1/history", owner=owner).json()["events"]
    return [event for event in events if event["operation"] in ("resolve", "withdraw")]


def test_each_conflict_is_answered_by_the_rule_of_its_key_and_the_answer_stands_in_the_history(
    lastword: RunningLastword, owner: str
) -> None:
    lastword.publisher.set(owner, "global", "city", "Rome")
    lastword.publisher.set(owner, "global", "city", "Oslo")
    for value, count in (("Kim", 3), ("Lee", 1)):
        for number in range(count):
            heard(lastword, owner, "coach", f"{number}: training with {value}", value)
    heard(lastword, owner, "employer", "I work at Acme.", "Acme")
    heard(lastword, owner, "employer", "If I moved to Globex, I would miss the lake.", "Globex")
    heard(lastword, owner, "faith", "one", "one")
    last = heard(lastword, owner, "faith", "two", "two")
    lastword.projected([last])
    assert state(lastword, owner, "employer") == ("Acme", "unresolved")

    settled = {"city": ("Oslo", "resolved"), "coach": ("Kim", "resolved"), "employer": ("Acme", "resolved")}
    status = run(lastword, lambda _: all(state(lastword, owner, key) == value for key, value in settled.items()))

    assert state(lastword, owner, "faith") == ("one", "unresolved")
    assert status.left_open["human"] >= 1
    made = {event["text"].partition(":")[0]: event for event in decisions(lastword, owner)}
    assert set(made) == {"newest_stated", "confidence_weighted", "contradiction_pass"}
    assert made["contradiction_pass"]["text"] == "contradiction_pass: hypothetical"
    assert {event["actor"]["service"] for event in made.values()} == {"reconciler"}
    assert all(event["saw"] < event["position"]["sequence"] for event in made.values())
    listed = lastword.get("/v1/profile", owner=owner, unresolved=True).json()["entries"]
    assert [(entry["identity"]["key"], len(entry["branches"])) for entry in listed] == [("faith", 2)]

    again = run(lastword, lambda status: bool(status.assigned))  # from its checkpoint: nothing is decided twice
    assert not again.given_up
    assert len(decisions(lastword, owner)) == 3


def test_two_equally_supported_values_are_left_to_a_person(lastword: RunningLastword, owner: str) -> None:
    heard(lastword, owner, "coach", "Kim it is", "Kim")
    heard(lastword, owner, "employer", "I work at Acme.", "Acme")
    heard(lastword, owner, "employer", "I work at Globex.", "Globex")
    last = heard(lastword, owner, "coach", "Lee it is", "Lee")
    lastword.projected([last])

    left = Counter({"confidence_weighted": 1, "contradiction_pass": 1})
    status = run(lastword, lambda status: status.left_open >= left)

    assert decisions(lastword, owner) == []
    assert state(lastword, owner, "employer") == ("Acme", "unresolved")
    assert status.given_up == 0
