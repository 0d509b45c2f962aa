"""Publishing: a receipt only for what is in the log, and words that tell failed from unknown for what is not."""

import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import KafkaError, Message, Producer

from lastword.embedded import EmbeddedBroker
from lastword_producers.broker import KafkaSettings, client_logger
from lastword_producers.errors import (
    Backpressure,
    LogMismatch,
    LogNotReady,
    PublisherClosed,
    PublishFailed,
    UndeclaredKey,
    UnknownOutcome,
)
from lastword_producers.kafka_log import LogIdentity, create_log, open_log
from lastword_producers.publisher import CandidateClient, Publisher
from lastword_schemas import jsontext
from lastword_schemas.authority import Authority, Role
from lastword_schemas.drafts import CandidateDraft, EventDraft, NotAllowed
from lastword_schemas.envelope import Envelope
from lastword_schemas.errors import InvalidInput, LastwordError, TooLarge
from lastword_schemas.identity import record_key
from lastword_schemas.ids import event_id_from
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import Receipt, parse_receipt
from lastword_schemas.registry import Registry
from tests.support import topics
from tests.support.services import Broker
from tests.support.topics import SECONDS, records_of, settings_for

PARTITIONS = 4
ADA = "main/user:ada"
PRIVATE = "hunter2"
REQUESTS_IN_FLIGHT = 5
"""What an idempotent producer has under way at most on one connection."""
REGISTRY = Registry.read({"keys": {"tone": {"policy": "latest"}}})
only_kafka = pytest.mark.parametrize("broker", [pytest.param("kafka", marks=pytest.mark.real)], indirect=True)

ErrorT = TypeVar("ErrorT", bound=LastwordError)


@pytest.fixture(scope="module")
def shared(broker: Broker) -> KafkaSettings:
    """One log for all tests that only add to it."""
    settings = settings_for(broker.bootstrap_servers)
    create_log(settings, PARTITIONS)
    return settings


@pytest.fixture(scope="module")
def publisher(shared: KafkaSettings) -> Iterator[Publisher]:
    with Publisher(shared, service="tests") as publisher:
        yield publisher


@pytest.fixture(scope="module")
def candidates(shared: KafkaSettings) -> Iterator[CandidateClient]:
    with CandidateClient(shared, service="reader") as client:
        yield client


@pytest.fixture(scope="module")
def wide(broker: Broker) -> KafkaSettings:
    """A topic with 24 partitions that holds no log."""
    settings = settings_for(broker.bootstrap_servers)
    topics.create(settings, 24, {})
    return settings


@pytest.fixture
def owner() -> str:
    """An owner that no other test has."""
    return f"main/user:{uuid.uuid4()}"


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker of the test's own, which it may pause and kill."""
    broker = EmbeddedBroker(tmp_path)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def own_log(own_broker: EmbeddedBroker) -> tuple[KafkaSettings, LogIdentity]:
    settings = settings_for(own_broker.bootstrap_servers)
    return settings, create_log(settings, PARTITIONS)


def draft(owner: str = ADA, value: Any = "brief", **fields: Any) -> EventDraft:
    data = {"operation": "set", "owner": owner, "scope": "global", "key": "tone", "value": value}
    return EventDraft.read(data | {"actor": {"service": "tests"}} | fields)


def events_at(settings: KafkaSettings, owner: str) -> list[tuple[int, Envelope]]:
    """Offset and envelope of every event of an owner, from all partitions."""
    found: list[tuple[int, Envelope]] = []
    for message in [message for records in records_of(settings, settings.topic, PARTITIONS) for message in records]:
        data = jsontext.parse(message.value() or b"")
        if data.get("owner") == owner:
            envelope = Envelope.read(data)
            assert message.partition() == partition_for(owner, PARTITIONS)
            assert message.key() == record_key(owner, envelope.scope, envelope.key).encode()
            found.append((message.offset() or 0, envelope))
    return found


def pause(broker: EmbeddedBroker) -> None:
    """Pause the broker and return when all of its threads stand still."""
    broker.pause()
    os.waitid(os.P_PID, broker.pid, os.WSTOPPED)


