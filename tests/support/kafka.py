"""The real Apache Kafka 4.4.0 for tests: one node, broker and controller in one JVM, its data in a folder.

The jars come from Maven once and stay in `.cache/` of the repository.
"""

import base64
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lastword.embedded import is_kafka_cluster
from lastword.process import HOST, LocalService, LocalServiceError, free_port

VERSION = "4.4.0"

_POM = Path(__file__).with_name("kafka-pom.xml")
_JARS = Path(__file__).parents[2] / ".cache" / f"kafka-{VERSION}"
_JAVA_NEEDED = 17
_MAVEN_SECONDS = 900
_FORMAT_SECONDS = 60

# A killed broker may register again only when its old session is over: 3 s here instead of the default 9.
_SERVER_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers={host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
log.dirs={log_dirs}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
"""

_LOG4J_PROPERTIES = """\
status=error
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{ISO8601} %p %m (%c{1})%n%throwable
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
"""


@dataclass(frozen=True)
class Availability:
    """Whether something can be used here, and why; if not, what to do."""

    available: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.available


def kafka_available() -> Availability:
    """Whether this machine has what the real Kafka needs: Java 17, and Maven unless the jars are here already."""
    try:
        answer = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return Availability(False, f"no working java ({error}): install a JRE, {_JAVA_NEEDED} or newer")
    version = re.search(r'version "(\d+)', answer.stderr)
    if version is None or int(version[1]) < _JAVA_NEEDED:
        return Availability(False, f"java is {answer.stderr.splitlines()[0]}: install a JRE, {_JAVA_NEEDED} or newer")
    if not _JARS.is_dir() and shutil.which("mvn") is None:
        return Availability(False, "no mvn, which fetches Kafka's jars: install maven")
    return Availability(True)


def kafka_jars() -> Path:
    """The folder with Kafka's jars; fetched by Maven the first time, by one process if several ask at once."""
    if _JARS.is_dir():
        return _JARS
    _JARS.parent.mkdir(exist_ok=True)
    with _JARS.with_name(f"{_JARS.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _JARS.is_dir():
            with tempfile.TemporaryDirectory(prefix="kafka-", dir=_JARS.parent) as scratch:
                fetched = Path(scratch) / "jars"
                _run_maven(fetched)
                fetched.rename(_JARS)  # all of the jars or none
    return _JARS


def _run_maven(target: Path) -> None:
    command = ["mvn", "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    _run(command, _MAVEN_SECONDS, "Maven could not fetch Kafka's jars; is its repository reachable?")


def _run(command: Sequence[str], seconds: float, advice: str) -> None:
    """Run to the end; an error with the advice and the end of the output if that fails."""
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds
    )
    if result.returncode != 0:
        raise LocalServiceError(f"{advice}\n{result.stdout[-4000:]}")


class LocalKafka(LocalService):
    """One Kafka node. Ports, cluster id and data stay the same over `stop()`, `kill()`, `start()` and `restart()`."""

    start_timeout = 90.0
    stop_timeout = 30.0

    def __init__(
        self, directory: Path, port: int | None = None, *, properties: Mapping[str, str | int] | None = None
    ) -> None:
        """`properties` are laid over the settings that every test's Kafka has."""
        super().__init__("kafka", directory, port)
        self.cluster_id = _random_id()
        self._more = "".join(f"{name}={value}\n" for name, value in (properties or {}).items())
        self._controller_port = free_port()
        self._properties = directory / "server.properties"
        self._log4j = directory / "log4j2.properties"
        self._log_dirs = directory / "data"

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, as Kafka clients want it."""
        return f"{HOST}:{self.port}"

    @property
    def bootstrap(self) -> dict[str, str | int | float | bool]:
        """The start of a confluent-kafka configuration."""
        return {"bootstrap.servers": self.bootstrap_servers}

    def _command(self) -> Sequence[str]:
        if not self._log_dirs.exists():
            self._format()
        return [*self._java("-Xmx512m"), "kafka.Kafka", str(self._properties)]

    def _is_ready(self, pid: int) -> bool:
        return is_kafka_cluster(self.port, self.cluster_id)

    def _format(self) -> None:
        self._log4j.write_text(_LOG4J_PROPERTIES)
        settings = _SERVER_PROPERTIES.format(
            host=HOST, port=self.port, controller_port=self._controller_port, log_dirs=self._log_dirs
        )
        self._properties.write_text(settings + self._more)
        command = ["kafka.tools.StorageTool", "format", "--standalone", "-t", self.cluster_id, "-c"]
        advice = "Kafka could not format its storage."
        _run([*self._java("-Xmx128m"), *command, str(self._properties)], _FORMAT_SECONDS, advice)

    def _java(self, heap: str) -> Sequence[str]:
        return ["java", heap, f"-Dlog4j2.configurationFile={self._log4j}", "-cp", f"{kafka_jars()}{os.sep}*"]


def _random_id() -> str:
    """A cluster id as Kafka makes them: 16 random bytes in URL-safe base 64, never one that looks like an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return text
