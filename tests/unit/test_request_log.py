"""What the API logs of a request."""

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from pydantic import SecretStr

from lastword.app import create_app
from lastword.correlation import current_request
from lastword.logs import set_up_logging
from lastword.parts import LiveParts
from lastword.settings import ApiSettings


@contextmanager
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.parametrize(
    ("path", "logged"),
    [("/healthz", []), ("/readyz", ["GET /readyz 503"]), ("/v1/value?owner=user:ada", ["GET /v1/value 422"])],
)
def test_a_probe_that_finds_everything_well_is_no_news(
    path: str, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(LiveParts(ApiSettings(kafka="127.0.0.1:1", redis=SecretStr("redis://127.0.0.1:1/0"))))

    async def ask() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://api") as client:
            await client.get(path)

    with caplog.at_level(logging.INFO, "lastword.request_log"):
        asyncio.run(ask())

    lines = [record.getMessage() for record in caplog.records if record.name == "lastword.request_log"]
    assert [" ".join(line.split()[:3]) for line in lines] == logged


def test_every_log_line_of_a_request_has_its_id_and_no_other_line_has(capsys: pytest.CaptureFixture[str]) -> None:
    app = create_app(LiveParts(ApiSettings(kafka="127.0.0.1:1", redis=SecretStr("redis://127.0.0.1:1/0"))))

    @app.get("/inside")
    async def inside(name: str) -> None:
        for _ in range(3):
            logging.getLogger("lastword.inside").warning("in %s", name)
            await asyncio.sleep(0.001)
        if name == "b":
            raise KeyError

    async def ask() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://api") as client:
            asked = (client.get("/inside", params={"name": name}, headers={"X-Request-ID": name}) for name in "ab")
            await asyncio.gather(*asked)
            await client.get("/healthz", headers={"X-Request-ID": "c"})
        logging.getLogger("lastword.inside").warning("after all")

    with logging_as_before():
        set_up_logging("INFO", "json")
        asyncio.run(ask())
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    told = [(line.get("request_id"), line["message"]) for line in lines if line["logger"].startswith("lastword")]
    assert told.count(("a", "in a")) == told.count(("b", "in b")) == 3
    assert sum(request_id == "b" and message.startswith("unexpected KeyError") for request_id, message in told) == 1
    assert sum(request_id == "b" and message.startswith("GET /inside 500") for request_id, message in told) == 1
    assert sum(request_id == "a" and message.startswith("GET /inside 200") for request_id, message in told) == 1
    assert (None, "after all") in told
    assert len(told) == 10


def test_as_text_the_id_stands_at_the_end_of_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as_before():
        set_up_logging("INFO")
        token = current_request.set("7f")
        logging.getLogger("lastword").info("of a request")
        current_request.reset(token)
        logging.getLogger("lastword").info("of none")

    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("of a request [7f]")
    assert second.endswith("of none")
