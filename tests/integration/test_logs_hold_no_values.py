"""What people say, and who they are, never gets into a log: not at level DEBUG, not in an error."""

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from lastword.app import create_app
from lastword.embedded import EmbeddedBroker, EmbeddedStore
from lastword.parts import LiveParts
from lastword.process import PythonProcess, free_port
from lastword.settings import ApiSettings
from lastword_producers.errors import UnknownOutcome
from lastword_producers.kafka_log import KafkaSettings, apply_registry, create_log
from lastword_producers.publisher import CandidateClient, Publisher
from lastword_schemas.identity import record_key
from lastword_schemas.registry import Registry, parse_registry_file
from tests.support.running import DECLARED

OWNER, SCOPE, KEY = "main/user:secret/ada", "project:secret Comet", "secret.key"
VALUE, TEXT, QUOTE = "secret value", "I say the secret words.", "secret words"
MARK = "secret"
REQUEST_ID = re.compile(r'"request_id": "[0-9a-f]{16}"')  # it may spell any short word
"""What every word of a person here has in it."""
SECONDS = 40.0


def part(name: str, run: str, directory: Path, environment: dict[str, str]) -> PythonProcess:
    """A part of lastword in a process of its own that logs everything."""
    program = f"from lastword.running import *; from lastword.logs import *; set_up_logging('DEBUG', 'json'); {run}"
    return PythonProcess(name, ["-c", program], directory, environment=environment)


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {SECONDS:.0f} s for {what}"
        time.sleep(0.02)


def is_up(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def statement(**changes: Any) -> dict[str, Any]:
    event = {"operation": "set", "owner": OWNER, "scope": SCOPE, "key": KEY, "value": VALUE}
    return event | {"actor": {"service": "secret service"}, "event_id": f"secret {uuid.uuid4()}"} | changes


def talk_over_http(api: httpx.Client) -> None:
    """Good and bad writes and reads."""
    wait = {"wait": "applied", "wait_ms": "20000"}
    turn = statement(operation="say", thread="secret thread", text=TEXT)
    del turn["key"], turn["value"]
    told = api.post("/v1/events", json=turn, params=wait)
    candidate = statement(source_event_id=told.json()["receipt"]["receipt"], span=[10, 22], quote=QUOTE)
    good = [
        told,
        api.post("/v1/events", json=statement(), params=wait),
        api.post("/v1/events", json=statement(), params=wait),
        api.post("/v1/candidates", json=candidate, params=wait),
        api.get("/v1/value", params={"owner": OWNER, "scope": SCOPE, "key": KEY}),
        api.get("/v1/profile", params={"owner": OWNER, "limit": "1"}),
        api.get("/v1/history", params={"owner": OWNER, "scope": SCOPE, "key": KEY}),
        api.post("/v1/values/read", json={"owner": OWNER, "scope": SCOPE, "keys": [KEY]}),
        api.post("/v1/search", json={"owner": OWNER, "scope": SCOPE, "query": TEXT}),
        api.post("/v1/contexts", json={"owner": OWNER, "scope": SCOPE, "task": TEXT, "keys": [KEY]}),
        api.post("/v1/contexts/check", json={"owner": OWNER, "items": [{"key": KEY, "source_sequence": 1}]}),
        api.delete("/v1/value", params={"owner": OWNER, "scope": SCOPE, "key": KEY, "service": "secret"} | wait),
    ]
    assert [answer.status_code for answer in good] == [200] * len(good)
    bad = [
        api.post("/v1/events", json=statement(key="secret undeclared")),
        api.post("/v1/events", json=statement(owner="secret")),
        api.post("/v1/events", json=statement(operation="secret")),
        api.post("/v1/events", json=statement() | {"secret field": "secret"}),
        api.post("/v1/events", content=b'{"secret": "secret", "secret": 1}'),
        api.post("/v1/events", content=json.dumps({"events": [statement()], "\ud800": "secret"})),
        api.post("/v1/candidates", json=candidate | {"quote": "secret word"}, params=wait),
        api.get("/v1/value", params={"owner": "secret", "key": "secret"}),
        api.get("/v1/value", params={"owner": OWNER, "key": KEY, "secret": "secret"}),
        api.post("/v1/contexts", json={"owner": OWNER, "overlay": [{"key": "secret", "secret": "secret"}]}),
        api.post("/v1/contexts/check", json={"id": "secret"}),
        api.get("/v1/contexts", params={"id": "secret"}),
        api.get("/v1/value/secret"),
        api.get("/secret"),
        api.put("/v1/value", params={"key": KEY}),
        api.request("SECRET", "/v1/value"),  # which HTTP's parser refuses
    ]
    assert {answer.status_code for answer in bad} == {400, 404, 405, 422}


def write_past_the_door(broker: EmbeddedBroker, topic: str) -> None:
    """Garbage, envelopes that are none, and one of an unknown kind."""
    envelope = statement() | {"v": 1, "event_id": str(uuid.uuid4())}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    records = [
        b"secret garbage",
        json.dumps({"v": 1, "owner": "secret", "secret": 1}).encode(),
        json.dumps({"v": 1, "owner": OWNER, "operation": "secret", "event_id": "secret"}).encode(),
        b'{"v": 1, "secret": 1, "secret": 2}',
        json.dumps(envelope | {"secret": "secret"}).encode(),
        json.dumps(envelope | {"v": 2, "secret": "secret"}).encode(),
    ]
    for record in records:
        producer.produce(topic, record, record_key(OWNER, SCOPE, KEY).encode(), 0)
    assert producer.flush(SECONDS) == 0


def test_no_value_text_owner_or_key_is_in_the_logs_of_worker_api_and_publisher(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with EmbeddedBroker(tmp_path) as broker, EmbeddedStore(tmp_path) as store:
        settings = KafkaSettings(broker.bootstrap_servers)
        log = create_log(settings, partitions=1)
        declared = parse_registry_file(DECLARED)
        apply_registry(settings, Registry(keys=declared.keys | {KEY: declared.keys["any"]}))
        ports = [str(free_port()) for _ in range(2)]
        environment = {
            "LASTWORD_KAFKA": broker.bootstrap_servers,
            "LASTWORD_REDIS": store.url,
            "LASTWORD_PORT": ports[0],
            "LASTWORD_WORKER_PORT": ports[1],
        }
        url, health = (f"http://127.0.0.1:{port}" for port in ports)
        with (
            part("worker", "run_worker(WorkerSettings())", tmp_path, environment) as worker,
            part("api", "run_api(ApiSettings())", tmp_path, environment) as api,
            httpx.Client(base_url=url, timeout=SECONDS) as client,
            Publisher(settings, log, service="secret service", delivery_timeout_s=1) as publisher,
            CandidateClient(settings, log, service="secret service") as candidates,
        ):
            eventually(lambda: is_up(f"{url}/readyz"), "the API to be ready")
            talk_over_http(client)
            receipt = publisher.say(OWNER, "secret thread", TEXT)
            candidates.set(OWNER, SCOPE, KEY, VALUE, source_event_id=receipt)
            write_past_the_door(broker, log.topic)
            eventually(lambda: not is_up(f"{health}/healthz"), "the worker to wait at the record of another version")
            store.stop()
            client.get("/v1/value", params={"owner": OWNER, "key": KEY})
            broker.kill()
            with pytest.raises(UnknownOutcome):
                publisher.set(OWNER, SCOPE, KEY, VALUE)
            logs = {process.name: process.log_path for process in (worker, api)}
        written = {name: path.read_text() for name, path in logs.items()}
    written["publisher"] = "\n".join(
        record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))
    )

    assert "waits at offset" in written["worker"]
    assert written["worker"].count("dead letter") == 4
    parsed = {name: [json.loads(line) for line in written[name].splitlines()] for name in ("worker", "api")}
    dead = [line for line in parsed["worker"] if line["message"].startswith("dead letter")]
    assert {line["partition"] for line in dead} == {0}
    assert len({line["offset"] for line in dead}) == 4
    (waits, *_) = [line for line in parsed["worker"] if line.get("code") == "partition-waits"]
    assert waits["level"] == "ERROR"
    assert waits["offset"] > max(line["offset"] for line in dead)
    assert {"method": "POST", "route": "/v1/events", "status": 200}.items() <= next(
        line for line in parsed["api"] if line.get("route") == "/v1/events"
    ).items()
    assert all({"time", "level", "logger", "message"} <= line.keys() for each in parsed.values() for line in each)
    assert "POST /v1/events 200" in written["api"]
    for name, text in written.items():
        for word in (MARK, quote(MARK + " "), "ada", "Comet"):
            lines = [line for line in text.splitlines() if word in REQUEST_ID.sub("", line)]
            assert not lines, f"{name} logs what was said: {lines[0]}"


