"""While an event's outcome is unknown: nothing overtakes it, memory is bounded, and a false receipt is never given."""

import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from lastword.embedded import EmbeddedBroker
from lastword.process import LocalService
from lastword_producers.broker import KafkaSettings
from lastword_producers.errors import Backpressure, LogMismatch, PublishFailed, UnknownOutcome
from lastword_producers.kafka_log import create_log
from lastword_producers.publisher import Publisher
from lastword_schemas import jsontext
from lastword_schemas.drafts import EventDraft
from lastword_schemas.errors import LastwordError
from lastword_schemas.ids import event_id_from
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import Receipt
from tests.support import topics
from tests.support.kafka import LocalKafka
from tests.support.services import require_local_kafka
from tests.support.topics import SECONDS, records_of, settings_for

PARTITIONS = 2
TIMEOUT_S = 1.0
REQUESTS_IN_FLIGHT = 5
"""What an idempotent producer has under way at most on one connection; what comes after waits in the publisher."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """A Kafka of this module's own, which its tests pause and kill, and leave running."""
    require_local_kafka()
    with LocalKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka


@pytest.fixture(params=[pytest.param("kafka", marks=pytest.mark.real), "embedded"])
def own_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalService]:
    """Each broker in turn, to be paused. The embedded one takes no retries after a pause: it costs the producer."""
    if request.param == "kafka":
        kafka: LocalKafka = request.getfixturevalue("kafka")
        yield kafka
        kafka.resume()
        return
    with EmbeddedBroker(tmp_path) as broker:
        yield broker


def new_log(port: int) -> KafkaSettings:
    settings = settings_for(f"127.0.0.1:{port}")
    create_log(settings, PARTITIONS)
    return settings


def owners_of_partition(partition: int) -> Iterator[str]:
    while True:
        owner = f"main/user:{uuid.uuid4()}"
        if partition_for(owner, PARTITIONS) == partition:
            yield owner


def draft(owner: str, value: Any, event_id: str | None = None) -> EventDraft:
    data = {"operation": "set", "owner": owner, "scope": "global", "key": "tone", "value": value}
    return EventDraft.read(data | {"actor": {"service": "tests"}, "event_id": event_id})


def events_of(settings: KafkaSettings, owner: str) -> list[str]:
    """The ids of an owner's events in the order of the log, copies included."""
    data = [jsontext.parse(record.value() or b"") for records in read_all(settings) for record in records]
    return [event["event_id"] for event in data if event.get("owner") == owner]


def values_of(settings: KafkaSettings, owner: str) -> list[Any]:
    """The values of an owner's events in the order of the log, copies left out."""
    data = [jsontext.parse(record.value() or b"") for records in read_all(settings) for record in records]
    events = {event["event_id"]: event for event in reversed(data) if event.get("owner") == owner}
    return [event["body"]["value"] for event in reversed(events.values())]


def read_all(settings: KafkaSettings) -> list[Any]:
    return list(records_of(settings, settings.topic, PARTITIONS))


def pause(broker: LocalService) -> None:
    """Pause the broker and return when all of its threads stand still."""
    broker.pause()
    os.waitid(os.P_PID, broker.pid, os.WSTOPPED)


def settled(publisher: Publisher, event: EventDraft) -> Receipt:
    """Publish until the outcome is known, as a careful publisher does."""
    event = event.model_copy(update={"event_id": event.event_id or str(uuid.uuid4())})
    deadline = time.monotonic() + 2 * SECONDS
    while True:
        try:
            return publisher.publish(event)
        except UnknownOutcome:
            assert time.monotonic() < deadline, "the outcome stays unknown"


def outcome(future: Future[Receipt]) -> Receipt | BaseException:
    return future.exception(SECONDS) or future.result()


def test_a_correction_that_is_published_while_an_event_is_unknown_comes_after_it(own_broker: LocalService) -> None:
    settings = new_log(own_broker.port)
    owners = owners_of_partition(0)
    ada, ben, eve = next(owners), next(owners), next(owners_of_partition(1))
    with Publisher(settings, delivery_timeout_s=TIMEOUT_S) as publisher:
        settled(publisher, draft(ben, 0))
        pause(own_broker)
        for number in range(REQUESTS_IN_FLIGHT):  # so that the next one waits in the publisher
            publisher.submit(draft(ben, number))
            time.sleep(0.05)
        with pytest.raises(UnknownOutcome):
            publisher.publish(draft(ada, "wrong", "order-17"))

        correction = publisher.submit(draft(ada, "right", "order-18"))
        others = [publisher.submit(draft(owner, "other")) for owner in (ben, eve)]
        own_broker.resume()
        retried = settled(publisher, draft(ada, "wrong", "order-17"))

        assert all(isinstance(outcome(future), Receipt | UnknownOutcome) for future in (correction, *others))

    assert retried.event_id == event_id_from("order-17")
    assert list(dict.fromkeys(events_of(settings, ada))) == [event_id_from("order-17"), event_id_from("order-18")]
    assert values_of(settings, ben)[-1] == "other"
    assert values_of(settings, eve) == ["other"]


@pytest.mark.real
def test_events_that_a_killed_kafka_left_unknown_are_in_the_log_in_their_order_when_it_is_back(
    kafka: LocalKafka,
) -> None:
    settings = new_log(kafka.port)
    ada, ben = next(owners_of_partition(0)), next(owners_of_partition(1))
    with Publisher(settings, delivery_timeout_s=TIMEOUT_S) as publisher:
        settled(publisher, draft(ada, 0))
        kafka.kill()
        futures = [publisher.submit(draft(owner, number)) for number in range(1, 300) for owner in (ada, ben)]
        assert {type(outcome(future)) for future in futures} == {UnknownOutcome}

        kafka.start()
        settled(publisher, draft(ada, 300))
        settled(publisher, draft(ben, 300))

    assert values_of(settings, ada) == list(range(301))
    assert values_of(settings, ben) == list(range(1, 301))