def fails(call: Callable[[], object], error: type[ErrorT]) -> ErrorT:
    with pytest.raises(error) as caught:
        call()
    return caught.value


# --- receipts


def test_a_receipt_says_where_the_event_stands(publisher: Publisher, shared: KafkaSettings, owner: str) -> None:
    receipt = publisher.set(owner, "global", "tone", "brief", thread="t1", message="m1")

    ((offset, envelope),) = events_at(shared, owner)
    assert receipt == Receipt(publisher.log.log_id, 0, partition_for(owner, PARTITIONS), offset, envelope.event_id)
    assert (envelope.scope, envelope.key, envelope.body.value) == ("global", "tone", "brief")
    assert (envelope.actor.service, envelope.thread, envelope.message) == ("tests", "t1", "m1")


def test_the_text_of_a_receipt_is_read_back(publisher: Publisher, owner: str) -> None:
    receipt = publisher.say(owner, "t1", "I like it brief.")

    assert parse_receipt(str(receipt), field="receipt") == receipt


def test_events_of_one_thread_are_in_the_log_in_the_order_of_their_submission(
    publisher: Publisher, shared: KafkaSettings, owner: str
) -> None:
    futures = [publisher.submit(draft(owner, number)) for number in range(500)]

    receipts = [future.result(SECONDS) for future in futures]

    events = events_at(shared, owner)
    assert [envelope.body.value for _, envelope in events] == list(range(500))
    assert [receipt.offset for receipt in receipts] == [offset for offset, _ in events]


def test_all_scopes_keys_and_turns_of_an_owner_are_in_one_partition(publisher: Publisher, owner: str) -> None:
    receipts = [
        publisher.set(owner, "global", "a/b", 1),
        publisher.set(owner, "project:a/b", "c", 1),
        publisher.delete(owner, "project:🦊", "../*"),
        publisher.say(owner, "t1", "words", scope="project:{}"),
    ]

    assert {receipt.partition for receipt in receipts} == {partition_for(owner, PARTITIONS)}


def test_one_owner_is_the_same_in_its_short_and_its_long_form(publisher: Publisher) -> None:
    short, long = (publisher.set(owner, "global", "tone", 1) for owner in ("user:ada", "main/user:ada"))

    assert short.partition == long.partition


@pytest.mark.parametrize("name", ["ada", "a/b", "%2F", "{p17}", "..", "*", "🦊", "x", "xy", "xyz", "n" * 250])
def test_an_owner_is_where_librdkafkas_murmur2_would_put_it(wide: KafkaSettings, name: str) -> None:
    owner = f"main/user:{name}"
    placed: list[int | None] = []

    def report(error: KafkaError | None, message: Message) -> None:
        assert error is None
        placed.append(message.partition())

    producer = Producer(wide.client_config() | {"partitioner": "murmur2", "linger.ms": 0}, logger=client_logger())
    producer.produce(wide.topic, b"x", owner.encode(), on_delivery=report)
    producer.flush(SECONDS)

    assert placed == [partition_for(owner, 24)]


@pytest.mark.parametrize("value", [2**53 + 1, "2026-03-01T12:00:00.123456Z", [], {}, None, "🦊\0", 0.1])
def test_values_stand_in_the_log_exactly(publisher: Publisher, shared: KafkaSettings, owner: str, value: Any) -> None:
    publisher.set(owner, "global", "tone", value)

    ((_, envelope),) = events_at(shared, owner)
    assert jsontext.canonical(envelope.body.value) == jsontext.canonical(value)
    assert "value" in envelope.body.model_fields_set


# --- ids and clocks


def test_a_made_event_id_is_fresh_and_begins_with_its_time(publisher: Publisher, owner: str) -> None:
    begun = time.time_ns() // 1_000_000

    ids = [uuid.UUID(publisher.set(owner, "global", "tone", number).event_id) for number in range(3)]

    assert [made.version for made in ids] == [7, 7, 7]
    assert len(set(ids)) == 3
    assert begun <= ids[0].int >> 80 <= ids[2].int >> 80 <= time.time_ns() // 1_000_000


