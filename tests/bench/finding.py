"""Searches with known answers, through the real read path: `Searches` over `Reader` in this process.

Whatever is measured, every hit of every search is held against the truth: what its owner had said by then. One that is
of another owner, deleted, superseded or past the boundary fails the run.
"""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lastword_projector.store.names import Names
from lastword_projector.store.reader import Reader
from lastword_projector.store.runners import AwaitingRunner
from lastword_query_api.boundary import Boundary
from lastword_query_api.readings import Asked, Readings
from lastword_query_api.search.ranking import Ranker
from lastword_query_api.search.searches import Searches, Wanted
from lastword_schemas.search import Hit
from tests.bench.show import SetDone

LIMIT = 10
_AT_ONCE = 8
_SHOWN = 5

Place = tuple[str, str]
"""Scope and key."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One search, and what is true."""

    name: str
    owner: str
    query: str
    right: Place
    truth: Mapping[Place, Any]
    """All that applies to the owner at the boundary: nothing else may be found."""
    as_of: int | None = None
    stale: Sequence[Any] = ()
    """Values that the right place had before."""
    future: Sequence[Any] = ()
    """Values that it has only later."""
    answers: Sequence[str] = ()
    """Texts of which one should stand in what is found; where the data has some."""


@dataclass(slots=True)
class Found:
    """What became of the searches of one kind."""

    depth: int
    """Hits in which stale and future values are looked for."""
    searches: int = 0
    first: int = 0
    """The right record came first."""
    reciprocal: float = 0.0
    """Sum of one over its rank."""
    near: int = 0
    """It was among the first three."""
    stale: int = 0
    """Searches with a stale value of the right place among the first `depth`."""
    future: int = 0
    answered: int = 0
    """An answer's text stands in the first hit."""
    untrue: list[str] = field(default_factory=list)
    """Hits that must never be, in words."""
    seconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"hit@1 {percent(self.first, self.searches)}, hit@3 {percent(self.near, self.searches)}, MRR "
            f"{self.reciprocal / max(1, self.searches):.3f}, stale@{self.depth} {self.stale}, "
            f"future@{self.depth} {self.future}"
        )

    @property
    def p95_ms(self) -> float:
        """Milliseconds within which 95 of 100 searches were answered."""
        return quantile(self.seconds, 0.95) * 1_000 if self.seconds else 0.0


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest of some values that so great a part of them is not above."""
    return sorted(values)[max(0, math.ceil(len(values) * part) - 1)]


def percent(part: int, whole: int) -> str:
    """With one decimal, and of how many."""
    return f"{100 * part / max(1, whole):.1f} % of {whole:,}"


def look(
    redis_url: str,
    namespace: str,
    ranker: Ranker,
    asked: Sequence[Looked],
    on_progress: SetDone,
    *,
    depth: int = 5,
) -> Found:
    """Search for all of it, some at a time. Stale and future values are looked for in the first `depth` hits."""
    return asyncio.run(_look(redis_url, namespace, ranker, asked, on_progress, depth))


async def _look(
    redis_url: str, namespace: str, ranker: Ranker, asked: Sequence[Looked], on_progress: SetDone, depth: int
) -> Found:
    runner = AwaitingRunner(redis_url)
    searches = Searches(Readings(Reader(runner, Names(namespace))), ranker)
    found, numbered = Found(depth), enumerate(asked, 1)

    async def some() -> None:
        for number, one in numbered:
            wanted = Wanted(one.query, None)
            began = time.perf_counter()
            answer = await searches.search(Asked(one.owner, Boundary(as_of=one.as_of)), wanted, limit=LIMIT, page=None)
            found.seconds.append(time.perf_counter() - began)
            _count(found, one, answer.hits)
            if number % 200 == 0:
                on_progress(number)

    try:
        await asyncio.gather(*(some() for _ in range(_AT_ONCE)))
    finally:
        await runner.close()
    return found


def _count(found: Found, looked: Looked, hits: Sequence[Hit]) -> None:
    found.searches += 1
    places = [(hit.fact.scope, hit.fact.key) for hit in hits]
    if looked.right in places:
        rank = places.index(looked.right) + 1
        found.first += rank == 1
        found.near += rank <= 3
        found.reciprocal += 1 / rank
    of_the_place = [hit.fact.value for hit in hits[: found.depth] if (hit.fact.scope, hit.fact.key) == looked.right]
    now = looked.truth.get(looked.right)
    found.stale += any(value in looked.stale and value != now for value in of_the_place)
    found.future += any(value in looked.future and value != now for value in of_the_place)
    found.answered += bool(hits) and any(_contains(str(hits[0].fact.value), answer) for answer in looked.answers)
    for hit, place in zip(hits, places, strict=True):
        true = hit.status == "current" and place in looked.truth and looked.truth[place] == hit.fact.value
        if looked.as_of is not None:
            true = true and hit.source_sequence <= looked.as_of
        if not true:
            found.untrue.append(f"{looked.name}: rank {hit.rank} is {place} = {hit.fact.value!r}, {hit.status}")


def _contains(text: str, answer: str) -> bool:
    """As the benchmarks do it: case, punctuation and articles aside."""
    return _plain(answer) in _plain(text)


def _plain(text: str) -> str:
    kept = "".join(char for char in text.lower() if char.isalnum() or char.isspace())
    return " ".join(word for word in kept.split() if word not in ("a", "an", "the"))


def untrue_lines(found: Found) -> list[str]:
    """The first hits that must never be."""
    return found.untrue[:_SHOWN]
