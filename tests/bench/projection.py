"""How fast one worker projects, against what the same Redis can do with one compare-and-set call an event.

The topic holds statements, turns' candidates, late candidates and duplicates. The ceiling takes the topic's own owners,
keys and entry bytes: one EVALSHA an event (compare the mark, set the entry), 1,000 a pipeline, with redis-py. It is run
before and after each projection, because the machine's speed drifts; a run's ratio is against the mean of both.
An agent of faust that does nothing reads the same topic between them.
"""

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

import redis

from lastword.running import run_rebuild
from lastword_projector.engine.records import Entry, Record, pack_record
from lastword_projector.store.names import Names, field_of
from lastword_projector.store.packing import pack_head
from lastword_schemas import jsontext
from lastword_schemas.authority import Role
from lastword_schemas.drafts import CandidateDraft, EventDraft
from lastword_schemas.envelope import Actor
from lastword_schemas.identity import Owner
from lastword_schemas.ids import uuid7
from lastword_schemas.partitions import partition_for
from lastword_schemas.registry import parse_registry_file
from tests.bench.bench import Bench, BenchStopped, Options
from tests.bench.pipeline import Pipeline
from tests.bench.show import figure, progress
from tests.bench.stage import Stage, open_stage

EVENTS = 120_000
OWNERS = 10_000
KEYS = 8
RUNS = 5
FIRST_BAR = 0.8
FAUST_RUNS, FAUST_BAR = 3, 5.0
_FAUST_S = 180
_PIPELINE = 1_000
DECLARED = "".join(f'[keys."key{number}"]\npolicy = "latest"\nmin_authority = "inferred"\n' for number in range(KEYS))
"""The registry file of `mix`."""
_CAS = """
local value = redis.call('HGET', KEYS[1], ARGV[1])
if value and string.sub(value, 1, 23) >= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
"""


def run(options: Options) -> bool:
    """Print the ratios; whether their median reaches the first bar."""
    with open_stage(options.broker) as stage:
        figure(stage.versions)
        with redis.Redis.from_url(stage.redis_url) as client:
            client.config_set("appendonly", "yes")
            client.config_set("appendfsync", "everysec")
        with Pipeline(stage, "projection", parse_registry_file(DECLARED), partitions=options.partitions) as pipeline:
            pipeline.publish_mix(list(mix(random.Random(options.seed))))
            return _compare(stage, pipeline)


def _compare(stage: Stage, pipeline: Pipeline) -> bool:
    calls = _ceiling_calls(pipeline.log.partitions)
    ratios, rates, ceilings, faust = [], [], [_ceiling(stage, calls)], []
    for number in range(1, RUNS + 1):
        rates.append(pipeline.in_namespace(f"run{number}").project().rate)
        ceilings.append(_ceiling(stage, calls))
        ratios.append(rates[-1] / ((ceilings[-2] + ceilings[-1]) / 2))
        figure(f"  run {number}: {rates[-1]:,.0f} events/s, ceiling {ceilings[-1]:,.0f}, ratio {ratios[-1]:.2f}")
        if number <= FAUST_RUNS:
            faust.append(_faust(stage, pipeline))
    figure(f"rebuild: {_rebuild(pipeline):,.0f} events/s, one process, partition by partition")
    median, times = statistics.median(ratios), statistics.median(rates) / statistics.median(faust)
    figure(
        f"projection: {_spread(rates)} events/s; ceiling {_spread(ceilings)}; ratio {median:.2f} "
        f"[{min(ratios):.2f} - {max(ratios):.2f}], at least {FIRST_BAR}"
    )
    figure(f"an empty faust agent: {_spread(faust)} events/s; ratio {times:.1f}, at least {FAUST_BAR:.0f}")
    return median >= FIRST_BAR and times >= FAUST_BAR


def _faust(stage: Stage, pipeline: Pipeline) -> float:
    """Records a second that an agent of faust reads which does nothing with them."""
    arguments = [stage.bootstrap_servers, pipeline.settings.topic, str(pipeline.total)]
    command = [sys.executable, "-m", "tests.bench.faust_agent", *arguments]
    with progress("projection: faust, an empty agent", 1) as on_progress:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FAUST_S)
        on_progress(1)
    if ran.returncode or not ran.stdout:
        raise BenchStopped(f"faust ended with {ran.returncode}: {ran.stderr.strip()[-500:]}")
    return pipeline.total / float(ran.stdout.split()[-1])