def test_publishing_again_with_the_same_event_id_leaves_a_second_copy_of_one_event(
    publisher: Publisher, shared: KafkaSettings, owner: str
) -> None:
    receipts = [publisher.set(owner, "global", "tone", "brief", event_id="order-17") for _ in range(2)]

    assert {receipt.event_id for receipt in receipts} == {event_id_from("order-17")}
    assert receipts[0].offset < receipts[1].offset
    first, second = (envelope for _, envelope in events_at(shared, owner))
    assert first.model_copy(update={"published_at": None}) == second.model_copy(update={"published_at": None})


def test_clock_and_ids_can_be_given(shared: KafkaSettings, owner: str) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    made = str(uuid.UUID(int=7))

    with Publisher(shared, service="tests", now=lambda: now, make_event_id=lambda: made) as publisher:
        receipt = publisher.set(owner, "global", "tone", 1)

    ((_, envelope),) = events_at(shared, owner)
    assert (receipt.event_id, envelope.event_id, envelope.published_at) == (made, made, now)


# --- refused at the door


def test_what_is_refused_at_the_door_never_reaches_the_log(
    publisher: Publisher, shared: KafkaSettings, owner: str
) -> None:
    fails(lambda: publisher.set(owner, "global", "", 1), InvalidInput)
    fails(lambda: publisher.set(owner, "Global", "tone", 1), InvalidInput)
    fails(lambda: publisher.set(owner, "global", "tone", float("nan")), InvalidInput)
    fails(lambda: publisher.set(owner, "global", "tone", "x" * 2_000_000), TooLarge)
    fails(lambda: publisher.set(owner, "global", "tone", 1, authority=Authority.CONFIRMED), NotAllowed)
    fails(lambda: publisher.say(owner, "", "words"), InvalidInput)

    assert events_at(shared, owner) == []


def test_a_publisher_that_knows_the_registry_refuses_undeclared_keys(shared: KafkaSettings, owner: str) -> None:
    with Publisher(shared, service="tests", registry=REGISTRY) as publisher:
        error = fails(lambda: publisher.set(owner, "global", "colour", "red"), UndeclaredKey)
        publisher.set(owner, "global", "tone", "brief")

    assert "'colour'" in error.message
    assert "keys.toml" in error.message
    assert len(events_at(shared, owner)) == 1


def test_a_person_in_a_control_confirms(shared: KafkaSettings, owner: str) -> None:
    with Publisher(shared, service="app", role=Role.PERSON) as publisher:
        publisher.set(owner, "global", "tone", "brief", authority=Authority.CONFIRMED)

    ((_, envelope),) = events_at(shared, owner)
    assert envelope.authority is Authority.CONFIRMED


def test_the_short_forms_ask_for_a_service(shared: KafkaSettings, owner: str) -> None:
    with Publisher(shared) as publisher:
        assert fails(lambda: publisher.set(owner, "global", "tone", 1), InvalidInput).field == "service"
        assert publisher.publish(draft(owner)).offset > 0


# --- candidates


def test_a_candidate_cites_the_receipt_of_the_turn_that_it_reads(
    publisher: Publisher, candidates: CandidateClient, shared: KafkaSettings, owner: str
) -> None:
    turn = publisher.say(owner, "t1", "I like it brief.")

    receipt = candidates.set(
        owner,
        "global",
        "tone",
        "brief",
        source_event_id=turn,
        span=(10, 15),
        quote="brief",
        authority=Authority.STATED,
        confidence=0.9,
    )

    _, (offset, envelope) = events_at(shared, owner)
    assert (receipt.partition, receipt.offset) == (turn.partition, offset)
    assert (envelope.source_event_id, envelope.source_receipt) == (turn.event_id, str(turn))
    assert (envelope.actor.service, envelope.actor.role) == ("reader", Role.EXTRACTOR)
    assert (envelope.span, envelope.body.quote, envelope.confidence) == ([10, 15], "brief", 0.9)
    assert envelope.authority is Authority.STATED


