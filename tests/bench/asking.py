"""Questions with known answers, asked through the real read path: `Readings` over `Reader` in this process."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from lastword_projector.store.names import Names
from lastword_projector.store.reader import Reader
from lastword_projector.store.runners import AwaitingRunner
from lastword_query_api.boundary import Boundary
from lastword_query_api.readings import Asked, Readings
from lastword_schemas.answers import InspectionRecord, Status
from lastword_schemas.identity import scope_chain
from tests.bench.show import SetDone

PATH = "in this process, Readings over Reader, no HTTP"
"""The read path, for people."""

What = Literal["current", "deleted", "absent"]

_AT_ONCE = 32
_SHOWN_MISSES = 5
_STATUSES: dict[What, Status] = {"current": Status.SET, "deleted": Status.DELETED, "absent": Status.ABSENT}


class Expected(NamedTuple):
    """The right answer for one key."""

    status: What
    value: Any = None


@dataclass(frozen=True, slots=True)
class Question:
    """One read of one or more keys of one scope."""

    kind: str
    name: str
    """Tells it from others of its kind."""
    owner: str
    """Canonical."""
    scope: str
    expected: Mapping[str, Expected]
    """By key."""
    as_of: int | None = None
    """A sequence; None asks for what applies now."""


@dataclass(slots=True)
class Tally:
    """How many of the questions of one kind were answered rightly."""

    asked: int = 0
    right: int = 0
    keys: Counter[What] = field(default_factory=Counter)
    """Right keys by their status."""

    @property
    def holds(self) -> bool:
        """Whether all were."""
        return self.right == self.asked

    def __str__(self) -> str:
        kinds = ", ".join(f"{self.keys[what]:,} {what}" for what in _STATUSES if what in self.keys)
        return f"{self.right:,} of {self.asked:,} ({kinds or 'none'})"


@dataclass(slots=True)
class Answers:
    """The outcome of asking."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    """By kind."""
    misses: list[str] = field(default_factory=list)
    """The first wrong answers, in words."""
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether something was asked and every answer was right."""
        return bool(self.tallies) and all(tally.holds for tally in self.tallies.values())

    @property
    def rate(self) -> float:
        """Answers a second."""
        return sum(tally.asked for tally in self.tallies.values()) / self.seconds

    def __str__(self) -> str:
        return "; ".join(f"{kind} {tally}" for kind, tally in self.tallies.items())


def ask(redis_url: str, namespace: str, questions: Sequence[Question], on_progress: SetDone) -> Answers:
    """Ask all questions, some at a time."""
    return asyncio.run(_ask(redis_url, namespace, questions, on_progress))


async def _ask(redis_url: str, namespace: str, questions: Sequence[Question], on_progress: SetDone) -> Answers:
    runner = AwaitingRunner(redis_url)
    readings = Readings(Reader(runner, Names(namespace)))
    answers = Answers({question.kind: Tally() for question in questions})
    numbered = enumerate(questions, 1)
    began = time.perf_counter()
    try:
        await asyncio.gather(*(_ask_some(readings, numbered, answers, on_progress) for _ in range(_AT_ONCE)))
    finally:
        await runner.close()
    answers.seconds = time.perf_counter() - began
    return answers


async def _ask_some(
    readings: Readings, numbered: Iterator[tuple[int, Question]], answers: Answers, on_progress: SetDone
) -> None:
    for number, question in numbered:
        asked = Asked(question.owner, Boundary(as_of=question.as_of))
        answer = await readings.values(asked, scope_chain(question.scope), list(question.expected))
        _count(answers, question, answer.values)
        if number % 500 == 0:
            on_progress(number)


def _count(answers: Answers, question: Question, records: Sequence[InspectionRecord]) -> None:
    tally = answers.tallies[question.kind]
    tally.asked += 1
    wrong = 0
    for record, (key, expected) in zip(records, question.expected.items(), strict=True):
        if is_right(record, key, expected):
            tally.keys[expected.status] += 1
            continue
        wrong += 1
        if len(answers.misses) < _SHOWN_MISSES:
            said = f"{record.state.status} {record.state.value!r} ({record.state.resolution_state})"
            answers.misses.append(
                f"{question.kind} {question.name}, key {key}, as_of {question.as_of}: "
                f"expected {expected.status} {expected.value!r}, got {said}"
            )
    tally.right += wrong == 0


def is_right(record: InspectionRecord, key: str, expected: Expected) -> bool:
    """Whether an answer has the expected status, the value where there is one, and no doubt about it."""
    state = record.state
    return (
        record.identity.key == key
        and state.status is _STATUSES[expected.status]
        and state.value == expected.value
        and state.resolution_state == "resolved"
    )
