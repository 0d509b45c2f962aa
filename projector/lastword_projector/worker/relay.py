"""The relay: takes changes from the outbox in Redis to their topic, beside the folding and never in its way.

A worker that is far behind the log folds first: what it changes meanwhile is old news to everybody, and telling it
takes the same processor as folding does. Only as much as `_MOST_WAITING` commits may wait for that in Redis.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lastword_projector.engine.changes import key_of, told, unpack_changes
from lastword_projector.store import outbox
from lastword_projector.store.calls import together
from lastword_projector.store.pipe import Pipe
from lastword_projector.store.pointer import Pointer
from lastword_projector.store.ports import StoreUnavailable
from lastword_projector.worker.status import WorkerStatus
from lastword_schemas.errors import LastwordError

_log = logging.getLogger(__name__)
_SLICE = 16
"""Items of one partition that are under way at once: the changes of as many commits."""
_ASIDE_EVERY, _ASIDE_S = 40, 0.0001
"""After so many changes the folding thread may go on: else Python lets it wait for 5 ms after each of its calls."""
_LOOK_EVERY_S = 1.0
_FAR_BEHIND = 10_000
"""Records: while the worker is further behind the log, changes wait."""
_MOST_WAITING = 2_000
"""Commits whose changes wait for that: about 70 bytes and the names of each change, some 50 MB in all."""
_STAND_BACK_S = 0.2
_BACK_OFF_S = 1.0
_FLUSH_S = 0.2
_SLOW_S = 5.0
_END_S = 2.0


class ChangesNotRelayed(LastwordError):
    """Changes could not be written to their topic; they wait in the outbox."""

    code = "changes-not-relayed"
    retryable = True


class Relay:
    """A context manager: while it is entered, a thread relays what waits in the outboxes of the worker's partitions.

    At least once: an item leaves the outbox when all of its changes are acknowledged, and only if it still is the one
    that was sent. So a relay that dies sends some again, and one that was paused takes nothing off that it did not
    send. Changes of a partition come to the topic in the order of the log, but for such repetitions.
    """

    def __init__(
        self,
        config: Mapping[str, str | int | bool],
        topic: str,
        log_id: str,
        redis_url: str,
        pointer: Pointer,
        status: WorkerStatus,
    ) -> None:
        self._config = {
            **config,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 0,
            "delivery.report.only.error": True,
            # What is sent stays sent until Kafka takes it: a change that was given up would be told after later ones.
            "message.timeout.ms": 0,
            "topic.metadata.refresh.interval.ms": 5_000,
            "log_level": 2,
        }
        self._topic, self._log_id, self._pointer, self._status = topic, log_id, pointer, status
        self._pipe = Pipe(redis_url)
        self._producer: Producer | None = None
        self._failed: list[KafkaError] = []
        self._woken: set[int] = set()
        self._news = threading.Event()
        self._stop = threading.Event()
        self._end_by = 0.0
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)

    def wake(self, partition: int) -> None:
        """Say that something waits in a partition's outbox. From any thread."""
        self._woken.add(partition)
        self._news.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Relay what waits, for two seconds at most; what is left waits for the next worker."""
        self._end_by = time.monotonic() + _END_S
        self._stop.set()
        self._news.set()
        self._thread.join(_END_S + 1)

    def _run(self) -> None:
        looked_at = 0.0
        while True:
            stopping = self._stop.is_set()
            self._news.clear()
            woken = {self._woken.pop() for _ in range(len(self._woken))}
            try:
                if stopping or time.monotonic() - looked_at > _LOOK_EVERY_S:  # what a dead worker has left, too
                    looked_at = time.monotonic()
                    woken |= self._look()
                if self._stands_back() and not stopping:
                    self._woken |= woken
                    self._stop.wait(_STAND_BACK_S)
                    continue
                self._woken |= self._relay(sorted(woken))
                self._note(None)
            except (StoreUnavailable, ChangesNotRelayed) as error:
                self._woken |= woken
                self._note(error)
                self._stop.wait(_BACK_OFF_S)
            if stopping:
                break
            if not self._woken:
                self._news.wait(_LOOK_EVERY_S)
        self._pipe.reset()

    def _stands_back(self) -> bool:
        """Whether the worker is so far behind that it had better fold alone."""
        status = self._status
        return status.records_behind > _FAR_BEHIND and status.outbox_commits < _MOST_WAITING

    def _look(self) -> set[int]:
        """The worker's partitions where something waits. Raises StoreUnavailable."""
        partitions = sorted(self._status.partitions.copy())
        lengths = self._pipe.run(together([outbox.length(self._pointer.names, number) for number in partitions]))
        self._status.outbox_commits = sum(lengths)
        return {number for number, waiting in zip(partitions, lengths, strict=True) if waiting}

    def _relay(self, partitions: list[int]) -> set[int]:
        """Relay a slice of each partition; those that may have more. Raises StoreUnavailable, ChangesNotRelayed."""
        names = self._pointer.names
        slices = self._pipe.run(together([outbox.waiting(names, number, _SLICE) for number in partitions]))
        sent = {number: items for number, items in zip(partitions, slices, strict=True) if items}
        for number, items in sent.items():
            self._send(number, items)
        self._await_acknowledgements()
        self._pipe.run(together([outbox.relayed(self._pointer.names, number, items) for number, items in sent.items()]))
        return {number for number, items in sent.items() if len(items) == _SLICE}

    def _send(self, partition: int, items: Iterable[bytes]) -> None:
        producer = self._producer = self._producer or Producer(self._config, logger=_log)
        for item in items:
            for number, changed in enumerate(unpack_changes(item)):
                if number % _ASIDE_EVERY == 0:
                    time.sleep(_ASIDE_S)
                key = key_of(changed.owner, changed.scope, changed.key)
                self._produce(producer, partition, key, told(self._log_id, changed))

    def _produce(self, producer: Producer, partition: int, key: str, value: bytes) -> None:
        while True:
            try:
                producer.produce(self._topic, value, key, partition, on_delivery=self._delivered)
            except BufferError:  # the client's queue is full
                self._await_acknowledgements()
            except KafkaException as error:
                raise self._given_up(error.args[0]) from error
            else:
                return

    def _await_acknowledgements(self) -> None:
        """Wait until the topic has all that was sent; as long as it takes, but for the end of the worker."""
        slow_at = time.monotonic() + _SLOW_S
        while self._producer is not None and self._producer.flush(_FLUSH_S) and not self._failed:
            if time.monotonic() > slow_at:
                self._note(ChangesNotRelayed(f"topic {self._topic}: Kafka does not acknowledge; it is waited for"))
                slow_at = time.monotonic() + _LOOK_EVERY_S
                with contextlib.suppress(StoreUnavailable):
                    self._look()
            if self._stop.is_set() and time.monotonic() > self._end_by:
                raise ChangesNotRelayed(f"topic {self._topic}: not acknowledged when the worker ended")
        if self._failed:
            raise self._given_up(self._failed[0])

    def _delivered(self, error: KafkaError | None, _: "Message[Any, Any]") -> None:
        if error is not None:
            self._failed.append(error)

    def _given_up(self, error: KafkaError) -> ChangesNotRelayed:
        """All that is under way is sent again, by another client: nothing is to overtake what failed."""
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(0)
        self._producer, self._failed = None, []
        return ChangesNotRelayed(
            f"topic {self._topic}: {error.str()}. If it does not exist, `lastword topics create` makes it"
        )

    def _note(self, problem: LastwordError | None) -> None:
        before, self._status.changes_wait = self._status.changes_wait, None if problem is None else problem.message
        if problem is not None and before is None:
            _log.warning("changes wait in the outbox: %s", problem, extra={"code": problem.code})
        elif problem is None and before is not None:
            _log.info("changes are relayed again")
