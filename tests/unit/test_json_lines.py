"""JSON lines: a request of any length, and an answer with a line for each of its lines."""

import asyncio
import itertools
import json
import tracemalloc
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import httpx
import pytest

from lastword.testing import InMemoryLastword
from lastword.testing.store import StoppableReader
from lastword.testing.writer import UnderWay
from lastword_producers.desk import LINES_UNDER_WAY, Desk, Settled
from lastword_producers.errors import Backpressure
from lastword_producers.json_lines import documents
from lastword_schemas import limits
from lastword_schemas.drafts import EventDraft

LINES = {"Content-Type": "application/x-ndjson; charset=utf-8"}


@pytest.fixture
def memory() -> Iterator[InMemoryLastword]:
    with InMemoryLastword() as memory:
        yield memory


@pytest.fixture
def http(memory: InMemoryLastword) -> Iterator[httpx.Client]:
    with httpx.Client(transport=memory.transport, base_url=memory.url) as http:
        yield http


def statement(number: int, **changes: Any) -> dict[str, Any]:
    fields = {"operation": "set", "owner": f"user:{number % 7}", "scope": "global", "key": "mail.tone"}
    return fields | {"value": f"tone {number}", "actor": {"service": "tests"}} | changes


def sent(http: httpx.Client, *lines: Any, path: str = "/v1/events") -> list[dict[str, Any]]:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    answer = http.post(path, content=text.encode(), headers=LINES)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


async def read(parts: Iterable[bytes]) -> list[Any]:
    async def stream() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    return [document async for document in documents(stream())]


def test_every_line_has_its_result_in_order(memory: InMemoryLastword, http: httpx.Client) -> None:
    answers = sent(http, *(statement(number, event_id=str(number)) for number in range(2_500)))

    assert [answer["outcome"] for answer in answers] == ["accepted"] * 2_500
    values = [event.envelope["body"]["value"] for event in memory.events()]
    assert values == [f"tone {number}" for number in range(2_500)]
    by_id = {event.envelope["event_id"]: event.envelope["body"]["value"] for event in memory.events()}
    assert [by_id[answer["receipt"]["event_id"]] for answer in answers] == values


def test_a_bad_line_is_the_result_of_that_line_alone(memory: InMemoryLastword, http: httpx.Client) -> None:
    answers = sent(
        http, statement(1), "{broken", statement(2, key="undeclared"), "7", '{"a": 1, "a": 2}', "", "  ", statement(3)
    )

    codes = [answer.get("problem", {}).get("code", answer["outcome"]) for answer in answers]
    assert codes == ["accepted", "malformed", "undeclared-key", "malformed", "malformed", "accepted"]
    assert len(memory.events()) == 2


def test_verdicts_are_waited_for_line_by_line(http: httpx.Client) -> None:
    answers = sent(
        http,
        statement(1),
        statement(1, expected_sequence=0, value="other"),
        statement(2, expected_sequence=0),
        path="/v1/events?wait=applied",
    )

    assert [answer["outcome"] for answer in answers] == ["applied", "refused", "applied"]


def test_candidates_come_as_lines_too(http: httpx.Client) -> None:
    turn = {"operation": "say", "owner": "user:1", "scope": "global", "thread": "t", "text": "brief"}
    sent(http, turn | {"event_id": "turn", "actor": {"service": "chat"}})
    candidate = {"owner": "user:1", "scope": "global", "key": "mail.tone", "value": "brief", "source_event_id": "turn"}
    quoted = {"quote": "brief", "span": [0, 5], "authority": "stated", "actor": {"service": "extractor"}}

    (answer,) = sent(http, candidate | quoted, path="/v1/candidates?wait=applied")

    assert answer["verdict"]["effect"] == "added"


def test_an_empty_request_has_an_empty_answer(http: httpx.Client) -> None:
    assert sent(http) == []


def test_lines_are_read_wherever_the_stream_is_cut() -> None:
    text = b'{"a": 1}\r\n\n["\xc3\xa9"]\n7'

    found = [asyncio.run(read([text[:cut], text[cut:]])) for cut in range(len(text))]

    assert found == [[{"a": 1}, ["é"], 7]] * len(text)


def test_a_line_that_is_too_long_is_left_out_and_never_held() -> None:
    part = b" " * 65_536
    enough = limits.MAX_LINE_BYTES // len(part) + 1

    before, long, after = asyncio.run(read([b"1\n", *[part] * (3 * enough), b"x\n2"]))
    at_the_end = asyncio.run(read([b"3\n", *[part] * (3 * enough)]))
    longest = b'"' + b"x" * (limits.MAX_LINE_BYTES - 2) + b'"'

    assert (before, long.code, after) == (1, "too-large", 2)
    assert [getattr(found, "code", found) for found in at_the_end] == [3, "too-large"]
    assert len(asyncio.run(read([longest + b"\n"]))[0]) == limits.MAX_LINE_BYTES - 2


