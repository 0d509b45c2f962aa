"""A whole lastword for tests: a fresh topic, a worker and the HTTP application, on a real broker and a real store."""

import threading
import time
import uuid
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

import httpx
import uvicorn
from pydantic import SecretStr

from lastword.app import create_app
from lastword.parts import LiveParts
from lastword.process import free_port
from lastword.running import make_worker
from lastword.server import ApiServer
from lastword.settings import ApiSettings, WorkerSettings
from lastword_producers.kafka_log import apply_registry, create_log
from lastword_producers.publisher import CandidateClient, Publisher
from lastword_projector.worker.worker import Worker
from lastword_schemas.positions import Receipt
from lastword_schemas.registry import Registry, parse_registry_file

MakeWorker = Callable[[WorkerSettings, Any], Worker]

DECLARED = """
undeclared = "refuse"

[keys."employer"]
policy = "branch"

[keys."answer_detail"]
policy = "latest"
schema = { enum = ["brief", "detailed"] }

[keys."theme"]
policy = "latest"

[keys."travel.flight_time"]
policy = "latest"
description = "When the person likes to fly."
aliases = ["departure"]
group = "travel"

[keys."travel.seat"]
policy = "latest"
description = "Where the person likes to sit."
group = "travel"

[keys."falls"]
policy = "latest"
falls_through = true

[keys."guess"]
policy = "latest"
min_authority = "inferred"

[keys."any"]
policy = "latest"
min_authority = "inferred"
"""


class RunningLastword:
    """A context manager: everything is up when it is entered. The worker and the API are threads of this process."""

    def __init__(
        self,
        bootstrap_servers: str,
        redis_url: str,
        *,
        partitions: int = 4,
        registry: Registry | None = None,
        worker: MakeWorker = make_worker,
    ) -> None:
        topic = f"test-{uuid.uuid4().hex}"
        common = {
            "kafka": bootstrap_servers,
            "redis": SecretStr(redis_url),
            "topic": topic,
            "dead_letter_topic": f"{topic}.dead",
            "changes_topic": f"{topic}.changes",
            "contexts_topic": f"{topic}.contexts",
            "namespace": topic[-12:],
        }
        self.worker_settings = WorkerSettings.model_validate(common | {"group": topic, "worker_port": 0})
        self.api_settings = ApiSettings.model_validate(common | {"port": free_port()})
        self.registry = registry or parse_registry_file(DECLARED)
        self._partitions, self._make_worker = partitions, worker
        self._stop_worker = threading.Event()
        self._worker_thread: threading.Thread | None = None
        self.worker_error: BaseException | None = None
        """What the worker raised, if it ended by itself."""

    def __enter__(self) -> Self:
        self.log = create_log(self.worker_settings.kafka_settings, partitions=self._partitions)
        apply_registry(self.worker_settings.kafka_settings, self.registry)
        self.publisher = Publisher(self.worker_settings.kafka_settings, self.log, service="tests")
        self.candidates = CandidateClient(self.worker_settings.kafka_settings, self.log, service="extractor")
        self.start_worker()
        self.parts = LiveParts(self.api_settings)
        config = uvicorn.Config(
            create_app(self.parts),
            host=self.api_settings.host,
            port=self.api_settings.port,
            log_config=None,
            access_log=False,
        )
        self._server = ApiServer(config, self.parts)
        self._api_thread = threading.Thread(target=self._server.run, name="api")
        self._api_thread.start()
        self.http = self.new_client()
        try:
            self.until(lambda: self._status("/readyz") == 200, "the API to be ready")
        except BaseException:  # else the threads keep pytest from ending
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()
        self.stop_api()
        self._api_thread.join()
        self.stop_worker()
        self.publisher.close()
        self.candidates.close()

    def new_client(self) -> httpx.Client:
        """A client of its own; `http` is the one that the methods here use."""
        return httpx.Client(base_url=f"http://{self.api_settings.host}:{self.api_settings.port}", timeout=40)

    def start_worker(self, make: MakeWorker | None = None) -> None:
        """Start a worker; `make` makes another one than the product's."""
        self._stop_worker = threading.Event()
        worker = (make or self._make_worker)(self.worker_settings, self.log)
        stop = self._stop_worker

        def run() -> None:
            try:
                worker.run(stop)
            except BaseException as error:
                self.worker_error = error

        self.worker = worker
        self._worker_thread = threading.Thread(target=run, name="worker")
        self._worker_thread.start()

    def stop_worker(self) -> None:
        """Stop the worker and wait for its end."""
        self._stop_worker.set()
        if self._worker_thread is not None:
            self._worker_thread.join()
            self._worker_thread = None

    def stop_api(self) -> None:
        """Tell the API to stop."""
        self._server.should_exit = True

    def get(self, path: str, **parameters: Any) -> httpx.Response:
        """GET with those parameters that are not None."""
        return self.http.get(path, params={name: value for name, value in parameters.items() if value is not None})

    def value(self, owner: str, key: str, scope: str = "global", **parameters: Any) -> dict[str, Any]:
        """The inspection record, which must be a 200."""
        answer = self.get("/v1/value", owner=owner, key=key, scope=scope, **parameters)
        assert answer.status_code == 200, answer.text
        record: dict[str, Any] = answer.json()
        return record

    def post(self, path: str, body: Any, **parameters: Any) -> httpx.Response:
        """POST a JSON document."""
        return self.http.post(path, json=body, params=parameters)

    def projected(self, receipts: Iterable[Receipt]) -> None:
        """Wait until all of these are projected."""
        last: dict[int, int] = {}
        for receipt in receipts:
            last[receipt.partition] = max(receipt.offset, last.get(receipt.partition, 0))
        self.until(
            lambda: all(self._next(number) > offset for number, offset in last.items()), f"{last} to be projected"
        )

    def until(self, condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
        """Wait for a condition; fails the test after the timeout."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self.worker_error is None, f"the worker ended: {self.worker_error!r}"
            assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s for {what}"
            time.sleep(0.01)

    def _next(self, partition: int) -> int:
        status = self.worker.status.partitions.get(partition)
        return -1 if status is None else status.next_offset

    def _status(self, path: str) -> int:
        try:
            return self.http.get(path).status_code
        except httpx.TransportError:
            return 0
