"""Which broker and which store the tests use: started by the tests, or running ones that the environment names.

| variable | meaning |
|---|---|
| `LASTWORD_TEST_KAFKA` | bootstrap servers of a running Apache Kafka, instead of starting one |
| `LASTWORD_TEST_REDIS` | URL of a running Redis, instead of the embedded store; each test **empties its database** |
| `CI=true` | a machine without the real Kafka fails the tests instead of skipping them |
"""

import contextlib
import os
from dataclasses import dataclass
from typing import Literal

import pytest
import redis

from lastword.process import LocalServiceError
from tests.support.kafka import VERSION, kafka_available, kafka_jars

KAFKA_VARIABLE = "LASTWORD_TEST_KAFKA"
REDIS_VARIABLE = "LASTWORD_TEST_REDIS"


@dataclass(frozen=True)
class Broker:
    """A running broker that a test talks to."""

    name: Literal["kafka", "embedded"]
    bootstrap_servers: str


def running_kafka() -> str | None:
    """Bootstrap servers of the Kafka that the environment names."""
    return os.environ.get(KAFKA_VARIABLE)


def running_redis() -> str | None:
    """URL of the Redis that the environment names."""
    return os.environ.get(REDIS_VARIABLE)


def require_local_kafka() -> None:
    """Skip the test where the real Kafka cannot be started, or fail it in continuous integration."""
    possible = kafka_available()
    if possible:
        return
    message = f"the real Apache Kafka cannot be started: {possible.reason}, or set {KAFKA_VARIABLE}"
    if os.environ.get("CI") == "true":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def fetch_kafka() -> None:
    """Fetch Kafka's jars if a local Kafka will be wanted, before any test's time limit runs."""
    if not running_kafka() and kafka_available():
        with contextlib.suppress(LocalServiceError):  # the tests that need the jars report it, the others go on
            kafka_jars()


def empty_store(url: str) -> None:
    """Remove every key of the store's database."""
    with redis.Redis.from_url(url) as client:
        client.flushdb()


def shared_database(url: str) -> str:
    """The store's database 1, which no test empties."""
    base, _, _ = url.rpartition("/")
    return f"{base}/1"


def describe() -> list[str]:
    """What the tests use, one line a service."""
    possible = kafka_available()
    own_kafka = f"Apache Kafka {VERSION}, started by the tests" if possible else f"NONE, {possible.reason}"
    return [
        f"kafka: {running_kafka() or own_kafka}",
        "embedded broker: Tansu, started by the tests",
        f"store: {running_redis() or 'embedded Valkey, started by the tests'}",
    ]
