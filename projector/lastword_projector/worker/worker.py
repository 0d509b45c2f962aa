"""The loop of a projector worker: consume, fold, commit; rebalance, back off, stop."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from confluent_kafka import (
    OFFSET_END,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from lastword_projector.engine.decode import LogRecord
from lastword_projector.engine.projection import PartitionWaits
from lastword_projector.projector import DeadLetters, PartitionProjector
from lastword_projector.store.ports import CommitRefused, Store, StoreUnavailable
from lastword_projector.worker.dead_letters import DeadLetterNotWritten
from lastword_projector.worker.group_protocol import GroupProtocol
from lastword_projector.worker.status import PartitionStatus, WorkerStatus
from lastword_schemas.control import Genesis
from lastword_schemas.errors import LastwordError

_log = logging.getLogger(__name__)

_CHUNK = 4_000
_POLL_S = 0.1
_HINT_EVERY_S = 2.0
_END_EVERY_S = 0.2
_LOOK_EVERY_S = 1.0
_BACK_OFF_S = 1.0
_ASK_S = 5.0
_LEAVE_S = 5.0
_REJOIN_S = 10.0
_CRITICAL = 2
"""librdkafka's log level: what is less than critical is told by the worker itself, once."""
_GONE = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)


class LogLost(LastwordError):
    """The log does not have what the checkpoint says comes next."""

    code = "log-lost"


