"""What lastword takes of Redis, and whether that stays flat as one owner's history grows.

No broker: what Redis holds depends on the log's records alone, and how long the log takes them does not depend on
whose they are. They are made here and folded by the product's projector into a real Redis.
"""

import asyncio
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import redis

from lastword_projector.engine.decode import LogRecord
from lastword_projector.projector import PartitionProjector
from lastword_projector.store.names import Names
from lastword_projector.store.reader import Reader
from lastword_projector.store.redis import RedisStore
from lastword_projector.store.runners import AwaitingRunner
from lastword_projector.worker.dead_letters import MutedDeadLetters
from lastword_query_api.boundary import Boundary
from lastword_query_api.readings import Asked, Readings
from lastword_schemas.drafts import EventDraft, to_envelope
from lastword_schemas.envelope import Actor
from lastword_schemas.ids import uuid7
from lastword_schemas.model import from_micros
from lastword_schemas.registry import parse_registry_file
from tests.bench.bench import Bench, Options
from tests.bench.show import figure, progress
from tests.bench.stage import open_store
from tests.support.logs import Log, recorded_at

SIZES = {1: 2.0, 8: 1.5, 1_000: 1.0}
"""By events an owner: bytes in Redis over bytes of the events, at most."""
EVENTS = 24_000
LONG = 100_000
READS = 2_000
READ_P95_MS, READ_BLOCK_MS, COMMIT_MEAN_MS, COST = 5.0, 1.0, 2.0, 1.1
SHORT_HISTORY, LONG_HISTORY, BLOCK, BLOCKS = 100, 10_000, 500, 15
_KEYS = 8
_BATCH = 2_000


class Fold:
    """One partition of a log, folded into a namespace of its own."""

    def __init__(self, url: str, namespace: str) -> None:
        declared = "".join(f'[keys."key{number}"]\npolicy = "latest"\n' for number in range(_KEYS))
        self.log = Log(registry=parse_registry_file(declared))
        self.names = Names(namespace)
        self._store = RedisStore(url, self.names)
        self._projector = PartitionProjector(self.log.genesis, self._store, MutedDeadLetters())
        self._order = random.Random(namespace)

    def say(self, owner: str) -> None:
        """Append a statement: one of eight keys, some words, an id as publishers make it."""
        offset = self.log.next_offset
        draft = EventDraft(
            operation="set",
            owner=owner,
            scope="global",
            key=f"key{self._order.randrange(_KEYS)}",
            value=f"a preference in some words, {offset}",
            actor=Actor(service="chat"),
        )
        at_ms = recorded_at(offset)
        event_id = uuid7(at_ms, self._order.randbytes(10))
        self.log.put(to_envelope(draft, event_id=event_id, published_at=from_micros(at_ms * 1_000)))

    def project(self) -> float:
        """Fold what is not folded yet; the seconds that it took."""
        records = self.log.records[self._projector.next_offset :]
        began = time.perf_counter()
        for batch in _batches(records):
            self._projector.project(batch)
        return time.perf_counter() - began

    @property
    def payload(self) -> int:
        """Bytes of the events."""
        return sum(len(record.value or b"") for record in self.log.records[2:])

    def close(self) -> None:
        """Close the connection."""
        self._store.reset()


def run(options: Options) -> bool:
    """Print the figures; whether all are within their bars."""
    with open_store() as stage, redis.Redis.from_url(stage.redis_url) as client:
        figure(stage.versions)
        client.config_set("appendonly", "yes")
        client.config_set("appendfsync", "everysec")
        held = [_size(stage.redis_url, client, each) for each in SIZES]
        held.append(_long(stage.redis_url, client))
        held.append(_cost(stage.redis_url, client))
        return all(held)


def _size(url: str, client: "redis.Redis", each: int) -> bool:
    client.flushall()
    before = int(client.info("memory")["used_memory"])
    fold = Fold(url, f"of-{each}")
    with progress(f"size: {each:,} events an owner", EVENTS) as on_progress:
        for number in range(EVENTS):
            fold.say(f"user:{number // each}" if each > 1 else f"user:{number}")
            if number % 1_000 == 0:
                on_progress(number)
        fold.project()
        on_progress(EVENTS)
    used: dict[str, int] = {}
    for name in client.scan_iter(count=1_000):
        sort = name.decode().partition("}:")[2].partition(":")[0]
        used[sort] = used.get(sort, 0) + int(client.memory_usage(name, samples=0) or 0)
    whole = int(client.info("memory")["used_memory"]) - before
    ratio, bar = sum(used.values()) / fold.payload, SIZES[each]
    parts = ", ".join(f"{sort} {count / EVENTS:.0f}" for sort, count in sorted(used.items()))
    figure(
        f"size: {each:,} events an owner: {ratio:.2f} of the payload (with the server's own tables "
        f"{whole / fold.payload:.2f}), at most {bar}; {fold.payload / EVENTS:.0f} bytes an event; in Redis: {parts}"
    )
    fold.close()
    return ratio <= bar


