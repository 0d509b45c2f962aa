"""A part that is told to stop ends by itself, soon and with exit status 0, whatever it waits for."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from lastword.embedded import EmbeddedBroker, EmbeddedStore
from lastword.process import HOST, PythonProcess, free_port
from lastword_producers.broker import KafkaSettings
from lastword_producers.kafka_log import apply_registry, create_log
from lastword_schemas.registry import parse_registry_file
from tests.support.running import DECLARED

SECONDS = 60.0
MOST_S = 10.0
EVENT = {"operation": "set", "owner": "user:ada", "scope": "global", "key": "any", "value": 1}
EVENT |= {"actor": {"service": "tests"}}


@dataclass
class Parts:
    """Everything that a lastword is, in processes of their own."""

    broker: EmbeddedBroker
    store: EmbeddedStore
    worker: PythonProcess
    api: PythonProcess
    api_port: int
    worker_port: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.api_port}"

    def until_ready(self) -> None:
        until(lambda: status(f"{self.url}/readyz") == 200)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    """Worker and API are started; broker and store run, and there is a log."""
    broker, store = EmbeddedBroker(tmp_path), EmbeddedStore(tmp_path)
    ports = free_port(), free_port()
    environment = {
        "LASTWORD_PORT": str(ports[0]),
        "LASTWORD_WORKER_PORT": str(ports[1]),
        "LASTWORD_KAFKA": broker.bootstrap_servers,
        "LASTWORD_REDIS": store.url,
    }
    worker, api = (
        PythonProcess(name, ["-m", "lastword.cli", name], tmp_path, environment=environment)
        for name in ("worker", "api")
    )
    with contextlib.ExitStack() as stack:
        for service in (broker, store):
            service.start()
            stack.callback(service.kill)
        create_log(KafkaSettings(broker.bootstrap_servers), partitions=2)
        apply_registry(KafkaSettings(broker.bootstrap_servers), parse_registry_file(DECLARED))
        for part in (worker, api):
            part.start()
            stack.callback(part.kill)
        yield Parts(broker, store, worker, api, *ports)


@pytest.fixture
def requests() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def under_way(requests: ThreadPoolExecutor, ask: Callable[[], httpx.Response]) -> "Future[httpx.Response]":
    future = requests.submit(ask)
    time.sleep(0.5)
    assert not future.done()
    return future


def status(url: str) -> int:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(url).status_code
    return 0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ends_well(*parts: PythonProcess) -> None:
    """Tell them to stop, all at once: each must end by itself, with status 0 and within ten seconds."""
    began = time.monotonic()
    for part in parts:
        os.kill(part.pid, signal.SIGTERM)
    for part in parts:
        code, seconds, log = part.wait(SECONDS), time.monotonic() - began, part.log_path.read_text()
        assert code == 0, log
        assert seconds < MOST_S, f"the {part.name} took {seconds:.1f} s:\n{log}"


FAULTS: dict[str, Callable[[Parts], None]] = {
    "nothing is wrong": lambda parts: None,
    "the broker is killed": lambda parts: parts.broker.kill(),
    "the broker hangs": lambda parts: parts.broker.pause(),
    "the store is killed": lambda parts: parts.store.kill(),
    "the store hangs": lambda parts: parts.store.pause(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_stop_is_soon_and_clean(parts: Parts, fault: str) -> None:
    parts.until_ready()
    with httpx.Client(base_url=parts.url) as client, socket.create_connection((HOST, parts.worker_port)):
        client.get("/healthz")  # and the connections stay open
        FAULTS[fault](parts)

        ends_well(parts.api, parts.worker)
    logs = [part.log_path.read_text() for part in (parts.api, parts.worker)]
    assert not any("Traceback" in log for log in logs), logs


@pytest.mark.parametrize("fault", FAULTS)
def test_an_extractor_ends_as_soon(parts: Parts, tmp_path: Path, fault: str) -> None:
    port = free_port()
    environment = {
        "LASTWORD_EXTRACTOR_PORT": str(port),
        "LASTWORD_EXTRACTOR_SESSION_S": "2",
        "LASTWORD_KAFKA": parts.broker.bootstrap_servers,
        "LASTWORD_REDIS": parts.store.url,
    }
    extractor = PythonProcess("extractor", ["-m", "lastword.cli", "extractor"], tmp_path, environment=environment)
    extractor.start()
    try:
        until(lambda: status(f"http://{HOST}:{port}/healthz") == 200)
        until(lambda: bool(httpx.get(f"http://{HOST}:{port}/healthz").json()["next_offsets"]))
        FAULTS[fault](parts)
        time.sleep(1)

        ends_well(extractor)
    finally:
        extractor.kill()
    assert "Traceback" not in extractor.log_path.read_text()


@pytest.mark.parametrize("fault", ["the broker is killed", "the broker hangs"])
def test_a_publish_that_is_under_way_does_not_hold_up_the_end(
    parts: Parts, requests: ThreadPoolExecutor, fault: str
) -> None:
    parts.until_ready()
    FAULTS[fault](parts)
    publish = under_way(requests, lambda: httpx.post(f"{parts.url}/v1/events", json=EVENT, timeout=SECONDS))

    ends_well(parts.api)

    assert publish.result().status_code >= 500  # what became of it is not known, and nobody may say otherwise
    assert "Traceback" not in parts.api.log_path.read_text()


def test_a_read_that_waits_for_the_projection_does_not_hold_up_the_end_and_is_told(
    parts: Parts, requests: ThreadPoolExecutor
) -> None:
    parts.until_ready()
    parts.worker.pause()
    receipt = httpx.post(f"{parts.url}/v1/events", json=EVENT).json()["receipt"]["receipt"]
    question = {"owner": "user:ada", "key": "any", "at_least": receipt, "wait_ms": 30_000}
    read = under_way(requests, lambda: httpx.get(f"{parts.url}/v1/value", params=question, timeout=SECONDS))

    ends_well(parts.api)

    assert (read.result().status_code, read.result().json()["code"]) == (503, "stopping")
    assert "Traceback" not in parts.api.log_path.read_text()


def test_a_broker_that_goes_away_is_noticed_and_parts_that_never_found_one_stop_as_soon(parts: Parts) -> None:
    parts.until_ready()
    parts.broker.kill()
    until(lambda: "writes" in httpx.get(f"{parts.url}/readyz").json()["problems"])
    for part in (parts.api, parts.worker):
        part.restart()
    until(lambda: status(f"{parts.url}/healthz") == 200 and status(f"http://{HOST}:{parts.worker_port}/healthz") == 503)

    ends_well(parts.api, parts.worker)
