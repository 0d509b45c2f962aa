"""Partitions and record keys of real clients, and a service that writes to Kafka by docs/topics.md alone."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer

from lastword.launcher import starter_text
from lastword_producers.broker import client_logger
from lastword_schemas.identity import record_key
from lastword_schemas.partitions import murmur2, partition_for
from lastword_schemas.registry import parse_registry_file
from tests.support import services, topics
from tests.support.running import RunningLastword

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "kafka_direct.py"
TABLE: dict[str, Any] = json.loads((ROOT / "docs" / "partition-vectors.json").read_text("utf-8"))
VECTORS: list[dict[str, Any]] = TABLE["vectors"]
PARTITIONS: int = TABLE["partitions"]


def example() -> Any:
    spec = importlib.util.spec_from_file_location("kafka_direct", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_for_other_languages_is_what_lastword_does() -> None:
    for vector in VECTORS:
        owner = vector["owner"]
        assert murmur2(owner.encode()) == vector["murmur2"] % 2**32
        assert partition_for(owner, PARTITIONS) == vector["partition"]
        assert record_key(owner, vector["scope"], vector["key"]) == vector["record_key"]


def test_the_example_has_the_same_partitions_and_keys() -> None:
    direct = example()

    for vector in VECTORS:
        owner = vector["owner"]
        assert direct.partition_of(owner, PARTITIONS) == vector["partition"]
        assert direct.record_key(owner, vector["scope"], vector["key"]) == vector["record_key"]


@pytest.mark.real
def test_librdkafkas_murmur2_puts_each_owner_where_the_table_says(real_kafka: str) -> None:
    settings = topics.settings_for(real_kafka)
    topics.create(settings, PARTITIONS, {})
    landed: dict[bytes | None, int | None] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None
        landed[message.key()] = message.partition()

    producer = Producer(settings.client_config() | {"partitioner": "murmur2", "linger.ms": 0}, logger=client_logger())
    for vector in VECTORS:
        producer.produce(settings.topic, b"", vector["owner"].encode(), on_delivery=delivered)
    producer.flush(20)

    assert landed == {vector["owner"].encode(): vector["partition"] for vector in VECTORS}


@pytest.mark.real
def test_a_service_that_writes_to_kafka_itself_is_understood_and_writes_right(real_kafka: str, store_url: str) -> None:
    registry = parse_registry_file(starter_text())
    with RunningLastword(real_kafka, services.shared_database(store_url), registry=registry) as lastword:
        api, worker = lastword.api_settings, lastword.worker_settings
        places = {
            "LASTWORD_URL": f"http://{api.host}:{api.port}",
            "LASTWORD_KAFKA": worker.kafka,
            "LASTWORD_TOPIC": worker.topic,
        }
        ran = subprocess.run(
            [sys.executable, str(EXAMPLE)], env=os.environ | places, capture_output=True, text=True, timeout=100
        )

    assert ran.returncode == 0, ran.stderr
    assert "verdict: counts added" in ran.stdout
    assert "value: brief said by kafka-direct" in ran.stdout
    assert "right: 2 events in " in ran.stdout
    assert "hint" not in ran.stdout
