"""The records of a topic from some place on up to its end, read past groups and checkpoints."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from lastword_producers.broker import LOG_LEVEL, KafkaSettings, client_logger
from lastword_producers.errors import BrokerUnavailable
from lastword_projector.engine.decode import LogRecord
from lastword_projector.worker.worker import log_record

_TIMEOUT_S: Final = 10.0


class TopicReader:
    """A context manager that reads the settings' history topic.

    Raises BrokerUnavailable where Kafka does not answer within ten seconds.
    """

    def __init__(self, settings: KafkaSettings, partitions: int) -> None:
        self._topic, self._partitions = settings.topic, partitions
        self._consumer = Consumer(
            settings.client_config()
            | {
                "group.id": "lastword-reading",  # the client wants a name; it never joins nor commits
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
                "log_level": LOG_LEVEL,
            },
            logger=client_logger(),
        )

    def __enter__(self) -> "TopicReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def from_offset(self, offset: int) -> dict[int, int]:
        """Where to begin, by partition: at an offset, or at the first one that is there."""
        return {number: max(low, min(offset, end)) for number, (low, end) in self._bounds().items()}

    def last(self, count: int) -> dict[int, int]:
        """Where to begin, by partition: `count` offsets before the end."""
        return {number: max(low, end - count) for number, (low, end) in self._bounds().items()}

    def since(self, instant: datetime) -> dict[int, int]:
        """Where to begin, by partition: at the first record whose time is not before an instant."""
        ms = int(instant.timestamp() * 1000)
        asked = [TopicPartition(self._topic, number, ms) for number in range(self._partitions)]
        try:
            found = self._consumer.offsets_for_times(asked, timeout=_TIMEOUT_S)
        except KafkaException as error:
            raise _unavailable(error.args[0]) from error
        ends = self._bounds()
        return {at.partition: at.offset if at.offset >= 0 else ends[at.partition][1] for at in found}

    def records(self, starts: Mapping[int, int]) -> Iterator[tuple[int, LogRecord]]:
        """Partition and record, in each partition's order, up to the ends that there are by then."""
        left = set(starts)
        self._consumer.assign([TopicPartition(self._topic, number, offset) for number, offset in starts.items()])
        while left:
            message = self._consumer.poll(_TIMEOUT_S)
            if message is None:
                raise BrokerUnavailable(f"no answer from Kafka: {len(left)} partitions of '{self._topic}' are not read")
            error, partition = message.error(), message.partition()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise _unavailable(error)
            if partition is None or partition not in left:
                continue
            if error is None:
                yield partition, log_record(message)
            else:
                left.remove(partition)

    def _bounds(self) -> dict[int, tuple[int, int]]:
        """First and *next* offset of each partition."""
        try:
            return {
                number: self._consumer.get_watermark_offsets(TopicPartition(self._topic, number), _TIMEOUT_S)
                for number in range(self._partitions)
            }
        except KafkaException as error:
            raise _unavailable(error.args[0]) from error


def _unavailable(error: KafkaError) -> BrokerUnavailable:
    return BrokerUnavailable(f"no answer from Kafka: {error.str()}. Start the broker, or check the address and rights")
