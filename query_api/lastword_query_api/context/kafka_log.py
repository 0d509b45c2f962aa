"""The topic of contexts in Kafka."""

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from lastword_query_api.context.log import ContextsUnavailable

_ANSWER_S: Final = 5.0
_POLL_S: Final = 0.1
_MOST_UNDER_WAY_KB: Final = 65_536
_STOP_S: Final = 3.0
_log = logging.getLogger("lastword.kafka")


class KafkaContextLog:
    """`ContextLog` of a topic, to be used between `start` and `stop`, from any event loop."""

    def __init__(self, producer_config: Mapping[str, Any], topic: str) -> None:
        """`producer_config` is what every producer begins with. An empty `topic`: contexts are stored nowhere."""
        self._topic = topic
        self._producer_config = {
            **producer_config,
            # A copy harms nobody, because no id leads to it; and an idempotent producer is ready 0.5 s later.
            "enable.idempotence": False,
            "linger.ms": 0,
            "queue.buffering.max.kbytes": _MOST_UNDER_WAY_KB,
            "message.timeout.ms": int(_ANSWER_S * 1_000),
            "log_level": 2,
        }
        self._consumer_config = {
            name: value
            for name, value in producer_config.items()
            if name not in ("acks", "enable.idempotence", "message.max.bytes")
        } | {
            "group.id": "lastword-contexts",  # the client wants a name; it never joins nor commits
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "queued.min.messages": 1,
            "fetch.queue.backoff.ms": 0,  # else what was read before makes the next read wait for a second
            "log_level": 2,
        }
        self._producer: Producer | None = None
        self._thread: threading.Thread | None = None
        self._consumer: Consumer | None = None
        self._reading = threading.Lock()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Connect, without waiting for it."""
        if self._topic:
            self._producer = Producer(self._producer_config, logger=_log)
            self._thread = threading.Thread(target=self._serve, name="contexts", daemon=True)
            self._thread.start()

    async def stop(self) -> None:
        """Wait up to three seconds for what is under way, and close the connections."""
        await asyncio.to_thread(self._stop)

    async def append(self, partition: int, key: str, value: bytes) -> int:
        """See `ContextLog`."""
        if self._producer is None or self._stopped.is_set():
            raise self._nowhere()
        offset: Future[int] = Future()

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                offset.set_exception(self._trouble(error))
            elif (at := message.offset()) is None or at < 0:
                offset.set_exception(ContextsUnavailable("Kafka has it, and did not tell its offset; ask again"))
            else:
                offset.set_result(at)

        try:
            self._producer.produce(self._topic, value, key, partition, on_delivery=delivered)
        except BufferError as error:
            raise ContextsUnavailable("Kafka does not keep up with the contexts to be stored; ask again") from error
        except KafkaException as error:
            raise self._trouble(error.args[0]) from error
        return await asyncio.wrap_future(offset)

    async def read(self, partition: int, offset: int) -> bytes | None:
        """See `ContextLog`."""
        if not self._topic:
            raise self._nowhere()
        return await asyncio.to_thread(self._read, partition, offset)

    def _read(self, partition: int, offset: int) -> bytes | None:
        place = TopicPartition(self._topic, partition, offset)
        with self._reading:
            try:
                if self._consumer is None:
                    self._consumer = Consumer(self._consumer_config, logger=_log)
                first, end = self._consumer.get_watermark_offsets(place, _ANSWER_S)
                return self._fetched(self._consumer, place) if first <= offset < end else None
            except KafkaException as error:
                cause = error.args[0]
                if cause.code() in (KafkaError._UNKNOWN_PARTITION, KafkaError.OFFSET_OUT_OF_RANGE):
                    return None
                raise self._trouble(cause) from error

    def _fetched(self, consumer: Consumer, place: TopicPartition) -> bytes | None:
        consumer.assign([place])
        try:
            until = time.monotonic() + _ANSWER_S
            while time.monotonic() < until:
                message = consumer.poll(_POLL_S)
                if message is None or message.partition() != place.partition:
                    continue
                if (error := message.error()) is not None:
                    if error.code() in (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET):
                        return None
                    raise KafkaException(error)
                return message.value() if message.offset() == place.offset else None
        finally:
            consumer.unassign()
        raise ContextsUnavailable(f"topic {self._topic} was not read within {_ANSWER_S:.0f} s; ask again")

    def _serve(self) -> None:
        while self._producer is not None and not self._stopped.is_set():
            try:
                self._producer.poll(_POLL_S)
            except KafkaException as error:
                _log.warning("%s", error)

    def _stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        if self._producer is not None:
            self._producer.flush(_STOP_S)
        with self._reading:
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None

    def _trouble(self, error: KafkaError) -> ContextsUnavailable:
        return ContextsUnavailable(
            f"topic {self._topic}: {error.str()}. Is Kafka there? `lastword topics create` makes a topic that is "
            "missing; a context need not be stored (store=false)"
        )

    def _nowhere(self) -> ContextsUnavailable:
        if self._topic:
            return ContextsUnavailable("this process does not write contexts any more: it is being stopped")
        return ContextsUnavailable(
            "contexts are stored nowhere: LASTWORD_CONTEXTS_TOPIC is empty. Ask with store=false, or name a topic"
        )
