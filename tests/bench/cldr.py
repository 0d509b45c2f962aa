"""Bench `cldr`: the currency of each territory as of any day (see the data folder's README)."""

from collections.abc import Iterator
from typing import Any

from lastword_schemas.drafts import EventDraft
from lastword_schemas.identity import Owner
from lastword_schemas.positions import Receipt
from lastword_schemas.registry import Registry
from tests.bench import asking
from tests.bench.asking import Expected, Question
from tests.bench.bench import Bench, Options
from tests.bench.data import rows
from tests.bench.pipeline import Pipeline
from tests.bench.show import figure, note, progress
from tests.bench.stage import open_stage

FILES = ("events.jsonl", "queries.jsonl")
OWNER = str(Owner.parse("org:world"))
SCOPE = "global"


def run(options: Options) -> bool:
    """See `Bench`."""
    events = rows(options.data, "events.jsonl", ("key", "op", "valid_from", "stream_seq"))
    events.sort(key=lambda event: int(event["stream_seq"]))
    queries = rows(options.data, "queries.jsonl", ("qid", "key", "as_of", "status"))
    keys = {_key(row): {"policy": "latest"} for row in (*events, *queries)}
    with open_stage(options.broker) as stage:
        figure(stage.versions)
        figure(f"cldr: read path: {asking.PATH}; {options.partitions} partitions")
        registry = Registry.read({"v": 1, "keys": keys})
        with Pipeline(stage, "cldr", registry, partitions=options.partitions) as pipeline:
            with progress("cldr: publishing", len(events)) as on_progress:
                receipts = pipeline.publish((number, _draft(event)) for number, event in enumerate(events))
                on_progress(len(receipts))
            projected = pipeline.project()
            answers = pipeline.ask(list(_questions(queries, events, receipts)))
    figure(
        f"cldr: {answers}; {pipeline.publish_rate:,.0f} events/s published, {projected.rate:,.0f} records/s projected, "
        f"{answers.rate:,.0f} answers/s{'' if answers.holds else '  MISSED'}"
    )
    for miss in answers.misses:
        note(f"cldr: wrong: {miss}")
    return answers.holds


def _draft(event: dict[str, Any]) -> EventDraft:
    value = {} if event["op"] == "delete" else {"value": event["value"]}
    return EventDraft.read(
        {
            "operation": event["op"],
            "owner": OWNER,
            "scope": SCOPE,
            "key": _key(event),
            "actor": {"service": "bench"},
            "occurred_at": f"{event['valid_from']}T00:00:00Z",
        }
        | value
    )


def _questions(
    queries: list[dict[str, Any]], events: list[dict[str, Any]], receipts: dict[int, Receipt]
) -> Iterator[Question]:
    for query in queries:
        valid = [number for number, event in enumerate(events) if event["valid_from"] <= query["as_of"]]
        yield Question(
            kind="as_of",
            name=query["qid"],
            owner=OWNER,
            scope=SCOPE,
            expected={_key(query): Expected(query["status"], query.get("value"))},
            as_of=receipts[valid[-1]].sequence if valid else 0,
        )


def _key(row: dict[str, Any]) -> str:
    return f"currency.{row['key']}"


BENCH = Bench("the currency of each territory as of any day", FILES, (), run)
