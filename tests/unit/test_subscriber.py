"""One stream of changes, word by word."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from lastword_query_api.subscriber import _MOST_PENDING, Line, Subscriber, Told
from lastword_schemas.errors import LastwordError

ADA, LOG = "main/user:ada", "0123456789abcdef"


def event(sequence: int, *keys: str, scope: str = "global", log_id: str = LOG) -> Told:
    lines = [Line(scope, key, b'{"key":"%b"}' % key.encode()) for key in keys or ("tone",)]
    return Told(log_id, ADA, sequence, lines)


def subscribed(*, scope: str | None = None, key: str | None = None, position: int = 10) -> Subscriber:
    subscriber = Subscriber(ADA, scope, key, lambda _: None)
    subscriber.begin(LOG, [], position)
    return subscriber


async def said(texts: AsyncIterator[bytes]) -> list[str]:
    """What it says next: each event with its kind and the sequence of its id, `-` where it has none."""
    blocks = (await asyncio.wait_for(anext(texts), 5)).decode().removesuffix("\n\n").split("\n\n")
    return [short(block) for block in blocks]


def short(block: str) -> str:
    if block == ":":
        return "beat"
    fields = dict(line.split(": ", 1) for line in block.split("\n"))
    return f"{fields['event']} {fields.get('id', '-').rpartition('.')[2]}"


def runs(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


@runs
async def test_it_begins_with_its_position() -> None:
    texts = subscribed().texts()
    assert await said(texts) == ["position 10"]


@runs
async def test_what_was_missed_comes_before_what_came_meanwhile_and_nothing_twice() -> None:
    subscriber = Subscriber(ADA, None, None, lambda _: None)
    for sequence in (11, 12, 13):
        subscriber.offer(event(sequence))
    subscriber.begin(LOG, [event(11), event(12)], 12)
    subscriber.offer(event(13))
    subscriber.offer(event(14))
    texts = subscriber.texts()
    assert [await said(texts) for _ in range(4)] == [
        ["change 11"], ["change 12"], ["position 12"], ["change 13", "change 14"],
    ]  # fmt: skip


@runs
async def test_the_last_change_of_an_event_that_passes_the_filter_has_the_position() -> None:
    subscriber = subscribed(scope="global")
    texts = subscriber.texts()
    await said(texts)
    others = Told(LOG, ADA, 11, [*event(11, "tone", "theme").lines, Line("project:Comet", "tone", b"{}")])
    subscriber.offer(others)
    assert await said(texts) == ["change -", "change 11"]


@runs
async def test_a_heartbeat_tells_the_position_where_the_filter_let_nothing_through() -> None:
    subscriber = subscribed(key="theme")
    texts = subscriber.texts()
    await said(texts)
    subscriber.beat()
    assert await said(texts) == ["beat"]
    subscriber.offer(event(11))
    subscriber.beat()
    assert await said(texts) == ["position 11"]


@runs
async def test_changes_of_another_log_are_not_told() -> None:
    subscriber = subscribed()
    texts = subscriber.texts()
    await said(texts)
    subscriber.offer(event(50, log_id="fedcba9876543210"))
    subscriber.offer(event(11))
    assert await said(texts) == ["change 11"]


@runs
async def test_a_reader_that_falls_behind_is_dropped_and_holds_no_more() -> None:
    left: list[Subscriber] = []
    subscriber = Subscriber(ADA, None, None, left.append)
    subscriber.begin(LOG, [], 10)
    texts = subscriber.texts()
    await said(texts)
    for sequence in range(11, 11 + _MOST_PENDING):
        subscriber.offer(event(sequence))
    assert not left
    subscriber.offer(event(11 + _MOST_PENDING))
    assert left
    last = await asyncio.wait_for(anext(texts), 5)
    assert b'event: dropped\ndata: {"code":"slow-reader"' in last
    assert b'"position_token":"p1.0123456789abcdef.3559b75f8fc1536f.10"' in last
    with pytest.raises(StopAsyncIteration):
        await anext(texts)


@runs
async def test_what_ends_all_streams_is_said_to_one_that_waits() -> None:
    subscriber = subscribed()
    texts = subscriber.texts()
    await said(texts)
    waiting = asyncio.create_task(said(texts))
    await asyncio.sleep(0)
    subscriber.end("closing", LastwordError("stops"))
    assert await waiting == ["closing -"]


@runs
async def test_nothing_more_is_said_to_a_reader_that_has_gone() -> None:
    subscriber = subscribed()
    texts = subscriber.texts()
    await said(texts)
    subscriber.leave()
    with pytest.raises(StopAsyncIteration):
        await anext(texts)
