"""The writer in memory and the one on a real Kafka keep the same contract."""

from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest

from lastword.testing.clock import Clock
from lastword.testing.log import MemoryLog
from lastword.testing.writer import MemoryWriter
from lastword_producers.broker import KafkaSettings
from lastword_producers.desk import WriterPort
from lastword_producers.kafka_log import LogIdentity, create_log
from lastword_producers.log_writer import LogWriter
from lastword_projector.engine.decode import LogRecord
from lastword_projector.worker.worker import log_record
from tests.contract.writer import Closable, WriterContract
from tests.support.topics import records_of, settings_for

PARTITIONS = 4


@pytest.fixture(scope="module")
def live(real_kafka: str) -> tuple[KafkaSettings, LogIdentity]:
    """A log on Kafka that the tests of this module share."""
    settings = settings_for(real_kafka)
    return settings, create_log(settings, PARTITIONS)


class TestMemoryWriter(WriterContract):
    @pytest.fixture
    def log(self) -> MemoryLog:
        return MemoryLog(Clock(), PARTITIONS)

    @pytest.fixture
    def writer(self, log: MemoryLog) -> Closable:
        return MemoryWriter(log, max_in_flight=1000, max_bytes_in_flight=2**20, on_appended=lambda: None)

    @pytest.fixture
    def stalled(self, log: MemoryLog) -> WriterPort:
        writer = MemoryWriter(log, max_in_flight=2, max_bytes_in_flight=2**20, on_appended=lambda: None)
        writer.set_down(True)
        return writer

    @pytest.fixture(autouse=True)
    def _read_back(self, log: MemoryLog) -> None:
        self.records = log.records

    def read(self, writer: WriterPort) -> Sequence[Sequence[LogRecord]]:
        return [self.records(number) for number in range(PARTITIONS)]


@pytest.mark.real
class TestKafkaWriter(WriterContract):
    @pytest.fixture(autouse=True)
    def _read_back(self, live: tuple[KafkaSettings, LogIdentity]) -> None:
        self.settings = live[0]

    @pytest.fixture
    def writer(self, live: tuple[KafkaSettings, LogIdentity]) -> Iterator[Closable]:
        with closing(LogWriter(*live, max_in_flight=1000, max_bytes_in_flight=2**20, delivery_timeout_s=10)) as writer:
            yield writer

    @pytest.fixture
    def stalled(self, live: tuple[KafkaSettings, LogIdentity]) -> Iterator[WriterPort]:
        nobody = KafkaSettings("127.0.0.1:1", topic=live[0].topic)
        writer = LogWriter(nobody, live[1], max_in_flight=2, max_bytes_in_flight=2**20, delivery_timeout_s=0.5)
        yield writer
        writer.close(0)

    def read(self, writer: WriterPort) -> Sequence[Sequence[LogRecord]]:
        found = records_of(self.settings, self.settings.topic, PARTITIONS)
        return [[log_record(message) for message in messages] for messages in found]
