"""A log is made once, recognised by what its genesis says, and refused when it is not the log it was."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer

from lastword.embedded import EmbeddedBroker
from lastword.process import HOST, free_port
from lastword_producers.broker import KafkaSettings, client_logger
from lastword_producers.errors import BrokerRefused, BrokerUnavailable, LogMismatch, LogNotReady
from lastword_producers.kafka_log import (
    HISTORY_SETTINGS,
    LogIdentity,
    apply_registry,
    create_log,
    open_log,
    wait_for_log,
)
from lastword_schemas import limits
from lastword_schemas.control import GENESIS_KEY, REGISTRY_KEY, Genesis, RegistryRecord, control_bytes, parse_control
from lastword_schemas.errors import InvalidInput, LastwordError, TooLarge
from lastword_schemas.registry import Registry
from tests.support import topics
from tests.support.services import Broker
from tests.support.topics import SECONDS, records_of, settings_for

PARTITIONS = 3
REGISTRY = Registry.read({"keys": {"tone": {"policy": "latest", "schema": {"enum": ["brief", "detailed"]}}}})
only_kafka = pytest.mark.parametrize("broker", [pytest.param("kafka", marks=pytest.mark.real)], indirect=True)


@pytest.fixture
def settings(broker: Broker, topic_name: str) -> KafkaSettings:
    return settings_for(broker.bootstrap_servers, topic_name)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker of the test's own, not started yet."""
    broker = EmbeddedBroker(tmp_path)
    yield broker
    broker.kill()


def genesis_of(log: LogIdentity, partition: int) -> Genesis:
    return Genesis(
        generation=log.generation,
        partition=partition,
        partitions=log.partitions,
        cluster_id=log.cluster_id,
        topic_id=log.topic_id,
    )


def mismatch(settings: KafkaSettings) -> str:
    """The words in which both opening and creating the log refuse it."""
    with pytest.raises(LogMismatch) as opened:
        open_log(settings)
    with pytest.raises(LogMismatch):
        create_log(settings, PARTITIONS)
    assert not opened.value.retryable
    return opened.value.message


# --- made


def test_a_new_log_describes_itself_in_every_partition(settings: KafkaSettings) -> None:
    log = create_log(settings, PARTITIONS, generation=5)

    assert (log.topic, log.partitions, log.generation) == (settings.topic, PARTITIONS, 5)
    assert log.genesis == tuple(genesis_of(log, partition) for partition in range(PARTITIONS))
    assert {genesis.log_id for genesis in log.genesis} == {log.log_id}
    for partition, records in enumerate(records_of(settings, settings.topic, PARTITIONS)):
        (record,) = records
        assert (record.offset(), record.key()) == (0, GENESIS_KEY.encode())
        assert parse_control(record.value() or b"") == log.genesis[partition]


def test_whoever_opens_a_log_finds_what_its_creator_made(settings: KafkaSettings) -> None:
    assert create_log(settings, PARTITIONS) == open_log(settings)


def test_a_log_of_many_small_batches_is_opened_as_fast_as_a_new_one(own_broker: EmbeddedBroker) -> None:
    own_broker.start()
    settings = KafkaSettings(own_broker.bootstrap_servers)
    log = create_log(settings)
    producer = Producer(settings.producer_config() | {"linger.ms": 0}, logger=client_logger())
    for _ in range(500):
        for partition in range(log.partitions):
            producer.produce(settings.topic, b"x" * 600, b"key", partition)
        producer.flush(SECONDS)

    assert open_log(settings, timeout_s=5) == log


def test_creating_a_log_again_writes_nothing(settings: KafkaSettings) -> None:
    first = create_log(settings, PARTITIONS)

    assert create_log(settings, PARTITIONS) == first
    assert [len(records) for records in records_of(settings, settings.topic, PARTITIONS)] == [1] * PARTITIONS


def test_two_creators_at_once_make_one_log(settings: KafkaSettings) -> None:
    with ThreadPoolExecutor(4) as pool:
        logs = set(pool.map(lambda _: create_log(settings, PARTITIONS), range(4)))

    assert logs == {open_log(settings)}
    for records in records_of(settings, settings.topic, PARTITIONS):
        assert len({record.value() for record in records}) == 1


