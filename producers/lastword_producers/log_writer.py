"""Envelopes into the log, as many at a time as there is room for."""

import asyncio
from concurrent.futures import Future

from lastword_producers.broker import KafkaSettings
from lastword_producers.delivery import Delivery, Pending
from lastword_producers.errors import Backpressure
from lastword_producers.kafka_log import LogIdentity
from lastword_producers.room import Room
from lastword_schemas.envelope import Envelope
from lastword_schemas.errors import LastwordError
from lastword_schemas.identity import record_key
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import Receipt


class LogWriter:
    """Appends envelopes to the log, in the order in which one thread submits them.

    At most `max_in_flight` events with at most `max_bytes_in_flight` bytes are under way. An event that is not
    acknowledged after `delivery_timeout_s` seconds is called unknown, and still under way: what is submitted after it
    comes after it in the log.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        log: LogIdentity,
        *,
        max_in_flight: int,
        max_bytes_in_flight: int,
        delivery_timeout_s: float,
    ) -> None:
        self.log = log
        self.delivery_timeout_s = delivery_timeout_s
        self._room = Room(max_in_flight, max_bytes_in_flight)
        queue = {
            "queue.buffering.max.messages": max_in_flight + 1,
            "queue.buffering.max.kbytes": max_bytes_in_flight // 1024 + 1024,
        }
        self._delivery = Delivery(settings, log, delivery_timeout_s, queue, on_settled=self._leave)

    @property
    def trouble(self) -> str:
        """Why events wait for the log, or are refused; empty as long as they are not."""
        return self._delivery.trouble

    def submit(self, envelope: Envelope, wait_s: float = 0) -> Future[Receipt]:
        """Send an event; the future has the receipt once the log has it. Waits up to `wait_s` seconds for room.

        The future raises PublishFailed (certainly not in the log), UnknownOutcome (may be in the log) or LogMismatch.
        Its callbacks run in the delivery thread: they must be short and submit nothing.

        Raises TooLarge where the event is over the limit, Backpressure where there is no room, PublisherClosed after
        `close`, LogMismatch where the log was found to be another one. Then the event was not sent.
        """
        pending = self._pending(envelope)
        if (place := self._room.take(pending.size)) is not None:
            try:
                place.result(wait_s)
            except TimeoutError as error:
                if self._room.leave(place):
                    raise self._backpressure(pending) from error
        return self._send(pending)

    async def submit_async(self, envelope: Envelope, wait_s: float = 0) -> Future[Receipt]:
        """As `submit`, while other tasks go on."""
        pending = self._pending(envelope)
        if (place := self._room.take(pending.size)) is not None:
            try:
                await asyncio.wait_for(asyncio.wrap_future(place), wait_s)
            except TimeoutError as error:
                if self._room.leave(place):
                    raise self._backpressure(pending) from error
            except BaseException:
                if not self._room.leave(place):
                    self._leave(pending)
                raise
        return self._send(pending)

    def close(self, timeout_s: float = 10.0) -> None:
        """Take no more events, wait up to `timeout_s` seconds for those under way, and stop.

        What is not settled by then becomes UnknownOutcome. May be called again.
        """
        self._delivery.close(timeout_s)

    def _pending(self, envelope: Envelope) -> Pending:
        owner = envelope.owner
        return Pending(
            envelope.event_id,
            partition_for(owner, self.log.partitions),
            record_key(owner, envelope.scope, envelope.key).encode("utf-8"),
            envelope.to_bytes(),
        )

    def _send(self, pending: Pending) -> Future[Receipt]:
        try:
            self._delivery.send(pending)
        except LastwordError:
            self._leave(pending)
            raise
        return pending.receipt

    def _leave(self, pending: Pending) -> None:
        self._room.give_back(pending.size)

    def _backpressure(self, pending: Pending) -> Backpressure:
        reason = self._delivery.trouble or "Kafka does not keep up"
        return Backpressure(
            f"event {pending.event_id} was not sent: at most {self._room.events:,} events with {self._room.size:,} "
            f"bytes may be under way, and {reason}. Publish it again a little later",
            event_id=pending.event_id,
        )