def test_of_a_line_without_an_end_little_is_in_memory() -> None:
    part = b"x" * 65_536
    tracemalloc.start()
    try:
        (long,) = asyncio.run(read(itertools.repeat(part, 320)))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert long.code == "too-large"
    assert most < 6 * limits.MAX_LINE_BYTES


class Taken:
    """How many lines were taken of a stream."""

    def __init__(self, lines: int) -> None:
        self.number = 0
        self._lines = lines

    async def stream(self) -> AsyncIterator[Any]:
        while self.number < self._lines:
            self.number += 1
            yield statement(self.number)


def test_no_more_lines_are_taken_than_may_be_under_way_and_none_is_lost(memory: InMemoryLastword) -> None:
    async def run() -> tuple[int, int]:
        taken = Taken(3 * LINES_UNDER_WAY)
        held = hold_events(memory)
        groups = desk_of(memory).accept_each(taken.stream(), EventDraft, wait_applied_s=None)
        first = asyncio.create_task(anext(groups))
        while taken.number < LINES_UNDER_WAY:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        most = taken.number
        memory._writer.hold = lambda _: False
        send_held(memory, held)
        settled = len(await first) + sum([len(group) async for group in groups])
        return most, settled

    most, settled = asyncio.run(run())

    assert most <= 1.2 * LINES_UNDER_WAY
    assert settled == 3 * LINES_UNDER_WAY


def hold_events(memory: InMemoryLastword) -> list[UnderWay]:
    """What the writer is given from here on is not sent, and stands in this list."""
    held: list[UnderWay] = []

    def hold(event: UnderWay) -> bool:
        held.append(event)
        return True

    memory._writer.hold = hold
    return held


def send_held(memory: InMemoryLastword, held: list[UnderWay]) -> None:
    while held:
        memory._writer.send(held.pop(0))


def test_a_stream_that_finds_no_room_goes_on_when_lines_of_its_own_are_in_the_log() -> None:
    async def run(memory: InMemoryLastword) -> list[Settled]:
        held = hold_events(memory)

        async def send_now_and_then() -> None:
            while True:
                await asyncio.sleep(0.005)
                send_held(memory, held)

        sending = asyncio.create_task(send_now_and_then())
        groups = desk_of(memory).accept_each(Taken(10).stream(), EventDraft, wait_applied_s=None)
        settled = [one async for group in groups for one in group]
        sending.cancel()
        return settled

    with InMemoryLastword(max_in_flight=3) as memory:
        settled = asyncio.run(run(memory))

    assert [one.receipt is not None for one in settled] == [True] * 10


def test_nothing_overtakes_a_line_that_had_no_room() -> None:
    async def run(memory: InMemoryLastword) -> list[Settled]:
        held = hold_events(memory)
        others = asyncio.create_task(desk_of(memory).accept([statement(1)], EventDraft, wait_applied_s=None))
        while not held:
            await asyncio.sleep(0.001)

        async def stream() -> AsyncIterator[Any]:
            yield statement(2)
            send_held(memory, held)
            yield statement(3)

        groups = desk_of(memory).accept_each(stream(), EventDraft, wait_applied_s=None)
        settled = [one async for group in groups for one in group]
        await others
        return settled

    with InMemoryLastword(max_in_flight=1) as memory:
        settled = asyncio.run(run(memory))

    assert [type(one.error) for one in settled] == [Backpressure, Backpressure]


def test_when_the_log_is_down_the_lines_that_find_no_room_are_failed() -> None:
    with (
        InMemoryLastword(max_in_flight=3) as memory,
        httpx.Client(transport=memory.transport, base_url=memory.url) as http,
    ):
        assert [answer["outcome"] for answer in sent(http, *map(statement, range(20)))] == ["accepted"] * 20
        with memory.take_down("log"):
            outcomes = [answer["outcome"] for answer in sent(http, *map(statement, range(6)), "broken")]

    assert outcomes == ["unknown"] * 3 + ["failed"] * 3 + ["refused"]


def test_a_stream_that_breaks_off_ends_after_what_it_brought(memory: InMemoryLastword) -> None:
    class BrokenOff(Exception):
        pass

    async def stream() -> AsyncIterator[Any]:
        yield statement(1)
        raise BrokenOff

    settled: list[Settled] = []

    async def run() -> None:
        async for group in desk_of(memory).accept_each(stream(), EventDraft, wait_applied_s=None):
            settled.extend(group)

    with pytest.raises(BrokenOff):
        asyncio.run(run())
    assert [one.receipt is not None for one in settled] == [True]


def desk_of(memory: InMemoryLastword) -> Desk:
    """The door of a lastword in memory."""
    return Desk(memory._writer, StoppableReader(memory._store, lambda: False), now=memory.clock.now)