def test_a_candidate_may_say_that_a_value_no_longer_applies(
    publisher: Publisher, candidates: CandidateClient, shared: KafkaSettings, owner: str
) -> None:
    turn = publisher.say(owner, "t1", "Forget the tone.")

    candidates.delete(owner, "global", "tone", source_event_id=turn.event_id)

    envelope = events_at(shared, owner)[-1][1]
    assert (envelope.operation, envelope.source_event_id, envelope.source_receipt) == ("delete", turn.event_id, None)
    assert envelope.authority is Authority.INFERRED


def test_a_candidate_client_writes_candidates_only(candidates: CandidateClient, owner: str) -> None:
    statement: Any = draft(owner)

    assert "candidates through CandidateClient" in fails(lambda: candidates.submit(statement), NotAllowed).message
    assert not hasattr(candidates, "say")
    fails(
        lambda: candidates.set(owner, "global", "tone", 1, source_event_id="e", authority=Authority.CONFIRMED),
        NotAllowed,
    )


def test_a_publisher_writes_no_candidates(publisher: Publisher, owner: str) -> None:
    data = {"owner": owner, "scope": "global", "key": "tone", "value": 1, "source_event_id": "e1"}
    candidate: Any = CandidateDraft.read(data | {"actor": {"service": "reader", "role": "extractor"}})

    fails(lambda: publisher.publish(candidate), NotAllowed)


# --- failed, unknown, waiting


def test_a_publisher_opens_no_log_that_is_not_ready(broker: Broker) -> None:
    fails(lambda: Publisher(settings_for(broker.bootstrap_servers)), LogNotReady)


@only_kafka
def test_what_the_broker_refuses_is_certainly_not_in_the_log(broker: Broker, owner: str) -> None:
    settings = settings_for(broker.bootstrap_servers)
    log = create_log(settings, PARTITIONS)
    topics.configure(settings, "max.message.bytes", "2000")

    with Publisher(settings, log, service="tests") as publisher:
        error = fails(lambda: publisher.set(owner, "global", "tone", "x" * 10_000, event_id="order-17"), PublishFailed)
        publisher.set(owner, "global", "tone", "short")

    assert error.event_id == event_id_from("order-17")
    assert "MSG_SIZE_TOO_LARGE" in error.message
    assert [envelope.body.value for _, envelope in events_at(settings, owner)] == ["short"]


def test_a_receipt_comes_only_when_the_log_has_the_event(
    own_broker: EmbeddedBroker, own_log: tuple[KafkaSettings, LogIdentity]
) -> None:
    with Publisher(*own_log) as publisher:
        publisher.publish(draft())
        pause(own_broker)
        future = publisher.submit(draft(value=2))
        with pytest.raises(TimeoutError):
            future.result(0.5)
        assert not future.cancel()
        own_broker.resume()

        assert future.result(SECONDS).offset == 2


def test_an_event_without_an_answer_is_unknown_and_safe_to_publish_again(
    own_broker: EmbeddedBroker, own_log: tuple[KafkaSettings, LogIdentity], caplog: pytest.LogCaptureFixture
) -> None:
    settings, log = own_log
    event = draft(value=PRIVATE, event_id="order-17")
    with caplog.at_level(logging.DEBUG), Publisher(settings, log, delivery_timeout_s=3) as publisher:
        publisher.publish(draft())
        pause(own_broker)

        error = fails(lambda: publisher.publish(event), UnknownOutcome)

        own_broker.resume()
        assert error.retryable
        assert error.event_id == event_id_from("order-17")
        receipt = retried(lambda: publisher.publish(event))

    copies = [offset for offset, envelope in events_at(settings, ADA) if envelope.event_id == error.event_id]
    assert receipt.offset == copies[-1]
    assert PRIVATE not in caplog.text + error.message


def test_waiting_shorter_than_the_delivery_takes_is_unknown(
    own_broker: EmbeddedBroker, own_log: tuple[KafkaSettings, LogIdentity]
) -> None:
    with Publisher(*own_log) as publisher:
        publisher.publish(draft())
        pause(own_broker)

        fails(lambda: publisher.publish(draft(), timeout_s=0.2), UnknownOutcome)

        own_broker.resume()