def test_the_refusal_that_ends_a_worker_is_its_last_log_line_with_its_code(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        topic = "no-log"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(SECONDS)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce(topic, VALUE.encode(), record_key(OWNER, SCOPE, KEY).encode(), 0)
        assert producer.flush(SECONDS) == 0
        environment = {
            "LASTWORD_KAFKA": broker.bootstrap_servers,
            "LASTWORD_TOPIC": topic,
            "LASTWORD_WORKER_PORT": "0",
            "LASTWORD_LOG_FORMAT": "json",
        }
        command = [sys.executable, "-m", "lastword.cli", "worker"]
        ended = subprocess.run(
            command, env=os.environ | environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    assert (ended.returncode, ended.stdout) == (1, "")
    last = [json.loads(line) for line in ended.stderr.splitlines()][-1]
    assert (last["level"], last["code"]) == ("ERROR", "log-mismatch")
    assert "is no genesis" in last["message"]
    assert MARK not in ended.stderr


def test_an_error_that_nobody_expected_is_logged_by_its_place_without_its_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = create_app(LiveParts(ApiSettings(kafka="127.0.0.1:1")))

    @app.get("/broken")
    async def broken() -> None:
        try:
            raise KeyError(VALUE)
        except KeyError as error:
            raise ValueError(TEXT) from error

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://api") as client:
            return await client.get("/broken", params={"owner": OWNER})

    caplog.set_level(logging.DEBUG, "lastword")
    answer = asyncio.run(ask())

    assert (answer.status_code, answer.json()["code"]) == (500, "error")
    assert answer.headers["content-type"] == "application/problem+json"
    assert MARK not in answer.text
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("lastword")]
    assert any("unexpected ValueError" in line and "in broken" in line for line in lines)
    assert any(line.startswith("GET /broken 500") for line in lines)
    assert not [line for line in lines if MARK in line]
