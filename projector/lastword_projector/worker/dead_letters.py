"""The dead letter topic: records that cannot be given to an owner, with their original bytes and position."""

import logging
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lastword_projector.engine.projection import DeadLetter
from lastword_schemas.control import Genesis
from lastword_schemas.errors import LastwordError

_log = logging.getLogger(__name__)
HEADERS = {
    "lastword-log": "Id of the log",
    "lastword-partition": "Partition of the record, in decimal digits",
    "lastword-offset": "Offset of the record, in decimal digits",
    "lastword-problem": "Why it cannot be given to an owner; may quote the record",
}
"""Headers of a dead letter."""
_LARGEST_LETTER = 1_000_000_000
"""Bytes of a letter before compression; the most that librdkafka takes."""


class DeadLetterNotWritten(LastwordError):
    """A dead letter was not acknowledged; the checkpoint does not move past it."""

    code = "dead-letter-not-written"
    retryable = True


class KafkaDeadLetters:
    """Sends dead letters to a topic. Key and value are the original bytes; headers say where it stood and why.

    A batch that is done again sends its letters again: readers tell copies by `lastword-log`, `lastword-partition` and
    `lastword-offset`.
    """

    def __init__(self, config: Mapping[str, str | int | bool], topic: str, *, timeout_s: float = 10.0) -> None:
        self._producer = Producer(
            {
                **config,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                # What fitted into the log, perhaps compressed, fits into this topic, whose limit is twice the log's: a
                # letter that cannot be written would hold up its partition for ever.
                "compression.type": "gzip",
                "message.max.bytes": _LARGEST_LETTER,
                "delivery.timeout.ms": int(timeout_s * 1000),
            },
            logger=_log,
        )
        self._topic, self._timeout_s = topic, timeout_s

    def send(self, genesis: Genesis, letters: Sequence[DeadLetter]) -> None:
        """Return once all are acknowledged. Raises DeadLetterNotWritten if one may not be."""
        acknowledged = 0
        problems: list[str] = []

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            nonlocal acknowledged
            if error is None:
                acknowledged += 1
            else:
                problems.append(error.str())

        for letter in letters:
            told = (genesis.log_id, str(genesis.partition), str(letter.record.offset), letter.problem[:500])
            headers: list[tuple[str, str | bytes | None]] = list(zip(HEADERS, told, strict=True))
            try:
                self._producer.produce(
                    self._topic, letter.record.value, letter.record.key, headers=headers, on_delivery=on_delivery
                )
            except (BufferError, KafkaException) as error:
                raise DeadLetterNotWritten(f"{self._topic}: {error}") from error
        self._producer.flush(self._timeout_s + 1)
        if acknowledged != len(letters):
            raise DeadLetterNotWritten(f"{self._topic}: {problems[0] if problems else 'no acknowledgement in time'}")
        for letter in letters:
            # The problem may quote the record, and so a person: it stands in the letter's header, not in the log.
            at = {"partition": genesis.partition, "offset": letter.record.offset}
            _log.warning("dead letter: partition %(partition)d offset %(offset)d", at, extra=at)


class MutedDeadLetters:
    """For a rebuild: the letters were sent when the log was first read."""

    def send(self, genesis: Genesis, letters: Sequence[DeadLetter]) -> None:
        """Send nothing."""
