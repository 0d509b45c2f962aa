"""The API while Kafka is away: reads go on, writes are bounded, and what there is no room for is told to come again."""

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from typing import Any
from unittest import mock

import httpx
import pytest

from lastword.embedded import EmbeddedStore
from lastword_producers.delivery import Delivery
from tests.support import services
from tests.support.kafka import LocalKafka
from tests.support.running import RunningLastword

IN_FLIGHT = 8
BYTES = 40_000
DELIVERY_TIMEOUT_S = 10

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """A Kafka of this module's own, which its tests pause and leave running."""
    services.require_local_kafka()
    with LocalKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def narrow(kafka: LocalKafka, embedded_store: EmbeddedStore) -> Iterator[RunningLastword]:
    """A lastword with little room for what is under way."""
    running = RunningLastword(kafka.bootstrap_servers, services.shared_database(embedded_store.url))
    room = {"max_in_flight": IN_FLIGHT, "max_bytes_in_flight": BYTES}
    running.api_settings = running.api_settings.model_copy(update=room)
    with running:
        yield running


@pytest.fixture
def owner() -> str:
    return f"main/user:{uuid.uuid4()}"


def statement(owner: str, value: Any) -> dict[str, Any]:
    return {
        "operation": "set",
        "owner": owner,
        "scope": "global",
        "key": "any",
        "value": value,
        "actor": {"service": "tests"},
    }


def publish(lastword: RunningLastword, event: dict[str, Any]) -> None:
    """Publish an event as soon as there is room, and see it applied."""
    lastword.until(
        lambda: lastword.post("/v1/events", event, wait="applied").status_code == 200, "an event to be applied"
    )


def assert_comes_again(answer: httpx.Response) -> None:
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["Retry-After"]) > 0


def test_while_kafka_is_away_reads_go_on_and_writes_are_told_to_come_again(
    kafka: LocalKafka, narrow: RunningLastword, owner: str
) -> None:
    publish(narrow, statement(owner, 0))
    kafka.pause()
    with ThreadPoolExecutor(2 * IN_FLIGHT) as pool:
        begun = time.monotonic()
        writes = [pool.submit(narrow.post, "/v1/events", statement(owner, number)) for number in range(2 * IN_FLIGHT)]
        refused = [future.result() for future in islice(as_completed(writes), IN_FLIGHT)]
        reads = [narrow.get("/v1/value", owner=owner, key="any").json()["state"]["value"] for _ in range(50)]
        took_s = time.monotonic() - begun
        kafka.resume()
        answers = [future.result() for future in writes]

    assert took_s < DELIVERY_TIMEOUT_S  # nobody waited for what was under way
    assert set(reads) == {0}
    for answer in refused:
        assert_comes_again(answer)
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert (answer.json()["code"], answer.json()["retryable"]) == ("backpressure", True)
    others = [answer for answer in answers if answer not in refused]
    assert {answer.status_code for answer in others} <= {202, 504}  # 504 on a slow machine
    publish(narrow, statement(owner, "again"))


def test_of_a_batch_nothing_comes_before_an_event_that_had_no_room(
    kafka: LocalKafka, narrow: RunningLastword, owner: str
) -> None:
    events = [statement(owner, text * 20_000) for text in "ab"] + [statement(owner, "c")]
    publish(narrow, events[2])
    kafka.pause()
    with (
        ThreadPoolExecutor(1) as pool,
        mock.patch.object(Delivery, "send", autospec=True, side_effect=Delivery.send) as send,
    ):
        waiting = pool.submit(narrow.post, "/v1/events", {"events": events})
        narrow.until(lambda: send.called, "the first of them to be under way")
        nothing = narrow.post("/v1/events", {"events": events[1:]})
        kafka.resume()
        some = waiting.result()

    assert_comes_again(nothing)
    assert some.status_code == 207
    assert [item["outcome"] for item in some.json()["results"]] == ["accepted", "failed", "failed"]
