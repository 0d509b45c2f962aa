"""A whole lastword on this machine: broker and store from wheels, a worker and the API as child processes.

The broker keeps everything in memory, so each start is a new log; so does the store, unless a Redis of one's own is
given. That one remembers how many logs there were: each is a generation with a namespace of its own.
"""

import contextlib
import http.client
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import SecretStr

from lastword import settings as defaults
from lastword.embedded import EmbeddedBroker, EmbeddedStore
from lastword.generations import begin_generation, namespace_of
from lastword.process import (
    HOST,
    ChildProcess,
    LocalServiceError,
    PortUnavailableError,
    PythonProcess,
    check_port,
    free_port,
)
from lastword.settings import ApiSettings, ConnectionSettings, WorkerSettings
from lastword_producers.kafka_log import LogIdentity, apply_registry, create_log
from lastword_schemas.registry import Registry, parse_registry_file

PARTITIONS = 24
_NAMESPACE = "main"

_READY_S = 30.0
_PROBE_S = 1.0
_OK = 200
_STOP_S = {"api": 3.0, "worker": 3.0, "broker": 1.5, "store": 1.5}
"""Seconds between SIGTERM and SIGKILL; all of it together stays below ten."""

OnStarted = Callable[[str, str, float], None]
"""Told of each part that is up: its name, where it is, and the seconds that it took."""


class PortsTakenError(LocalServiceError):
    """Ports that parts of lastword should listen on are in use. `ports` has them by part."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        taken = ", ".join(f"{HOST}:{port} ({part})" for part, port in ports.items())
        super().__init__(
            f"already in use: {taken}. Is a lastword running (`lastword up`, `make demo`)? Stop it, or start this one "
            "at other ports: --port N takes N for the API and the three after it"
        )
        self.ports = dict(ports)


class PartEndedError(LocalServiceError):
    """A part of the running lastword ended by itself. `part` is its name, `log_path` its log."""

    def __init__(self, part: str, log_path: Path) -> None:
        super().__init__(f"the {part} ended by itself; the end of its log says why: {log_path}")
        self.part = part
        self.log_path = log_path


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the parts listen."""

    api: int = defaults.DEFAULT_API_PORT
    kafka: int = defaults.DEFAULT_KAFKA_PORT
    redis: int = defaults.DEFAULT_REDIS_PORT
    worker: int = defaults.DEFAULT_WORKER_PORT

    @classmethod
    def starting_at(cls, first: int) -> "Ports":
        """Four ports in a row."""
        return cls(first, first + 1, first + 2, first + 3)

    @classmethod
    def free(cls) -> "Ports":
        """Ports that nothing uses now."""
        found: set[int] = set()
        while len(found) < len(cls.__slots__):
            found.add(free_port())
        return cls(*found)

    def check(self, *, without_redis: bool = False) -> None:
        """Raise PortsTakenError unless all of them can be had, or all but that of Redis."""
        taken: dict[str, int] = {}
        for part, port in zip(("API", "Kafka", "Redis", "worker"), astuple(self), strict=True):
            if without_redis and part == "Redis":
                continue
            try:
                check_port(part, port)
            except PortUnavailableError:
                taken[part] = port
        if taken:
            raise PortsTakenError(taken)


def starter_text() -> str:
    """The starter registry as a file: what a local lastword declares unless told otherwise."""
    return (files("lastword") / "keys.starter.toml").read_text("utf-8")


