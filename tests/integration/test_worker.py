"""The worker on real brokers and stores: groups, checkpoints, rebuilds, waiting and refusing."""

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lastword.embedded import EmbeddedBroker, EmbeddedStore
from lastword.process import PythonProcess, free_port
from lastword.running import make_worker, run_rebuild
from lastword_producers.errors import LogMismatch
from lastword_producers.kafka_log import KafkaSettings, apply_registry, create_log, open_log
from lastword_producers.publisher import Publisher
from lastword_projector.engine.projection import DeadLetter
from lastword_projector.engine.records import MARK_LENGTH
from lastword_projector.store.ports import OtherProjection
from lastword_projector.worker.dead_letters import DeadLetterNotWritten
from lastword_projector.worker.health import HealthServer
from lastword_projector.worker.worker import LogLost, Worker
from lastword_schemas.control import Genesis
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import Receipt
from lastword_schemas.registry import parse_registry_file
from tests.support.redis_keys import everything
from tests.support.running import DECLARED, RunningLastword
from tests.support.services import Broker

PARTITIONS = 4
SECONDS = 40.0


@pytest.fixture
def own(broker: Broker, redis_url: str) -> Iterator[RunningLastword]:
    """A lastword of the test's own, on each broker in turn, alone in the store's database 0."""
    with RunningLastword(broker.bootstrap_servers, redis_url, partitions=PARTITIONS) as running:
        yield running


only_kafka = pytest.mark.parametrize("broker", [pytest.param("kafka", marks=pytest.mark.real)], indirect=True)


def owner_in(partition: int) -> str:
    """A new owner whose events are in that partition."""
    while partition_for(owner := f"main/user:{uuid.uuid4()}", PARTITIONS) != partition:
        pass
    return owner


def append(lastword: RunningLastword, partition: int, *values: bytes, key: bytes = b"foreign") -> list[int]:
    """Write records past the door; their offsets."""
    written: list[Message] = []
    producer = Producer({"bootstrap.servers": lastword.worker_settings.kafka})
    for value in values:
        producer.produce(lastword.log.topic, value, key, partition, on_delivery=lambda _, sent: written.append(sent))
    assert producer.flush(SECONDS) == 0
    assert all(message.error() is None for message in written)
    return [offset for message in written if (offset := message.offset()) is not None]


def state(url: str) -> dict[bytes, Any]:
    """Everything that the store holds, but for `projected_at` and what is on its way to the topic of changes."""
    with redis.Redis.from_url(url) as client:
        found = {name: data for name, data in everything(client, "").items() if not name.endswith(b":outbox")}
    for name, content in found.items():
        if b":p:" in name:
            found[name] = {field: value[:MARK_LENGTH] + value[MARK_LENGTH + 13 :] for field, value in content.items()}
    return found


def checkpoint_name(lastword: RunningLastword, partition: int) -> str:
    return f"lw:{lastword.worker_settings.namespace}:{{p{partition}}}:checkpoint"


def checkpoint(lastword: RunningLastword, partition: int) -> int:
    """The stored *next* sequence."""
    with redis.Redis.from_url(lastword.worker_settings.redis.get_secret_value()) as client:
        stored = client.hget(checkpoint_name(lastword, partition), "next")
        return -1 if stored is None else int(stored)


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {SECONDS:.0f} s for {what}"
        time.sleep(0.01)


class SecondWorker:
    """Another worker of the same group, in a thread. A context manager."""

    def __init__(self, lastword: RunningLastword) -> None:
        self.worker: Worker = make_worker(lastword.worker_settings, lastword.log)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.worker.run, args=(self.stop,), name="second worker")

    def __enter__(self) -> Worker:
        self.thread.start()
        return self.worker

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()


