"""Bench `context`: contexts over HTTP among 1,000 active records of one owner: made, and checked.

Asked one at a time on a kept connection by a process of its own, in rounds: a check of a context since which nothing
came, by its id and by its items; a context that is stored before it is answered, and one that is not. The check is what
is asked at every turn, so it has the bar.
"""

import json
import random
import statistics
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import httpx

from lastword_schemas.drafts import EventDraft
from lastword_schemas.identity import Owner
from lastword_schemas.registry import Registry
from tests.bench.bench import Bench, BenchStopped, Options
from tests.bench.finding import quantile
from tests.bench.latency import asked_over_http, open_api
from tests.bench.pipeline import Pipeline
from tests.bench.show import figure
from tests.bench.stage import Stage, open_stage

RECORDS, REQUESTS, ROUNDS = 1_000, 400, 9
P95_MS = 3.0
_OWNER = str(Owner.parse("user:ada"))
_WORDS = 4_000


def run(options: Options) -> bool:
    """See `Bench`."""
    rng = random.Random(options.seed)
    registry = Registry.read({"v": 1, "keys": {f"topic{n}.wish": {"policy": "latest"} for n in range(RECORDS)}})
    with open_stage(options.broker) as stage:
        figure(stage.versions)
        with Pipeline(stage, "context", registry, partitions=options.partitions) as pipeline, pipeline.working():
            pipeline.publish((number, _statement(number, rng)) for number in range(RECORDS))
            pipeline.caught_up()
            with open_api(stage, pipeline) as port:
                return _measure(stage, port, rng)


def _measure(stage: Stage, port: int, rng: random.Random) -> bool:
    tasks = [_text(rng, 6) for _ in range(100)]
    context = _made(port, tasks[0])
    items = [{name: item[name] for name in ("scope", "key", "source_sequence")} for item in context["items"]]
    inline = {"owner": _OWNER, "items": items, "position": context["position_token"], "task": tasks[0]}
    asked = {
        "check by id": [_post("/v1/contexts/check", {"id": context["id"]})],
        "check by items": [_post("/v1/contexts/check", inline)],
        "made and stored": [_post("/v1/contexts", {"owner": _OWNER, "task": task}) for task in tasks],
        "made, not stored": [_post("/v1/contexts", {"owner": _OWNER, "task": task, "store": False}) for task in tasks],
    }
    taken: dict[str, list[list[float]]] = {name: [] for name in asked}
    for _ in range(ROUNDS):
        for name, paths in asked.items():
            taken[name].append(asked_over_http(stage, port, paths, 1, REQUESTS)[0])
    figure(f"context: {RECORDS:,} records, {len(items)} items of {context['tokens']} tokens; {ROUNDS} x {REQUESTS:,}")
    p95s = {name: _shown(name, rounds) for name, rounds in taken.items()}
    return max(p95s["check by id"], p95s["check by items"]) <= P95_MS


def _shown(name: str, rounds: Sequence[Sequence[float]]) -> float:
    """The median of the rounds' 95th percentiles."""
    p50s, p95s = ([quantile(one, part) for one in rounds] for part in (0.5, 0.95))
    p95 = statistics.median(p95s)
    bar = f", at most {P95_MS:.0f}" if name.startswith("check") else ""
    figure(
        f"  {name}: p50 {statistics.median(p50s):.2f} ms [{min(p50s):.2f} - {max(p50s):.2f}], "
        f"p95 {p95:.2f} ms [{min(p95s):.2f} - {max(p95s):.2f}]{bar}"
    )
    return p95


def _made(port: int, task: str) -> dict[str, Any]:
    answer = httpx.post(f"http://127.0.0.1:{port}/v1/contexts", json={"owner": _OWNER, "task": task}, timeout=30)
    if answer.status_code != 200:
        raise BenchStopped(f"no context was made: {answer.text}")
    context: dict[str, Any] = answer.json()
    return context


def _post(path: str, body: dict[str, Any]) -> str:
    return f"{path}#{quote(json.dumps(body))}"


def _statement(number: int, rng: random.Random) -> EventDraft:
    return EventDraft.read(
        {
            "operation": "set",
            "owner": _OWNER,
            "scope": "global",
            "key": f"topic{number}.wish",
            "value": _text(rng, 12),
            "actor": {"service": "bench"},
        }
    )


def _text(rng: random.Random, words: int) -> str:
    """Words as they are spread in texts: a few of them are everywhere."""
    return " ".join(f"w{int(_WORDS ** rng.random())}" for _ in range(words))


BENCH = Bench("contexts over HTTP among 1,000 records of one owner: made, and checked at every turn", (), (), run)