def test_a_creator_that_was_interrupted_is_completed_by_the_next(settings: KafkaSettings) -> None:
    topics.create(settings, PARTITIONS, HISTORY_SETTINGS)
    with pytest.raises(LogNotReady, match=f"{PARTITIONS} of {PARTITIONS} partitions .* `lastword topics create`"):
        open_log(settings)

    log = create_log(settings, PARTITIONS)

    assert log.genesis == tuple(genesis_of(log, partition) for partition in range(PARTITIONS))


def test_a_missing_genesis_is_written_and_the_others_are_left_alone(settings: KafkaSettings) -> None:
    other = create_log(settings_for(settings.bootstrap_servers), PARTITIONS)
    topics.create(settings, PARTITIONS, HISTORY_SETTINGS)
    there = genesis_of(other, 1).model_copy(update={"topic_id": topics.topic_id(settings)})
    topics.append(settings, 1, GENESIS_KEY.encode(), control_bytes(there))
    with pytest.raises(LogNotReady, match=f"2 of {PARTITIONS} partitions"):
        open_log(settings)

    assert create_log(settings, PARTITIONS).genesis[1] == there
    assert [len(records) for records in records_of(settings, settings.topic, PARTITIONS)] == [1] * PARTITIONS


def test_the_history_is_kept_for_ever_and_stamped_by_the_broker(settings: KafkaSettings) -> None:
    create_log(settings, PARTITIONS)

    live = topics.configuration(settings, settings.topic)
    assert {name: live[name] for name in HISTORY_SETTINGS} == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "unclean.leader.election.enable": "false",
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(2 * limits.MAX_REGISTRY_BYTES),
    }


def test_dead_letters_are_kept_for_ever_in_one_partition(settings: KafkaSettings) -> None:
    create_log(settings, PARTITIONS)

    live = topics.configuration(settings, settings.dead_letter_topic)
    assert (live["cleanup.policy"], live["retention.ms"], live["retention.bytes"]) == ("delete", "-1", "-1")
    assert records_of(settings, settings.dead_letter_topic, 1) == [[]]


@only_kafka
def test_more_replicas_than_brokers_are_refused_with_kafkas_words(settings: KafkaSettings) -> None:
    with pytest.raises(BrokerRefused, match="replication factor of 3"):
        create_log(settings, PARTITIONS, replication=3)


@only_kafka
def test_a_name_that_kafka_does_not_take_is_refused(broker: Broker) -> None:
    with pytest.raises(BrokerRefused, match=r"Invalid topic .* names and settings"):
        create_log(settings_for(broker.bootstrap_servers, "my topic"), PARTITIONS)


# --- not ready


def test_a_missing_topic_is_something_to_wait_for(settings: KafkaSettings) -> None:
    with pytest.raises(LogNotReady, match="does not exist: run `lastword topics create`") as caught:
        open_log(settings)
    assert caught.value.retryable


def test_opening_a_log_never_creates_its_topic(settings: KafkaSettings) -> None:
    for _ in range(2):
        with pytest.raises(LogNotReady, match="does not exist"):
            open_log(settings)


# --- not the log it should be


def test_a_topic_made_anew_is_another_log(settings: KafkaSettings) -> None:
    first = create_log(settings, PARTITIONS)
    topics.delete(settings)

    second = create_log(settings, PARTITIONS)

    assert first.cluster_id == second.cluster_id
    assert first.topic_id != second.topic_id
    assert first.log_id != second.log_id


def test_a_topic_that_somebody_wrote_to_before_is_no_log(settings: KafkaSettings) -> None:
    topics.create(settings, PARTITIONS, HISTORY_SETTINGS)
    topics.append(settings, 1, b"key", b"foreign")

    assert "offset 0 of partition 1" in mismatch(settings)
    assert records_of(settings, settings.topic, PARTITIONS)[0] == []


def test_a_registry_record_in_the_place_of_the_genesis_is_no_log(settings: KafkaSettings) -> None:
    topics.create(settings, PARTITIONS, HISTORY_SETTINGS)
    topics.append(settings, 0, REGISTRY_KEY.encode(), control_bytes(RegistryRecord(registry=REGISTRY)))

    assert "offset 0 of partition 0" in mismatch(settings)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"topic_id": "another"}, "another log"),
        ({"cluster_id": "another"}, "another log"),
        ({"partitions": PARTITIONS + 1}, "says 4 partitions, not 3"),
        ({"generation": 9}, "generation"),
        ({"partition": 0}, "of partition 0"),
    ],
)
def test_a_genesis_that_does_not_fit_is_refused(settings: KafkaSettings, wrong: dict[str, object], words: str) -> None:
    log = create_log(settings_for(settings.bootstrap_servers), PARTITIONS)
    topics.create(settings, PARTITIONS, HISTORY_SETTINGS)
    live = topics.topic_id(settings)
    for partition in range(PARTITIONS):
        genesis = genesis_of(log, partition).model_copy(update={"topic_id": live} | (wrong if partition == 1 else {}))
        topics.append(settings, partition, GENESIS_KEY.encode(), control_bytes(genesis))

    message = mismatch(settings)

    assert words in message
    assert "partition 1" in message