class Talker:
    """Owners who change their minds until the end of the `with` block."""

    def __init__(self, lastword: RunningLastword) -> None:
        self.lastword = lastword
        self.said: dict[str, list[Receipt]] = {owner_in(number): [] for number in range(PARTITIONS) for _ in range(3)}
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.talk, name="talker")

    def talk(self) -> None:
        while not self.stop.wait(0.05):  # half a minute of it, where a broker is slow, has to fit into one page
            for owner, receipts in self.said.items():
                receipts.append(self.lastword.publisher.set(owner, "global", "any", len(receipts)))

    def __enter__(self) -> "Talker":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()

    def rounds(self, count: int) -> None:
        """Wait for so many more rounds of everybody."""
        goal = min(len(receipts) for receipts in self.said.values()) + count
        eventually(lambda: min(len(receipts) for receipts in self.said.values()) >= goal, f"round {goal}")


def test_workers_that_join_and_leave_share_the_partitions_and_nothing_is_lost_or_doubled(own: RunningLastword) -> None:
    with Talker(own) as talker:
        with SecondWorker(own) as second:
            eventually(
                lambda: len(second.status.partitions) == len(own.worker.status.partitions) == PARTITIONS // 2,
                "two partitions each",
            )
            assert second.status.partitions.keys().isdisjoint(own.worker.status.partitions)
            talker.rounds(5)
        eventually(lambda: len(own.worker.status.partitions) == PARTITIONS, "the first worker to have them all again")
        talker.rounds(5)

    own.projected(receipts[-1] for receipts in talker.said.values())
    for owner, receipts in talker.said.items():
        events = own.get("/v1/history", owner=owner, limit=1_000).json()["events"]
        assert [event["position"]["offset"] for event in events] == [receipt.offset for receipt in receipts]
        assert [event["value"] for event in events] == list(range(len(receipts)))
        assert {event["outcome"] for event in events} == {"counts"}
        assert own.value(owner, "any")["state"]["value"] == len(receipts) - 1


@only_kafka
def test_a_worker_goes_on_at_its_checkpoint_whatever_offset_the_group_has_committed(own: RunningLastword) -> None:
    owner = owner_in(1)
    own.projected([own.publisher.set(owner, "global", "any", "first")])
    own.stop_worker()
    second = own.publisher.set(owner, "global", "any", "second")
    other = {"bootstrap.servers": own.worker_settings.kafka, "group.id": own.worker_settings.group}
    consumer = Consumer(other)
    try:
        offsets = [TopicPartition(own.log.topic, number, 1_000_000) for number in range(PARTITIONS)]
        consumer.commit(offsets=offsets, asynchronous=False)
    finally:
        consumer.close()

    own.start_worker()

    own.projected([second])
    assert own.value(owner, "any")["state"]["supersedes"] == [second.sequence - 1]


@only_kafka
def test_a_stopped_worker_is_gone_within_two_seconds_and_tells_the_group_how_far_it_came(own: RunningLastword) -> None:
    owner = owner_in(2)
    receipt = own.publisher.set(owner, "global", "any", 1)
    own.projected([receipt])
    began = time.monotonic()

    own.stop_worker()

    assert time.monotonic() - began < 2
    assert own.worker_error is None
    consumer = Consumer({"bootstrap.servers": own.worker_settings.kafka, "group.id": own.worker_settings.group})
    try:
        (committed,) = consumer.committed([TopicPartition(own.log.topic, 2)], timeout=SECONDS)
    finally:
        consumer.close()
    assert committed.offset == receipt.offset + 1


def say_all_sorts(lastword: RunningLastword) -> None:
    """Statements, turns, candidates in time and late, a tie, a copy, refusals, garbage."""
    receipts: list[Receipt] = []
    for partition in range(PARTITIONS):
        owner = owner_in(partition)
        publisher, candidates = lastword.publisher, lastword.candidates
        turn = publisher.say(owner, "t1", "brief, no: detailed")
        receipts += [
            publisher.set(owner, "global", "theme", {"b": 1, "a": [None, 2**53 + 1]}),
            publisher.set(owner, "global", "theme", "dark", event_id="mine"),
            publisher.set(owner, "global", "theme", "dark", event_id="mine"),
            publisher.set(owner, "global", "theme", "light", event_id="mine"),
            publisher.delete(owner, "project:Comet", "theme"),
            publisher.set(owner, "global", "nobody declared this", 1),
            candidates.set(
                owner, "global", "any", "later words", source_event_id=turn, span=[11, 19], quote="detailed"
            ),
            candidates.set(owner, "global", "any", "late", source_event_id=turn, span=[0, 5], quote="brief"),
            candidates.set(owner, "global", "guess", 1, source_event_id=turn),
            candidates.set(owner, "global", "guess", 2, source_event_id=turn),
            candidates.set(owner, "global", "guess", 3, source_event_id="nothing that was ever said"),
        ]
        append(lastword, partition, b"\xff\x00 garbage", json.dumps({"v": 1, "owner": owner}).encode())
        receipts.append(publisher.set(owner, "global", "theme", "last"))
    lastword.projected(receipts)