def _long(url: str, client: "redis.Redis") -> bool:
    client.flushall()
    fold = Fold(url, "long")
    with progress(f"one owner with {LONG:,} events", LONG) as on_progress:
        for number in range(LONG):
            fold.say("user:ada")
            if number % 1_000 == 0:
                on_progress(number)
        client.config_resetstat()
        fold.project()
        on_progress(LONG)
    stats = client.info("commandstats")["cmdstat_evalsha"]
    mean_ms = float(stats["usec_per_call"]) / 1_000
    client.config_set("slowlog-log-slower-than", int(READ_BLOCK_MS * 1_000))
    client.slowlog_reset()
    taken = asyncio.run(_as_of(url, fold))
    slow = [entry for entry in client.slowlog_get(100) if b"EVALSHA_RO" in entry["command"][:10]]
    fold.close()
    p50, p95 = _quantiles(taken, 0.5, 0.95)
    figure(
        f"as-of on one owner with {LONG:,} events: p50 {p50:.2f} ms, p95 {p95:.2f} ms, at most {READ_P95_MS}; "
        f"reads that blocked Redis over {READ_BLOCK_MS} ms: {len(slow)} of {READS:,}"
    )
    figure(f"commit calls: {mean_ms:.2f} ms in the mean, at most {COMMIT_MEAN_MS} ({stats['calls']:,} calls)")
    return p95 <= READ_P95_MS and not slow and mean_ms <= COMMIT_MEAN_MS


async def _as_of(url: str, fold: Fold) -> list[float]:
    """Milliseconds that each of some reads took, one at a time."""
    runner = AwaitingRunner(url)
    readings = Readings(Reader(runner, fold.names))
    order, taken = random.Random(1), []
    try:
        for _ in range(READS):
            asked = Asked("main/user:ada", Boundary(as_of=order.randrange(2, fold.log.next_offset)))
            began = time.perf_counter()
            await readings.values(asked, ["global"], [f"key{order.randrange(_KEYS)}"])
            taken.append((time.perf_counter() - began) * 1_000)
    finally:
        await runner.close()
    return taken


def _cost(url: str, client: "redis.Redis") -> bool:
    """An event's cost in a long history over that in a short one: blocks of both in turn."""
    client.flushall()
    short, long = Fold(url, "short"), Fold(url, "long")
    for _ in range(LONG_HISTORY):
        long.say("user:ada")
    long.project()
    costs: dict[str, list[float]] = {"short": [], "long": []}
    with progress("cost of an event", BLOCKS) as on_progress:
        for number in range(BLOCKS):
            owner = f"user:{number}"
            for _ in range(SHORT_HISTORY):
                short.say(owner)
            short.project()
            for name, fold, whose in (("short", short, owner), ("long", long, "user:ada")):
                for _ in range(BLOCK):
                    fold.say(whose)
                costs[name].append(fold.project() / BLOCK * 1e6)
            on_progress(number + 1)
    ratio = statistics.median(costs["long"]) / statistics.median(costs["short"])
    figure(
        f"cost of an event: {_spread(costs['long'])} microseconds in a history of {LONG_HISTORY:,}, "
        f"{_spread(costs['short'])} in one of {SHORT_HISTORY:,}; ratio {ratio:.2f}, at most {COST}"
    )
    for fold in (short, long):
        fold.close()
    return ratio <= COST


def _batches(records: Sequence[LogRecord]) -> Iterator[Sequence[LogRecord]]:
    for first in range(0, len(records), _BATCH):
        yield records[first : first + _BATCH]


def _quantiles(values: Sequence[float], *wanted: float) -> list[float]:
    ordered = sorted(values)
    return [ordered[min(len(ordered) - 1, int(part * len(ordered)))] for part in wanted]


def _spread(values: Sequence[Any]) -> str:
    return f"{statistics.median(values):.1f} [{min(values):.1f} - {max(values):.1f}]"


BENCH = Bench("bytes in Redis over the events' own, and whether reads and commits stay flat", (), (), run)