def test_asking_for_another_number_of_partitions_is_refused(settings: KafkaSettings) -> None:
    create_log(settings, PARTITIONS)

    with pytest.raises(LogMismatch, match="has 3 partitions, not 4: ask for that many"):
        create_log(settings, PARTITIONS + 1)


def test_asking_for_another_generation_is_refused(settings: KafkaSettings) -> None:
    create_log(settings, PARTITIONS, generation=2)

    with pytest.raises(LogMismatch, match="says generation 2, not 0: ask for that generation"):
        create_log(settings, PARTITIONS)


def test_asking_for_more_replicas_than_the_topic_has_is_refused(settings: KafkaSettings) -> None:
    create_log(settings, PARTITIONS)

    with pytest.raises(LogMismatch, match="has 1 replicas, not 2"):
        create_log(settings, PARTITIONS, replication=2)


@only_kafka
def test_a_log_that_was_given_more_partitions_is_refused(settings: KafkaSettings) -> None:
    create_log(settings, PARTITIONS)
    topics.add_partitions(settings, PARTITIONS + 1)

    assert "says 3 partitions, not 4" in mismatch(settings)


@only_kafka
def test_a_log_without_its_beginning_is_refused(settings: KafkaSettings) -> None:
    create_log(settings, PARTITIONS)
    apply_registry(settings, REGISTRY)
    topics.delete_before(settings, partition=2, offset=1)

    assert "first records of partition 2" in mismatch(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "compact"),
        ("retention.ms", "604800000"),
        ("retention.bytes", "1000000"),
        ("message.timestamp.type", "CreateTime"),
        ("unclean.leader.election.enable", "true"),
        ("max.message.bytes", "1000"),
    ],
)
def test_a_topic_with_another_setting_is_refused_with_the_command_that_mends_it(
    settings: KafkaSettings, name: str, value: str
) -> None:
    topics.create(settings, PARTITIONS, HISTORY_SETTINGS | {name: value})

    with pytest.raises(LogMismatch) as caught:
        create_log(settings, PARTITIONS)
    assert f"has {name}={value}." in caught.value.message
    assert f"--add-config {name}={HISTORY_SETTINGS[name]}" in caught.value.message


def test_a_topic_that_takes_larger_records_than_needed_will_do(settings: KafkaSettings) -> None:
    topics.create(settings, PARTITIONS, HISTORY_SETTINGS | {"max.message.bytes": "8000000"})

    assert create_log(settings, PARTITIONS).partitions == PARTITIONS


# --- a broker that does not answer


def test_a_broker_that_is_down_is_named_once_with_the_reason(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    address = f"{HOST}:{free_port()}"

    with pytest.raises(BrokerUnavailable) as caught:
        open_log(settings_for(address), timeout_s=0.5)

    assert caught.value.retryable
    assert address in caught.value.message
    assert "Connection refused. Start the broker" in caught.value.message
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_waiting_says_why_it_waits_and_ends_when_the_log_is_there(own_broker: EmbeddedBroker) -> None:
    settings = settings_for(own_broker.bootstrap_servers)
    waits: list[str] = []
    told = threading.Event()

    def on_wait(message: str) -> None:
        waits.append(message)
        told.set()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait_for_log, settings, on_wait, attempt_s=0.3, longest_pause_s=0.3)
        assert told.wait(SECONDS)
        told.clear()
        own_broker.start()
        assert told.wait(SECONDS)
        created = create_log(settings, PARTITIONS)
        assert waiting.result(SECONDS) == created

    assert "Connection refused" in waits[0]
    assert "`lastword topics create`" in waits[-1]
    assert len(waits) == len(set(waits))


def test_waiting_says_the_same_thing_once_and_can_be_stopped() -> None:
    settings = settings_for(f"{HOST}:{free_port()}")
    waits: list[str] = []
    stop = threading.Event()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait_for_log, settings, waits.append, stop, attempt_s=0.1, longest_pause_s=0.1)
        with pytest.raises(TimeoutError):
            waiting.result(1.5)
        stop.set()

        assert waiting.result(SECONDS) is None
    assert len(waits) == 1