def test_a_checkpoint_set_back_under_a_running_worker_is_noticed_and_gives_the_same_bytes(
    own: RunningLastword, redis_url: str
) -> None:
    say_all_sorts(own)
    before = state(redis_url)

    with redis.Redis.from_url(redis_url) as client:
        for partition, back_to in enumerate((1, 2, 7, 14)):
            client.hset(checkpoint_name(own, partition), "next", f"{back_to:016d}")

    eventually(lambda: state(redis_url) == before, "the same state again")
    say_all_sorts(own)


@only_kafka
def test_a_rebuild_into_the_emptied_namespace_gives_the_same_bytes(own: RunningLastword, redis_url: str) -> None:
    say_all_sorts(own)
    own.stop_worker()
    before = state(redis_url)
    folded: dict[int, int] = {}

    count = run_rebuild(own.worker_settings, own.log, folded.__setitem__)

    assert state(redis_url) == before
    assert folded == {number: checkpoint(own, number) for number in range(PARTITIONS)}
    assert count == sum(folded.values())


@only_kafka
def test_a_rebuild_beside_a_running_worker_gives_the_same_bytes(own: RunningLastword, redis_url: str) -> None:
    say_all_sorts(own)
    before = state(redis_url)

    run_rebuild(own.worker_settings, own.log, lambda *_: None)

    eventually(lambda: state(redis_url) == before, "the same state again")
    assert own.worker_error is None


class StubbornDeadLetters:
    """Takes no letter until it is told to; remembers the checkpoint of each moment at which it was asked."""

    def __init__(self, lastword: RunningLastword) -> None:
        self.lastword = lastword
        self.takes = threading.Event()
        self.checkpoints: list[int] = []
        self.letters: list[int] = []

    def send(self, genesis: Genesis, letters: Sequence[DeadLetter]) -> None:
        self.checkpoints.append(checkpoint(self.lastword, genesis.partition))
        if not self.takes.is_set():
            raise DeadLetterNotWritten("not now")
        self.letters += [letter.record.offset for letter in letters]


@only_kafka
def test_the_checkpoint_does_not_pass_a_dead_letter_that_is_not_acknowledged(own: RunningLastword) -> None:
    own.stop_worker()
    owner = owner_in(3)
    (offset,) = append(own, 3, b"garbage")
    after = own.publisher.set(owner, "global", "any", 1)
    letters = StubbornDeadLetters(own)

    own.start_worker(lambda settings, log: make_worker(settings, log, dead_letters=letters))
    own.until(lambda: len(letters.checkpoints) >= 2, "two attempts")
    failing = own.worker.status.report()
    letters.takes.set()
    own.projected([after])

    assert failing["status"] == "failing"
    assert "not now" in failing["problem"]
    assert letters.checkpoints == [offset] * len(letters.checkpoints)
    assert letters.letters == [offset]
    assert own.worker.status.problem is None


