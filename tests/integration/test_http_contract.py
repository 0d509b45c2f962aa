"""The HTTP contract against a live API: its examples, what a machine can think of, large writes, one look at Redis."""

import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
import redis

import lastword
from lastword_producers import json_lines
from lastword_producers.desk import LINES_UNDER_WAY
from lastword_producers.json_lines import MEDIA_TYPE
from lastword_producers.kafka_log import create_log
from lastword_schemas import limits
from lastword_schemas.registry import parse_registry_file
from tests.support import services, topics
from tests.support.running import RunningLastword

pytestmark = pytest.mark.real

SECONDS = 60.0
STARTER = (Path(lastword.__file__).parent / "keys.starter.toml").read_text("utf-8")
SCHEMATHESIS = Path(__file__).parents[1] / "support" / "schemathesis"


@pytest.fixture(scope="module")
def live(real_kafka: str, store_url: str) -> Iterator[RunningLastword]:
    """A lastword of these tests' own, with the starter's keys."""
    registry = parse_registry_file(STARTER)
    with RunningLastword(real_kafka, services.shared_database(store_url), registry=registry) as running:
        yield running


@pytest.fixture(scope="module")
def document(live: RunningLastword) -> dict[str, Any]:
    document: dict[str, Any] = live.get("/openapi.json").json()
    return document


@pytest.fixture
def owner() -> str:
    """A new owner."""
    return f"main/user:{uuid.uuid4()}"


def statement(owner: str, value: Any = "brief", **changes: Any) -> dict[str, Any]:
    fields = {"operation": "set", "scope": "global", "key": "mail.tone", "actor": {"service": "tests"}}
    return {"owner": owner, "value": value} | fields | changes


STREAMS = {"/v1/changes"}
Example = tuple[str, str, dict[str, Any]]
"""Method, path, and what is sent."""


