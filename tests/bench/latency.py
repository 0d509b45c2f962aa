"""How long things take, on the real Kafka: a publish, until it is seen, a look-up, and to be woken.

Worker, API and those who ask it are processes of their own; the machine is shared by all of them and the broker.
"""

import asyncio
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

import redis
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from lastword.process import PythonProcess, free_port
from lastword_producers.broker import client_logger
from lastword_projector.store.names import Names
from lastword_projector.store.reader import Reader
from lastword_projector.store.runners import AwaitingRunner
from lastword_schemas.drafts import EventDraft
from lastword_schemas.envelope import Actor
from lastword_schemas.identity import Owner
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import Receipt, sequence_of
from lastword_schemas.registry import parse_registry_file
from tests.bench.bench import Bench, BenchStopped, Options
from tests.bench.pipeline import Pipeline
from tests.bench.show import SetDone, figure, progress
from tests.bench.stage import Stage, open_stage

PUBLISHES, BLOCK = 2_000, 200
RATE, SECONDS = 1_000, 10
WARM_S = 40
"""Seconds at that rate before anything is measured."""
REQUESTS, CONNECTIONS, ROUNDS = 4_000, 16, 3
READERS, QUIET_S = 500, 3.0
PUBLISH_RATIO = 4.0
VISIBLE_P50_MS, VISIBLE_P99_MS = 25.0, 150.0
LOOKUP_RATIO = 0.25
WOKEN_P50_MS = 5.0
STORM = 200.0
"""Redis commands a second while readers wait, at most."""
_OWNERS = 1_000
_ACTOR = Actor(service="chat")
_LIMIT_S = 60.0


def run(options: Options) -> bool:
    """Print the figures; whether all are within their first bars."""
    with open_stage(options.broker) as stage:
        figure(stage.versions)
        with redis.Redis.from_url(stage.redis_url) as client:
            client.config_set("appendonly", "yes")
            client.config_set("appendfsync", "everysec")
        registry = parse_registry_file('[keys."tone"]\npolicy = "latest"\n')
        with Pipeline(stage, "latency", registry, partitions=options.partitions) as pipeline, pipeline.working():
            parts: dict[str, Callable[[Stage, Pipeline], bool]] = {
                "publish": _publish,
                "visible": _visible,
                "lookup": _lookup,
                "woken": _woken,
            }
            held = [part(stage, pipeline) for name, part in parts.items() if name in (options.only or parts)]
            return all(held)


def _publish(stage: Stage, pipeline: Pipeline) -> bool:
    """One event at a time, acknowledged: the bare client and the publisher, in blocks by turns."""
    config = {**pipeline.settings.kafka_settings.producer_config(), "linger.ms": 0}
    topic = f"{pipeline.settings.topic}.bare"
    admin = AdminClient(pipeline.settings.kafka_settings.client_config())
    admin.create_topics([NewTopic(topic, pipeline.log.partitions, 1)])[topic].result(_LIMIT_S)
    producer = Producer(config, logger=client_logger())
    value = b'"a preference in some words"'.ljust(300)
    bare, ours = list[float](), list[float]()
    with progress("latency: publishing", PUBLISHES) as on_progress:
        for first in range(0, PUBLISHES, BLOCK):
            for number in range(first, first + BLOCK):
                began = time.perf_counter()
                producer.produce(topic, value, str(number))
                producer.flush()
                bare.append(_ms_since(began))
            for number in range(first, first + BLOCK):
                draft = _draft(number)
                began = time.perf_counter()
                pipeline.publisher.publish(draft)
                ours.append(_ms_since(began))
            on_progress(first + BLOCK)
    ratio = statistics.median(ours[BLOCK:]) / statistics.median(bare[BLOCK:])
    figure(
        f"publish acknowledged: {_shown(ours[BLOCK:])}; the bare client {_shown(bare[BLOCK:])}; ratio of the medians "
        f"{ratio:.2f}, at most {PUBLISH_RATIO}"
    )
    return ratio <= PUBLISH_RATIO