@only_kafka
def test_a_partition_with_a_record_of_a_newer_build_waits_and_healthz_says_so_while_the_others_go_on(
    own: RunningLastword,
) -> None:
    own.stop_worker()
    waiting, other = owner_in(0), owner_in(1)
    body = {"event_id": str(uuid.uuid4()), "owner": waiting, "scope": "global", "actor": {"service": "tests"}}
    (newer,) = append(own, 0, json.dumps(body | {"v": 2, "operation": "forget"}).encode())
    (planned,) = append(own, 2, json.dumps(body | {"v": 1, "operation": "erase"}).encode())
    (unknown,) = append(own, 3, json.dumps(body | {"v": 1, "operation": "frobnicate"}).encode())
    own.publisher.set(waiting, "global", "any", 1)
    own.publisher.set(waiting, "global", "any", 2)
    seen = own.publisher.set(other, "global", "any", 1)

    own.start_worker()
    own.projected([seen])
    own.until(lambda: sum(one.waits is not None for one in own.worker.status.partitions.values()) == 3, "three to wait")
    behind = {0: 3, 2: 1, 3: 1}
    own.until(
        lambda: all(own.worker.status.partitions[number].records_behind == count for number, count in behind.items()),
        "the ends of the log to be known",
    )
    with HealthServer(own.worker.status, "127.0.0.1", 0) as health:
        answer = httpx.get(f"http://127.0.0.1:{health.port}/healthz")

    assert answer.status_code == 503
    report = answer.json()
    assert report["status"] == "failing"
    assert f"waits at offset {newer}" in report["partitions"]["0"]["waits"]
    assert "envelope version 2" in report["partitions"]["0"]["waits"]
    assert f"waits at offset {planned}" in report["partitions"]["2"]["waits"]
    assert "operation 'erase'" in report["partitions"]["2"]["waits"]
    assert f"waits at offset {unknown}" in report["partitions"]["3"]["waits"]
    assert report["partitions"]["1"]["waits"] is None
    assert report["records_behind"] == 5
    assert report["partitions"]["0"]["records_behind"] == 3
    assert 0 < report["partitions"]["0"]["seconds_behind"] <= report["seconds_behind"] < SECONDS
    assert checkpoint(own, 0) == newer
    assert own.value(waiting, "any")["state"]["status"] == "absent"
    assert own.value(other, "any")["state"]["value"] == 1
    assert own.publisher.set(other, "global", "any", 2).partition == 1


@only_kafka
def test_healthz_of_a_worker_that_has_read_everything_is_ok_and_behind_by_nothing(own: RunningLastword) -> None:
    own.projected([own.publisher.set(owner_in(1), "global", "any", 1)])
    with HealthServer(own.worker.status, "127.0.0.1", 0) as health:
        own.until(lambda: own.worker.status.partitions[1].log_end is not None, "the end of the log to be known")
        answer = httpx.get(f"http://127.0.0.1:{health.port}/healthz")
        missing = httpx.get(f"http://127.0.0.1:{health.port}/")

    assert answer.status_code == 200
    report = answer.json()
    assert (report["status"], report["problem"], report["group_protocol"]) == ("ok", None, "consumer")
    assert (report["records_behind"], report["seconds_behind"]) == (0, 0)
    assert report["partitions"].keys() == {"0", "1", "2", "3"}
    assert missing.status_code == 404


@only_kafka
def test_a_worker_without_redis_waits_says_so_stops_when_told_and_goes_on_when_it_is_back(
    broker: Broker, tmp_path: Path
) -> None:
    owner = owner_in(1)
    with (
        EmbeddedStore(tmp_path) as store,
        RunningLastword(broker.bootstrap_servers, store.url, partitions=PARTITIONS) as own,
    ):
        own.projected([own.publisher.set(owner, "global", "any", "before")])

        store.stop()  # in the middle, with nothing to read
        own.until(lambda: own.worker.status.problem is not None, "the worker to notice")
        assert "Redis does not answer" in own.worker.status.report()["problem"]
        assert not own.worker.status.healthy
        refused = own.get("/v1/value", owner=owner, key="any")
        assert (refused.status_code, refused.json()["code"], refused.json()["retryable"]) == (
            503,
            "store-unavailable",
            True,
        )
        assert own.get("/readyz").json()["problems"].keys() == {"reads"}
        unseen = own.publisher.set(owner, "global", "theme", "meanwhile")

        store.start()  # empty: it keeps nothing
        own.projected([unseen])
        own.until(lambda: own.get("/readyz").status_code == 200, "all partitions again")
        assert own.value(owner, "any")["state"]["value"] == "before"
        assert own.value(owner, "theme")["state"]["value"] == "meanwhile"
        assert own.worker.status.healthy

        own.stop_worker()
        store.stop()
        own.start_worker()  # at the start
        own.until(lambda: own.worker.status.problem is not None, "the worker to notice")
        began = time.monotonic()
        own.stop_worker()
        assert time.monotonic() - began < 5

        own.start_worker()
        own.until(lambda: own.worker.status.problem is not None, "the worker to notice")
        store.start()
        own.until(lambda: own.get("/readyz").status_code == 200, "all partitions again")
        assert own.value(owner, "any")["state"]["value"] == "before"
        assert own.worker.status.healthy


