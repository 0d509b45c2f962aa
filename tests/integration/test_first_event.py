"""One event goes all the way through."""

import uuid

from tests.support.running import RunningLastword


def test_a_published_value_is_read_back_with_its_reason(lastword: RunningLastword) -> None:
    owner = f"user:{uuid.uuid4()}"
    receipt = lastword.publisher.set(owner, "global", "theme", "dark")

    record = lastword.value(owner, "theme", at_least=str(receipt), wait_ms=10_000)

    assert record["state"]["value"] == "dark"
    assert record["source"]["source_sequence"] == receipt.sequence
    assert record["selection"]["rule"] == "exact"


def test_a_write_that_waits_is_answered_with_its_verdict(lastword: RunningLastword) -> None:
    event = {
        "operation": "set",
        "owner": f"user:{uuid.uuid4()}",
        "scope": "project:Comet",
        "key": "theme",
        "value": "dark",
        "actor": {"service": "tests"},
    }

    answer = lastword.post("/v1/events", event, wait="applied")

    assert answer.status_code == 200
    assert answer.json()["verdict"]["effect"] == "added"
