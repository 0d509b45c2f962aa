"""A partition of the log from its beginning, and on from there as far as is asked for."""

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from lastword_projector.engine.decode import LogRecord
from lastword_projector.worker.worker import consumer_config, log_record
from lastword_schemas.errors import LastwordError

_log = logging.getLogger(__name__)
_CHUNK: Final = 2_000
_SILENCE_S: Final = 30.0


class AuditStopped(LastwordError):
    """The audit could not be finished; what it found until then stands."""

    code = "audit-stopped"
    retryable = True


class LogReader:
    """A context manager that reads one partition after the other. Every method raises AuditStopped."""

    def __init__(self, config: Mapping[str, str | int | bool], topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            consumer_config(config, "lastword-audit", "classic") | {"enable.partition.eof": True}, logger=_log
        )
        self._partition, self._next = -1, 0
        self._ahead: list[LogRecord] = []

    def __enter__(self) -> "LogReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def bounds(self, partition: int) -> tuple[int, int]:
        """The first offset that is there, and the *next* one that the broker will give."""
        try:
            first, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), _SILENCE_S)
        except KafkaException as error:
            raise AuditStopped(f"the broker does not say where partition {partition} ends: {error}") from error
        return first, end

    def begin(self, partition: int) -> None:
        """Read a partition from its beginning."""
        self._consumer.assign([TopicPartition(self._topic, partition, 0)])
        self._partition, self._next, self._ahead = partition, 0, []

    def up_to(self, end: int) -> Iterator[list[LogRecord]]:
        """The records that come next and stand below an offset, which the log has reached."""
        while self._next < end:
            records = self._ahead or self._more(end)
            taken = [record for record in records if record.offset < end]
            self._ahead = records[len(taken) :]
            self._next = end if self._ahead else max(self._next, taken[-1].offset + 1 if taken else 0)
            if taken:
                yield taken

    def _more(self, end: int) -> list[LogRecord]:
        first = self._consumer.poll(_SILENCE_S)
        if first is None:
            raise AuditStopped(f"the broker sent nothing of partition {self._partition} for {_SILENCE_S:.0f} s")
        records = []
        for message in [first, *self._consumer.consume(_CHUNK - 1, 0)]:
            error = message.error()
            if message.partition() != self._partition:  # of the one before
                continue
            if error is None:
                records.append(log_record(message))
            elif error.code() != KafkaError._PARTITION_EOF:
                raise AuditStopped(f"partition {self._partition}: {error.str()}") from KafkaException(error)
            else:  # what is left below it are marks of somebody's transactions
                self._next = max(self._next, min(end, message.offset() or 0))
        return records
