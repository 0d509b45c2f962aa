"""A lastword whose parts can be killed: workers are processes, and Redis keeps what it has in a file.

with DurableStore(tmp_path) as store, Scene(bootstrap_servers, store.url, tmp_path) as scene:
    with Load(scene) as load, Watcher(scene, load) as watcher:
        scene.workers[0].kill()
        scene.start_worker()
    scene.check(load, watcher)
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

import httpx

from lastword.embedded import EmbeddedStore
from lastword.process import HOST, PythonProcess, free_port
from lastword.running import make_auditor
from lastword.settings import ApiSettings, WorkerSettings
from lastword_projector.engine.changes import Changed, changes_of, told
from lastword_projector.store import outbox, plans
from lastword_projector.store.names import Names
from lastword_projector.store.pipe import Pipe
from lastword_projector.store.pointer import Pointer
from lastword_projector.store.ports import StoreUnavailable
from lastword_schemas import jsontext
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import offset_of
from tests.bench import folding
from tests.support.load import Load
from tests.support.obedient_worker import DIE, ORDER_VARIABLE, STOP
from tests.support.running import MakeWorker, RunningLastword
from tests.support.topics import records_of
from tests.support.watcher import Watcher

SECONDS = 60.0


class DurableStore(EmbeddedStore):
    """The embedded store with an append-only file: what it has acknowledged is there again after a restart.

    With `everysec` a second may be missing, where the machine dies; `always` loses nothing.
    """

    def __init__(self, directory: Path, appendfsync: Literal["everysec", "always"] = "everysec") -> None:
        super().__init__(directory)
        self.data = directory / "data"
        """The folder of its files."""
        self._appendfsync = appendfsync

    def _command(self) -> Sequence[str]:
        self.data.mkdir(parents=True, exist_ok=True)
        durable = ("--appendonly", "yes", "--appendfsync", self._appendfsync, "--dir", str(self.data))
        return [*super()._command(), *durable]


class WorkerProcess(PythonProcess):
    """A projector worker in a process of its own."""

    def __init__(self, name: str, settings: WorkerSettings, directory: Path) -> None:
        self._order = directory / f"{name}.order"
        self._port = free_port()
        settings = settings.model_copy(update={"worker_port": self._port, "log_level": "INFO"})
        environment = settings.environment() | {ORDER_VARIABLE: str(self._order)}
        super().__init__(name, ["-m", "tests.support.obedient_worker"], directory, environment=environment)

    @property
    def partitions(self) -> set[int]:
        """Those that its group has given it; none while it does not answer."""
        try:
            report = httpx.get(f"http://{HOST}:{self._port}/healthz", timeout=1).json()
        except httpx.TransportError:
            return set()
        return {int(number) for number in report["partitions"]}

    @property
    def said(self) -> str:
        """Its log."""
        return self.log_path.read_text(errors="replace")

    def die_in_a_commit(self, number: int = 1) -> None:
        """SIGKILL when the next commit, or a later one, is on its way; returns when it is dead."""
        self._give_order(f"{DIE} {number}")
        assert self.wait(SECONDS) == -9

    def pause_in_a_commit(self) -> None:
        """SIGSTOP when the next batch is folded and not sent; returns when it stands still."""
        self._give_order(f"{STOP} 1")
        until(lambda: not self._order.exists() and self._stands_still(), f"{self.name} to stand still")

    def _give_order(self, order: str) -> None:
        written = self._order.with_suffix(".written")
        written.write_text(order)
        written.rename(self._order)  # so that it is never read half

    def _stands_still(self) -> bool:
        _, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        return os.WIFSTOPPED(status)


class ApiProcess(PythonProcess):
    """An API in a process of its own."""

    def __init__(self, settings: ApiSettings, directory: Path) -> None:
        self._url = f"http://{HOST}:{settings.port}"
        super().__init__("api", ["-m", "lastword.cli", "api"], directory, environment=settings.environment())

    @property
    def not_ready(self) -> dict[str, str]:
        """What it cannot answer, and why; empty also while it does not answer at all."""
        try:
            problems: dict[str, str] = httpx.get(f"{self._url}/readyz").json()["problems"]
        except httpx.TransportError:
            return {}
        return problems


class Scene(RunningLastword):
    """A running lastword whose workers are processes; `start_worker` adds one."""

    def __init__(self, bootstrap_servers: str, redis_url: str, directory: Path, *, partitions: int = 4) -> None:
        super().__init__(bootstrap_servers, redis_url, partitions=partitions)
        self.partitions, self.directory = partitions, directory
        self.workers: list[WorkerProcess] = []
        """All that were ever started, also the dead ones."""
        self._pipe = Pipe(redis_url)

    @property
    def names(self) -> Names:
        """Of the namespace in force."""
        return self._pipe.run(Pointer(self.worker_settings.namespace).look())

    def start_worker(self, make: MakeWorker | None = None) -> None:
        """Start one more worker in the group."""
        assert make is None, "a worker here is a process"
        self._start_worker(self.worker_settings)

    def start_rival(self) -> None:
        """Start a worker in a group of its own: it and the others fold the same partitions."""
        self._start_worker(self.worker_settings.model_copy(update={"group": f"{self.worker_settings.group}.rival"}))

    def another_api(self) -> ApiProcess:
        """One more API, as a context manager."""
        settings = self.api_settings.model_copy(update={"port": free_port()})
        return ApiProcess(settings, self.directory)

    def stop_worker(self) -> None:
        """Stop all workers."""
        for worker in self.workers:
            worker.stop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._pipe.reset()

    def check(self, load: Load, watcher: Watcher) -> None:
        """Nothing lost, nothing applied twice, and nothing older read after something newer.

        All that was acknowledged is in the log where its receipt says. Entries, event ids, histories and checkpoints
        are byte for byte what the fold of the log makes; and a reader finds what each owner said last. All changes are
        on their topic. The audit finds nothing.
        """
        self.projected(load.receipts)
        logged = records_of(self.worker_settings.kafka_settings, self.log.topic, self.log.partitions)
        for said in load.said:
            record = logged[said.receipt.partition][said.receipt.offset]
            assert jsontext.parse(record.value() or b"")["event_id"] == said.receipt.event_id
        ends = [len(records) for records in logged]
        self.until(lambda: [self._next(number) for number in range(len(ends))] == ends, f"{ends} to be projected")
        settings = self.worker_settings.model_copy(update={"namespace": self.names.namespace})
        compared = folding.compare(settings, self.log)
        assert all(sort.holds for sort in compared), ", ".join(map(str, compared))
        for owner, number in load.last.items():
            events = self.counted(owner)
            assert events == list(range(number + 1)), f"{owner} said {number + 1} things, these count: {events}"
            assert self.value(owner, "any")["state"]["value"] == number
        watcher.check()
        self.check_changes(load)
        make_auditor(self.worker_settings, self.log).audit().check()

    def check_changes(self, load: Load) -> None:
        """The topic has every change that the histories have, and no other; first copies in the order of the log."""
        until(lambda: self.untold == 0, "the outboxes to be empty")
        settings = self.worker_settings
        topic = records_of(settings.kafka_settings, settings.changes_topic, self.log.partitions)
        told_of = [list(dict.fromkeys(record.value() or b"" for record in records)) for records in topic]
        for partition, expected in enumerate(self.changes_of({said.owner for said in load.said})):
            assert told_of[partition] == expected, f"partition {partition}"

    @property
    def untold(self) -> int:
        """Commits whose changes wait in the outboxes."""
        names = self.names
        return sum(self._pipe.run(outbox.length(names, partition)) for partition in range(self.log.partitions))

    def changes_of(self, owners: Iterable[str]) -> list[list[bytes]]:
        """The documents of all changes in the owners' histories, by partition, in the order of the log."""
        found: list[list[Changed]] = [[] for _ in range(self.log.partitions)]
        for owner in owners:
            partition = partition_for(owner, self.log.partitions)
            read = self._pipe.run(plans.history(self.names, partition, owner))
            found[partition] += [one for record in read.records for one in changes_of(owner, record)]
        in_order = [sorted(some, key=lambda one: (one.sequence, one.part)) for some in found]
        return [[told(self.log.log_id, one) for one in some] for some in in_order]

    def checkpoint_name(self, partition: int) -> str:
        """The Redis key of a checkpoint."""
        return self.names.of(partition).checkpoint

    def _start_worker(self, settings: WorkerSettings) -> None:
        self.workers.append(WorkerProcess(f"worker-{len(self.workers)}", settings, self.directory))
        self.workers[-1].start()

    def counted(self, owner: str) -> list[int]:
        """The numbers of an owner's settings that count, in the order of the log."""
        answer = self.get("/v1/history", owner=owner, scope="global", key="any", view="events", limit=1_000).json()
        assert "next_page" not in answer or answer["next_page"] is None
        return [event["value"] for event in answer["events"] if event["outcome"] == "counts"]

    def _next(self, partition: int) -> int:
        try:
            stored = self._pipe.run(plans.checkpoint(self.names, partition))
        except StoreUnavailable:
            return -1
        return -1 if stored is None else offset_of(stored.next_sequence)


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition; fails the test where it does not come true."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {SECONDS:.0f} s for {what}"
        time.sleep(0.01)