@pytest.mark.real
def test_an_event_that_kafka_refuses_leaves_the_others_in_their_order(kafka: LocalKafka) -> None:
    settings = new_log(kafka.port)
    ada = next(owners_of_partition(0))
    topics.configure(settings, "max.message.bytes", "2000")
    with Publisher(settings) as publisher:
        futures: list[Future[Receipt]] = []
        for number in range(60):
            futures.append(publisher.submit(draft(ada, "x" * 10_000 if number % 20 == 10 else number)))
            time.sleep(0.005)
        outcomes = [outcome(future) for future in futures]
        last = settled(publisher, draft(ada, "last"))

    refused = [number for number, result in enumerate(outcomes) if isinstance(result, PublishFailed)]
    written = [number for number, result in enumerate(outcomes) if isinstance(result, Receipt)]
    assert {10, 30, 50} <= set(refused)
    assert len(refused) + len(written) == 60
    assert values_of(settings, ada) == [*written, "last"]
    assert last.offset > 0


def test_publishing_does_not_block_while_a_lost_producer_waits_to_be_replaced(own_broker: LocalService) -> None:
    settings = new_log(own_broker.port)
    ada = next(owners_of_partition(0))
    with Publisher(settings, delivery_timeout_s=TIMEOUT_S) as publisher:
        settled(publisher, draft(ada, 0))
        pause(own_broker)
        with pytest.raises(UnknownOutcome):
            publisher.publish(draft(ada, 1))
        own_broker.resume()
        time.sleep(0.2)  # the embedded broker refuses the producer now
        pause(own_broker)
        time.sleep(0.5)

        begun = time.monotonic()
        futures = [publisher.submit(draft(ada, number)) for number in range(2, 20)]
        took_s = time.monotonic() - begun

        own_broker.resume()
        assert {type(outcome(future)) for future in futures} <= {Receipt, UnknownOutcome}
        settled(publisher, draft(ada, 20))

    assert took_s < 1
    assert values_of(settings, ada) == list(range(21))


def test_what_is_under_way_is_bounded_in_bytes(own_broker: LocalService) -> None:
    settings = new_log(own_broker.port)
    ada = next(owners_of_partition(0))
    with Publisher(settings, max_bytes_in_flight=100_000, block_s=0, delivery_timeout_s=TIMEOUT_S) as publisher:
        settled(publisher, draft(ada, 0))
        pause(own_broker)
        futures: list[Future[Receipt]] = []

        def fill() -> None:
            for number in range(1, 1000):
                futures.append(publisher.submit(draft(ada, f"{number}:" + "x" * 10_000)))

        with pytest.raises(Backpressure) as caught:
            fill()

        assert {type(outcome(future)) for future in futures} == {UnknownOutcome}  # they still need their room
        with pytest.raises(Backpressure):
            publisher.submit(draft(ada, "x" * 10_000))
        own_broker.resume()
        again = outcome(until(lambda: publisher.submit(draft(ada, "again"))))
        while isinstance(again, UnknownOutcome):  # after a pause the embedded broker gives some offsets twice
            again = outcome(until(lambda: publisher.submit(draft(ada, "again"))))

        assert isinstance(again, Receipt)
    assert len(futures) == 9
    assert caught.value.retryable
    assert "100,000 bytes" in caught.value.message


def until(submit: Callable[[], Future[Receipt]]) -> Future[Receipt]:
    """Submit until there is room."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return submit()
        except Backpressure:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.real
def test_a_topic_that_was_made_anew_gets_no_receipt_of_the_old_log_even_if_it_is_longer(kafka: LocalKafka) -> None:
    settings = new_log(kafka.port)
    ada = next(owners_of_partition(0))
    with Publisher(settings, delivery_timeout_s=TIMEOUT_S) as publisher:
        settled(publisher, draft(ada, 0))
        topics.delete(settings)
        create_log(settings, PARTITIONS)
        with Publisher(settings) as newer:
            for number in range(5):
                newer.publish(draft(ada, number))

        errors: list[LastwordError] = []
        for _ in range(3):
            with pytest.raises(LastwordError) as caught:
                publisher.publish(draft(ada, "lost"))
            errors.append(caught.value)

    assert {type(error) for error in errors} <= {LogMismatch, UnknownOutcome}
    assert isinstance(errors[-1], LogMismatch)
    assert "Restart this service" in errors[-1].message


@pytest.mark.real
def test_that_kafka_is_away_is_said_once_and_that_it_is_back_once(
    kafka: LocalKafka, caplog: pytest.LogCaptureFixture
) -> None:
    settings = new_log(kafka.port)
    ada = next(owners_of_partition(0))
    with caplog.at_level(logging.INFO), Publisher(settings, delivery_timeout_s=TIMEOUT_S) as publisher:
        settled(publisher, draft(ada, 0))
        caplog.clear()
        kafka.kill()
        outcome(publisher.submit(draft(ada, 1)))
        time.sleep(3)
        kafka.start()
        settled(publisher, draft(ada, 2))

    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2, said
    assert said[0].startswith("publishing waits: ")
    assert said[1].startswith("publishing goes on")
