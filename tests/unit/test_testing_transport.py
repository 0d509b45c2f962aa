"""Clients reach an application of the same process as they would over the network: piece by piece, until they leave."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from lastword.testing.transport import (
    Application,
    AwaitingTransport,
    BlockingTransport,
    LoopThread,
    Message,
    Receive,
    Send,
)

URL = "http://test"
left: list[str] = []


async def endless(scope: Message, receive: Receive, send: Send) -> None:
    """Sends a piece, and another one for each piece that it was sent; goes on until the other side leaves."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x", scope["query_string"])]})
    pieces = 0
    while (message := await receive())["type"] != "http.disconnect":
        pieces += 1
        await send({"type": "http.response.body", "body": b"%d:%s " % (pieces, message["body"]), "more_body": True})
    left.append(scope["path"])


async def breaks(scope: Message, receive: Receive, send: Send) -> None:
    """Raises before it answers, or while it does."""
    if scope["path"] == "/later":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"so far", "more_body": True})
    raise ValueError("a bug")


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()
    loop.close()


def blocking(app: Application, loop: LoopThread) -> httpx.Client:
    return httpx.Client(transport=BlockingTransport(app, lambda _: None, loop), base_url=URL)


def awaiting(app: Application) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=AwaitingTransport(app, lambda _: None), base_url=URL)


def test_an_answer_is_read_while_it_is_made_and_the_application_learns_that_nobody_reads_on(loop: LoopThread) -> None:
    left.clear()
    with blocking(endless, loop).stream("POST", "/blocking?a=%2F", content=b"hello") as answer:
        assert answer.headers["x"] == "a=%2F"
        assert next(answer.iter_raw()) == b"1:hello "
        assert left == []
    assert left == ["/blocking"]


def test_the_same_with_await() -> None:
    left.clear()

    async def ask() -> list[bytes]:
        async def words() -> AsyncIterator[bytes]:
            for word in (b"one", b"two"):
                yield word
                await asyncio.sleep(0)

        pieces: list[bytes] = []
        async with awaiting(endless).stream("POST", "/awaiting", content=words()) as answer:
            async for piece in answer.aiter_raw():
                pieces.append(piece)
                if len(pieces) == 3:
                    break
            assert left == []
        return pieces

    assert asyncio.run(ask()) == [b"1:one ", b"2:two ", b"3: "]
    assert left == ["/awaiting"]


@pytest.mark.parametrize("path", ["/", "/later"])
def test_what_an_application_raises_reaches_the_caller(loop: LoopThread, path: str) -> None:
    with pytest.raises(ValueError, match="a bug"):
        blocking(breaks, loop).get(path)


def test_what_still_runs_is_cancelled_at_the_end(loop: LoopThread) -> None:
    left.clear()
    client = blocking(endless, loop)
    answer = client.send(client.build_request("GET", "/"), stream=True)
    assert next(answer.iter_raw()) == b"1: "
    loop.close()
    assert left == []
    with pytest.raises(RuntimeError, match="is closed"):
        client.get("/")
