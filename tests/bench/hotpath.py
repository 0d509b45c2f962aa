"""Where a projector's processor time goes: the events of `projection`, replayed from memory into Redis, without Kafka.

Microseconds of processor time an event, which a busy machine changes less than events a second: Python's by step of
`PartitionProjector`, Redis' own, and the costliest commands. Partitions follow on each other as a consumer that catches
up hands them out: thousands of records of one at a time.
"""

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import redis

from lastword.running import COLLECT_AFTER
from lastword_projector.engine.decode import LogRecord
from lastword_projector.projector import PartitionProjector
from lastword_projector.store.names import Names
from lastword_projector.store.redis import RedisStore
from lastword_projector.worker.dead_letters import MutedDeadLetters
from lastword_schemas.control import GENESIS_KEY, REGISTRY_KEY, Genesis, RegistryRecord, control_bytes
from lastword_schemas.drafts import to_envelope
from lastword_schemas.identity import Owner, record_key
from lastword_schemas.ids import uuid7
from lastword_schemas.partitions import partition_for
from lastword_schemas.registry import parse_registry_file
from tests.bench import projection
from tests.bench.bench import Bench, Options
from tests.bench.show import figure, progress
from tests.bench.stage import open_store

RUNS = 3
_CHUNK = 4_000
_BEGAN_MS = 1_796_000_000_000
_MOST_COMMANDS = 6

Log = Mapping[int, Sequence[LogRecord]]
"""By partition."""


class Spent(NamedTuple):
    """Microseconds of processor time an event."""

    take: float
    fold: float
    settle: float
    redis: float

    def __str__(self) -> str:
        python = self.take + self.fold + self.settle
        steps = f"take {self.take:.1f}, fold {self.fold:.1f}, settle {self.settle:.1f}"
        return f"Python {python:.1f} us/event ({steps}); Redis {self.redis:.1f}"


def run(options: Options) -> bool:
    """Print the figures; they have no bar."""
    geneses = [_genesis(partition, options.partitions) for partition in range(options.partitions)]
    log = _log(geneses, random.Random(options.seed))
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *before[1:])  # as a worker has it
    try:
        with open_store() as stage, redis.Redis.from_url(stage.redis_url) as client:
            figure(stage.versions)
            client.config_set("appendonly", "yes")
            client.config_set("appendfsync", "everysec")
            runs = []
            for number in range(1, RUNS + 1):
                store = RedisStore(stage.redis_url, Names(f"run{number}"), on_outbox=lambda _: None)
                runs.append(_replay(log, geneses, store, client))
                store.reset()
                figure(f"  run {number}: {runs[-1]}")
            events = sum(map(len, log.values()))
            figure(f"hotpath: {Spent(*map(statistics.median, zip(*runs, strict=True)))}")
            figure(f"  commands of the last run: {', '.join(_commands(client, events))}")
    finally:
        gc.set_threshold(*before)
    return True


def _replay(log: Log, geneses: Sequence[Genesis], store: RedisStore, client: "redis.Redis") -> Spent:
    projectors = [PartitionProjector(genesis, store, MutedDeadLetters()) for genesis in geneses]
    events, done = sum(map(len, log.values())), 0
    take = fold = settle = 0.0
    client.config_resetstat()
    redis_began = _redis_s(client)
    with progress("hotpath: replaying", events) as on_progress:
        before = projectors[0]
        for partition, records in log.items():
            projector = projectors[partition]
            for first in range(0, len(records), _CHUNK):
                chunk = records[first : first + _CHUNK]
                take += _timed(lambda: projector.take(chunk))  # noqa: B023 (it is called at once)
                settle += _timed(before.settle)
                fold += _timed(projector.fold)
                before, done = projector, done + len(chunk)
                on_progress(done)
        settle += _timed(before.settle)
    spent = (take, fold, settle, _redis_s(client) - redis_began)
    return Spent(*(seconds / events * 1e6 for seconds in spent))


def _timed(step: Callable[[], object]) -> float:
    began = time.process_time()
    step()
    return time.process_time() - began


def _redis_s(client: "redis.Redis") -> float:
    used = client.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


def _commands(client: "redis.Redis", events: int) -> Iterator[str]:
    stats = client.info("commandstats")
    costly = sorted(stats, key=lambda name: -stats[name]["usec"])[:_MOST_COMMANDS]
    for name in costly:
        calls, took = stats[name]["calls"], stats[name]["usec"] / events
        yield f"{name.removeprefix('cmdstat_')} {took:.2f} us/event in {calls:,} calls"


def _genesis(partition: int, partitions: int) -> Genesis:
    return Genesis(generation=0, partition=partition, partitions=partitions, cluster_id="c" * 22, topic_id="t" * 22)


def _log(geneses: Sequence[Genesis], order: random.Random) -> Log:
    registry = RegistryRecord(registry=parse_registry_file(projection.DECLARED))
    log: dict[int, list[LogRecord]] = {
        genesis.partition: [
            LogRecord(0, _BEGAN_MS, GENESIS_KEY.encode(), control_bytes(genesis)),
            LogRecord(1, _BEGAN_MS, REGISTRY_KEY.encode(), control_bytes(registry)),
        ]
        for genesis in geneses
    }
    for number, draft in enumerate(projection.mix(order)):
        recorded_at = _BEGAN_MS + number // 2
        event_id = draft.event_id or uuid7(recorded_at, order.randbytes(10))
        published_at = datetime.fromtimestamp(recorded_at / 1_000, UTC)
        envelope = to_envelope(draft, event_id=event_id, published_at=published_at)
        owner = str(Owner.parse(envelope.owner))
        records = log[partition_for(owner, len(geneses))]
        key = record_key(owner, envelope.scope, envelope.key).encode()
        records.append(LogRecord(len(records), recorded_at, key, envelope.to_bytes()))
    return log


BENCH = Bench("where a projector's processor time goes, in Python and in Redis, without Kafka", (), (), run)
