"""Project the whole log again, into a namespace that was emptied."""

import logging
from collections.abc import Callable, Mapping, Sequence

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
_SILENCE_S = 30.0
_CHUNK = 4_000


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
    on_progress: Callable[[int, int], None],
) -> int:
    """Empty the namespace and fold every partition up to the end it has by then; how many records were folded.

    `on_progress(partition, next_offset)` is called after each batch. While it runs, reads of a partition that has no
    checkpoint yet answer 503. Changes that were told are not told again. Workers that run meanwhile do no harm:
    whoever commits first wins, the other one goes on from there. Raises RebuildStopped, and LastwordError where the
    log is not whole.
    """
    consumer = Consumer(
        consumer_config(config, "lastword-rebuild", "classic") | {"enable.partition.eof": True}, logger=_log
    )
    done = 0
    waiting: list[str] = []
    try:
        for genesis in geneses:
            store.count_as_told(genesis, _end(consumer, topic, genesis.partition))
            store.clear(genesis.partition)
            projector = PartitionProjector(genesis, store, MutedDeadLetters())
            try:
                done += _replay(consumer, topic, projector, on_progress)
            except PartitionWaits as waits:
                waiting.append(waits.message)
    finally:
        consumer.close()
    if waiting:
        raise RebuildStopped("; ".join(waiting))
    return done


def _end(consumer: Consumer, topic: str, partition: int) -> int:
    """The *next* offset that the broker will give."""
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), _SILENCE_S)
    except KafkaException as error:
        raise RebuildStopped(f"the broker does not say where partition {partition} ends: {error}") from error
    return end


def _replay(
    consumer: Consumer, topic: str, projector: PartitionProjector, on_progress: Callable[[int, int], None]
) -> int:
    partition = projector.genesis.partition
    consumer.assign([TopicPartition(topic, partition, projector.next_offset)])
    done = 0
    while True:
        first = consumer.poll(_SILENCE_S)
        if first is None:
            raise RebuildStopped(f"the broker sent nothing of partition {partition} for {_SILENCE_S:.0f} s")
        messages = [first, *consumer.consume(_CHUNK, 0)]
        records = []
        ended = False
        for message in messages:
            error = message.error()
            if error is None:
                records.append(log_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended = True
            else:
                raise RebuildStopped(f"partition {partition}: {error.str()}") from KafkaException(error)
        try:
            taken = projector.take(records)  # while Redis works on the commits sent before
            projector.settle()
            projector.fold()
            done += taken
            if ended:
                projector.settle()
        except CommitRefused as refused:  # a worker was faster
            _log.info("%s", refused)
            consumer.seek(TopicPartition(topic, partition, projector.next_offset))
            ended = False
        on_progress(partition, projector.next_offset)
        if ended:
            return done
