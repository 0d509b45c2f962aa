"""The way of events into the log: one idempotent Kafka producer, with a thread of its own for what comes back.

What is sent stays here until the log has it or certainly has not. No event overtakes another of its partition: the
producer tries for ever, and stops at the first event that it would have to leave out; a new one then sends everything
again that has no answer, in the same order. A copy that the log gets by that is a duplicate of the first.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lastword_producers.broker import LOG_LEVEL, KafkaSettings, client_logger
from lastword_producers.errors import LogMismatch, PublisherClosed, PublishFailed, UnknownOutcome
from lastword_producers.kafka_log import LogIdentity
from lastword_producers.log_watch import LogWatch
from lastword_producers.reports import delivery_error, receipt_of
from lastword_schemas.errors import LastwordError
from lastword_schemas.positions import Receipt

_POLL_S: Final = 0.1
_PAUSE_S: Final = 0.25
_DRAIN_S: Final = 2.0
_ASK_S: Final = 1.0
_LOGGER: Final = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Pending:
    """An event that is under way."""

    event_id: str
    partition: int
    key: bytes
    value: bytes
    deadline: float = 0.0
    """When its outcome is called unknown, by the monotonic clock."""
    receipt: Future[Receipt] = field(default_factory=Future)

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.key) + len(self.value)


class Delivery:
    """Sends events and settles each: its future gets the receipt or the error, then `on_settled` is called.

    An event that is not acknowledged within `timeout_s` seconds is called UnknownOutcome, and still under way.
    `queue` has librdkafka's bounds, in which all that is under way must find room.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        log: LogIdentity,
        timeout_s: float,
        queue: Mapping[str, int],
        on_settled: Callable[[Pending], None],
    ) -> None:
        self._log, self._timeout_s, self._on_settled = log, timeout_s, on_settled
        self._watch = LogWatch(settings, log)
        request_ms = max(1000, int(timeout_s * 1000))
        self._config: dict[str, Any] = {
            **settings.producer_config(),
            **queue,
            "message.timeout.ms": 0,
            "enable.gapless.guarantee": True,
            "request.timeout.ms": request_ms,
            "socket.timeout.ms": request_ms,
            "reconnect.backoff.max.ms": 1000,
            "linger.ms": 0,
            "log_level": LOG_LEVEL,
            "error_cb": self._heard,
        }
        self.trouble = ""
        """Why events wait, or are refused; empty as long as they are not."""
        self._lock = threading.Lock()
        self._unsettled: dict[Pending, None] = {}  # in the order of sending
        self._acknowledged: list[tuple[Pending, Receipt | None]] = []
        self._last_offsets = [0] * log.partitions  # of the genesis
        self._is_closing = self._is_lost = self._is_suspect = False
        self._refusal: LogMismatch | None = None
        self._last_error = ""
        self._next_look = 0.0
        self._producer = Producer(self._config, logger=client_logger())
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="lastword-delivery", daemon=True)
        self._thread.start()

    def send(self, pending: Pending) -> None:
        """Send an event. Raises PublisherClosed after `close`, LogMismatch where the log was found to be another."""
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if self._is_closing:
                event_id = pending.event_id
                raise PublisherClosed(f"event {event_id} was not sent: this publisher is closed", event_id=event_id)
            pending.receipt.set_running_or_notify_cancel()  # from here on nobody can cancel it
            pending.deadline = time.monotonic() + self._timeout_s
            self._unsettled[pending] = None
            self._produce(pending)

    def close(self, timeout_s: float) -> None:
        """Take no more events, wait up to `timeout_s` seconds for those under way, and stop.

        What is not settled by then becomes UnknownOutcome. May be called again.
        """
        with self._lock:
            self._is_closing = True
        deadline = time.monotonic() + timeout_s
        while self._unsettled and time.monotonic() < deadline:
            time.sleep(0.005)
        self._stopped.set()
        self._thread.join()
        self._producer.purge()  # so that nothing is sent later
        for pending in list(self._unsettled):
            reason = "the publisher was closed before the broker's answer"
            self._settle(pending, UnknownOutcome(pending.event_id, reason))

    def _produce(self, pending: Pending) -> None:
        """Hand an event to the producer; while that is lost, the next one gets it. With the lock held."""
        if self._is_lost:
            return
        report = partial(self._reported, pending)
        try:
            self._producer.produce(self._log.topic, pending.value, pending.key, pending.partition, on_delivery=report)
        except BufferError as error:
            self._lose(str(error))
        except KafkaException as error:
            self._lose(error.args[0].str())

    def _serve(self) -> None:
        while not (self._stopped.is_set() or self._refusal):
            try:
                self._turn()
            except Exception:  # one bad turn must not keep all later events from being settled
                _LOGGER.exception("an answer of Kafka could not be handled")

    def _turn(self) -> None:
        if self._is_lost:
            self._renew()
        self._poll()
        if self._acknowledged and self._is_same_log():
            self._hand_out_receipts()
        now = time.monotonic()
        self._call_unknown(now)
        if (self._is_suspect or self.trouble) and now >= self._next_look:
            self._next_look = now + _ASK_S
            if self._is_same_log():
                self._is_suspect = False
                if not self._unsettled:
                    self._say_well()

    def _poll(self) -> None:
        try:
            self._producer.poll(_POLL_S)
        except KafkaException as error:  # the producer stopped for ever
            self._lose(error.args[0].str())

    def _heard(self, error: KafkaError) -> None:
        self._is_suspect |= error.code() == KafkaError._ALL_BROKERS_DOWN

    def _reported(self, pending: Pending, error: KafkaError | None, message: Message) -> None:
        if pending not in self._unsettled:
            return  # settled when this was closed or the log was lost
        if error is None:
            self._acknowledged.append((pending, receipt_of(message, self._log, pending.event_id)))
        elif isinstance(outcome := delivery_error(error, pending.event_id), PublishFailed):
            self._settle(pending, outcome)
        else:
            self._lose(error.str())

    def _hand_out_receipts(self) -> None:
        acknowledged, self._acknowledged = self._acknowledged, []
        for place, (pending, receipt) in enumerate(acknowledged):
            if receipt is None:
                reason = "the broker has it, but no longer told its offset"
                self._settle(pending, UnknownOutcome(pending.event_id, reason))
            elif receipt.offset > self._last_offsets[receipt.partition]:
                self._last_offsets[receipt.partition] = receipt.offset
                self._settle(pending, receipt)
            else:  # it is another log; or, as the embedded broker does it after a pause, the offset is given twice
                self._watch.doubt()
                if not self._is_same_log():
                    self._acknowledged = [] if self._refusal else acknowledged[place:]
                    return
                reason = f"the broker acknowledged it at offset {receipt.offset}, which it had given before"
                self._settle(pending, UnknownOutcome(pending.event_id, reason))
        self._say_well()

    def _settle(self, pending: Pending, outcome: Receipt | LastwordError) -> None:
        with self._lock:
            del self._unsettled[pending]
        self._on_settled(pending)
        if pending.receipt.done():
            return  # called unknown before
        if isinstance(outcome, LastwordError):
            pending.receipt.set_exception(outcome)
        else:
            pending.receipt.set_result(outcome)

    def _call_unknown(self, now: float) -> None:
        with self._lock:
            overdue = list(takewhile(lambda pending: pending.deadline <= now, self._unsettled))
        for pending in overdue:
            if not pending.receipt.done():
                reason = f"{self._last_error or 'no acknowledgement'} within {self._timeout_s:g} s"
                pending.receipt.set_exception(UnknownOutcome(pending.event_id, reason))
                self._say_trouble(f"{reason}; events are kept and sent in their order")

    def _lose(self, reason: str) -> None:
        self._is_lost = True
        self._last_error = reason

    def _renew(self) -> None:
        """Go on with a new producer, which first sends what has no answer yet."""
        self._stopped.wait(_PAUSE_S)
        if not self._is_same_log():
            return
        self._producer.purge()
        deadline = time.monotonic() + _DRAIN_S
        while len(self._producer) and time.monotonic() < deadline:
            self._poll()
        producer = Producer(self._config, logger=client_logger())
        answered = {pending for pending, _ in self._acknowledged}
        with self._lock:
            self._producer, self._is_lost = producer, False
            for pending in self._unsettled:
                if pending not in answered:
                    self._produce(pending)

    def _is_same_log(self) -> bool:
        try:
            self._watch.confirm(_ASK_S)
        except LogMismatch as error:
            self._refuse(error)
        except LastwordError as error:
            self._say_trouble(error.message)
        else:
            return True
        return False

    def _refuse(self, error: LogMismatch) -> None:
        """Send nothing more: what is under way went to another log, or nowhere."""
        with self._lock:
            self._refusal = error
        self.trouble = error.message
        self._acknowledged.clear()
        self._producer.purge()
        for pending in list(self._unsettled):
            self._settle(pending, error)
        _LOGGER.error("%s", error.message)

    def _say_trouble(self, reason: str) -> None:
        if not self.trouble:
            _LOGGER.warning("publishing waits: %s", reason)
        self.trouble = reason

    def _say_well(self) -> None:
        self._is_suspect = False
        if self.trouble:
            _LOGGER.warning("publishing goes on: Kafka answers again")
        self.trouble = self._last_error = ""
