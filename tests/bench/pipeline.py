"""A lastword of its own for each part of a bench: a fresh topic and namespace, clients, a worker in a process."""

import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple, TypeVar

from pydantic import SecretStr

from lastword.process import PythonProcess
from lastword.settings import ConnectionSettings
from lastword_producers.kafka_log import apply_registry, create_log
from lastword_producers.publisher import CandidateClient, Publisher
from lastword_projector.store import plans
from lastword_projector.store.names import Names
from lastword_projector.store.pipe import Pipe
from lastword_schemas.drafts import CandidateDraft, EventDraft
from lastword_schemas.positions import Receipt, offset_of
from lastword_schemas.registry import Registry
from tests.bench.asking import Answers, Question, ask
from tests.bench.bench import BenchStopped
from tests.bench.show import progress
from tests.bench.stage import Stage

K = TypeVar("K")

_RECEIPT_S = 30.0
_STALLED_S = 60.0
_LOOK_S = 0.02
_LOOK_CLOSELY_S = 0.003


class Projected(NamedTuple):
    """How the projection went."""

    rate: float
    """Records a second, from the first checkpoint that was seen on: without the start of the process."""
    seconds: float
    """From the start of the worker to the last checkpoint."""
    kills: int


class Pipeline:
    """A context manager: log, registry and clients are there when it is entered; the worker runs in `project`."""

    def __init__(self, stage: Stage, name: str, registry: Registry, *, partitions: int) -> None:
        topic = f"bench-{uuid.uuid4().hex}"
        self.name, self._stage, self._registry, self._partitions = name, stage, registry, partitions
        self.settings = ConnectionSettings(
            kafka=stage.bootstrap_servers,
            redis=SecretStr(stage.redis_url),
            topic=topic,
            dead_letter_topic=f"{topic}.dead",
            changes_topic=f"{topic}.changes",
            contexts_topic=f"{topic}.contexts",
            namespace=topic[-12:],
        )
        self._ends: dict[int, int] = {}
        self._published_s = 0.0
        self._published = 0

    def __enter__(self) -> "Pipeline":
        kafka = self.settings.kafka_settings
        self.log = create_log(kafka, partitions=self._partitions)
        self._ends = {at.partition: at.offset + 1 for at in apply_registry(kafka, self._registry)}
        self.publisher = Publisher(kafka, self.log, registry=self._registry)
        self._candidates = CandidateClient(kafka, self.log, service="bench", registry=self._registry)
        self._pipe = Pipe(self._stage.redis_url)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.publisher.close()
        self._candidates.close()
        self._pipe.reset()

    @property
    def publish_rate(self) -> float:
        """Events a second that were published so far: made, checked, sent and acknowledged."""
        return self._published / self._published_s

    @property
    def total(self) -> int:
        """Records in the topic."""
        return sum(self._ends.values())

    def publish(self, drafts: Iterable[tuple[K, EventDraft]]) -> dict[K, Receipt]:
        """Publish statements or turns in this order; once all are acknowledged, their receipts by the names given."""
        return self._settled((name, self.publisher.submit(draft)) for name, draft in drafts)

    def complete(self, drafts: Iterable[CandidateDraft]) -> None:
        """Publish candidates in this order, and wait until all are acknowledged."""
        self._settled((number, self._candidates.submit(draft)) for number, draft in enumerate(drafts))

    def publish_mix(self, drafts: Sequence[EventDraft | CandidateDraft]) -> None:
        """Publish statements, turns and candidates, each owner's in this order, and wait until all are acknowledged."""
        with progress(f"{self.name}: publishing", len(drafts)) as on_progress:
            self._settled(self._submitted(drafts, on_progress))

    def in_namespace(self, namespace: str) -> "Pipeline":
        """The same log, to be projected into another namespace."""
        self.settings = self.settings.model_copy(update={"namespace": namespace})
        return self

    def environment(self) -> dict[str, str]:
        """The settings of its parts that are processes of their own."""
        settings = self.settings
        return {
            "LASTWORD_KAFKA": settings.kafka,
            "LASTWORD_REDIS": settings.redis.get_secret_value(),
            "LASTWORD_TOPIC": settings.topic,
            "LASTWORD_DEAD_LETTER_TOPIC": settings.dead_letter_topic,
            "LASTWORD_CHANGES_TOPIC": settings.changes_topic,
            "LASTWORD_CONTEXTS_TOPIC": settings.contexts_topic,
            "LASTWORD_NAMESPACE": settings.namespace,
            "LASTWORD_WORKER_PORT": "0",
            "LASTWORD_LOG_LEVEL": "WARNING",
        }

    @contextmanager
    def working(self) -> Iterator[None]:
        """With a worker in a process of its own, which has caught up when the block begins."""
        worker = self._worker(0)
        worker.start()
        try:
            self.caught_up(worker)
            yield
        finally:
            worker.stop()

    def caught_up(self, worker: PythonProcess | None = None) -> None:
        """Wait until all that was published is projected by a worker that runs."""
        deadline = time.monotonic() + _STALLED_S
        while self._done() < self.total:
            if (worker is not None and not worker.running) or time.monotonic() > deadline:
                raise BenchStopped(f"{self.name}: the worker {'' if worker is None else _why(worker)}")
            time.sleep(_LOOK_S)

    def _submitted(
        self, drafts: Sequence[EventDraft | CandidateDraft], on_progress: Callable[[int], None]
    ) -> Iterator[tuple[int, "Future[Receipt]"]]:
        for number, draft in enumerate(drafts, 1):
            if isinstance(draft, EventDraft):
                yield number, self.publisher.submit(draft)
            else:
                yield number, self._candidates.submit(draft)
            if number % 1_000 == 0:
                on_progress(number)

    def project(self, *, kill_every: int | None = None, rng: random.Random | None = None) -> Projected:
        """Project all that was published, in a worker of its own process.

        With `kill_every` it is killed (SIGKILL) each time it has projected about as many records, at once followed by
        another one; `rng` varies the number, so that it is now here, now there in a batch.
        """
        total = sum(self._ends.values())
        with progress(f"{self.name}: projecting", total) as on_progress:
            return self._project(total, kill_every, rng or random.Random(0), on_progress)

    def ask(self, questions: list[Question]) -> Answers:
        """Ask through the read path."""
        with progress(f"{self.name}: asking", len(questions)) as on_progress:
            answers = ask(self._stage.redis_url, self.settings.namespace, questions, on_progress)
            on_progress(len(questions))
            return answers

    def _settled(self, futures: Iterator[tuple[K, "Future[Receipt]"]]) -> dict[K, Receipt]:
        began = time.perf_counter()
        receipts = {name: future.result(_RECEIPT_S) for name, future in list(futures)}
        self._published_s += time.perf_counter() - began
        self._published += len(receipts)
        for receipt in receipts.values():
            self._ends[receipt.partition] = max(self._ends[receipt.partition], receipt.offset + 1)
        return receipts

    def _project(
        self, total: int, kill_every: int | None, rng: random.Random, on_progress: Callable[[int], None]
    ) -> Projected:
        began = time.perf_counter()
        first: tuple[float, int] | None = None
        seen, seen_at, kills = 0, began, 0
        kill_at = _next_kill(0, kill_every, rng)
        worker = self._worker(kills)
        worker.start()
        try:
            while (done := self._done()) < total:
                now = time.perf_counter()
                if done > seen:
                    seen, seen_at = done, now
                    first = first or (now, done)
                    on_progress(done)
                if kill_at is not None and done >= kill_at:
                    worker.kill()
                    kills += 1
                    kill_at = _next_kill(self._done(), kill_every, rng)
                    worker = self._worker(kills)
                    worker.start()
                if not worker.running or now - seen_at > _STALLED_S:
                    raise BenchStopped(f"{self.name}: the worker {_why(worker)}\n{_tail(worker)}")
                time.sleep(_LOOK_S if kill_at is None else _LOOK_CLOSELY_S)
            ended = time.perf_counter()
        finally:
            worker.stop()
        on_progress(total)
        since, had = first or (began, 0)
        return Projected((total - had) / (ended - since), ended - began, kills)

    def _worker(self, number: int) -> PythonProcess:
        """Each worker has a consumer group of its own: a group would wait for a killed member until its session ends.

        Where to go on is said by the checkpoint alone, so the group makes no difference to what is tested.
        """
        environment = self.environment() | {"LASTWORD_GROUP": f"{self.settings.topic}-{number}"}
        arguments = ["-m", "tests.bench.worker"]
        return PythonProcess("worker", arguments, self._stage.directory / "worker", environment=environment)

    def _done(self) -> int:
        """Records that are projected, of those that have to be."""
        stored = self._pipe.run(plans.checkpoints(Names(self.settings.namespace), self._partitions))
        return sum(
            min(offset_of(checkpoint.next_sequence), self._ends[partition])
            for partition, checkpoint in enumerate(stored)
            if checkpoint is not None
        )


def _next_kill(done: int, kill_every: int | None, rng: random.Random) -> int | None:
    return None if kill_every is None else done + round(kill_every * rng.uniform(0.8, 1.2))


def _why(worker: PythonProcess) -> str:
    return f"has not moved for {_STALLED_S:.0f} s" if worker.running else "ended by itself"


def _tail(worker: PythonProcess) -> str:
    return "\n".join(worker.log_path.read_text(errors="replace").splitlines()[-20:])
