"""A Kafka and a Redis that these tests may hurt."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kafka import LocalKafka
from tests.support.scene import DurableStore, Scene
from tests.support.services import require_local_kafka

# A group gives a dead worker's partitions to others when its session is over: by default after 45 s, which no test has.
_SHORT_SESSIONS = {
    "group.consumer.session.timeout.ms": 2_000,
    "group.consumer.min.session.timeout.ms": 2_000,
    "group.consumer.heartbeat.interval.ms": 400,
    "group.consumer.min.heartbeat.interval.ms": 400,
}


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """The real Kafka. It may be killed, if it runs again at the end of the test."""
    require_local_kafka()
    with LocalKafka(tmp_path_factory.mktemp("kafka"), properties=_SHORT_SESSIONS) as kafka:
        yield kafka


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DurableStore]:
    """A Redis with an append-only file."""
    with DurableStore(tmp_path / "store") as store:
        yield store


@pytest.fixture
def scene(kafka: LocalKafka, store: DurableStore, tmp_path: Path) -> Iterator[Scene]:
    """A lastword with one worker on both."""
    with Scene(kafka.bootstrap_servers, store.url, tmp_path) as scene:
        yield scene