def _visible(stage: Stage, pipeline: Pipeline) -> bool:
    """From the call of the publisher until Redis announces the checkpoint, at a steady rate.

    A broker that has just started is many times slower than one that has compiled what it does: it is kept busy first.
    """
    with progress("latency: keeping the broker busy", RATE * WARM_S) as on_progress:
        for _ in _paced(pipeline, RATE * WARM_S, on_progress):
            pass
    total = RATE * SECONDS
    with Announcements(stage, pipeline) as heard, progress("latency: until visible", total) as on_progress:
        began = time.perf_counter()
        sent = list(_paced(pipeline, total, on_progress))
        taken_s = time.perf_counter() - began
        receipts = [(at, future.result(_LIMIT_S)) for at, future in sent]
        heard.until_past([receipt for _, receipt in receipts])
    taken = [(heard.passed_at(receipt) - at) * 1_000 for at, receipt in receipts]
    p50, p99 = _quantiles(taken)
    figure(
        f"publish to visible at {total / taken_s:,.0f} events/s: {_shown(taken)}; aim 5 and 25, "
        f"at most {VISIBLE_P50_MS:.0f} and {VISIBLE_P99_MS:.0f}"
    )
    return p50 <= VISIBLE_P50_MS and p99 <= VISIBLE_P99_MS


def _paced(pipeline: Pipeline, total: int, on_progress: SetDone) -> Iterator[tuple[float, Future[Receipt]]]:
    """Publish at a steady rate: when each call began, and its outcome."""
    began = time.perf_counter()
    for number in range(total):
        if (early := began + number / RATE - time.perf_counter()) > 0:
            time.sleep(early)
        yield time.perf_counter(), pipeline.publisher.submit(_draft(number))
        if number % RATE == 0:
            on_progress(number)


def _lookup(stage: Stage, pipeline: Pipeline) -> bool:
    """A current value over HTTP against the liveness route of the same server."""
    pipeline.publisher.publish(_draft(0))
    ratios, alone = [], list[float]()
    with open_api(stage, pipeline) as port:
        paths = {"empty": "/healthz", "lookup": "/v1/value?owner=user%3A0&scope=global&key=tone"}
        for number in range(ROUNDS):
            asked = {name: _asked(stage, port, path, CONNECTIONS) for name, path in paths.items()}
            rates = {name: len(times) / seconds for name, (times, seconds) in asked.items()}
            ratios.append(rates["lookup"] / rates["empty"])
            one, _ = _asked(stage, port, paths["lookup"], 1)
            alone += one
            figure(
                f"  round {number + 1}: {CONNECTIONS} connections: {rates['lookup']:,.0f} look-ups/s, "
                f"{rates['empty']:,.0f} of the empty route, ratio {ratios[-1]:.2f}"
            )
    ratio = statistics.median(ratios)
    figure(
        f"look-up over HTTP, one at a time: {_shown(alone)}; rate over the empty route's {ratio:.2f} "
        f"[{min(ratios):.2f} - {max(ratios):.2f}], aim 0.5, at least {LOOKUP_RATIO}"
    )
    return ratio >= LOOKUP_RATIO


def _woken(stage: Stage, pipeline: Pipeline) -> bool:
    """How long after the announcement a reader goes on that waits for a sequence; one alone, and many."""
    held = True
    for readers in (1, READERS):
        with Announcements(stage, pipeline) as heard:
            commands, woken = asyncio.run(_wait(stage, pipeline, heard, readers))
        p50, _ = _quantiles(woken)
        figure(
            f"woken after the announcement, {readers} waiting: {_shown(woken)}, p50 at most {WOKEN_P50_MS:.0f}; "
            f"Redis commands/s while they wait: {commands:,.0f}, at most {STORM:,.0f}"
        )
        held = held and p50 <= WOKEN_P50_MS and commands <= STORM
    return held


async def _wait(stage: Stage, pipeline: Pipeline, heard: "Announcements", readers: int) -> tuple[float, list[float]]:
    runner = AwaitingRunner(stage.redis_url)
    reader = Reader(runner, Names(pipeline.settings.namespace))
    ends = {p: pipeline.publisher.publish(_draft(number)) for number, p in _owners_of_all(pipeline).items()}
    await asyncio.to_thread(heard.until_past, list(ends.values()))

    async def wait(receipt: Receipt) -> tuple[Receipt, float]:
        following = sequence_of(receipt.generation, receipt.offset + 1)
        if not await reader.wait_past(receipt.partition, following, _LIMIT_S):
            raise BenchStopped(f"partition {receipt.partition} was not woken")
        return receipt, time.perf_counter()

    receipts = list(ends.values())
    waiting = [asyncio.create_task(wait(receipts[number % len(receipts)])) for number in range(readers)]
    await asyncio.sleep(1.0)
    before = _commands(stage)
    await asyncio.sleep(QUIET_S)
    commands = (_commands(stage) - before) / QUIET_S
    following = [
        await asyncio.to_thread(pipeline.publisher.publish, _draft(number)) for number in _owners_of_all(pipeline)
    ]
    await asyncio.to_thread(heard.until_past, following)
    woken = [(at - heard.passed_at(receipt, 1)) * 1_000 for receipt, at in await asyncio.gather(*waiting)]
    await reader.close()
    return commands, woken