def _rebuild(pipeline: Pipeline) -> float:
    """Records a second, emptying included."""
    settings = pipeline.in_namespace("rebuilt").settings
    offsets: dict[int, int] = {}
    with progress("projection: rebuild", pipeline.total) as on_progress:

        def note_progress(partition: int, next_offset: int) -> None:
            offsets[partition] = next_offset
            on_progress(sum(offsets.values()))

        began = time.perf_counter()
        done = run_rebuild(settings, pipeline.log, note_progress)
        return done / (time.perf_counter() - began)


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.0f} [{min(values):,.0f} - {max(values):,.0f}]"


def mix(order: random.Random) -> Iterator[EventDraft | CandidateDraft]:
    """60 % statements, 10 % turns, 10 % candidates soon after one, 10 % long after it, 10 % duplicates."""
    actor, extractor = Actor(service="chat"), Actor(service="extractor", role=Role.EXTRACTOR)
    turns: list[EventDraft] = []
    statements: list[EventDraft] = []
    for number in range(EVENTS):
        kind = order.random()
        if kind < 0.1 or not turns:
            text = "Evening flights work better now."
            turn = EventDraft(
                operation="say",
                owner=_owner(order),
                scope="global",
                thread="t",
                text=text,
                actor=actor,
                event_id=_id(number, order),
            )
            turns.append(turn)
            yield turn
        elif kind < 0.3:
            turn = turns[-min(len(turns), order.randrange(100, 300))] if kind < 0.2 else order.choice(turns)
            yield CandidateDraft(
                owner=turn.owner,
                scope="global",
                key=_key(order),
                value=f"evening flights, as read by number {number}",
                actor=extractor,
                source_event_id=turn.event_id or "",
                span=[0, 15],
                quote="Evening flights",
            )
        elif kind < 0.4 and statements:
            yield order.choice(statements)
        else:
            value = f"a preference in some words, {number}"
            statement = EventDraft(
                operation="set",
                owner=_owner(order),
                scope="global",
                key=_key(order),
                value=value,
                actor=actor,
                event_id=_id(number, order),
            )
            statements.append(statement)
            yield statement


def _owner(order: random.Random) -> str:
    return f"user:{order.randrange(OWNERS)}"


def _key(order: random.Random) -> str:
    return f"key{order.randrange(KEYS)}"


def _id(number: int, order: random.Random) -> str:
    """An event id as publishers make it: 2,000 events a second, of services whose clocks differ by up to 20 ms."""
    return uuid7(1_796_000_000_000 + number // 2 + order.randrange(20), order.randbytes(10))


def _ceiling_calls(partitions: int) -> list[tuple[str, str, str, bytes]]:
    """Profile key, field, mark and value of one call an event: the same owners, keys and sizes as in the topic."""
    order, names = random.Random(1), Names("ceiling")
    calls: list[tuple[str, str, str, bytes]] = []
    for number in range(EVENTS):
        owner = str(Owner.parse(_owner(order)))
        key, value = _key(order), f"a preference in some words, {number}"
        record = Record(
            number,
            1_796_000_000_000,
            order.randbytes(16),
            "set",
            "global",
            key,
            2,
            "chat",
            "service",
            "updated",
            jsontext.canonical(value).encode(),
        )
        entry = Entry(record, record.mark, record.mark, record.recorded_at, record.mark)
        packed = pack_head(entry, "1796000000000") + pack_record(record)
        profile = names.of(partition_for(owner, partitions)).profile(owner)
        calls.append((profile, field_of("global", key), record.mark, packed))
    return calls


def _ceiling(stage: Stage, calls: list[tuple[str, str, str, bytes]]) -> float:
    """Calls a second."""
    with redis.Redis.from_url(stage.redis_url) as client:
        for name in client.scan_iter("lw:ceiling:*", count=10_000):
            client.unlink(name)
        sha = client.script_load(_CAS)
        began = time.perf_counter()
        for first in range(0, len(calls), _PIPELINE):
            pipeline = client.pipeline(transaction=False)
            for profile, field, mark, packed in calls[first : first + _PIPELINE]:
                pipeline.evalsha(sha, 1, profile, field, mark, packed)
            pipeline.execute()
        return len(calls) / (time.perf_counter() - began)


BENCH = Bench("one worker's projection, against one compare-and-set call an event on the same Redis", (), (), run)
