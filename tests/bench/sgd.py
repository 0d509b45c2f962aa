"""Bench `sgd`: dialogues with annotated state (see the data folder's README), as statements and as candidates.

Each row of `events.jsonl` is said in accepted order; every question and every scope state must then be answered right,
now and as of any earlier moment, with current, deleted and absent told apart.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from lastword_schemas.identity import Owner
from lastword_schemas.positions import Receipt
from lastword_schemas.registry import Registry
from tests.bench import asking, folding
from tests.bench.asking import Expected, Question
from tests.bench.bench import Bench, BenchStopped, Options
from tests.bench.data import rows
from tests.bench.pipeline import Pipeline
from tests.bench.sgd_events import Said, candidate, statement, turn
from tests.bench.show import figure, note, progress
from tests.bench.stage import Stage, open_stage

FILES = ("events.jsonl", "queries.jsonl", "states.jsonl", "schema_slots.jsonl")

Receipts = dict[tuple[str, int], Receipt]
"""By user and the user's own sequence: where it was said."""


class Dialogues(NamedTuple):
    """The data folder, read."""

    said: list[Said]
    """In file order."""
    queries: list[dict[str, Any]]
    states: list[dict[str, Any]]
    keys: dict[str, list[str]]
    """By scope: the keys that the schema knows."""
    registry: Registry


class Part(NamedTuple):
    """One way in which the same things are said."""

    summary: str
    publish: Callable[[Pipeline, Dialogues, random.Random], Receipts]
    killed: bool = False


def run(options: Options) -> bool:
    """See `Bench`."""
    dialogues = read(options)
    chosen = options.only or tuple(PARTS)
    with open_stage(options.broker) as stage:
        figure(stage.versions)
        figure(f"sgd: read path: {asking.PATH}; seed {options.seed}; {options.partitions} partitions")
        held = [_run_part(name, PARTS[name], stage, dialogues, options) for name in chosen]
    return all(held)


def read(options: Options) -> Dialogues:
    """Read the data folder."""
    slots = rows(options.data, "schema_slots.jsonl", ("scope", "key", "description"))
    described = {(slot["scope"], slot["key"]): slot["description"] for slot in slots}
    keys: dict[str, list[str]] = {}
    for scope, key in described:
        keys.setdefault(scope, []).append(key)
    declared = {key: {"policy": "latest", "description": text} for (_, key), text in described.items()}
    events = rows(options.data, "events.jsonl", ("user", "seq", "turn", "scope", "key", "op"))
    for event in events:
        if (event["scope"], event["key"]) not in described:
            raise BenchStopped(f"schema_slots.jsonl does not have {event['key']} of {event['scope']}")
    return Dialogues(
        said=[Said.of(event, described[event["scope"], event["key"]]) for event in events],
        queries=rows(options.data, "queries.jsonl", ("qid", "user", "scope", "key", "mode", "as_of_seq", "status")),
        states=rows(options.data, "states.jsonl", ("user", "turn", "after_seq", "state")),
        keys=keys,
        registry=Registry.read({"v": 1, "keys": declared}),
    )


def questions(dialogues: Dialogues, receipts: Receipts) -> list[Question]:
    """Every question and every scope state, with the sequences that the log gave."""
    return [*_asked(dialogues, receipts), *_states(dialogues, receipts)]


def _run_part(name: str, part: Part, stage: Stage, dialogues: Dialogues, options: Options) -> bool:
    rng = random.Random(options.seed)
    with Pipeline(stage, f"sgd {name}", dialogues.registry, partitions=options.partitions) as pipeline:
        receipts = part.publish(pipeline, dialogues, rng)
        projected = pipeline.project(kill_every=options.kill_every if part.killed else None, rng=rng)
        answers = pipeline.ask(questions(dialogues, receipts))
        compared = folding.compare(pipeline.settings, pipeline.log) if part.killed else []
    held = answers.holds and all(sort.holds for sort in compared)
    projection = f"{projected.rate:,.0f} records/s projected"
    if part.killed:
        projection = f"worker killed {projected.kills} times in {projected.seconds:.0f} s"
    figure(
        f"sgd {name}: {answers}; {pipeline.publish_rate:,.0f} events/s published, {projection}, "
        f"{answers.rate:,.0f} answers/s{'' if held else '  MISSED'}"
    )
    if compared:
        figure(f"sgd {name}: byte-equal to the fold of the log: {', '.join(map(str, compared))}")
    for miss in answers.misses:
        note(f"sgd {name}: wrong: {miss}")
    return held