def examples_of(document: dict[str, Any]) -> Iterator[Example]:
    """Every example of the document, in its order; but for streams, which never end (see test_changes)."""
    shared = document["components"]["parameters"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if path in STREAMS:
                continue
            sent: dict[str, Any] = {"params": {}, "headers": {}}
            for parameter in operation["parameters"]:
                parameter = shared[parameter["$ref"].rpartition("/")[2]] if "$ref" in parameter else parameter
                assert "example" in parameter or not parameter.get("required"), (path, parameter["name"])
                if "example" in parameter:
                    place = "params" if parameter["in"] == "query" else "headers"
                    sent[place][parameter["name"]] = parameter["example"]
            content = operation.get("requestBody", {}).get("content", {})
            bodies = [example["value"] for example in content.get("application/json", {}).get("examples", {}).values()]
            for body in bodies:
                yield method, path, sent | {"json": body}
            for media_type, media in content.items():
                if "example" in media:
                    headers = sent["headers"] | {"Content-Type": media_type}
                    yield method, path, sent | {"content": media["example"], "headers": headers}
            if not content:
                yield method, path, sent


def test_the_examples_of_the_document_run_and_their_answers_are_as_it_says(
    live: RunningLastword, document: dict[str, Any]
) -> None:
    asked = list(examples_of(document))

    ident = ""
    for method, path, sent in asked:
        if (method, path) == ("get", "/v1/contexts"):  # an id has the place where it stands: none is known before
            sent["params"]["id"] = ident
        answer = live.http.request(method, path, timeout=SECONDS, **sent)
        assert answer.status_code in (200, 202), (method, path, sent, answer.text)
        ident = (path == "/v1/contexts" and answer.json()["id"]) or ident
        response = document["paths"][path][method]["responses"][str(answer.status_code)]
        media_type = answer.headers["content-type"]
        schema, texts = response["content"][media_type]["schema"], [answer.text]
        if media_type == MEDIA_TYPE:
            schema, texts = {"$ref": "#/components/schemas/ItemAnswer"}, answer.text.splitlines()
        schema = {"components": document["components"]} | schema
        for text in texts:
            problems = [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(json.loads(text))]
            assert not problems, (method, path, problems)
        assert set(answer.headers) >= {"x-request-id"}
        if path.startswith("/v1") and media_type != MEDIA_TYPE and "results" not in answer.json():
            assert "Lastword-Position" in answer.headers, (method, path)
    assert {path for _, path, _ in asked} == set(document["paths"]) - STREAMS
    assert len(asked) > 15


def test_schemathesis_finds_nothing(live: RunningLastword, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", f"{SCHEMATHESIS}/schemathesis.toml", "run"]
    options = ["--seed", "20261201", "--max-examples", "5", "--generation-database", "none", "--no-color"]
    ran = subprocess.run(
        [*command, f"{live.http.base_url}/openapi.json", *options],
        cwd=tmp_path,
        env=os.environ | {"SCHEMATHESIS_HOOKS": "json_lines", "PYTHONPATH": str(SCHEMATHESIS)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Tested: 15" in ran.stdout, ran.stdout


def test_a_thousand_events_are_published_in_one_call(live: RunningLastword, owner: str) -> None:
    events = [statement(owner, str(number)) for number in range(limits.MAX_EVENTS_PER_CALL)]

    answer = live.post("/v1/events", {"events": events})

    assert answer.status_code == 202
    offsets = [result["receipt"]["offset"] for result in answer.json()["results"]]
    assert offsets == sorted(offsets)
    last = answer.json()["results"][-1]["receipt"]["receipt"]
    assert live.value(owner, "mail.tone", at_least=last, wait_ms=20_000)["state"]["value"] == "999"


def test_lines_are_answered_while_others_are_still_sent(live: RunningLastword, owner: str) -> None:
    head = f"POST /v1/events HTTP/1.1\r\nHost: api\r\nContent-Type: {MEDIA_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection((live.api_settings.host, live.api_settings.port), timeout=SECONDS) as connection:
        answer = connection.makefile("rb")
        connection.sendall(head.encode())
        outcomes = []
        for number in range(3):
            line = json.dumps(statement(owner, str(number))).encode() + b"\n"
            connection.sendall(b"%x\r\n%s\r\n" % (len(line), line))
            while not (said := answer.readline()).startswith(b"{"):  # the head, and the lengths of chunks
                assert said, "the answer ended"
            outcomes.append(json.loads(said)["outcome"])
        connection.sendall(b"0\r\n\r\n")
        assert [answer.readline() for _ in range(2)][1] == b"0\r\n"

    assert outcomes == ["accepted"] * 3


def test_who_sends_and_never_reads_is_given_up(
    live: RunningLastword, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(json_lines, "READ_WITHIN_S", 0.2)
    caplog.set_level(logging.INFO, "lastword.request_log")
    head = f"POST /v1/events HTTP/1.1\r\nHost: api\r\nContent-Type: {MEDIA_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n"
    lines = b"7\n" * 500
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((live.api_settings.host, live.api_settings.port))
        connection.sendall(head.encode())
        connection.setblocking(False)

        def is_given_up() -> bool:
            with contextlib.suppress(BlockingIOError):
                connection.send(b"%x\r\n%s\r\n" % (len(lines), lines))
            return any(record.name == "lastword.request_log" for record in caplog.records)

        live.until(is_given_up, "the request to end")


def test_who_sends_all_before_reading_may_send_many_lines(live: RunningLastword, owner: str) -> None:
    number = 5 * LINES_UNDER_WAY
    lines = (json.dumps(statement(owner, str(number))).encode() + b"\n" for number in range(number))

    answer = live.http.post("/v1/events", content=lines, headers={"Content-Type": MEDIA_TYPE})

    assert answer.text.count('"accepted"') == answer.text.count("\n") == number


@pytest.mark.parametrize("path", ["/v1/value", "/v1/profile"])
@pytest.mark.parametrize("known", [False, True])
def test_a_read_is_one_look_at_redis_with_an_etag_or_without(
    live: RunningLastword, owner: str, store_url: str, path: str, known: bool
) -> None:
    live.projected([live.publisher.set(owner, "global", "mail.tone", "brief")])
    query = {"owner": owner} | ({"key": "mail.tone"} if path == "/v1/value" else {})
    first = live.get(path, **query)
    headers = {"If-None-Match": first.headers["ETag"]} if known else {}

    with redis.Redis.from_url(services.shared_database(store_url)) as client, client.monitor() as monitor:
        answer = live.http.get(path, params=query, headers=headers)
        client.ping()
        seen = []
        while (heard := monitor.next_command())["command"] != "PING":
            if heard["client_type"] != "lua" and ":outbox" not in heard["command"]:  # the worker may be telling changes
                seen.append(heard["command"])

    assert answer.status_code == (304 if known else 200)
    assert sum(live.api_settings.namespace in command for command in seen) == 1, seen


def test_an_answer_that_nobody_can_have_kept_is_never_a_304(live: RunningLastword, owner: str) -> None:
    refused: list[httpx.Response] = [
        live.http.get("/v1/value", params={"owner": owner}, headers={"If-None-Match": "*"}),
        live.http.get("/v1/outcomes", params={"owner": owner, "id": "none"}, headers={"If-None-Match": "*"}),
    ]
    assert [answer.status_code for answer in refused] == [422, 404]


def test_readiness_tells_that_the_log_was_made_anew(real_kafka: str, store_url: str, owner: str) -> None:
    with RunningLastword(real_kafka, services.shared_database(store_url), partitions=1) as own:
        own.stop_worker()
        settings = own.api_settings.kafka_settings
        topics.delete(settings)
        create_log(settings, partitions=1)
        event = statement(owner, key="any")

        own.until(lambda: own.post("/v1/events", event).json().get("code") == "log-mismatch", "the refusal")

        ready = own.get("/readyz")
        assert ready.status_code == 503
        assert "made anew" in ready.json()["problems"]["writes"]