def test_more_events_than_allowed_in_flight_are_held_back(
    own_broker: EmbeddedBroker, own_log: tuple[KafkaSettings, LogIdentity]
) -> None:
    with Publisher(*own_log, max_in_flight=2, block_s=0.1) as publisher:
        publisher.publish(draft())
        pause(own_broker)
        waiting = [publisher.submit(draft(value=number)) for number in range(2)]

        error = fails(lambda: publisher.submit(draft(value=PRIVATE)), Backpressure)

        own_broker.resume()
        assert [future.result(SECONDS).offset for future in waiting] == [2, 3]
        assert error.retryable
        assert publisher.publish(draft()).offset == 4


def test_closing_waits_for_the_receipts_of_what_is_in_flight(shared: KafkaSettings, owner: str) -> None:
    publisher = Publisher(shared)
    futures = [publisher.submit(draft(owner, number)) for number in range(200)]

    publisher.close()

    assert all(future.done() for future in futures)
    assert len({future.result().offset for future in futures}) == 200


def test_what_is_not_settled_when_a_publisher_closes_is_unknown(
    own_broker: EmbeddedBroker, own_log: tuple[KafkaSettings, LogIdentity]
) -> None:
    publisher = Publisher(*own_log)
    publisher.publish(draft())
    pause(own_broker)
    futures = [publisher.submit(draft(value=number)) for number in range(3)]

    publisher.close(timeout_s=0.3)

    assert all(future.done() for future in futures)
    for future in futures:
        fails(future.result, UnknownOutcome)


def test_what_still_waits_when_a_publisher_closes_is_never_sent(
    own_broker: EmbeddedBroker, own_log: tuple[KafkaSettings, LogIdentity]
) -> None:
    settings, log = own_log
    publisher = Publisher(settings, log)
    publisher.publish(draft())
    pause(own_broker)
    for number in range(REQUESTS_IN_FLIGHT + 2):
        publisher.submit(draft(value=number))
        time.sleep(0.05)  # so that each is a request of its own

    publisher.close(timeout_s=0.1)
    own_broker.resume()
    time.sleep(1)

    assert [envelope.body.value for _, envelope in events_at(settings, ADA)] == ["brief", 0, 1, 2, 3, 4]


def test_publishing_never_creates_a_topic(shared: KafkaSettings, owner: str) -> None:
    settings = settings_for(shared.bootstrap_servers)
    log = create_log(settings, PARTITIONS)
    topics.delete(settings)

    with Publisher(settings, log, delivery_timeout_s=1) as publisher:
        fails(lambda: publisher.publish(draft(owner)), LastwordError)

    assert "does not exist" in fails(lambda: open_log(settings), LogNotReady).message


def test_a_closed_publisher_takes_nothing_more(shared: KafkaSettings, owner: str) -> None:
    publisher = Publisher(shared)
    publisher.close()
    publisher.close()

    fails(lambda: publisher.publish(draft(owner)), PublisherClosed)
    assert events_at(shared, owner) == []


def test_a_callback_that_fails_keeps_no_receipt_back(publisher: Publisher, owner: str) -> None:
    def fail(future: Future[Receipt]) -> None:
        raise RuntimeError("a callback's own mistake")

    publisher.submit(draft(owner)).add_done_callback(fail)

    assert publisher.publish(draft(owner)).offset > 0


@only_kafka
def test_a_log_that_was_made_anew_gets_no_receipt_of_the_old_one(broker: Broker, owner: str) -> None:
    settings = settings_for(broker.bootstrap_servers)
    with Publisher(settings, create_log(settings, PARTITIONS), delivery_timeout_s=3) as publisher:
        for number in range(3):
            publisher.publish(draft(owner, number))
        topics.delete(settings)
        create_log(settings, PARTITIONS)

        errors = [fails(lambda: publisher.publish(draft(owner)), LastwordError) for _ in range(4)]

    assert isinstance(errors[-1], LogMismatch)
    assert {type(error) for error in errors} <= {LogMismatch, UnknownOutcome}
    assert "Restart this service" in errors[-1].message


def retried(publish: Callable[[], Receipt]) -> Receipt:
    """Publish until the outcome is known, as a careful publisher does."""
    for _ in range(20):
        try:
            return publish()
        except UnknownOutcome:
            continue
    raise AssertionError("the outcome stays unknown")
