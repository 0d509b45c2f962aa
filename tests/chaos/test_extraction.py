"""Extractors that are killed at any moment, eight turns under way: no candidate is lost, and none counts twice."""

import contextlib
import itertools
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx
import pytest

from lastword.process import HOST, PythonProcess, free_port
from lastword.settings import ExtractorSettings
from lastword_schemas import jsontext
from tests.support.scene import Scene, until
from tests.support.slow_extractor import KEYS
from tests.support.topics import records_of

pytestmark = pytest.mark.real

TURNS, OWNERS, CONCURRENCY = 600, 12, 8


class Extractor(PythonProcess):
    """The slow extractor in a process of its own."""

    def __init__(self, number: int, scene: Scene) -> None:
        common = scene.worker_settings.model_dump(include=set(ExtractorSettings.model_fields))
        self.port = free_port()
        settings = ExtractorSettings.model_validate(
            common
            | {
                "extractor_group": f"{scene.log.topic}.extractor",
                "extractor_concurrency": CONCURRENCY,
                "extractor_session_s": 6,
                "extractor_port": self.port,
            }
        )
        command = ["-m", "tests.support.slow_extractor"]
        super().__init__(f"extractor-{number}", command, scene.directory, environment=settings.environment())

    @property
    def report(self) -> dict[str, Any]:
        """Its `/healthz`; empty while it does not answer."""
        try:
            report: dict[str, Any] = httpx.get(f"http://{HOST}:{self.port}/healthz", timeout=1).json()
        except httpx.TransportError:
            return {}
        return report

    @property
    def is_at_work(self) -> bool:
        """Whether it has read some turns."""
        return bool(self.report.get("turns"))


class Turn(NamedTuple):
    """What was said, and is to be found in it."""

    owner: str
    event_id: str
    number: int


class Talk:
    """Says numbers, each owner its own, counting up; all are said at the end of the `with` block."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._thread = scene, threading.Thread(target=self._say, name="talk")
        self.turns: list[Turn] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.join()

    def _say(self) -> None:
        owners = [f"main/user:{uuid.uuid4()}" for _ in range(OWNERS)]
        for number in range(TURNS):
            owner = owners[number % OWNERS]
            receipt = self._scene.publisher.say(owner, "t", str(number))
            self.turns.append(Turn(owner, receipt.event_id, number))
            time.sleep(0.02)


@pytest.fixture
def start(scene: Scene) -> Iterator[Callable[[], Extractor]]:
    """Starts one more extractor in the group."""
    with contextlib.ExitStack() as stack:
        numbers = itertools.count()

        def start() -> Extractor:
            extractor = Extractor(next(numbers), scene)
            extractor.start()
            stack.callback(extractor.kill)
            return extractor

        yield start


def test_extractors_killed_at_any_moment_lose_no_candidate_and_add_none_twice(
    scene: Scene, start: Callable[[], Extractor]
) -> None:
    with Talk(scene) as talk:
        for _ in range(4):
            extractor = start()
            until(lambda: extractor.is_at_work, f"{extractor.name} to be at work")  # noqa: B023
            time.sleep(random.random())
            extractor.kill()
            assert len(candidates(scene)) < len(KEYS) * TURNS, "it was killed too late to matter"
        start()
    check(scene, talk)


def test_extractors_that_join_and_leave_and_die_share_the_turns(scene: Scene, start: Callable[[], Extractor]) -> None:
    first, second = start(), start()
    with Talk(scene) as talk:
        until(lambda: first.is_at_work and second.is_at_work, "both to be at work")
        first.kill()
        third = start()
        until(lambda: third.is_at_work, "the third to be at work")
        second.stop()
    check(scene, talk)
    assert third.report["given_up"] == 0


def check(scene: Scene, talk: Talk) -> None:
    """Every turn's candidates are in the log, each under one id, and count once."""
    expected = {(turn.event_id, key) for turn in talk.turns for key in KEYS}
    assert len(talk.turns) == TURNS
    until(lambda: {(one["source_event_id"], one["key"]) for one in candidates(scene)} >= expected, "all candidates")
    logged = candidates(scene)
    ids = {(one["source_event_id"], one["key"], one["event_id"]) for one in logged}
    assert len(ids) == len(expected), "a candidate has several event ids"
    assert Counter(one["body"]["value"] for one in logged).keys() == set(range(TURNS))
    said = {owner: [turn.number for turn in talk.turns if turn.owner == owner] for owner, _, _ in talk.turns}
    scene.until(
        lambda: all(sorted(scene.counted(owner)) == numbers for owner, numbers in said.items()),
        "each number to count once",
    )
    for owner, numbers in said.items():
        assert scene.value(owner, "any")["state"]["value"] == numbers[-1]


def candidates(scene: Scene) -> list[dict[str, Any]]:
    """All that are in the log, copies too."""
    topic = records_of(scene.worker_settings.kafka_settings, scene.log.topic, scene.log.partitions)
    envelopes = [jsontext.parse(record.value() or b"") for records in topic for record in records]
    return [one for one in envelopes if one.get("source_event_id")]
