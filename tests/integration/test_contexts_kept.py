"""What a context costs and survives, on real parts: one look at Redis, the loss of all of it, another process."""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from lastword.embedded import EmbeddedStore
from lastword_query_api.context.contexts import Contexts
from lastword_query_api.context.kafka_log import KafkaContextLog
from lastword_schemas.contexts import ContextAnswer, parse_context_id
from tests.support import services
from tests.support.running import RunningLastword
from tests.support.services import Broker


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    """A store of this test's own, which it may empty."""
    with EmbeddedStore(tmp_path) as store:
        yield store


@pytest.fixture
def own(broker: Broker, store: EmbeddedStore) -> Iterator[RunningLastword]:
    """A lastword on it."""
    with RunningLastword(broker.bootstrap_servers, store.url) as running:
        yield running


@pytest.fixture
def owner() -> str:
    """A new owner."""
    return f"main/user:{uuid.uuid4()}"


def made(lastword: RunningLastword, owner: str, **more: Any) -> dict[str, Any]:
    answer = lastword.post("/v1/contexts", {"owner": owner, "task": "a flight"} | more)
    assert answer.status_code == 200, answer.text
    context: dict[str, Any] = answer.json()
    return context


def seen_by_redis(lastword: RunningLastword, url: str, body: dict[str, Any]) -> list[str]:
    """The commands of this lastword's API while it answers a check."""
    with redis.Redis.from_url(url) as client, client.monitor() as monitor:
        answer = lastword.post("/v1/contexts/check", body)
        client.ping()
        seen = []
        while (heard := monitor.next_command())["command"] != "PING":
            if heard["client_type"] != "lua" and ":outbox" not in heard["command"]:  # the worker may be telling changes
                seen.append(heard["command"])
    assert answer.status_code == 200, answer.text
    return [command for command in seen if lastword.api_settings.namespace in command]


def test_a_check_of_an_owner_of_whom_nothing_came_is_one_look_at_redis(
    lastword: RunningLastword, owner: str, store_url: str
) -> None:
    lastword.projected([lastword.publisher.set(owner, "global", "travel.flight_time", "morning")])
    context = made(lastword, owner)
    url = services.shared_database(store_url)
    for body in ({"id": context["id"]}, {"owner": owner, "items": [], "position": context["position_token"]}):
        assert len(seen_by_redis(lastword, url, body)) == 1


def read_by_another(lastword: RunningLastword, ident: str) -> ContextAnswer:
    """A stored context as a process reads it that has not seen it yet."""
    settings, parts = lastword.api_settings, lastword.parts
    log = KafkaContextLog(settings.kafka_settings.producer_config(), settings.contexts_topic)

    async def read() -> ContextAnswer:
        found = await Contexts(parts.readings, parts.searches, log).get(parse_context_id(ident))
        await log.stop()
        return found

    return asyncio.run(read())


def test_a_context_survives_the_loss_of_all_of_redis(own: RunningLastword, owner: str, store: EmbeddedStore) -> None:
    first = own.publisher.set(owner, "global", "travel.flight_time", "morning")
    gone = own.publisher.set(owner, "global", "travel.seat", "window on any flight")
    own.projected([first, gone])
    context = made(own, owner)
    assert {item["value"] for item in context["items"]} == {"morning", "window on any flight"}
    stored = own.get("/v1/contexts", id=context["id"]).content
    deleted = own.publisher.delete(owner, "global", "travel.seat")
    own.projected([deleted])

    own.stop_worker()
    with redis.Redis.from_url(store.url) as client:
        client.flushall()
    assert own.get("/v1/contexts", id=context["id"]).content == stored
    assert read_by_another(own, context["id"]).model_dump_json().encode() == stored
    silent = own.post("/v1/contexts/check", {"id": context["id"], "wait_ms": 0})
    assert (silent.status_code, silent.json()["code"]) == (503, "not-projected")
    own.start_worker()
    own.until(lambda: own.post("/v1/contexts/check", {"id": context["id"]}).status_code == 200, "the replay")

    check = own.post("/v1/contexts/check", {"id": context["id"], "at_least": str(deleted), "wait_ms": 30_000}).json()
    assert {item["key"]: item["status"] for item in check["items"]} == {
        "travel.flight_time": "fresh",
        "travel.seat": "deleted",
    }
    assert [item["value"] for item in made(own, owner)["items"]] == ["morning"]