@only_kafka
def test_an_emptied_redis_is_filled_again_without_anything_new_to_read(own: RunningLastword, redis_url: str) -> None:
    say_all_sorts(own)
    before = state(redis_url)

    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()

    eventually(lambda: state(redis_url) == before, "the same state again")


def test_worker_and_api_started_before_the_broker_say_what_they_wait_for_and_then_work(
    embedded_store: EmbeddedStore, tmp_path: Path
) -> None:
    broker = EmbeddedBroker(tmp_path)
    ports = {"LASTWORD_PORT": str(free_port()), "LASTWORD_WORKER_PORT": str(free_port())}
    environment = ports | {
        "LASTWORD_KAFKA": broker.bootstrap_servers,
        "LASTWORD_REDIS": embedded_store.url,
        "LASTWORD_NAMESPACE": uuid.uuid4().hex,
    }
    event = {"operation": "set", "owner": "user:ada", "scope": "global", "key": "any", "value": 1}
    event |= {"actor": {"service": "tests"}}
    api, health = (f"http://127.0.0.1:{port}" for port in ports.values())
    told = f"no answer from Kafka at {broker.bootstrap_servers}"
    with (
        PythonProcess("worker", program("run_worker", "WorkerSettings"), tmp_path, environment=environment) as worker,
        PythonProcess("api", program("run_api", "ApiSettings"), tmp_path, environment=environment) as api_process,
    ):
        eventually(lambda: told in (answer(f"{health}/healthz").get("problem") or ""), "the worker to say that")
        eventually(lambda: told in answer(f"{api}/readyz").get("problems", {}).get("writes", ""), "the API to say that")
        refused = httpx.post(f"{api}/v1/events", json=event)
        assert (refused.status_code, refused.json()["code"]) == (503, "log-not-ready")
        assert told in refused.json()["detail"]
        assert httpx.get(f"{api}/healthz").status_code == 200
        assert httpx.get(f"{health}/healthz").status_code == 503

        with broker:
            create_log(KafkaSettings(broker.bootstrap_servers), partitions=2)
            apply_registry(KafkaSettings(broker.bootstrap_servers), parse_registry_file(DECLARED))
            eventually(lambda: answer(f"{api}/readyz").get("status") == "ok", "the API to be ready")
            waiting = {"wait": "applied", "wait_ms": "20000"}
            assert httpx.post(f"{api}/v1/events", json=event, params=waiting, timeout=30).status_code == 200
            assert answer(f"{health}/healthz")["status"] == "ok"
            broker.kill()
            eventually(lambda: answer(f"{health}/healthz").get("status") == "failing", "the worker to miss the broker")
            assert "Kafka does not answer" in answer(f"{health}/healthz")["problem"]
            began = time.monotonic()
            worker.stop()
            assert time.monotonic() - began < 4
        logs = [process.log_path.read_text() for process in (worker, api_process)]
    assert all("waiting" in log and told in log for log in logs)


def program(run: str, settings: str) -> list[str]:
    """Arguments that make Python a part of lastword."""
    return [
        "-c",
        f"from lastword.logs import *; from lastword.running import *; set_up_logging('INFO'); {run}({settings}())",
    ]


def answer(url: str) -> dict[str, Any]:
    with contextlib.suppress(httpx.TransportError, ValueError):
        found: dict[str, Any] = httpx.get(url).json()
        return found
    return {}


