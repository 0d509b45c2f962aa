"""The asynchronous clients: the same as the blocking ones, while other tasks go on."""

import asyncio
import os
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lastword.embedded import EmbeddedBroker
from lastword_producers.broker import KafkaSettings
from lastword_producers.errors import Backpressure, PublisherClosed, UnknownOutcome
from lastword_producers.kafka_log import create_log
from lastword_producers.publisher import AsyncCandidateClient, AsyncPublisher, CandidateClient, Publisher
from lastword_schemas import jsontext
from lastword_schemas.authority import Role
from lastword_schemas.drafts import EventDraft, NotAllowed
from lastword_schemas.envelope import Envelope
from lastword_schemas.errors import InvalidInput
from lastword_schemas.positions import Receipt
from tests.support.services import Broker
from tests.support.topics import records_of, settings_for

PARTITIONS = 2
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to.md"


@pytest.fixture(scope="module")
def settings(broker: Broker) -> KafkaSettings:
    """One log for all tests that only add to it."""
    settings = settings_for(broker.bootstrap_servers)
    create_log(settings, PARTITIONS)
    return settings


@pytest.fixture
def owner() -> str:
    return f"main/user:{uuid.uuid4()}"


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker of the test's own, which it may pause."""
    with EmbeddedBroker(tmp_path) as broker:
        yield broker


@pytest.fixture
def own_settings(own_broker: EmbeddedBroker) -> KafkaSettings:
    settings = settings_for(own_broker.bootstrap_servers)
    create_log(settings, PARTITIONS)
    return settings


def draft(owner: str, value: Any) -> EventDraft:
    data = {"operation": "set", "owner": owner, "scope": "global", "key": "tone", "value": value}
    return EventDraft.read(data | {"actor": {"service": "tests"}})


def events_of(settings: KafkaSettings, owner: str) -> list[Envelope]:
    data = [
        jsontext.parse(message.value() or b"")
        for records in records_of(settings, settings.topic, PARTITIONS)
        for message in records
    ]
    return [Envelope.read(event) for event in data if event.get("owner") == owner]


def pause(broker: EmbeddedBroker) -> None:
    broker.pause()
    os.waitid(os.P_PID, broker.pid, os.WSTOPPED)


def test_both_clients_write_the_same_events(settings: KafkaSettings, owner: str) -> None:
    async def publish() -> list[Receipt]:
        async with (
            AsyncPublisher(settings, service="app", role=Role.PERSON) as publisher,
            AsyncCandidateClient(settings, service="reader") as candidates,
        ):
            turn = await publisher.say(owner, "t1", "I like it brief.")
            return [
                turn,
                await publisher.set(owner, "global", "tone", "brief", expected_sequence=0, retires=[("x:y", "tone")]),
                await publisher.delete(owner, "global", "tone", expected_sequence=7),
                await candidates.set(owner, "global", "tone", 1, source_event_id=turn, retires=[("x:y", "k")]),
                await candidates.delete(owner, "global", "tone", source_event_id=turn),
                await publisher.publish(draft(owner, None)),
            ]

    receipts = asyncio.run(publish())
    with Publisher(settings, service="app", role=Role.PERSON) as publisher:
        turn = publisher.say(owner, "t1", "I like it brief.")
        publisher.set(owner, "global", "tone", "brief", expected_sequence=0, retires=[("x:y", "tone")])
        publisher.delete(owner, "global", "tone", expected_sequence=7)
        with CandidateClient(settings, service="reader") as candidates:
            candidates.set(owner, "global", "tone", 1, source_event_id=turn, retires=[("x:y", "k")])
            candidates.delete(owner, "global", "tone", source_event_id=turn)
        publisher.publish(draft(owner, None))

    events = events_of(settings, owner)
    assert [receipt.event_id for receipt in receipts] == [event.event_id for event in events[:6]]
    times = {"event_id": "", "published_at": None, "source_event_id": None, "source_receipt": None}
    alike = [event.model_copy(update=times) for event in events]
    assert alike[:6] == alike[6:]


