"""What the Python client costs over bare httpx, what reading and writing many things in one call saves, and its import.

Worker and API are processes of their own; this process asks. What is compared is done in blocks by turns.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import httpx

import lastword
from lastword_schemas.registry import parse_registry_file
from tests.bench.bench import Bench, BenchStopped, Options
from tests.bench.latency import open_api
from tests.bench.pipeline import Pipeline
from tests.bench.show import figure, progress
from tests.bench.stage import open_stage

READS, BLOCK = 4_000, 100
KEYS, MANY = 50, 40
BATCH, BATCHES = 1_000, 12
IMPORTS = 11
OVERHEAD = 1.5
MANY_RATIO = 0.5
PUBLISH_GAIN = 3.0
IMPORT_MS = 150.0
_OWNER, _KEY = "main/user:ada", "tone"


def run(options: Options) -> bool:
    """Print the figures; whether all are within their bars."""
    chosen = options.only or BENCH.parts
    held = [_import()] if "import" in chosen else []
    parts = {"read": _read, "many": _many, "publish": _publish}
    wanted = [part for name, part in parts.items() if name in chosen]
    if not wanted:
        return all(held)
    registry = parse_registry_file("\n".join(f'[keys."{key}"]\npolicy = "latest"' for key in (_KEY, *_keys())))
    with (
        open_stage(options.broker) as stage,
        Pipeline(stage, "client", registry, partitions=options.partitions) as pipeline,
        pipeline.working(),
        open_api(stage, pipeline) as port,
    ):
        figure(stage.versions)
        held += [part(f"http://127.0.0.1:{port}") for part in wanted]
    return all(held)


def _read(url: str) -> bool:
    """A keyed read, one at a time: bare httpx with its answer parsed, and the client with its typed one."""
    question = {"owner": _OWNER, "key": _KEY}
    with httpx.Client(base_url=url) as http, lastword.Client(url) as client:
        ada = client.owner(_OWNER)
        ada.set(_KEY, "a preference in some words", applied=True)
        demanding = question | {"at_least": ada.position or "", "wait_ms": "1000"}
        ways: dict[str, Callable[[], object]] = {
            "httpx": lambda: http.get("/v1/value", params=question).json()["state"]["value"],
            "httpx, demanding a position": lambda: http.get("/v1/value", params=demanding).json()["state"]["value"],
            "the client": lambda: ada.get(_KEY).value,
        }
        taken = _by_turns("client: reads", ways, READS, BLOCK)
    ratio = _median_ratio(taken["the client"], taken["httpx"], BLOCK)
    figure("a keyed read: " + "; ".join(f"{way} {_shown(times)}" for way, times in taken.items()))
    figure(f"the client over bare httpx: {ratio}, aim 1.2, at most {OVERHEAD}")
    return ratio.median <= OVERHEAD


def _many(url: str) -> bool:
    """Fifty keys in one call, against fifty reads."""
    keys = _keys()
    with lastword.Client(url) as client:
        ada = client.owner(_OWNER)
        client.publish_many((ada.draft.set(key, "some words") for key in keys), applied=True)
        ways: dict[str, Callable[[], object]] = {
            "get_many": lambda: ada.get_many(keys),
            "one by one": lambda: [ada.get(key) for key in keys],
        }
        taken = _by_turns("client: many keys", ways, MANY, 1)
    ratio = _median_ratio(taken["get_many"], taken["one by one"], 1)
    figure(f"{KEYS} keys: " + "; ".join(f"{way} {_shown(times)}" for way, times in taken.items()))
    figure(f"get_many over as many reads: {ratio}, at most {MANY_RATIO}")
    return ratio.median <= MANY_RATIO


def _publish(url: str) -> bool:
    """Events of many owners in calls of a thousand, acknowledged and with their verdicts, against one event a call."""
    ways = "one a call", "acknowledged", "with their verdicts"
    rates: dict[str, list[float]] = {way: [] for way in ways}
    with lastword.Client(url, timeout=60) as client, progress("client: batches", BATCHES) as on_progress:
        for number in range(BATCHES):
            for way in ways:
                people = [client.user(str(place)) for place in range(BLOCK if way == "one a call" else BATCH)]
                began = time.perf_counter()
                if way == "one a call":
                    for person in people:
                        person.set(_KEY, f"some words, {number}")
                else:
                    drafts = [person.draft.set(_KEY, f"some words, {number}") for person in people]
                    results = client.publish_many(drafts, applied=way == "with their verdicts")
                    if not all(result.ok for result in results):
                        raise BenchStopped("an event did not get through")
                rates[way].append(len(people) / (time.perf_counter() - began))
            on_progress(number + 1)
    for way, found in rates.items():
        figure(f"events written, {way}: {_spread(found, '{:,.0f}')} events/s")
    gain = statistics.median(many / one for many, one in zip(rates["acknowledged"], rates["one a call"], strict=True))
    figure(f"{BATCH:,} events in one call: {gain:.1f} times as fast as one a call, at least {PUBLISH_GAIN}")
    return gain >= PUBLISH_GAIN


def _import() -> bool:
    """Milliseconds in fresh processes."""
    statements = ("import lastword", "from lastword import Client", "import httpx", "import pydantic")
    taken: dict[str, list[float]] = {statement: [] for statement in statements}
    with progress("client: imports", IMPORTS) as on_progress:
        for number in range(IMPORTS):
            for statement, found in taken.items():
                found.append(_import_ms(statement))
            on_progress(number + 1)
    for statement, found in taken.items():
        figure(f"`{statement}`: {_spread(found, '{:.0f}')} ms")
    figure(f"`import lastword`: at most {IMPORT_MS:.0f} ms")
    return statistics.median(taken["import lastword"]) <= IMPORT_MS


def _import_ms(statement: str) -> float:
    told = f"import time; began = time.perf_counter(); {statement}; print((time.perf_counter() - began) * 1_000)"
    return float(subprocess.check_output([sys.executable, "-c", told], text=True))


def _by_turns(text: str, ways: dict[str, Callable[[], object]], times: int, block: int) -> dict[str, list[float]]:
    """Milliseconds of each call, each way in blocks by turns; the first block of each is left out."""
    taken: dict[str, list[float]] = {way: [] for way in ways}
    with progress(text, times) as on_progress:
        for first in range(-block, times, block):
            for way, call in ways.items():
                for _ in range(block):
                    began = time.perf_counter()
                    call()
                    taken[way].append((time.perf_counter() - began) * 1_000)
            on_progress(max(0, first + block))
    return {way: found[block:] for way, found in taken.items()}


class _Ratio:
    """A ratio of medians, block by block."""

    def __init__(self, ratios: Sequence[float]) -> None:
        self._ratios = ratios
        self.median = statistics.median(ratios)

    def __str__(self) -> str:
        return _spread(self._ratios, "{:.2f}")


def _median_ratio(ours: Sequence[float], theirs: Sequence[float], block: int) -> _Ratio:
    medians = [
        [statistics.median(times[first : first + block]) for first in range(0, len(times), block)]
        for times in (ours, theirs)
    ]
    return _Ratio([mine / other for mine, other in zip(*medians, strict=True)])


def _keys() -> list[str]:
    return [f"key{number}" for number in range(KEYS)]


def _spread(values: Sequence[float], form: str) -> str:
    low, middle, high = (form.format(one) for one in (min(values), statistics.median(values), max(values)))
    return f"{middle} [{low} - {high}]"


def _shown(times: Sequence[float]) -> str:
    ordered = sorted(times)
    return f"p50 {statistics.median(ordered):.2f} ms, p99 {ordered[int(len(ordered) * 0.99)]:.2f} ms"


BENCH = Bench(
    "the Python client over bare httpx, many keys and events in one call, and what its import takes",
    (),
    ("import", "read", "many", "publish"),
    run,
)
