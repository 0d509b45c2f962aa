"""Envelopes into the log: one idempotent Kafka producer with a thread of its own for the delivery reports."""

import logging
import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lastword_producers.broker import KafkaSettings, client_logger
from lastword_producers.delivery import PRODUCER_IS_LOST, delivery_error, receipt_of
from lastword_producers.errors import Backpressure, LogMismatch, PublisherClosed, PublishFailed, UnknownOutcome
from lastword_producers.kafka_log import LogIdentity, open_log
from lastword_schemas.envelope import Envelope
from lastword_schemas.identity import record_key
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import Receipt

_POLL_S: Final = 0.1
_PURGE_S: Final = 2.0
_CHECK_S: Final = 2.0
_LOGGER: Final = logging.getLogger(__name__)


class LogWriter:
    """Appends envelopes to the log, in the order in which one thread submits them.

    `max_in_flight` events may wait for their delivery reports; the next one waits up to `block_s` seconds for room.
    An event that the broker has not acknowledged after `delivery_timeout_s` seconds is settled as unknown.

    When the broker no longer knows the producer, the next event is sent by a new one, after a check that the log is
    still the same.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        log: LogIdentity,
        *,
        max_in_flight: int,
        block_s: float,
        delivery_timeout_s: float,
    ) -> None:
        self.log = log
        self.delivery_timeout_s = delivery_timeout_s
        self._block_s = block_s
        self._room = threading.BoundedSemaphore(max_in_flight)
        self._max_in_flight = max_in_flight
        self._lock = threading.Lock()
        self._closing = False
        self._unsettled: dict[Future[Receipt], str] = {}
        self._settings = settings
        self._config = settings.producer_config() | {
            "message.timeout.ms": int(delivery_timeout_s * 1000),
            "queue.buffering.max.messages": max_in_flight + 1,
            "linger.ms": 0,
        }
        self._last_offsets = [0] * log.partitions  # of the genesis
        self._is_lost = False
        self._producer = Producer(self._config, logger=client_logger())
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="lastword-delivery", daemon=True)
        self._thread.start()

    def submit(self, envelope: Envelope) -> Future[Receipt]:
        """Send an event; the future has the receipt once the log has it.

        The future raises PublishFailed (certainly not in the log) or UnknownOutcome (may be in the log). Its callbacks
        run in the delivery thread: they must be short and submit nothing.

        Raises TooLarge where the event is over the limit; Backpressure where too many events are in flight for
        `block_s` seconds; PublisherClosed after `close`; what `open_log` raises where the log had to be checked. Then
        the event was not sent.
        """
        event_id, value = envelope.event_id, envelope.to_bytes()
        if not self._room.acquire(timeout=self._block_s):
            raise self._backpressure(event_id, f"{self._max_in_flight} events are in flight")
        future: Future[Receipt] = Future()
        future.set_running_or_notify_cancel()  # it is under way: nobody can cancel it
        try:
            self._send(envelope, value, future)
        except BaseException:
            self._unsettled.pop(future, None)
            self._room.release()
            raise
        return future

    def close(self, timeout_s: float = 10.0) -> None:
        """Take no more events, wait up to `timeout_s` seconds for the delivery reports, and stop.

        What is not settled by then becomes UnknownOutcome. May be called again.
        """
        with self._lock:
            self._closing = True
        self._wait_until_settled(timeout_s)
        self._stopped.set()
        self._thread.join()
        self._producer.purge()  # so that nothing is sent later
        for future, event_id in list(self._unsettled.items()):
            del self._unsettled[future]
            future.set_exception(UnknownOutcome(event_id, "the publisher was closed before the broker's answer"))

    def _send(self, envelope: Envelope, value: bytes, future: Future[Receipt]) -> None:
        event_id, owner = envelope.event_id, envelope.owner
        key = record_key(owner, envelope.scope, envelope.key).encode("utf-8")
        partition = partition_for(owner, self.log.partitions)
        with self._lock:  # so that `close` sees every event that was sent
            if self._closing:
                raise PublisherClosed(f"event {event_id} was not sent: this publisher is closed", event_id=event_id)
            if self._is_lost:
                self._renew()
            self._unsettled[future] = event_id
            try:
                self._producer.produce(self.log.topic, value, key, partition, on_delivery=partial(self._settle, future))
            except BufferError as error:
                raise self._backpressure(event_id, "the events in flight fill the producer's memory") from error
            except KafkaException as error:
                self._is_lost = True
                reason = error.args[0].str()
                raise PublishFailed(
                    f"event {event_id} was not sent: {reason}. Publish it again: a new producer sends it",
                    event_id=event_id,
                ) from error

    def _settle(self, future: Future[Receipt], error: KafkaError | None, message: Message) -> None:
        event_id = self._unsettled.pop(future)
        self._room.release()
        if error is not None:
            self._is_lost |= error.fatal() or error.code() in PRODUCER_IS_LOST
            future.set_exception(delivery_error(error, event_id))
        elif (receipt := receipt_of(message, self.log, event_id)) is None:
            future.set_exception(UnknownOutcome(event_id, "the broker has it, but no longer told its offset"))
        elif receipt.offset <= self._last_offsets[receipt.partition]:
            self._is_lost = True
            future.set_exception(self._replaced())
        else:
            self._last_offsets[receipt.partition] = receipt.offset
            future.set_result(receipt)

    def _renew(self) -> None:
        """Go on with a new producer. What the old one still had becomes unknown, so that none of it comes later."""
        if open_log(self._settings, _CHECK_S) != self.log:
            raise self._replaced()
        self._producer.purge()
        self._producer.flush(_PURGE_S)
        self._producer = Producer(self._config, logger=client_logger())
        self._is_lost = False

    def _replaced(self) -> LogMismatch:
        return LogMismatch(
            f"topic '{self.log.topic}' is no longer the log {self.log.log_id} that this publisher opened: it was "
            "deleted and made anew. Restart this service, so that it opens the new log, and publish the event again"
        )

    def _serve(self) -> None:
        while not self._stopped.is_set():
            try:
                self._producer.poll(_POLL_S)
            except Exception:  # one bad report must not keep all later ones from being delivered
                _LOGGER.exception("a delivery report could not be handled")

    def _wait_until_settled(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self._unsettled and time.monotonic() < deadline:
            time.sleep(0.005)

    def _backpressure(self, event_id: str, reason: str) -> Backpressure:
        return Backpressure(
            f"event {event_id} was not sent: {reason} and the broker does not keep up. Publish it again a little later",
            event_id=event_id,
        )