class Announcements:
    """A context manager: remembers when each partition's checkpoint was announced."""

    def __init__(self, stage: Stage, pipeline: Pipeline) -> None:
        names, partitions = Names(pipeline.settings.namespace), pipeline.log.partitions
        self._partition_of = {names.of(number).checkpoint.encode(): number for number in range(partitions)}
        self._heard: list[list[tuple[int, float]]] = [[] for _ in range(partitions)]
        self._client = redis.Redis.from_url(stage.redis_url)
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> "Announcements":
        self._thread.start()
        self._ready.wait(_LIMIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def until_past(self, receipts: Sequence[Receipt]) -> None:
        """Wait until the checkpoints are past all of these."""
        deadline = time.monotonic() + _LIMIT_S
        for receipt in receipts:
            sequence = sequence_of(receipt.generation, receipt.offset)
            while not (heard := self._heard[receipt.partition]) or heard[-1][0] <= sequence:
                if time.monotonic() > deadline:
                    raise BenchStopped(f"partition {receipt.partition} did not get past {receipt.offset}")
                time.sleep(0.002)

    def passed_at(self, receipt: Receipt, further: int = 0) -> float:
        """When the checkpoint passed it, or so many records further."""
        sequence = sequence_of(receipt.generation, receipt.offset + further)
        return next(at for upcoming, at in self._heard[receipt.partition] if upcoming > sequence)

    def _listen(self) -> None:
        with self._client.pubsub() as subscription:  # type: ignore[no-untyped-call]
            subscription.ssubscribe(*self._partition_of)
            self._ready.set()
            while not self._stop.is_set():
                message = subscription.get_message(ignore_subscribe_messages=True, timeout=0.1)
                if message is not None:
                    self._heard[self._partition_of[message["channel"]]].append(
                        (int(message["data"]), time.perf_counter())
                    )


@contextmanager
def open_api(stage: Stage, pipeline: Pipeline) -> Iterator[int]:
    """The API in a process of its own; its port."""
    port = free_port()
    environment = pipeline.environment() | {"LASTWORD_PORT": str(port), "LASTWORD_LOG_LEVEL": "WARNING"}
    arguments = ["-m", "lastword.cli", "api"]
    with PythonProcess("api", arguments, stage.directory / "api", environment=environment):
        deadline = time.monotonic() + _LIMIT_S
        while True:
            try:
                _asked(stage, port, "/readyz", 1, requests=1)
                break
            except BenchStopped:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        yield port


def _asked(
    stage: Stage, port: int, path: str, connections: int, requests: int | None = None
) -> tuple[list[float], float]:
    return asked_over_http(stage, port, [path], connections, requests or REQUESTS)


def asked_over_http(
    stage: Stage, port: int, paths: Sequence[str], connections: int, requests: int
) -> tuple[list[float], float]:
    """Milliseconds of each request, and seconds of all, asked in turn by a process of its own."""
    arguments = [str(port), " ".join(paths), str(connections), str(requests)]
    command = [sys.executable, "-m", "tests.bench.asker", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2 * _LIMIT_S)
    if ran.returncode:
        raise BenchStopped(f"{paths[0]} was not answered: {ran.stderr.strip().splitlines()[-1:]}")
    said = json.loads(ran.stdout)
    return said["ms"], said["seconds"]


def _owners_of_all(pipeline: Pipeline) -> dict[int, int]:
    """Numbers of owners that are in different partitions, one for each, and those."""
    found: dict[int, int] = {}
    for number in range(_OWNERS):
        partition = partition_for(str(Owner.parse(f"user:{number}")), pipeline.log.partitions)
        if partition not in found.values():
            found[number] = partition
    return found


def _draft(number: int) -> EventDraft:
    value = f"a preference in some words, {random.randrange(10**6)}"
    return EventDraft(
        operation="set", owner=f"user:{number % _OWNERS}", scope="global", key="tone", value=value, actor=_ACTOR
    )


def _commands(stage: Stage) -> int:
    with redis.Redis.from_url(stage.redis_url) as client:
        return int(client.info("stats")["total_commands_processed"])


def _ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1_000


def _quantiles(values: Sequence[float]) -> tuple[float, float]:
    """The median and the 99th percentile."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def _shown(values: Sequence[float]) -> str:
    p50, p99 = _quantiles(values)
    return f"p50 {p50:.2f} ms, p99 {p99:.2f} ms"


BENCH = Bench(
    "a publish, until it is seen, a look-up, to be woken: medians and 99th percentiles",
    (),
    ("publish", "visible", "lookup", "woken"),
    run,
)
