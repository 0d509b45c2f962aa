"""The services that tests run against. What they are and how to choose others: `tests/support/services.py`."""

import uuid
from collections.abc import Iterator

import pytest

from lastword.embedded import EmbeddedBroker, EmbeddedStore
from tests.support import services
from tests.support.containers import container_kafka, container_redis
from tests.support.kafka import LocalKafka
from tests.support.running import RunningLastword
from tests.support.services import Broker


def pytest_report_header() -> list[str]:
    return services.describe()


def pytest_collection_finish(session: pytest.Session) -> None:
    if not session.config.option.collectonly and any(item.get_closest_marker("real") for item in session.items):
        services.fetch_kafka()


@pytest.fixture(scope="session")
def real_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap servers of the real Kafka, shared by all tests: leave it running."""
    if (running := services.running_kafka()) is not None:
        yield running
    elif services.use_containers():
        with container_kafka() as bootstrap_servers:
            yield bootstrap_servers
    else:
        services.require_local_kafka()
        with LocalKafka(tmp_path_factory.mktemp("kafka")) as kafka:
            yield kafka.bootstrap_servers


@pytest.fixture(scope="session")
def embedded_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """The embedded broker, shared by all tests: leave it running."""
    with EmbeddedBroker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(scope="session")
def embedded_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedStore]:
    """The embedded store, shared by all tests: leave it running."""
    with EmbeddedStore(tmp_path_factory.mktemp("store")) as store:
        yield store


@pytest.fixture(scope="session")
def store_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of the store, shared by all tests: its database 0 is emptied by some of them, others are not."""
    if (running := services.running_redis()) is not None:
        yield running
    elif services.use_containers():
        with container_redis() as url:
            yield url
    else:
        yield request.getfixturevalue("embedded_store").url


@pytest.fixture
def redis_url(store_url: str) -> str:
    """URL of a store without any key."""
    services.empty_store(store_url)
    return store_url


@pytest.fixture(scope="session", params=[pytest.param("kafka", marks=pytest.mark.real), "embedded"])
def broker(request: pytest.FixtureRequest) -> Broker:
    """Each broker in turn: a test that takes this runs on both."""
    if request.param == "embedded":
        return Broker("embedded", request.getfixturevalue("embedded_broker").bootstrap_servers)
    return Broker("kafka", request.getfixturevalue("real_kafka"))


@pytest.fixture(scope="session")
def lastword(broker: Broker, store_url: str) -> Iterator[RunningLastword]:
    """A whole lastword on each broker in turn, shared by all tests: use owners of your own, leave the worker be."""
    with RunningLastword(broker.bootstrap_servers, services.shared_database(store_url)) as running:
        yield running


@pytest.fixture
def topic_name() -> str:
    """A topic name that no other test has."""
    return f"test-{uuid.uuid4().hex}"
