"""The embedded broker keeps nothing. Under a Redis that goes on, each start of it is another log, and says so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from lastword.embedded import EmbeddedBroker, EmbeddedStore
from lastword.launcher import LocalLastword, Ports
from lastword_producers.kafka_log import create_log
from tests.support.scene import Scene, until

ADA = "user:ada"


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """URL of a Redis that goes on during the test."""
    with EmbeddedStore(tmp_path / "store") as store:
        yield store.url


class Client:
    """Asks a running lastword."""

    def __init__(self, running: LocalLastword) -> None:
        self.url = running.url

    def says(self, value: str) -> dict[str, Any]:
        """Ada's mails shall be like that; the receipt."""
        event: dict[str, Any] = {
            "operation": "set",
            "owner": ADA,
            "scope": "global",
            "key": "mail.tone",
            "value": value,
        }
        event["actor"] = {"service": "tests"}
        answer = httpx.post(
            f"{self.url}/v1/events", json=event, params={"wait": "applied", "wait_ms": "20000"}, timeout=30
        )
        assert answer.status_code == 200, answer.text
        receipt: dict[str, Any] = answer.json()["receipt"]
        return receipt

    def asks(self, path: str = "/v1/value", **parameters: Any) -> httpx.Response:
        """About Ada's mails."""
        return httpx.get(f"{self.url}{path}", params={"owner": ADA, "key": "mail.tone", "scope": "global"} | parameters)


def test_a_restarted_embedded_broker_is_the_next_generation_and_nothing_old_is_taken_for_new(
    redis_url: str, tmp_path: Path
) -> None:
    with LocalLastword(tmp_path, Ports.free(), partitions=2, redis_url=redis_url) as first:
        client = Client(first)
        old = [client.says("brief"), client.says("formal")]
        answer = client.asks("/v1/history", limit=1).json()
        token, page = answer["position_token"], answer["next_page"]

    with LocalLastword(tmp_path, Ports.free(), partitions=2, redis_url=redis_url) as second:
        client = Client(second)
        assert (first.log.generation, second.log.generation) == (0, 1)
        assert second.connection.namespace == "main-1"
        assert client.asks().json()["state"]["status"] == "absent"
        for demand in (old[1]["receipt"], token):
            refused = client.asks(at_least=demand)
            assert (refused.status_code, refused.json()["code"]) == (409, "wrong-log")
            assert first.log.log_id in refused.json()["detail"]
            assert second.log.log_id in refused.json()["detail"]
        for boundary in ({"as_of": old[0]["sequence"]}, {"known_at": old[0]["sequence"]}):
            refused = client.asks(**boundary)
            assert (refused.status_code, refused.json()["code"]) == (410, "before-horizon")
            assert refused.json()["history_from"] == 2**40
        assert client.asks("/v1/history", page=page, limit=1).json()["code"] == "before-horizon"

        new = client.says("friendly")
        assert new["sequence"] > 2**40 > old[1]["sequence"]
        assert client.asks(at_least=new["receipt"]).json()["state"]["value"] == "friendly"

    with redis.Redis.from_url(redis_url) as kept:
        assert kept.exists("lw:main:{p0}:checkpoint"), "what was there is left as it was"


def test_a_namespace_that_holds_something_is_passed_over(redis_url: str, tmp_path: Path) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.hset("lw:main:{p0}:checkpoint", "next", "of a log that somebody needs")
        with LocalLastword(tmp_path, Ports.free(), partitions=2, redis_url=redis_url) as running:
            assert running.connection.namespace == "main-1"
        assert client.hgetall("lw:main:{p0}:checkpoint") == {b"next": b"of a log that somebody needs"}


def test_a_worker_whose_embedded_broker_was_restarted_refuses_the_new_log(redis_url: str, tmp_path: Path) -> None:
    with (
        EmbeddedBroker(tmp_path / "broker") as broker,
        Scene(broker.bootstrap_servers, redis_url, tmp_path, partitions=2) as scene,
    ):
        scene.projected([scene.publisher.set(ADA, "global", "any", number) for number in range(10)])
        token = scene.value(ADA, "any")["selection"]["position_token"]

        broker.restart()
        new = create_log(scene.worker_settings.kafka_settings, scene.partitions)

        until(lambda: not scene.workers[0].running, "the worker to refuse")
        scene.start_worker()
        until(lambda: not scene.workers[1].running, "a new worker to refuse")
        assert f"the checkpoint is of log {scene.log.log_id}" in scene.workers[1].said
        assert new.log_id in scene.workers[1].said
        assert scene.value(ADA, "any", at_least=token)["state"]["value"] == 9, "what was projected is still answered"
