"""What streams of changes cost: memory of idle subscribers, and the time from a publish to the last of many.

The API is a process of its own, and so is the worker. 2,000 people are each followed by one subscriber who hears
nothing; then one owner has 100 subscribers, and the time is taken from before each publish to when the last of them has
read the change: door, log, fold, commit, relay, topic and stream.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from lastword.process import HOST, PythonProcess, free_port
from lastword_schemas.drafts import EventDraft
from lastword_schemas.envelope import Actor
from lastword_schemas.registry import parse_registry_file
from tests.bench.bench import Bench, BenchStopped, Options
from tests.bench.pipeline import Pipeline
from tests.bench.show import figure, progress
from tests.bench.stage import open_stage

IDLE = 2_000
FOLLOWERS = 100
PUBLISHES, WARM_UP = 200, 20
_READY_S = 30.0
_BAR_KIB = 100.0
_ADA = "main/user:ada"
_ACTOR = Actor(service="bench")


def run(options: Options) -> bool:
    """Print the figures; whether an idle subscriber stays below the bar."""
    registry = parse_registry_file('[keys."tone"]\npolicy = "latest"\n')
    with open_stage(options.broker) as stage, TemporaryDirectory(prefix="changes-") as directory:
        figure(stage.versions)
        with (
            Pipeline(stage, "changes", registry, partitions=options.partitions) as pipeline,
            pipeline.working(),
            _Api(pipeline, Path(directory)) as api,
        ):
            pipeline.publisher.publish(_statement("begin"))
            return asyncio.run(_measure(pipeline, api))


class _Api(PythonProcess):
    """The API in a process of its own."""

    def __init__(self, pipeline: Pipeline, directory: Path) -> None:
        self.port = free_port()
        environment = os.environ | pipeline.environment() | {"LASTWORD_PORT": str(self.port)}
        super().__init__("api", ["-m", "lastword.cli", "api"], directory, environment=environment, ready=self._answers)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"http://{HOST}:{self.port}/readyz").is_success
        except httpx.TransportError:
            return False

    @property
    def memory_kib(self) -> float:
        """Its resident memory."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return float(line.split()[1])
        raise BenchStopped("this system does not say how much memory a process has")


async def _measure(pipeline: Pipeline, api: _Api) -> bool:
    warm = [await _Follower.open(api.port, _ADA) for _ in range(5)]  # so that what is loaded once is there
    before = api.memory_kib
    with progress("changes: idle subscribers", IDLE) as on_progress:
        idle = []
        for number in range(IDLE):
            idle.append(await _Follower.open(api.port, f"main/user:{number}"))
            on_progress(number + 1)
    each = (api.memory_kib - before) / IDLE
    figure(f"{IDLE:,} idle subscribers: {each:.1f} KiB each in the API, below {_BAR_KIB:.0f}")
    followers = [await _Follower.open(api.port, _ADA) for _ in range(FOLLOWERS)]
    times = await _times(pipeline, followers)
    figure(
        f"from a publish to the last of {FOLLOWERS} subscribers of one owner, {IDLE:,} idle ones beside: {_of(times)}"
    )
    for follower in (*idle, *warm):
        follower.close()
    times = await _times(pipeline, followers)
    figure(f"the same without the idle ones: {_of(times)}")
    return each < _BAR_KIB


async def _times(pipeline: Pipeline, followers: "Sequence[_Follower]") -> list[float]:
    """Milliseconds of each publish."""
    times = []
    for number in range(WARM_UP + PUBLISHES):
        began = time.perf_counter()
        future = pipeline.publisher.submit(_statement(f"{time.time_ns()}"))
        await asyncio.wait_for(asyncio.gather(*(follower.change() for follower in followers)), _READY_S)
        if number >= WARM_UP:
            times.append((time.perf_counter() - began) * 1_000)
        future.result()
    return times


class _Follower:
    """One subscriber, as bare as can be: this process is to cost little."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int, owner: str) -> "_Follower":
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(f"GET /v1/changes?owner={owner} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        follower = cls(reader, writer)
        await follower._until(b"event: position")
        return follower

    async def change(self) -> None:
        """Read up to the next change."""
        await self._until(b"event: change")

    async def _until(self, line: bytes) -> None:
        while not (found := await self._reader.readline()).startswith(line):
            if not found:
                raise BenchStopped("a stream ended")

    def close(self) -> None:
        self._writer.close()


def _statement(value: str) -> EventDraft:
    return EventDraft(operation="set", owner=_ADA, scope="global", key="tone", value=value, actor=_ACTOR)


def _of(times: Sequence[float]) -> str:
    cut = statistics.quantiles(times, n=100)
    return f"p50 {cut[49]:.1f} ms, p99 {cut[98]:.1f} ms, longest {max(times):.1f} ms ({len(times)} publishes)"


BENCH = Bench("streams of changes: memory of idle subscribers, time to the last of many", (), (), run)