class LocalLastword:
    """A context manager: everything is up when it is entered, and gone when it is left.

    Logs of the parts are appended to `<directory>/<part>.log`. `redis_url` names a Redis that runs already and goes on;
    without it there is one from a wheel. Raises PortsTakenError or another LocalServiceError where a part does not
    start, StoreUnavailable where that Redis does not answer; nothing is left running then.
    """

    def __init__(
        self,
        directory: Path,
        ports: Ports | None = None,
        *,
        partitions: int = PARTITIONS,
        registry: Registry | None = None,
        redis_url: str | None = None,
        on_started: OnStarted = lambda part, where, seconds: None,
    ) -> None:
        self.directory = directory
        self.ports = ports or Ports()
        self._partitions = partitions
        self._registry = registry or parse_registry_file(starter_text(), name="keys.starter.toml")
        self._on_started = on_started
        self._broker = EmbeddedBroker(directory, self.ports.kafka)
        self._store = EmbeddedStore(directory, self.ports.redis) if redis_url is None else None
        self._redis_url = redis_url or f"redis://{HOST}:{self.ports.redis}/0"
        self.parts: tuple[ChildProcess, ...] = ()
        """In the order in which they start: each needs those before it."""
        self.log: LogIdentity
        """The log that this start made."""
        self.worker_settings: WorkerSettings
        self.api_settings: ApiSettings

    @property
    def url(self) -> str:
        """Where the API is."""
        return f"http://{HOST}:{self.ports.api}"

    @property
    def owns_redis(self) -> bool:
        """Whether its Redis begins and ends with it."""
        return self._store is not None

    @property
    def worker_url(self) -> str:
        """Where the worker's `/healthz` is."""
        return f"http://{HOST}:{self.ports.worker}"

    @property
    def connection(self) -> ConnectionSettings:
        """How to reach its Kafka and its Redis."""
        return self.worker_settings

    def start(self) -> None:
        """Start all parts, and return when reads and writes can be answered."""
        self.ports.check(without_redis=self._store is None)
        try:
            self._start_part(self._broker, self._broker.bootstrap_servers)
            if self._store is not None:
                self._start_part(self._store, f"{HOST}:{self.ports.redis}")
            generation = begin_generation(self._redis_url, _NAMESPACE)
            self._settle(namespace_of(_NAMESPACE, generation))
            with self._timed("log", f"{self.connection.topic}, {self._partitions} partitions"):
                kafka = self.connection.kafka_settings
                self.log = create_log(kafka, self._partitions, generation=generation)
                apply_registry(kafka, self._registry)
            self._start_part(self._child("worker", self.worker_settings, self.ports.worker), self.worker_url)
            with self._timed("api", self.url):  # and the worker meanwhile joins its group
                self._start(self._child("api", self.api_settings, self.ports.api))
                self._await_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all parts, those first that use the others; within ten seconds."""
        for child in reversed(self.parts):
            child.stop_timeout = _STOP_S[child.name]
            child.stop()
        self.parts = ()

    def check(self) -> None:
        """Raise PartEndedError if a part has ended."""
        for child in self.parts:
            if not child.running:
                raise PartEndedError(child.name, child.log_path)

    def _settle(self, namespace: str) -> None:
        connection: dict[str, Any] = {
            "kafka": self._broker.bootstrap_servers,
            "topic": "lastword.events",
            "dead_letter_topic": "lastword.dead-letters",
            "changes_topic": "lastword.changes",
            "contexts_topic": "lastword.contexts",
            "kafka_extra": {},
            "redis": SecretStr(self._redis_url),
            "namespace": namespace,
        }
        self.worker_settings = WorkerSettings.model_validate(
            connection | {"group": "lastword-projector", "worker_host": HOST, "worker_port": self.ports.worker}
        )
        self.api_settings = ApiSettings.model_validate(connection | {"host": HOST, "port": self.ports.api})

    def _start_part(self, part: ChildProcess, where: str) -> None:
        with self._timed(part.name, where):
            self._start(part)

    def _start(self, part: ChildProcess) -> None:
        self.parts += (part,)
        part.start()

    def _child(self, name: str, settings: ConnectionSettings, port: int) -> ChildProcess:
        arguments = ["-m", "lastword.cli", name]
        return PythonProcess(
            name,
            arguments,
            self.directory,
            environment=settings.environment(),
            ready=lambda: _get(port, "/healthz")[0] == _OK,
        )

    def _await_ready(self) -> None:
        deadline = time.monotonic() + _READY_S
        while (answer := _get(self.ports.api, "/readyz"))[0] != _OK:
            self.check()
            if time.monotonic() > deadline:
                raise LocalServiceError(
                    f"lastword was not ready after {_READY_S:.0f} s: {answer[1]}. The logs are in {self.directory}"
                )
            time.sleep(0.02)

    @contextlib.contextmanager
    def _timed(self, part: str, where: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._on_started(part, where, time.monotonic() - began)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _get(port: int, path: str) -> tuple[int, str]:
    """Status and body of a GET at a port of this machine; 0 and the reason if nobody answers."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_PROBE_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)
    finally:
        connection.close()
