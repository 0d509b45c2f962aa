"""The services that tests run against. What they are and how to choose others: `tests/support/services.py`."""

import uuid
from collections.abc import Iterator

import pytest

from lastword.embedded import EmbeddedBroker, EmbeddedStore
from tests.support import services
from tests.support.kafka import LocalKafka
from tests.support.running import RunningLastword
from tests.support.services import Broker


def pytest_report_header() -> list[str]:
    return services.describe()


def pytest_collection_finish(session: pytest.Session) -> None:
    if not session.config.option.collectonly and any(item.get_closest_marker("real") for item in session.items):
        services.fetch_kafka()


@pytest.fixture(scope="session")
def real_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """The real Kafka, shared by all tests: leave it running."""
    services.require_local_kafka()
    with LocalKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka


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


@pytest.fixture
def redis_url(request: pytest.FixtureRequest) -> str:
    """URL of a store without any key."""
    url: str = services.running_redis() or request.getfixturevalue("embedded_store").url
    services.empty_store(url)
    return url


@pytest.fixture(scope="session", params=[pytest.param("kafka", marks=pytest.mark.real), "embedded"])
def broker(request: pytest.FixtureRequest) -> Broker:
    """Each broker in turn: a test that takes this runs on both."""
    if request.param == "embedded":
        return Broker("embedded", request.getfixturevalue("embedded_broker").bootstrap_servers)
    return Broker("kafka", services.running_kafka() or request.getfixturevalue("real_kafka").bootstrap_servers)


@pytest.fixture(scope="session")
def lastword(request: pytest.FixtureRequest, broker: Broker) -> Iterator[RunningLastword]:
    """A whole lastword on each broker in turn, shared by all tests: use owners of your own, leave the worker be."""
    url: str = services.running_redis() or request.getfixturevalue("embedded_store").url
    with RunningLastword(broker.bootstrap_servers, services.shared_database(url)) as running:
        yield running


@pytest.fixture
def topic_name() -> str:
    """A topic name that no other test has."""
    return f"test-{uuid.uuid4().hex}"