def test_what_one_task_submits_is_in_the_log_in_that_order_also_where_it_waits_for_room(
    settings: KafkaSettings, owner: str
) -> None:
    async def publish() -> list[Receipt]:
        async with AsyncPublisher(settings, max_in_flight=3) as publisher:
            futures = [await publisher.submit(draft(owner, number)) for number in range(100)]
            return await asyncio.gather(*futures)

    receipts = asyncio.run(publish())

    assert [event.body.value for event in events_of(settings, owner)] == list(range(100))
    assert [receipt.offset for receipt in receipts] == sorted(receipt.offset for receipt in receipts)


def test_many_tasks_publish_at_once(settings: KafkaSettings, owner: str) -> None:
    async def publish() -> list[Receipt]:
        async with AsyncPublisher(settings, service="app", max_in_flight=10) as publisher:
            return await asyncio.gather(*(publisher.set(owner, "global", "tone", number) for number in range(200)))

    receipts = asyncio.run(publish())

    assert len({receipt.offset for receipt in receipts}) == 200
    assert [event.body.value for event in events_of(settings, owner)] == list(range(200))


def test_other_tasks_go_on_while_events_wait_for_room_and_for_receipts(
    own_broker: EmbeddedBroker, own_settings: KafkaSettings, owner: str
) -> None:
    async def publish() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        async with AsyncPublisher(own_settings, max_in_flight=2, block_s=0.5, delivery_timeout_s=60) as publisher:
            await publisher.publish(draft(owner, 0))
            ticking = asyncio.create_task(tick())
            pause(own_broker)
            waiting = [await publisher.submit(draft(owner, number)) for number in (1, 2)]
            with pytest.raises(Backpressure):
                await publisher.submit(draft(owner, "no room"))
            assert ticks > 10
            given_up = asyncio.create_task(publisher.publish(draft(owner, "given up")))
            await asyncio.sleep(0.1)
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up

            own_broker.resume()
            await asyncio.gather(*waiting)
            for number in range(3, 8):  # what was refused or given up holds no room
                await publisher.publish(draft(owner, number))
            ticking.cancel()

    asyncio.run(publish())

    assert [event.body.value for event in events_of(own_settings, owner)] == list(range(8))


def test_an_event_that_is_not_awaited_any_longer_is_under_way_all_the_same(
    own_broker: EmbeddedBroker, own_settings: KafkaSettings, owner: str
) -> None:
    async def publish() -> None:
        async with AsyncPublisher(own_settings) as publisher:
            await publisher.publish(draft(owner, 0))
            pause(own_broker)
            with pytest.raises(UnknownOutcome):
                await publisher.publish(draft(owner, 1), timeout_s=0.2)
            own_broker.resume()
            await publisher.publish(draft(owner, 2))

    asyncio.run(publish())

    assert [event.body.value for event in events_of(own_settings, owner)] == [0, 1, 2]


def test_it_refuses_what_the_blocking_ones_refuse(settings: KafkaSettings, owner: str) -> None:
    async def publish() -> None:
        async with AsyncPublisher(settings) as publisher:
            with pytest.raises(InvalidInput):
                await publisher.set(owner, "global", "tone", 1)
            candidate: Any = object()
            with pytest.raises(NotAllowed):
                await publisher.publish(candidate)
        with pytest.raises(PublisherClosed):
            await publisher.publish(draft(owner, 1))

    asyncio.run(publish())

    assert events_of(settings, owner) == []


def test_it_says_how_it_is_opened(settings: KafkaSettings, owner: str) -> None:
    async def publish() -> None:
        with pytest.raises(PublisherClosed, match="async with"):
            await AsyncPublisher(settings).publish(draft(owner, 1))

    asyncio.run(publish())


def test_the_example_of_the_how_to_publishes(
    settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(import asyncio.*?)```", HOW_TO.read_text("utf-8"), re.DOTALL)
    monkeypatch.setattr("lastword_producers.broker.KafkaSettings", lambda _: settings)
    begun = time.time_ns() // 1_000_000

    exec(example, {})  # noqa: S102 - our own page

    assert capsys.readouterr().out.startswith("r1.")
    assert events_of(settings, "main/user:ada")[-1].published_at is not None
    assert uuid.UUID(events_of(settings, "main/user:ada")[-1].event_id).int >> 80 >= begun
