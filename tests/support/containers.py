"""Apache Kafka and Redis in containers, by testcontainers: the images that docker-compose.yml names."""

import base64
import contextlib
import gc
import re
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import docker  # type: ignore[import-untyped]
from docker.errors import DockerException, ImageNotFound  # type: ignore[import-untyped]
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from lastword.embedded import is_kafka_cluster
from lastword.process import HOST, LocalServiceError, exchange, free_port
from tests.support.kafka import Availability

_COMPOSE = (Path(__file__).parents[2] / "docker-compose.yml").read_text("utf-8")
_START_S = 90.0


def _image(name: str) -> str:
    found = re.search(rf"^ *image: ({re.escape(name)}:\S+)$", _COMPOSE, re.MULTILINE)
    if found is None:
        raise LookupError(f"docker-compose.yml names no image of {name}")
    return found[1]


KAFKA_IMAGE = _image("apache/kafka")
REDIS_IMAGE = _image("redis")

_KAFKA_SETTINGS = {
    "NODE_ID": "1",
    "PROCESS_ROLES": "broker,controller",
    "CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
    "CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "LISTENERS": "PLAINTEXT://:9092,CONTROLLER://localhost:9093",
    "OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "OFFSETS_TOPIC_NUM_PARTITIONS": "4",
    "TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
    "SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
    "GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "AUTO_CREATE_TOPICS_ENABLE": "false",
    "HEAP_OPTS": "-Xmx512m",
}
_REDIS_COMMAND = (
    "redis-server --save '' --maxmemory-policy noeviction --protected-mode no "
    "--hash-max-listpack-entries 512 --hash-max-listpack-value 1024"
)


def containers_available() -> Availability:
    """Whether an engine answers that has both images; the reason, and what to do if not."""
    missing = None
    with contextlib.suppress(DockerException):
        missing = [image for image in (KAFKA_IMAGE, REDIS_IMAGE) if not _is_here(image)]
    if missing is None:
        _forget_open_sockets()
        return Availability(False, "no Docker engine answers")
    if missing:
        return Availability(False, f"the Docker engine lacks images: docker pull {'; docker pull '.join(missing)}")
    return Availability(True, "a Docker engine answers and has it")


@contextmanager
def container_kafka() -> Iterator[str]:
    """Bootstrap servers of a Kafka in a container, which is gone when the block is left."""
    port, cluster_id = free_port(), base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    settings = {f"KAFKA_{name}": value for name, value in _KAFKA_SETTINGS.items()}
    settings |= {"CLUSTER_ID": cluster_id, "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{HOST}:{port}"}
    container = DockerContainer(KAFKA_IMAGE, env=settings).with_bind_ports(9092, port)
    with _started(container, lambda: is_kafka_cluster(port, cluster_id)):
        yield f"{HOST}:{port}"


@contextmanager
def container_redis() -> Iterator[str]:
    """URL of a Redis in a container, which is gone when the block is left."""
    port = free_port()
    container = DockerContainer(REDIS_IMAGE, command=_REDIS_COMMAND).with_bind_ports(6379, port)
    with _started(container, lambda: exchange(port, b"PING\r\n", bool).startswith(b"+PONG")):
        yield f"redis://{HOST}:{port}/0"


@contextmanager
def _started(container: DockerContainer, is_ready: Callable[[], bool]) -> Iterator[None]:
    """The container while it runs, from the moment that it is ready."""
    if not _is_here(testcontainers_config.ryuk_image):  # it would remove containers after a test run that was killed
        testcontainers_config.ryuk_disabled = True
    with container:
        deadline = time.monotonic() + _START_S
        while not is_ready():
            if time.monotonic() > deadline:
                said = b"".join(container.get_logs()).decode(errors="replace")
                raise LocalServiceError(f"{container.image} was not ready after {_START_S:.0f} s:\n{said[-4000:]}")
            time.sleep(0.05)
        yield


def _is_here(image: str) -> bool:
    with contextlib.closing(docker.from_env()) as engine, contextlib.suppress(ImageNotFound):
        engine.images.get(image)
        return True
    return False


def _forget_open_sockets() -> None:
    """The client that finds no engine leaves its socket open, which would be reported in the middle of some test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
