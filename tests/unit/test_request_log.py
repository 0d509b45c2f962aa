"""What the API logs of a request."""

import asyncio
import logging

import httpx
import pytest
from pydantic import SecretStr

from lastword.app import create_app
from lastword.parts import LiveParts
from lastword.settings import ApiSettings


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
