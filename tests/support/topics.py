"""Topics as a test makes, spoils and reads them, past everything that lastword checks."""

import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from lastword_producers.broker import KafkaSettings, client_logger

SECONDS = 20.0


def settings_for(bootstrap_servers: str, topic: str | None = None) -> KafkaSettings:
    """Settings with a history topic and a dead letter topic of their own; changes are not told, contexts not stored."""
    topic = topic or f"test-{uuid.uuid4().hex}"
    return KafkaSettings(
        bootstrap_servers, topic=topic, dead_letter_topic=f"{topic}.dead", changes_topic="", contexts_topic=""
    )


def records_of(settings: KafkaSettings, topic: str, partitions: int) -> list[list[Message]]:
    """All records of each partition."""
    consumer = Consumer(
        settings.client_config()
        | {"group.id": "tests", "enable.partition.eof": True, "enable.auto.commit": False, "fetch.wait.max.ms": 10},
        logger=client_logger(),
    )
    found: list[list[Message]] = [[] for _ in range(partitions)]
    ended: set[int | None] = set()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    while len(ended) < partitions:
        message = consumer.poll(SECONDS)
        assert message is not None, "the broker does not answer"
        error = message.error()
        if error is None:
            found[message.partition() or 0].append(message)
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
    consumer.close()
    return found


def append(settings: KafkaSettings, partition: int, key: bytes | None, value: bytes | None) -> None:
    """Append any record to the history topic."""
    reports: list[KafkaError | None] = []
    producer = Producer(settings.client_config() | {"linger.ms": 0}, logger=client_logger())
    producer.produce(settings.topic, value, key, partition, on_delivery=lambda error, _: reports.append(error))
    producer.flush(SECONDS)
    assert reports == [None]


def create(settings: KafkaSettings, partitions: int, config: Mapping[str, str]) -> None:
    """Create the history topic without a genesis."""
    admin = _admin(settings)
    _done(admin.create_topics([NewTopic(settings.topic, partitions, 1, config=dict(config))]))


def delete(settings: KafkaSettings) -> None:
    """Delete the history topic."""
    admin = _admin(settings)
    _done(admin.delete_topics([settings.topic]))


def add_partitions(settings: KafkaSettings, total: int) -> None:
    """Give the history topic more partitions."""
    admin = _admin(settings)
    _done(admin.create_partitions([NewPartitions(settings.topic, total)]))


def delete_before(settings: KafkaSettings, partition: int, offset: int) -> None:
    """Delete the first records of a partition."""
    admin = _admin(settings)
    _done(admin.delete_records([TopicPartition(settings.topic, partition, offset)]))


def topic_id(settings: KafkaSettings) -> str:
    """The live history topic's id."""
    admin = _admin(settings)
    futures = admin.describe_topics(TopicCollection([settings.topic]))
    return str(futures[settings.topic].result(SECONDS).topic_id)


def configure(settings: KafkaSettings, name: str, value: str) -> None:
    """Change one setting of the history topic."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, settings.topic, incremental_configs=[entry])
    admin = _admin(settings)
    _done(admin.incremental_alter_configs([resource]))


def configuration(settings: KafkaSettings, topic: str) -> dict[str, str]:
    """A topic's settings."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = _admin(settings)
    entries = admin.describe_configs([resource])[resource].result(SECONDS)
    return {name: str(entry.value) for name, entry in entries.items()}


def _admin(settings: KafkaSettings) -> AdminClient:
    """A client, which the caller keeps until it has its answer: without one its requests end."""
    return AdminClient(settings.client_config(), logger=client_logger())


def _done(futures: Mapping[Any, "Future[Any]"]) -> None:
    for future in futures.values():
        future.result(SECONDS)