def refusal(lastword: RunningLastword) -> BaseException:
    """What a worker that is started now ends with."""
    lastword.worker_error = None
    lastword.start_worker()
    eventually(lambda: lastword.worker_error is not None, "the worker to refuse")
    assert lastword.worker_error is not None
    return lastword.worker_error


@only_kafka
def test_a_worker_refuses_a_topic_that_was_recreated_under_its_checkpoint(own: RunningLastword, redis_url: str) -> None:
    own.projected([own.publisher.set(owner_in(1), "global", "any", 1)])
    own.stop_worker()
    before = state(redis_url)
    admin = AdminClient({"bootstrap.servers": own.worker_settings.kafka})
    admin.delete_topics([own.log.topic])[own.log.topic].result(SECONDS)
    old, own.log = own.log, create_log(own.worker_settings.kafka_settings, partitions=PARTITIONS)

    error = refusal(own)

    assert isinstance(error, OtherProjection)
    assert old.log_id in error.message
    assert own.log.log_id in error.message
    assert "LASTWORD_NAMESPACE" in error.message
    assert "`lastword rebuild`" in error.message
    assert state(redis_url) == before


@only_kafka
def test_a_worker_that_gets_the_partitions_of_a_recreated_topic_reads_none_of_them(
    own: RunningLastword, redis_url: str
) -> None:
    owner = owner_in(1)
    own.projected([own.publisher.set(owner, "global", "any", "old log")])
    own.stop_worker()
    before = state(redis_url)
    admin = AdminClient({"bootstrap.servers": own.worker_settings.kafka})
    admin.delete_topics([own.log.topic])[own.log.topic].result(SECONDS)
    new = create_log(own.worker_settings.kafka_settings, partitions=PARTITIONS)
    with Publisher(own.worker_settings.kafka_settings, new, service="tests") as publisher:
        for number in range(10):  # past the checkpoint: the offset that comes next is there, in another log
            publisher.set(owner, "global", "any", number)

    error = refusal(own)  # started with the log that it knew before

    assert isinstance(error, LogLost)
    assert new.topic_id in error.message
    assert own.log.topic_id in error.message
    assert "LASTWORD_NAMESPACE" in error.message
    assert state(redis_url) == before


@only_kafka
def test_a_worker_refuses_a_namespace_that_holds_the_projection_of_another_log(
    own: RunningLastword, broker: Broker, redis_url: str
) -> None:
    other = RunningLastword(broker.bootstrap_servers, redis_url, partitions=PARTITIONS)
    settings = other.worker_settings.model_copy(update={"namespace": own.worker_settings.namespace})
    log = create_log(settings.kafka_settings, partitions=PARTITIONS)

    with pytest.raises(OtherProjection, match=r"LASTWORD_KAFKA.*LASTWORD_NAMESPACE.*lastword rebuild") as caught:
        make_worker(settings, log).run(threading.Event())

    assert own.log.log_id in caught.value.message


@only_kafka
def test_a_worker_refuses_a_log_that_was_cut_above_its_checkpoint(own: RunningLastword, redis_url: str) -> None:
    owner = owner_in(1)
    own.projected([own.publisher.set(owner, "global", "any", 1)])
    own.stop_worker()
    before = state(redis_url)
    unseen = [own.publisher.set(owner, "global", "any", number) for number in (2, 3)]
    admin = AdminClient({"bootstrap.servers": own.worker_settings.kafka})
    cut = TopicPartition(own.log.topic, 1, unseen[-1].offset)
    admin.delete_records([cut])[cut].result(SECONDS)

    error = refusal(own)

    assert isinstance(error, LogLost)
    assert f"does not have offset {unseen[0].offset}" in error.message
    assert "LASTWORD_NAMESPACE" in error.message
    assert "`lastword rebuild`" in error.message
    assert state(redis_url) == before
    with pytest.raises(LogMismatch, match=r"first records of partition 1 .* are gone.* restore it into a new topic"):
        open_log(own.worker_settings.kafka_settings)
