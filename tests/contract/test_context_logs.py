"""The log of contexts in memory, on the embedded broker and on a real Kafka keep the same contract."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from lastword.testing.contexts import MemoryContextLog
from lastword_producers.broker import KafkaSettings
from lastword_producers.kafka_log import create_log
from lastword_query_api.context.kafka_log import KafkaContextLog
from lastword_query_api.context.log import ContextLog, ContextsUnavailable
from tests.contract.context_log import PARTITIONS, ContextLogContract
from tests.support import topics
from tests.support.services import Broker


@contextmanager
def started(settings: KafkaSettings) -> Iterator[KafkaContextLog]:
    log = KafkaContextLog(settings.producer_config(), settings.contexts_topic)
    log.start()
    yield log
    asyncio.run(log.stop())


@pytest.fixture(scope="module")
def settings(broker: Broker) -> KafkaSettings:
    """A log on each broker in turn."""
    settings = topics.settings_for(broker.bootstrap_servers)
    settings = replace(settings, contexts_topic=f"{settings.topic}.contexts", contexts_days=3)
    create_log(settings, PARTITIONS)
    return settings


class TestMemoryContextLog(ContextLogContract):
    @pytest.fixture
    def log(self) -> ContextLog:
        return MemoryContextLog(lambda: "")

    @pytest.fixture
    def silent(self) -> ContextLog:
        return MemoryContextLog(lambda: "the log is down")


class TestKafkaContextLog(ContextLogContract):
    @pytest.fixture
    def log(self, settings: KafkaSettings) -> Iterator[ContextLog]:
        with started(settings) as log:
            yield log

    @pytest.fixture
    def silent(self) -> Iterator[ContextLog]:
        with started(KafkaSettings("127.0.0.1:1")) as log:
            yield log

    def test_its_topic_is_kept_as_long_as_was_declared(self, settings: KafkaSettings) -> None:
        live = topics.configuration(settings, settings.contexts_topic)
        assert (live["cleanup.policy"], live["retention.ms"]) == ("delete", str(3 * 86_400_000))

    def test_what_is_read_is_what_another_process_stored(self, settings: KafkaSettings) -> None:
        with started(settings) as one:
            offset = asyncio.run(one.append(0, "o", b"of one"))
        with started(settings) as other:
            assert asyncio.run(other.read(0, offset)) == b"of one"

    def test_a_missing_topic_and_none_at_all_are_told(self, settings: KafkaSettings) -> None:
        with started(replace(settings, contexts_topic="")) as log:
            for asked in (log.append(0, "o", b"{}"), log.read(0, 0)):
                with pytest.raises(ContextsUnavailable, match="LASTWORD_CONTEXTS_TOPIC is empty"):
                    asyncio.run(asked)
