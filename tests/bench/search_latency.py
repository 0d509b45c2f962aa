"""Bench `search-latency`: a search over HTTP among 1,000 active records of one owner, without an embedder.

Asked one at a time on a kept connection, in a process of its own: as they are held, and with something new of the owner
before each, so that they have to be read again.
"""

import random
from urllib.parse import urlencode

from lastword_schemas.drafts import EventDraft
from lastword_schemas.identity import Owner
from lastword_schemas.registry import Registry
from tests.bench.bench import Bench, Options
from tests.bench.finding import quantile
from tests.bench.latency import asked_over_http, open_api
from tests.bench.pipeline import Pipeline
from tests.bench.show import figure
from tests.bench.stage import Stage, open_stage

RECORDS, REQUESTS, CHANGES = 1_000, 2_000, 100
P95_MS = 10.0
_OWNER = str(Owner.parse("user:ada"))
_WORDS = 4_000


def run(options: Options) -> bool:
    """See `Bench`."""
    rng = random.Random(options.seed)
    registry = Registry.read({"v": 1, "keys": {f"topic{n}.wish": {"policy": "latest"} for n in range(RECORDS)}})
    with open_stage(options.broker) as stage:
        figure(stage.versions)
        with Pipeline(stage, "search-latency", registry, partitions=options.partitions) as pipeline, pipeline.working():
            pipeline.publish((number, _statement(number, rng)) for number in range(RECORDS))
            pipeline.caught_up()
            return _measure(stage, pipeline, rng)


def _measure(stage: Stage, pipeline: Pipeline, rng: random.Random) -> bool:
    with open_api(stage, pipeline) as port:
        paths = ["/v1/search?" + urlencode({"owner": _OWNER, "query": _text(rng, 6)}) for _ in range(200)]
        asked_over_http(stage, port, paths[:1], 1, 1)
        held = asked_over_http(stage, port, paths, 1, REQUESTS)[0]
        anew = []
        for number in range(CHANGES):
            receipt = pipeline.publisher.publish(_statement(number, rng))
            demanding = f"{paths[number % len(paths)]}&at_least={receipt}&wait_ms=10000"
            asked_over_http(stage, port, [f"/v1/outcomes?{_outcome(str(receipt), receipt.event_id)}"], 1, 1)
            anew += asked_over_http(stage, port, [demanding], 1, 1)[0]
    p95 = quantile(held, 0.95)
    figure(
        f"search-latency: {RECORDS:,} records: p50 {quantile(held, 0.5):.2f} ms, p95 {p95:.2f} ms, at most "
        f"{P95_MS:.0f}; the first after a change: p50 {quantile(anew, 0.5):.1f} ms, p95 {quantile(anew, 0.95):.1f} ms"
    )
    return p95 <= P95_MS


def _outcome(receipt: str, event_id: str) -> str:
    return urlencode({"owner": _OWNER, "id": event_id, "at_least": receipt, "wait_ms": 10_000})


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


BENCH = Bench("search over HTTP among 1,000 records of one owner: medians and 95th percentiles", (), (), run)