def test_waiting_does_not_wait_for_what_does_not_mend_itself(settings: KafkaSettings) -> None:
    topics.create(settings, 1, HISTORY_SETTINGS)
    topics.append(settings, 0, None, b"foreign")

    with pytest.raises(LogMismatch):
        wait_for_log(settings, lambda message: pytest.fail(message))


def test_a_broker_that_restarts_without_its_memory_is_not_ready(own_broker: EmbeddedBroker) -> None:
    own_broker.start()
    settings = settings_for(own_broker.bootstrap_servers)
    first = create_log(settings, PARTITIONS)
    own_broker.kill()
    own_broker.start()

    with pytest.raises(LogNotReady):
        open_log(settings)
    assert create_log(settings, PARTITIONS, generation=1).log_id != first.log_id


def test_settings_that_the_client_does_not_know_are_refused_by_their_name() -> None:
    settings = KafkaSettings("localhost:9092", extra={"securty.protocol": "ssl"})

    with pytest.raises(InvalidInput, match=r"securty\.protocol"):
        open_log(settings, 0.1)


def test_secret_settings_are_passed_on_and_never_shown() -> None:
    settings = KafkaSettings("localhost:9092", extra={"sasl.password": "hunter2", "bootstrap.servers": "elsewhere:1"})

    assert "hunter2" not in repr(settings)
    assert settings.client_config()["sasl.password"] == "hunter2"
    assert settings.client_config()["bootstrap.servers"] == "localhost:9092"


def test_no_setting_takes_a_producers_guarantees_away() -> None:
    settings = KafkaSettings("localhost:9092", extra={"acks": "1", "enable.idempotence": "false"})

    assert settings.producer_config()["acks"] == "all"
    assert settings.producer_config()["enable.idempotence"] is True


# --- the key registry


def test_an_applied_registry_stands_in_every_partition(settings: KafkaSettings) -> None:
    log = create_log(settings, PARTITIONS, generation=1)

    positions = apply_registry(settings, REGISTRY)

    assert [(position.partition, position.offset) for position in positions] == [(0, 1), (1, 1), (2, 1)]
    assert {(position.log_id, position.sequence) for position in positions} == {(log.log_id, 2**40 + 1)}
    for records in records_of(settings, settings.topic, PARTITIONS):
        assert records[1].key() == REGISTRY_KEY.encode()
        assert parse_control(records[1].value() or b"") == RegistryRecord(registry=REGISTRY)


def test_a_first_registry_stands_once_in_each_partition_and_not_over_a_later_one(settings: KafkaSettings) -> None:
    create_log(settings, PARTITIONS)
    later = Registry.read({"keys": {"mood": {"policy": "latest"}}})
    topics.append(settings, 1, b"an", b"event")

    first = apply_registry(settings, REGISTRY, only_new=True)
    apply_registry(settings, later)
    again = apply_registry(settings, REGISTRY, only_new=True)

    assert [(position.partition, position.offset) for position in first] == [(0, 1), (2, 1)]
    assert again == []
    assert [len(records) for records in records_of(settings, settings.topic, PARTITIONS)] == [3, 3, 3]


def test_the_largest_registry_can_be_applied(settings: KafkaSettings) -> None:
    create_log(settings, PARTITIONS)
    registry = Registry.read({"keys": {f"k{number}": {"policy": "latest"} for number in range(18_000)}})

    assert len(apply_registry(settings, registry)) == PARTITIONS


@pytest.mark.parametrize(
    ("registry", "error"),
    [
        (Registry.read({"keys": {"tone": {"policy": "latest", "schema": {"type": "text"}}}}), InvalidInput),
        (Registry.read({"keys": {f"k{n}": {"policy": "latest"} for n in range(20_000)}}), TooLarge),
    ],
)
def test_a_registry_that_cannot_be_used_never_reaches_the_log(
    settings: KafkaSettings, registry: Registry, error: type[LastwordError]
) -> None:
    create_log(settings, PARTITIONS)

    with pytest.raises(error):
        apply_registry(settings, registry)
    assert [len(records) for records in records_of(settings, settings.topic, PARTITIONS)] == [1] * PARTITIONS


def test_a_registry_is_not_applied_to_what_is_no_log(settings: KafkaSettings) -> None:
    with pytest.raises(LogNotReady):
        apply_registry(settings, REGISTRY)
