"""Folds records of one partition into the stores, batch by batch. Knows no Kafka: records are handed in."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from lastword_projector.engine.decode import LogRecord, decode
from lastword_projector.engine.projection import (
    FOLD_VERSION,
    DeadLetter,
    EventRef,
    Needs,
    NotLoaded,
    PartitionWaits,
    Projection,
)
from lastword_projector.engine.records import Record
from lastword_projector.store.ports import Checkpoint, CommitRefused, HistoryStore, OtherProjection, ProfileStore
from lastword_schemas.control import Genesis
from lastword_schemas.positions import offset_of, sequence_of

MAX_EVENTS = 200
MAX_BYTES = 262_144
"""Records and bytes of one commit: more would block Redis for too long."""
MAX_CACHED_ENTRIES = 50_000


class DeadLetters(Protocol):
    """Where records go that cannot be given to an owner."""

    def send(self, genesis: Genesis, letters: Sequence[DeadLetter]) -> None:
        """Return once all of them are acknowledged. Raises if they may not be."""
        ...


class PartitionProjector:
    """The fold of one partition, from the stored checkpoint on.

    Order of a batch: dead letters acknowledged, history written, then profile, event ids and checkpoint in one step.
    Nothing is skipped if it dies in between; the batch is done again and gives the same.
    """

    def __init__(
        self,
        genesis: Genesis,
        profile: ProfileStore,
        history: HistoryStore,
        dead_letters: DeadLetters,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Begins at the stored checkpoint. Raises OtherProjection where it is of another log or fold version."""
        self.genesis = genesis
        self._profile, self._history, self._dead_letters, self._now_ms = profile, history, dead_letters, now_ms
        self.recorded_at: int | None = None
        """Append time of the last record folded, ms since 1970; of the first that came while none is; else None."""
        self.reopen()

    def reopen(self) -> None:
        """Drop everything in memory and begin again at the stored checkpoint."""
        partition = self.genesis.partition
        self.waits: PartitionWaits | None = None
        """Set once a record was met that only a newer build can read."""
        self._checkpoint = self._profile.checkpoint(partition)
        check_projection(self.genesis, self._checkpoint)
        self._projection = Projection(
            partition,
            self.genesis,
            next_offset=offset_of(self._checkpoint.next_sequence) if self._checkpoint else 0,
            registry=self._checkpoint.registry if self._checkpoint else None,
        )

    @property
    def next_offset(self) -> int:
        """The *next* offset to be handed in."""
        return self._projection.next_offset

    def project(self, records: Sequence[LogRecord]) -> int:
        """Fold and commit records, which follow on each other; how many there were.

        Records below `next_offset` are passed over. Raises CommitRefused after having reopened (continue from
        `next_offset`), PartitionWaits after what precedes was committed, StoreUnavailable (reopen, then again).
        """
        done = 0
        for batch in batches(record for record in records if record.offset >= self.next_offset):
            self._fold(batch)
            done += len(batch)
        return done

    def _fold(self, batch: Sequence[LogRecord]) -> None:
        decoded = [decode(record) for record in batch]
        projection = self._projection
        self._load(projection.needs(decoded))
        try:
            for record, item in zip(batch, decoded, strict=True):
                while True:
                    try:
                        projection.apply(record, item)
                        break
                    except NotLoaded as missing:
                        self._load(missing.needs)
                self.recorded_at = record.recorded_at
        except PartitionWaits as waits:
            self._commit()
            self.waits = waits
            raise
        self._commit()

    def _load(self, needs: Needs) -> None:
        partition = self.genesis.partition
        sequences = self._profile.event_sequences(partition, needs.events)
        events: dict[EventRef, Record | None] = {}
        for ref, sequence in sequences.items():
            record = None if sequence is None else self._history.find(partition, ref.owner, sequence)
            if sequence is not None and record is None:
                raise OtherProjection(
                    f"partition {partition}: the history has lost the event at sequence {sequence}; rebuild it"
                )
            events[ref] = record
        below = sequence_of(self.genesis.generation, self.next_offset)
        self._projection.load(
            events=events,
            entries=dict(self._profile.entries(partition, needs.entries)),
            histories={ref: self._history.of_key(partition, ref, below=below) for ref in needs.histories},
        )

    def _commit(self) -> None:
        changes, genesis = self._projection.changes, self.genesis
        sequence = sequence_of(genesis.generation, changes.next_offset)
        if self._checkpoint is not None and self._checkpoint.next_sequence == sequence:
            return
        self._check_still_mine()
        if changes.dead:
            self._dead_letters.send(genesis, changes.dead)
        self._history.append(genesis.partition, changes.records, changes.dead)
        try:
            self._profile.commit(genesis.partition, genesis, self._checkpoint, changes, self._now_ms())
        except CommitRefused:
            self.reopen()
            raise
        registry = self._projection.keys.registry
        clock = self._checkpoint.clock if self._checkpoint else ("broker" if changes.stamped else "publisher")
        self._checkpoint = Checkpoint(sequence, genesis, FOLD_VERSION, registry, clock)
        self._projection.committed()
        if self._projection.cached_entries > MAX_CACHED_ENTRIES:
            self._projection.forget_entries()

    def _check_still_mine(self) -> None:
        """Before the history is written, which nothing takes back: was all of this folded from the stored state?

        If the checkpoint is still the one we began with, everything loaded since is of that state. If not, another
        worker was here, or Redis was set back: what we have in memory is stale, or would leave a gap in the history.
        """
        stored = self._profile.checkpoint(self.genesis.partition)
        if (stored and stored.next_sequence) != (self._checkpoint and self._checkpoint.next_sequence):
            self.reopen()
            raise CommitRefused(self.genesis.partition, "the stored checkpoint is not the one folded from")


def check_projection(genesis: Genesis, checkpoint: Checkpoint | None) -> None:
    """Raise OtherProjection unless the checkpoint is of this log and this fold version."""
    if checkpoint is None:
        return
    stored, partition = checkpoint.genesis, genesis.partition
    if stored != genesis:
        raise OtherProjection(
            f"partition {partition}: the checkpoint is of log {stored.log_id} (topic id {stored.topic_id}, generation "
            f"{stored.generation}), the live log is {genesis.log_id} (topic id {genesis.topic_id}, generation "
            f"{genesis.generation}). Was the topic recreated? Point LASTWORD_KAFKA at the right cluster, project the "
            "new log into another namespace (LASTWORD_NAMESPACE), or empty this one with `lastword rebuild`"
        )
    if checkpoint.fold_version != FOLD_VERSION:
        raise OtherProjection(
            f"partition {partition}: folded under version {checkpoint.fold_version}, this build folds under "
            f"{FOLD_VERSION}; rebuild into another namespace"
        )


def batches(records: Iterable[LogRecord]) -> Iterator[list[LogRecord]]:
    """Runs of at most `MAX_EVENTS` records and about `MAX_BYTES` bytes."""
    batch: list[LogRecord] = []
    size = 0
    for record in records:
        length = len(record.value or b"")
        if batch and (len(batch) == MAX_EVENTS or size + length > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += length
    if batch:
        yield batch
