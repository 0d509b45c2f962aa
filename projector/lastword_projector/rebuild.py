"""Project the whole log again: into the namespace in force, which is emptied, or into a new one beside it."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from lastword_projector.engine.projection import PartitionWaits
from lastword_projector.projector import PartitionProjector
from lastword_projector.store.ports import CommitRefused
from lastword_projector.store.redis import RedisStore
from lastword_projector.worker.dead_letters import MutedDeadLetters
from lastword_projector.worker.worker import consumer_config, log_record
from lastword_schemas.control import Genesis
from lastword_schemas.errors import LastwordError

_log = logging.getLogger(__name__)
_SILENCE_S: Final = 30.0
_CHUNK: Final = 4_000

OnProgress = Callable[[int, int], object]
"""Told partition and *next* offset after each batch."""


class RebuildStopped(LastwordError):
    """The rebuild could not be finished; run it again."""

    code = "rebuild-stopped"
    retryable = True


def rebuild(
    config: Mapping[str, str | int | bool],
    topic: str,
    geneses: Sequence[Genesis],
    store: RedisStore,
    *,
    on_progress: OnProgress,
) -> int:
    """Empty the namespace and fold every partition up to the end it has by then; how many records were folded.

    While it runs, reads of a partition that has no checkpoint yet answer 503. Changes that were told are not told
    again. Workers that run meanwhile do no harm: whoever commits first wins, the other one goes on from there. Raises
    RebuildStopped, and LastwordError where the log is not whole.
    """
    done = 0
    waiting: list[str] = []
    with Replay(config, topic, on_progress) as replay:
        store.follow()
        for genesis in geneses:
            store.count_as_told(genesis, replay.end(genesis.partition))
            store.clear(genesis.partition)
            try:
                done += replay.project(PartitionProjector(genesis, store, MutedDeadLetters()))
            except PartitionWaits as waits:
                waiting.append(waits.message)
    if waiting:
        raise RebuildStopped("; ".join(waiting))
    return done


class Replay:
    """A context manager that hands the log's records to projectors. Its methods raise RebuildStopped."""

    def __init__(self, config: Mapping[str, str | int | bool], topic: str, on_progress: OnProgress) -> None:
        self._topic, self._on_progress = topic, on_progress
        settings: dict[str, Any] = consumer_config(config, "lastword-rebuild", "classic")
        self._consumer = Consumer(settings | {"enable.partition.eof": True}, logger=_log)

    def __enter__(self) -> "Replay":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def end(self, partition: int) -> int:
        """The *next* offset that the broker will give."""
        try:
            _, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), _SILENCE_S)
        except KafkaException as error:
            raise RebuildStopped(f"the broker does not say where partition {partition} ends: {error}") from error
        return end

    def project(self, projector: PartitionProjector, below: int | None = None) -> int:
        """Fold from where a projector stands up to an offset, or to the end of the log; how many records were folded.

        Raises also PartitionWaits, OtherProjection and StoreUnavailable.
        """
        if below is not None and projector.next_offset >= below:
            return 0
        self._consumer.assign([TopicPartition(self._topic, projector.genesis.partition, projector.next_offset)])
        done, ended = 0, False
        while not ended:
            records, ended = self._records(projector.genesis.partition)
            if below is not None:
                ended = ended or (bool(records) and records[-1].offset >= below - 1)
                records = [record for record in records if record.offset < below]
            try:
                taken = projector.take(records)  # while Redis works on the commits sent before
                projector.settle()
                projector.fold()
                done += taken
                if ended:
                    projector.settle()
            except CommitRefused as refused:  # a worker was faster
                _log.info("%s", refused)
                self._consumer.seek(TopicPartition(self._topic, projector.genesis.partition, projector.next_offset))
                ended = False
            self._on_progress(projector.genesis.partition, projector.next_offset)
        return done

    def _records(self, partition: int) -> tuple[list[Any], bool]:
        """The records that come next, and whether the log has no more for now."""
        first = self._consumer.poll(_SILENCE_S)
        if first is None:
            raise RebuildStopped(f"the broker sent nothing of partition {partition} for {_SILENCE_S:.0f} s")
        records, ended = [], False
        for message in [first, *self._consumer.consume(_CHUNK, 0)]:
            error = message.error()
            if error is None:
                records.append(log_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended = True
            else:
                raise RebuildStopped(f"partition {partition}: {error.str()}") from KafkaException(error)
        return records, ended
