"""The broker stands still, dies, is restarted; the topic is deleted and made anew."""

import time
from collections.abc import Callable

import pytest

from lastword_producers.errors import LogMismatch
from lastword_producers.kafka_log import LogIdentity, apply_registry, create_log
from lastword_producers.publisher import Publisher
from lastword_schemas.positions import Receipt
from tests.support import topics
from tests.support.kafka import LocalKafka
from tests.support.load import Load
from tests.support.scene import Scene, until
from tests.support.watcher import Watcher

pytestmark = pytest.mark.real


def stands_still(kafka: LocalKafka) -> None:
    kafka.pause()
    time.sleep(3)  # longer than a publisher waits
    kafka.resume()


def dies(kafka: LocalKafka) -> None:
    kafka.kill()
    kafka.start()


@pytest.mark.parametrize("happens", [stands_still, dies, LocalKafka.restart])
def test_what_was_acknowledged_by_a_broker_is_there_once_whatever_happens_to_it(
    scene: Scene, kafka: LocalKafka, happens: Callable[[LocalKafka], None]
) -> None:
    with Load(scene) as load, Watcher(scene, load) as watcher:
        load.goes_on()
        happens(kafka)
        load.goes_on()
        watcher.goes_on()
    assert load.unsettled > 0
    scene.check(load, watcher)


ADA = "main/user:ada"


@pytest.mark.parametrize("events", [1, 20], ids=["shorter", "longer"])
def test_a_topic_made_anew_under_a_checkpoint_is_refused_by_worker_and_api(scene: Scene, events: int) -> None:
    scene.projected([scene.publisher.set(ADA, "global", "any", number) for number in range(10)])
    token = scene.value(ADA, "any")["selection"]["position_token"]

    new, receipt = made_anew(scene, events)

    until(lambda: not scene.workers[0].running, "the worker to refuse")
    scene.start_worker()
    until(lambda: not scene.workers[1].running, "a new worker to refuse")
    assert f"the checkpoint is of log {scene.log.log_id}" in scene.workers[1].said
    assert new.log_id in scene.workers[1].said
    for worker in scene.workers:
        assert "LASTWORD_NAMESPACE" in worker.said
        assert "`lastword rebuild`" in worker.said
    assert scene.value(ADA, "any", at_least=token)["state"]["value"] == 9, "what was projected is still answered"
    refused = scene.get("/v1/value", owner=ADA, key="any", at_least=str(receipt))
    assert (refused.status_code, refused.json()["code"]) == (409, "wrong-log")
    assert scene.log.log_id in refused.json()["detail"]
    assert new.log_id in refused.json()["detail"]
    with pytest.raises(LogMismatch, match="deleted and made anew"):
        scene.publisher.set(ADA, "global", "any", "to which log?")
    event = {"operation": "set", "owner": ADA, "scope": "global", "key": "any", "value": 1, "actor": {"service": "t"}}
    refused = scene.post("/v1/events", event)
    assert (refused.status_code, refused.json()["code"]) == (503, "log-mismatch")
    with scene.another_api() as api:
        until(lambda: "is of log" in api.not_ready.get("reads", ""), "a new API to refuse")
        assert scene.log.log_id in api.not_ready["reads"]
        assert new.log_id in api.not_ready["reads"]


def made_anew(scene: Scene, events: int) -> tuple[LogIdentity, Receipt]:
    """Delete the topic and make it again with so many events of Ada's; the receipt of the last one."""
    kafka = scene.worker_settings.kafka_settings
    topics.delete(kafka)
    log = create_log(kafka, scene.partitions)
    apply_registry(kafka, scene.registry)
    with Publisher(kafka, log, service="tests") as publisher:
        receipts = [publisher.set(ADA, "global", "any", f"of the new log, {number}") for number in range(events)]
    return log, receipts[-1]
