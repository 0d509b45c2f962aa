"""Which broker and which store the tests use: running ones that the environment names, containers, or local programs.

For Kafka and for Redis each, the first way that is possible:

| way | what it needs |
|---|---|
| `LASTWORD_TEST_KAFKA`, `LASTWORD_TEST_REDIS` | bootstrap servers of a running Kafka, URL of a running Redis |
| containers | a Docker engine that has the images which docker-compose.yml names |
| local | Java 17 and Maven for Apache Kafka; for the store nothing: Valkey is embedded |

A running Redis that is named is **emptied** (database 0) by the tests. `LASTWORD_TEST_SERVICES=containers` or `=local`
leaves no choice between the last two; `containers` then pulls the images that are missing. Tests that kill or pause a
broker or a store start one of their own, locally. With `CI=true` a machine without the real Kafka fails the tests
instead of skipping them. What was chosen is printed at the head of a run.
"""

import contextlib
import functools
import os
from dataclasses import dataclass
from typing import Literal

import pytest
import redis

from lastword.process import LocalServiceError
from tests.support.containers import KAFKA_IMAGE, REDIS_IMAGE, containers_available
from tests.support.kafka import VERSION, Availability, kafka_available, kafka_jars

KAFKA_VARIABLE = "LASTWORD_TEST_KAFKA"
REDIS_VARIABLE = "LASTWORD_TEST_REDIS"
SERVICES_VARIABLE = "LASTWORD_TEST_SERVICES"


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


@functools.cache
def use_containers() -> Availability:
    """Whether Kafka and Redis come in containers; if not, why not."""
    match os.environ.get(SERVICES_VARIABLE, ""):
        case "containers":
            return Availability(True, f"{SERVICES_VARIABLE}=containers")
        case "local":
            return Availability(False, f"{SERVICES_VARIABLE}=local")
        case "":
            return containers_available()
        case other:
            raise pytest.UsageError(f"{SERVICES_VARIABLE}={other}: it can be containers or local")


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
    """What the tests use and why, one line a service."""
    possible, containers = kafka_available(), use_containers()
    own_kafka = f"Apache Kafka {VERSION}, started by the tests" if possible else f"NONE, {possible.reason}"
    kafka, store = (
        (f"{KAFKA_IMAGE} in a container ({containers.reason})", f"{REDIS_IMAGE} in a container")
        if containers
        else (f"{own_kafka} (no containers: {containers.reason})", "embedded Valkey, started by the tests")
    )
    return [
        f"kafka: {_named(running_kafka(), KAFKA_VARIABLE) or kafka}",
        "embedded broker: Tansu, started by the tests",
        f"store: {_named(running_redis(), REDIS_VARIABLE) or store}",
    ]


def _named(where: str | None, variable: str) -> str | None:
    return None if where is None else f"{where} ({variable})"
