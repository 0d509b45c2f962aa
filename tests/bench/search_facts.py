"""Bench `search-facts`: one owner with up to 18,332 facts that contradict each other; the newest one applies.

Each row is published as a statement: the relation is the scope, the subject the key, what is said the value. Then each
question with one hop is asked by key and by search, among what applies and as of the moment before the last change,
where there was one. What is right is what the rule says (the newest applies). The answers that the benchmark gives
follow it in 393 of 400 questions: they are reported beside it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from lastword_query_api.search.ranking import LexicalRanker
from lastword_schemas.drafts import EventDraft
from lastword_schemas.identity import Owner
from lastword_schemas.positions import Receipt
from lastword_schemas.registry import Registry
from tests.bench.asking import Expected, Question
from tests.bench.bench import Bench, BenchStopped, Options
from tests.bench.data import shaped
from tests.bench.finding import Found, Looked, Place, look, percent, quantile, untrue_lines
from tests.bench.latency import asked_over_http, open_api
from tests.bench.pipeline import Pipeline
from tests.bench.show import figure, note, progress
from tests.bench.stage import Stage, open_stage

FACTS = ("pool", "seq", "text", "scope", "key", "value")
QUESTIONS = ("qid", "pool", "hops", "question", "answers")
BAR = 98.0
"""Per cent of the questions whose right record comes first."""
DEPTH = 10
REQUESTS = 400
"""Over HTTP, to one owner with all facts of the largest pool."""


class Facts(NamedTuple):
    """One pool."""

    name: str
    facts: list[dict[str, Any]]
    """By their serial numbers."""
    questions: list[dict[str, Any]]

    @property
    def owner(self) -> str:
        """Whose they are; canonical."""
        return str(Owner.parse(f"org:{self.name}"))

    @property
    def text_of(self) -> dict[int, str]:
        """What is said, by the serial number."""
        return {fact["seq"]: fact["text"] for fact in self.facts}


def run(options: Options) -> bool:
    """See `Bench`."""
    pools = read(options)
    if unknown := set(options.only) - {pool.name for pool in pools}:
        raise BenchStopped(f"--only {min(unknown)}: the pools are {', '.join(pool.name for pool in pools)}")
    with open_stage(options.broker) as stage:
        figure(stage.versions)
        found = [
            _run_pool(pool, stage, options, last=pool is pools[-1])
            for pool in pools
            if not options.only or pool.name in options.only
        ]
    return _report(found) and all(one.held for one in found)


def read(options: Options) -> list[Facts]:
    """Read the data folder, the smallest pool first; files are told apart by what their rows have."""
    by_pool: dict[str, list[dict[str, Any]]] = {}
    for fact in shaped(options.data, FACTS):
        by_pool.setdefault(fact["pool"], []).append(fact)
    questions = [question for question in shaped(options.data, QUESTIONS) if question["hops"] == "single"]
    pools = [
        Facts(name, sorted(facts, key=lambda fact: int(fact["seq"])), [one for one in questions if one["pool"] == name])
        for name, facts in by_pool.items()
    ]
    return sorted(pools, key=lambda pool: len(pool.facts))


class Ran(NamedTuple):
    """What one pool gave."""

    search: Found
    by_gold: int
    """Questions whose answer by the benchmark is that of the rule."""
    held: bool


def _run_pool(pool: Facts, stage: Stage, options: Options, *, last: bool) -> Ran:
    keys = {fact["key"]: {"policy": "latest"} for fact in pool.facts}
    registry = Registry.read({"v": 1, "keys": keys})
    with Pipeline(stage, f"search-facts {pool.name}", registry, partitions=options.partitions) as pipeline:
        receipts = pipeline.publish((fact["seq"], _statement(pool, fact)) for fact in pool.facts)
        pipeline.project()
        keyed = pipeline.ask(_keyed(pool, receipts))
        namespace = pipeline.settings.namespace
        found = []
        for searches in (_now(pool), _before(pool, receipts)):
            with progress(f"search-facts {pool.name}: searching", len(searches)) as on_progress:
                found.append(look(stage.redis_url, namespace, LexicalRanker(), searches, on_progress, depth=DEPTH))
        now, before = found
        untrue = [*now.untrue, *before.untrue]
        held = keyed.holds and not (untrue or now.stale or before.stale or before.future)
        figure(
            f"search-facts {pool.name}: {len(pool.facts):,} facts, {len(_state(pool.facts)):,} apply; by key: {keyed}; "
            f"search: {now}, the benchmark's answer in the first hit {percent(now.answered, now.searches)}; "
            f"as of before the last change: {before}{'' if held else '  MISSED'}"
        )
        for line in (*keyed.misses, *untrue_lines(now), *untrue_lines(before)):
            note(f"search-facts {pool.name}: wrong: {line}")
        if last:
            _over_http(pool, stage, pipeline)
    gold = sum(one["latest_equals_gold"] for one in pool.questions)
    return Ran(now, gold, held)


def _report(ran: Sequence[Ran]) -> bool:
    searches = sum(one.search.searches for one in ran)
    first, answered = sum(one.search.first for one in ran), sum(one.search.answered for one in ran)
    holds = searches > 0 and 100 * first / searches >= BAR
    figure(
        f"search-facts, all pools: the fact that applies comes first: {percent(first, searches)}, bar {BAR}; the "
        f"benchmark's answer is in the first hit: {percent(answered, searches)}, of those where it follows the rule "
        f"{percent(answered, sum(one.by_gold for one in ran))}{'' if holds else '  MISSED'}"
    )
    return holds


def _over_http(pool: Facts, stage: Stage, pipeline: Pipeline) -> None:
    paths = [
        "/v1/search?" + urlencode({"owner": pool.owner, "query": one["question"], "everywhere": "true"})
        for one in pool.questions
    ]
    with open_api(stage, pipeline) as port:
        asked_over_http(stage, port, paths[:1], 1, 1)
        taken = asked_over_http(stage, port, paths, 1, REQUESTS)[0]
    figure(
        f"search-facts {pool.name}: over HTTP, one at a time, {len(_state(pool.facts)):,} records of one owner: "
        f"p50 {quantile(taken, 0.5):.1f} ms, p95 {quantile(taken, 0.95):.1f} ms"
    )


def _statement(pool: Facts, fact: Mapping[str, Any]) -> EventDraft:
    scope, key = _place(fact)
    return EventDraft.read(
        {
            "operation": "set",
            "owner": pool.owner,
            "scope": scope,
            "key": key,
            "value": fact["text"],
            "actor": {"service": "bench"},
            "event_id": f"fact {pool.name}/{fact['seq']}",
        }
    )


def _place(row: Mapping[str, Any]) -> Place:
    return f"relation:{row['scope']}", row["key"]


def _state(facts: Sequence[Mapping[str, Any]]) -> dict[Place, Any]:
    """What applies after these: a replay that knows nothing of the product."""
    return {_place(fact): fact["text"] for fact in facts}


def _keyed(pool: Facts, receipts: Mapping[int, Receipt]) -> list[Question]:
    text_of = pool.text_of
    asked = []
    for one in pool.questions:
        scope, key = _place(one["slot"])
        current = {key: Expected("current", text_of[one["current_seq"]])}
        asked.append(Question("now", one["qid"], pool.owner, scope, current))
        if one["stale_seqs"]:
            earlier = {key: Expected("current", text_of[max(one["stale_seqs"])])}
            as_of = receipts[one["current_seq"]].sequence - 1
            asked.append(Question("before", one["qid"], pool.owner, scope, earlier, as_of))
    return asked


def _now(pool: Facts) -> list[Looked]:
    text_of, truth = pool.text_of, _state(pool.facts)
    return [
        Looked(
            name=one["qid"],
            owner=pool.owner,
            query=one["question"],
            right=_place(one["slot"]),
            truth=truth,
            stale=[text_of[seq] for seq in one["stale_seqs"]],
            answers=one["answers"],
        )
        for one in pool.questions
    ]


def _before(pool: Facts, receipts: Mapping[int, Receipt]) -> list[Looked]:
    text_of = pool.text_of
    return [
        Looked(
            name=f"{one['qid']} before",
            owner=pool.owner,
            query=one["question"],
            right=_place(one["slot"]),
            truth=_state([fact for fact in pool.facts if fact["seq"] < one["current_seq"]]),
            as_of=receipts[one["current_seq"]].sequence - 1,
            stale=[text_of[seq] for seq in one["stale_seqs"]],
            future=[text_of[one["current_seq"]]],
        )
        for one in pool.questions
        if one["stale_seqs"]
    ]


BENCH = Bench(
    "search: the newest of contradicting facts among up to 18,332 of one owner, by question alone", (), (), run
)