class Worker:
    """Folds the partitions that its group gives it.

    The checkpoint in the store says where to go on; Kafka's committed offset is only a hint for lag displays.
    The compare-and-set of the commit is the fence: a worker that was paused and woken is refused and reopens.
    """

    def __init__(
        self,
        config: Mapping[str, str | int | bool],
        topic: str,
        group: str,
        geneses: Sequence[Genesis],
        store: Store,
        dead_letters: DeadLetters,
        *,
        protocol: GroupProtocol,
        status: WorkerStatus | None = None,
        relay: AbstractContextManager[object] | None = None,
    ) -> None:
        """`relay` is entered while the worker runs, if there is one."""
        self._topic, self._geneses = topic, {genesis.partition: genesis for genesis in geneses}
        self._store, self._dead_letters = store, dead_letters
        self._relay = relay or contextlib.nullcontext()
        self._projectors: dict[int, PartitionProjector] = {}
        self._broken: set[int] = set()
        self._sought: dict[int, int] = {}
        self._hint_at = self._end_at = 0.0
        self._looked_at = 0.0
        self._looked: dict[int, int] = {}
        self.status = status or WorkerStatus()
        self.status.group_protocol = protocol
        self._trouble = ""
        self._idle_since: float | None = None
        self._config: dict[str, Any] = {**config, "log_level": _CRITICAL}
        self._settings: dict[str, Any] = {
            **consumer_config(config, group, protocol),
            "error_cb": self._client_error,
            "log_level": _CRITICAL,
        }
        self._consumer = Consumer(self._settings, logger=_log)

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set, then leave the group.

        Raises OtherProjection or LogLost where log and checkpoint disagree: nothing was changed, the message says how
        to mend it.
        """
        try:
            with self._relay:
                self._join()
                while not stop.is_set():
                    self._turn(stop)
                for partition in self._unsettled():
                    self._guarded(partition, self._projectors[partition].settle)
        finally:
            self._leave()

    def _join(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def _join_again(self) -> None:
        """A client that its group took for dead joins again by itself; sometimes it never does (librdkafka 2.16)."""
        _log.warning("the group took all partitions away and gave none for %.0f s: joining it anew", _REJOIN_S)
        self._leave()
        self._idle_since = None
        self._consumer = Consumer(self._settings, logger=_log)
        self._join()

    def _leave(self) -> None:
        """Say how far we are and leave the group; a broker that hangs is not waited for longer than `_LEAVE_S`.

        It is a matter of courtesy: the checkpoint is in the store, and the group notices by itself who is gone.
        """

        def leave() -> None:
            if self.status.unreachable is None:
                self._hint(force=True)
            self._consumer.close()

        leaving = threading.Thread(target=leave, name="leaving", daemon=True)
        leaving.start()
        leaving.join(_LEAVE_S)
        if leaving.is_alive():
            _log.warning("Kafka does not answer: ended without leaving the group")

    def _turn(self, stop: threading.Event) -> None:
        """Take what has come while Redis works on the commits sent before; then settle those, fold, send the next."""
        first = self._consumer.poll(0 if self._unsettled() else _POLL_S)
        taken = self._take([first, *self._consumer.consume(_CHUNK - 1, 0)]) if first is not None else []
        for partition in self._unsettled():
            self._guarded(partition, self._projectors[partition].settle)
        for partition, records in taken:
            self._fold(partition, records)
        self._look()
        if self._broken:
            self._mend(stop)
        if self._idle_since is not None and time.monotonic() - self._idle_since > _REJOIN_S:
            self._join_again()
        self._note_ends()
        self._hint()

    def _unsettled(self) -> list[int]:
        return [partition for partition, projector in self._projectors.items() if projector.unsettled]

    def _take(self, messages: Sequence[Message]) -> list[tuple[int, list[LogRecord]]]:
        """Hand messages to their partitions' projectors; what each got."""
        chunks: dict[int, list[LogRecord]] = {}
        for message in messages:
            if (error := message.error()) is not None:
                self._consumer_error(message, error)
            elif (partition := message.partition()) in self._projectors and partition is not None:
                chunks.setdefault(partition, []).append(log_record(message))
        taken = []
        for partition, records in chunks.items():
            projector = self._projectors[partition]
            if partition in self._broken or projector.waits is not None:
                continue
            run = self._contiguous(partition, records)
            if projector.recorded_at is None and run:
                projector.recorded_at = run[0].recorded_at  # so that a worker held up at once says how far behind
            if self._guarded(partition, partial(projector.take, run)):
                taken.append((partition, records))
        return taken

    def _fold(self, partition: int, records: list[LogRecord]) -> None:
        projector = self._projectors[partition]
        if partition not in self._broken and self._guarded(partition, projector.fold):
            if records[-1].offset >= projector.next_offset:
                self._seek(partition)
            self._note(partition)

    def _guarded(self, partition: int, step: Callable[[], object]) -> bool:
        """Do one step of a partition's projector; whether it went well. Else what follows is arranged for."""
        try:
            step()
        except PartitionWaits as waits:
            _log.error("%s", waits, extra={"code": waits.code, "partition": partition, "offset": waits.offset})
            self._consumer.pause([TopicPartition(self._topic, partition)])
            self._note(partition)
        except CommitRefused as refused:
            _log.warning("%s", refused, extra={"code": refused.code, "partition": partition})
            self._seek(partition)
            self._note(partition)
        except (StoreUnavailable, DeadLetterNotWritten) as error:
            self._break(partition, error)  # what was folded in memory is not in the store: nothing to tell of
        else:
            return True
        return False

    def _look(self) -> None:
        """Now and then: do the stores still have what was folded into them?

        A batch that is committed says so by itself. Where nothing comes, nobody else would notice that Redis is gone,
        was emptied or was set back; and an emptied one lets nothing in, for the door does not know the declared keys.
        """
        now = time.monotonic()
        if now - self._looked_at < _LOOK_EVERY_S:
            return
        self._looked_at = now
        if self.status.unreachable is not None:
            self._ask_kafka()
        for partition, projector in self._projectors.items():
            if partition in self._broken or self._looked.get(partition) != projector.next_offset:
                self._looked[partition] = projector.next_offset
                continue
            try:
                stored = self._store.checkpoint(partition)
                if not projector.is_at(stored):
                    told = "partition %d: the stored checkpoint is another one; going on from there"
                    _log.warning(told, partition, extra={"partition": partition})
                    projector.reopen()
                    self._seek(partition)
                    self._consumer.resume([TopicPartition(self._topic, partition)])
                    self._note(partition)
            except StoreUnavailable as error:
                self._break(partition, error)
                return

    def _client_error(self, error: KafkaError) -> None:
        """The client goes on trying by itself; that no broker answers is told once, not with each of its attempts."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._trouble = error.str()
        elif self.status.unreachable is None:
            self.status.unreachable = f"Kafka does not answer: {self._trouble or error.str()}; it is tried again"
            _log.warning("waiting: %s", self.status.unreachable)

    def _ask_kafka(self) -> None:
        with contextlib.suppress(KafkaException):
            self._consumer.list_topics(self._topic, timeout=_BACK_OFF_S / 2)
            self.status.unreachable = None
            _log.info("Kafka answers again")

    def _break(self, partition: int, error: LastwordError) -> None:
        self._broken.add(partition)
        self.status.problem = self.status.problem or error.message  # those that follow are consequences

    def _contiguous(self, partition: int, records: list[LogRecord]) -> list[LogRecord]:
        """The records that follow on the projection without a gap.

        A gap may be in the log (the marks of somebody's transactions take offsets) or in the delivery. It is taken for
        the log's own only if it is still there after seeking to its beginning; nothing is passed over otherwise.
        """
        upcoming = self._projectors[partition].next_offset
        run: list[LogRecord] = []
        for record in records:
            if record.offset > upcoming and self._sought.get(partition) != upcoming:
                break
            if record.offset >= upcoming:
                run.append(record)
                upcoming = record.offset + 1
        return run

    def _consumer_error(self, message: Message, error: KafkaError) -> None:
        if error.code() in _GONE:
            partition = message.partition()
            projector = None if partition is None else self._projectors.get(partition)
            wanted = "?" if projector is None else projector.next_offset
            raise LogLost(
                f"partition {partition} of {self._topic} does not have offset {wanted}, which the checkpoint says "
                f"comes next ({error.str()}). Was the topic cut or recreated? Restore the log, or project the log "
                "that is there into another namespace (LASTWORD_NAMESPACE), or replace this one with `lastword rebuild`"
            )
        if error.fatal():
            raise KafkaException(error)
        _log.warning("consumer: %s", error.str())

    def _mend(self, stop: threading.Event) -> None:
        """Wait until the stores answer, staying in the group; then go on from the stored checkpoints."""
        assigned = self._projectors.keys() | self._broken
        self._consumer.pause([TopicPartition(self._topic, partition) for partition in assigned])
        _log.warning("waiting: %s", self.status.problem)
        while self._broken:
            self._consumer.poll(_BACK_OFF_S)
            if stop.is_set():
                return
            try:
                for partition in sorted(self._broken):
                    self._open(partition)
                    self._broken.discard(partition)
            except StoreUnavailable as error:
                self.status.problem = error.message
        self.status.problem = None
        _log.info("going on")
        for partition in self._projectors:
            self._seek(partition)
        self._consumer.resume(
            [
                TopicPartition(self._topic, partition)
                for partition, projector in self._projectors.items()
                if projector.waits is None
            ]
        )

    def _seek(self, partition: int) -> None:
        offset = self._sought[partition] = self._projectors[partition].next_offset
        self._consumer.seek(TopicPartition(self._topic, partition, offset))

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._check_topic()
        self._idle_since = None
        for assigned in partitions:
            partition = assigned.partition
            try:
                assigned.offset = self._open(partition).next_offset
            except StoreUnavailable as error:
                assigned.offset = OFFSET_END  # nothing is to come before `_mend` has found the place
                self._break(partition, error)
        consumer.incremental_assign(partitions)
        _log.info("assigned: %s", {assigned.partition: assigned.offset for assigned in partitions})

    def _check_topic(self) -> None:
        """A topic that was deleted and made anew takes its partitions away and gives others of the same numbers.

        Raises LogLost if the live topic is not the one that the genesis records name.
        """
        known = next(iter(self._geneses.values())).topic_id
        try:
            admin = AdminClient(self._config, logger=_log)
            live = str(admin.describe_topics(TopicCollection([self._topic]))[self._topic].result(_ASK_S).topic_id)
        except (KafkaException, TimeoutError) as error:
            _log.warning("whether %s is still the topic with id %s is not known: %s", self._topic, known, error)
            return
        if live != known:
            raise LogLost(
                f"topic {self._topic} now has the id {live}, this worker's log is the topic with id {known}: it was "
                "deleted and made anew. Restore the log, or start the worker again in another namespace "
                "(LASTWORD_NAMESPACE), or replace this one with `lastword rebuild`"
            )

    def _open(self, partition: int) -> PartitionProjector:
        """The partition's projector at the stored checkpoint. Raises StoreUnavailable."""
        projector = self._projectors.get(partition)
        if projector is None:
            projector = PartitionProjector(self._geneses[partition], self._store, self._dead_letters)
            self._projectors[partition] = projector
        else:
            projector.reopen()
        self._note(partition)
        return projector

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """What was sent stays sent; whoever gets the partition begins at the checkpoint that it finds."""
        for revoked in partitions:
            self._projectors.pop(revoked.partition, None)
            self.status.partitions.pop(revoked.partition, None)
            self._broken.discard(revoked.partition)
            self._sought.pop(revoked.partition, None)
            self._looked.pop(revoked.partition, None)
        if not self._projectors:
            self._idle_since = time.monotonic()
        _log.info("revoked: %s", sorted(revoked.partition for revoked in partitions))

    def _note(self, partition: int) -> None:
        projector = self._projectors[partition]
        status = self.status.partitions.setdefault(partition, PartitionStatus(projector.next_offset))
        status.next_offset, status.recorded_at = projector.next_offset, projector.recorded_at
        status.waits = projector.waits.message if projector.waits else None

    def _note_ends(self) -> None:
        """Look how far the log is, as of the last fetch; now and then."""
        now = time.monotonic()
        if now - self._end_at < _END_EVERY_S:
            return
        self._end_at = now
        for partition, status in self.status.partitions.items():
            _, high = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), cached=True)
            status.log_end = max(high, status.next_offset) if high >= 0 else None

    def _hint(self, *, force: bool = False) -> None:
        """Tell Kafka how far we are; now and then."""
        now = time.monotonic()
        if not force and now - self._hint_at < _HINT_EVERY_S:
            return
        self._hint_at = now
        offsets = [
            TopicPartition(self._topic, partition, status.next_offset)
            for partition, status in self.status.partitions.items()
        ]
        if offsets:
            try:
                if force:
                    self._consumer.commit(offsets=offsets, asynchronous=False)
                else:
                    self._consumer.commit(offsets=offsets)
            except KafkaException as error:
                _log.debug("the offset hint was not taken: %s", error)


def consumer_config(
    config: Mapping[str, str | int | bool], group: str, protocol: GroupProtocol
) -> dict[str, str | int | bool]:
    """The settings of a worker's consumer."""
    chosen: dict[str, str | int | bool] = {
        **config,
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": False,
        # That nobody leads a partition, told by a broker on its way down, may be believed until the next question.
        "topic.metadata.refresh.interval.ms": 5_000,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 100,
        "max.partition.fetch.bytes": 8_388_608,
        "queued.max.messages.kbytes": 65_536,
    }
    if protocol == "classic":
        # The embedded broker joins a group after half a session timeout, and sees new records half a fetch wait late.
        chosen |= {
            "session.timeout.ms": 6_000,
            "partition.assignment.strategy": "cooperative-sticky",
            "fetch.wait.max.ms": 10,
        }
    return chosen


def log_record(message: "Message[bytes, bytes]") -> LogRecord:
    """The record of a consumed message."""
    offset = message.offset()
    kind, recorded_at = message.timestamp()
    return LogRecord(
        -1 if offset is None else offset,
        recorded_at,
        message.key(),
        message.value(),
        stamped=kind == TIMESTAMP_LOG_APPEND_TIME,
    )
