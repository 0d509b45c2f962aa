"""The door's way into a log in memory, with what can go wrong on a real one."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from lastword.testing.log import MemoryLog
from lastword_producers.errors import Backpressure, PublisherClosed, UnknownOutcome
from lastword_producers.log_identity import LogIdentity
from lastword_producers.room import Room
from lastword_schemas.envelope import Envelope
from lastword_schemas.identity import record_key
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import Receipt


@dataclass(eq=False, slots=True)
class UnderWay:
    """An event that was submitted and is not in the log yet."""

    envelope: Envelope
    partition: int
    key: bytes
    value: bytes
    receipt: Future[Receipt] = field(default_factory=Future)

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.key) + len(self.value)


class MemoryWriter:
    """`WriterPort` on a log in memory.

    While the log is down, what is submitted is called unknown at once, as a real one does after its timeout; it is
    still under way, needs its room, and is in the log in its order once that is up again. `hold` may keep events back:
    it is asked for each, and takes what it returns True for.
    """

    def __init__(
        self, log: MemoryLog, *, max_in_flight: int, max_bytes_in_flight: int, on_appended: Callable[[], None]
    ) -> None:
        """`on_appended` is called after every append, before the receipt is given."""
        self._log = log
        self._on_appended = on_appended
        self._room = Room(max_in_flight, max_bytes_in_flight)
        self._lock = log.lock
        self._closed = False
        self._down = False
        self._waiting: list[UnderWay] = []
        self.hold: Callable[[UnderWay], bool] = lambda _: False

    @property
    def log(self) -> LogIdentity:
        """See `WriterPort`."""
        return self._log.identity

    @property
    def trouble(self) -> str:
        """See `WriterPort`."""
        return "the log is down" if self._down else ""

    def submit(self, envelope: Envelope) -> Future[Receipt]:
        """See `WriterPort`."""
        owner = envelope.owner
        partition = partition_for(owner, self.log.partitions)
        key = record_key(owner, envelope.scope, envelope.key).encode("utf-8")
        event = UnderWay(envelope, partition, key, envelope.to_bytes())
        with self._lock:
            if self._closed:
                raise PublisherClosed(f"event {envelope.event_id} was not sent: closed", event_id=envelope.event_id)
            if (place := self._room.take(event.size)) is not None:
                self._room.leave(place)
                raise Backpressure(
                    f"event {envelope.event_id} was not sent: at most {self._room.events:,} events with "
                    f"{self._room.size:,} bytes may be under way, and the log is down. Publish it again a little later",
                    event_id=envelope.event_id,
                )
            event.receipt.set_running_or_notify_cancel()
            if not self.hold(event):
                self.send(event)
        return event.receipt

    def send(self, event: UnderWay) -> None:
        """Let an event go on that was held."""
        with self._lock:
            if self._down:
                self._waiting.append(event)
                reason = "no acknowledgement: the log is down"
                event.receipt.set_exception(UnknownOutcome(event.envelope.event_id, reason))
            else:
                self._append(event)

    def set_down(self, down: bool) -> None:
        """Whether the log answers; when it does so again, it takes what waited in its order."""
        with self._lock:
            self._down = down
            while self._waiting and not down:
                self._append(self._waiting.pop(0))

    def close(self) -> None:
        """Take no more events; what did not reach the log by now is lost."""
        with self._lock:
            self._closed = True

    def _append(self, event: UnderWay) -> None:
        offset = self._log.append(event.partition, event.key, event.value)
        self._room.give_back(event.size)
        self._on_appended()
        if not event.receipt.done():
            identity = self.log
            event_id = event.envelope.event_id
            event.receipt.set_result(Receipt(identity.log_id, identity.generation, event.partition, offset, event_id))
