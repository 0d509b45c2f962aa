"""The fixture on the embedded services, as another team's test uses it."""

import uuid

import httpx

from lastword.launcher import LocalLastword


def test_it_answers_at_its_url(embedded_lastword: LocalLastword) -> None:
    owner = f"user:{uuid.uuid4()}"
    event = {"operation": "set", "owner": owner, "scope": "global", "key": "mail.tone", "value": "brief"}
    with httpx.Client(base_url=embedded_lastword.url, timeout=30) as client:
        accepted = client.post("/v1/events", json=event | {"actor": {"service": "tests"}})
        demand = {"at_least": accepted.json()["receipt"]["receipt"], "wait_ms": 20_000}
        answer = client.get("/v1/value", params={"owner": owner, "key": "mail.tone"} | demand)
    assert answer.json()["state"]["value"] == "brief"
