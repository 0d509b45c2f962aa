"""Bench `search-sgd`: which of a user's current records is a question about that uses other words?

Every row with an operation is published as a statement of the key `<scope>.<slot>`, declared with the slot's
description. The questions are the `changed` ones that have a value, now and as of a moment; they are asked in the words
of the description, of its nearest (1) and of its farthest paraphrase (5), over all scopes of the user at once.

The development part, services whose name has a SHA-256 that begins with an even byte, is what rankers may be tuned on.
The rest is reported by itself; the bar is that of all.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from lastword_query_api.search.ranking import LexicalRanker
from lastword_schemas.drafts import EventDraft
from lastword_schemas.identity import Owner
from lastword_schemas.positions import Receipt
from lastword_schemas.registry import Registry
from tests.bench.bench import Bench, BenchStopped, Options
from tests.bench.data import shaped
from tests.bench.finding import Found, Looked, Place, look, percent, untrue_lines
from tests.bench.pipeline import Pipeline
from tests.bench.show import figure, note, progress
from tests.bench.stage import Stage, open_stage

EVENTS = ("user", "seq", "scope", "key", "op", "stream_seq")
QUERIES = ("qid", "user", "scope", "key", "as_of_seq", "status", "stale", "future", "changed")
SLOTS = ("scope", "key", "description", "paraphrases")
WORDINGS = {"description": None, "paraphrase 1": 0, "paraphrase 5": 4}
ALIASES = slice(1, 4)
"""Paraphrases 2 to 4, where aliases are declared: none that is asked with."""
BARS = {("words", "paraphrase 5"): 51.0}
"""Per cent of all at rank 1, by part and wording: what BM25 over the same records gives elsewhere."""
PARTS = {"words": False, "words-aliases": True}
"""Whether the keys are declared with aliases."""


class Dialogues(NamedTuple):
    """The data folder, read."""

    events: list[dict[str, Any]]
    queries: list[dict[str, Any]]
    slots: Mapping[Place, dict[str, Any]]
    """By service and slot."""


def run(options: Options) -> bool:
    """See `Bench`."""
    dialogues = read(options)
    with open_stage(options.broker) as stage:
        figure(stage.versions)
        held = [_run_part(name, PARTS[name], stage, dialogues, options) for name in options.only or PARTS]
    return all(held)


def read(options: Options) -> Dialogues:
    """Read the data folder: files are told apart by what their rows have."""
    slots = {(slot["scope"], slot["key"]): slot for slot in shaped(options.data, SLOTS)}
    events = sorted(shaped(options.data, EVENTS), key=lambda event: int(event["stream_seq"]))
    for event in events:
        if (event["scope"], event["key"]) not in slots:
            raise BenchStopped(f"no slot {event['key']} of {event['scope']} is described")
    queries = [query for query in shaped(options.data, QUERIES) if query["changed"] and query["status"] == "current"]
    return Dialogues(events, queries, slots)


def in_development(service: str) -> bool:
    """Whether a service is of the part that was tuned on."""
    return hashlib.sha256(service.encode()).digest()[0] % 2 == 0


def _run_part(name: str, aliases: bool, stage: Stage, dialogues: Dialogues, options: Options) -> bool:
    registry, held = _registry(dialogues, aliases), True
    with Pipeline(stage, f"search-sgd {name}", registry, partitions=options.partitions) as pipeline:
        receipts = pipeline.publish(((event["user"], event["seq"]), _statement(event)) for event in dialogues.events)
        pipeline.project()
        namespace = pipeline.settings.namespace
        for wording, at in WORDINGS.items():
            found = []
            for development in (True, False):
                asked = list(_asked(dialogues, receipts, at, development=development))
                with progress(f"search-sgd {name}: {wording}", len(asked)) as on_progress:
                    found.append(look(stage.redis_url, namespace, LexicalRanker(), asked, on_progress))
            held = _report(name, wording, *found) and held
    return held


def _report(name: str, wording: str, tuned: Found, rest: Found) -> bool:
    first, searches = tuned.first + rest.first, tuned.searches + rest.searches
    bar = BARS.get((name, wording))
    holds = not (tuned.untrue or rest.untrue or tuned.stale or rest.stale or tuned.future or rest.future)
    holds = holds and searches > 0 and (bar is None or 100 * first / searches >= bar)
    figure(
        f"search-sgd {name}, {wording}: all hit@1 {percent(first, searches)}"
        f"{'' if bar is None else f', bar {bar}'}; rest: {rest}; development part: {tuned}; "
        f"p95 {max(tuned.p95_ms, rest.p95_ms):.1f} ms{'' if holds else '  MISSED'}"
    )
    for line in (*untrue_lines(tuned), *untrue_lines(rest)):
        note(f"search-sgd {name}: must never be found: {line}")
    return holds


def _registry(dialogues: Dialogues, aliases: bool) -> Registry:
    keys = {
        f"{scope}.{key}": {"policy": "latest", "description": slot["description"]}
        | ({"aliases": slot["paraphrases"][ALIASES]} if aliases else {})
        for (scope, key), slot in dialogues.slots.items()
    }
    return Registry.read({"v": 1, "keys": keys})


def _statement(event: Mapping[str, Any]) -> EventDraft:
    value = {} if event["op"] == "delete" else {"value": event["value"]}
    return EventDraft.read(
        {
            "operation": event["op"],
            "owner": f"user:{event['user']}",
            "scope": f"service:{event['scope']}",
            "key": f"{event['scope']}.{event['key']}",
            "actor": {"service": "bench"},
            "event_id": f"statement {event['user']}/{event['seq']}",
        }
        | value
    )


def _asked(
    dialogues: Dialogues, receipts: Mapping[tuple[str, int], Receipt], wording: int | None, *, development: bool
) -> Iterator[Looked]:
    by_user: dict[str, list[dict[str, Any]]] = {}
    for event in dialogues.events:
        by_user.setdefault(event["user"], []).append(event)
    for query in dialogues.queries:
        if in_development(query["scope"]) is not development:
            continue
        slot = dialogues.slots[query["scope"], query["key"]]
        user, seq = query["user"], int(query["as_of_seq"])
        yield Looked(
            name=query["qid"],
            owner=str(Owner.parse(f"user:{user}")),
            query=slot["description"] if wording is None else slot["paraphrases"][wording],
            right=_place(query),
            truth=_state(event for event in by_user[user] if int(event["seq"]) <= seq),
            as_of=None if query.get("mode") == "current" else receipts[user, seq].sequence,
            stale=query["stale"],
            future=query["future"],
        )


def _place(row: Mapping[str, Any]) -> Place:
    return f"service:{row['scope']}", f"{row['scope']}.{row['key']}"


def _state(events: Iterable[Mapping[str, Any]]) -> dict[Place, Any]:
    """What applies after these: a replay that knows nothing of the product."""
    state: dict[Place, Any] = {}
    for event in events:
        if event["op"] == "delete":
            state.pop(_place(event), None)
        else:
            state[_place(event)] = event["value"]
    return state


BENCH = Bench(
    "search: paraphrased questions over what a user's dialogues say now and as of a moment", (), tuple(PARTS), run
)