def _asked(dialogues: Dialogues, receipts: Receipts) -> Iterator[Question]:
    for query in dialogues.queries:
        yield Question(
            kind=query["mode"],
            name=query["qid"],
            owner=_owner(query["user"]),
            scope=f"service:{query['scope']}",
            expected={query["key"]: Expected(query["status"], query.get("value"))},
            as_of=None if query["mode"] == "current" else _sequence(receipts, query["user"], query["as_of_seq"]),
        )


def _states(dialogues: Dialogues, receipts: Receipts) -> Iterator[Question]:
    """All keys of each annotated scope: what the annotation lacks was either never said by then, or deleted."""
    first_said: dict[tuple[str, str, str], int] = {}
    for said in dialogues.said:
        first_said.setdefault((said.user, said.scope, said.key), said.seq)
    for state in dialogues.states:
        user, after = state["user"], state["after_seq"]
        for scope, values in state["state"].items():
            expected = {}
            for key in dict.fromkeys([*dialogues.keys.get(scope, ()), *values]):
                if key in values:
                    expected[key] = Expected("current", values[key])
                else:
                    was_said = first_said.get((user, scope, key), after + 1) <= after
                    expected[key] = Expected("deleted" if was_said else "absent")
            yield Question(
                kind="states",
                name=f"of {user} {scope} after turn {state['turn']}",
                owner=_owner(user),
                scope=f"service:{scope}",
                expected=expected,
                as_of=_sequence(receipts, user, after),
            )


def _sequence(receipts: Receipts, user: str, seq: int) -> int:
    """The log's sequence of what a user said as the `seq`-th; 0 before the first."""
    return receipts[user, seq].sequence if seq else 0


def _owner(user: str) -> str:
    return str(Owner.parse(f"user:{user}"))


def _publish_statements(pipeline: Pipeline, dialogues: Dialogues, _: random.Random) -> Receipts:
    with progress(f"{pipeline.name}: publishing", len(dialogues.said)) as on_progress:
        receipts = pipeline.publish(((said.user, said.seq), statement(said)) for said in dialogues.said)
        on_progress(len(receipts))
    return receipts


def _publish_read(
    pipeline: Pipeline, dialogues: Dialogues, rng: random.Random, *, within: int | None = 1, copies: int = 1
) -> Receipts:
    """Turns, and the candidates that read them: `within` turns of a user, then their candidates in any order."""
    receipts: Receipts = {}
    with progress(f"{pipeline.name}: publishing", len(dialogues.said)) as on_progress:
        for block in _blocks(dialogues.said, within):
            receipts |= pipeline.publish(((said.user, said.seq), turn(said)) for said in block)
            completed = [(said, copy) for said in block for copy in range(copies)]
            if within != 1:
                rng.shuffle(completed)
            pipeline.complete(candidate(said, copy) for said, copy in completed)
            on_progress(len(receipts))
    return receipts


def _blocks(said: Iterable[Said], within: int | None) -> Iterator[list[Said]]:
    """The same block of every user at once: the first `within` things each of them said, then the next."""
    by_block: dict[int, list[Said]] = {}
    for one in said:
        by_block.setdefault(0 if within is None else (one.seq - 1) // within, []).append(one)
    for number in sorted(by_block):
        yield by_block[number]


PARTS = {
    "statements": Part("each event as a statement, in file order", _publish_statements),
    "twice": Part(
        "as a turn and a candidate quoting it; each completes twice, every other time under a new event id",
        lambda *at: _publish_read(*at, copies=2),
    ),
    "within-3": Part(
        "the same; completions of three turns at a time shuffled",
        lambda *at: _publish_read(*at, within=3),
    ),
    "shuffled": Part(
        "the same; all completions of a user shuffled, after all the turns",
        lambda *at: _publish_read(*at, within=None),
    ),
    "killed": Part(
        "as within-3, and the worker killed (SIGKILL) about every 1,000 records (--kill-every)",
        lambda *at: _publish_read(*at, within=3),
        killed=True,
    ),
}

BENCH = Bench(
    "dialogues with annotated state: statements, candidates late, doubled and shuffled, a killed worker",
    FILES,
    tuple(PARTS),
    run,
)
