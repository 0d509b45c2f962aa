"""Folds records of one partition into the stores, batch by batch. Knows no Kafka: records are handed in."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from lastword_projector.engine.decode import LogRecord
from lastword_projector.engine.known import Needs, NotLoaded
from lastword_projector.engine.projection import FOLD_VERSION, DeadLetter, PartitionWaits, Projection
from lastword_projector.engine.reading import Read
from lastword_projector.store.ports import (
    Checkpoint,
    Clock,
    CommitRefused,
    Loaded,
    OtherProjection,
    Pending,
    Store,
)
from lastword_schemas.control import Genesis
from lastword_schemas.positions import offset_of, sequence_of

MAX_EVENTS = 200
MAX_BYTES = 262_144
"""Records and bytes of one commit, and what one look-up asks for: more would block Redis for too long."""


class DeadLetters(Protocol):
    """Where records go that cannot be given to an owner."""

    def send(self, genesis: Genesis, letters: Sequence[DeadLetter]) -> None:
        """Return once all of them are acknowledged. Raises if they may not be."""
        ...


class PartitionProjector:
    """The fold of one partition, from the stored checkpoint on.

    Three steps, so that the work of many partitions overlaps with the store's: `take` decodes records and asks for what
    they need, `fold` folds them and sends the commits, `settle` waits for those. `project` is all three at once.
    Dead letters are acknowledged before the checkpoint that passes them is sent; history and state go with it in one
    step. Nothing is skipped if it dies in between: the records are done again and give the same.
    """

    def __init__(
        self,
        genesis: Genesis,
        store: Store,
        dead_letters: DeadLetters,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Begins at the stored checkpoint. Raises OtherProjection where it is of another log or fold version."""
        self.genesis = genesis
        self._store, self._dead_letters, self._now_ms = store, dead_letters, now_ms
        self.recorded_at: int | None = None
        """Append time of the last record folded, ms since 1970; of the first that came while none is; else None."""
        self.reopen()

    def reopen(self) -> None:
        """Drop everything in memory and begin again at the stored checkpoint."""
        partition = self.genesis.partition
        self.waits: PartitionWaits | None = None
        """Set once a record was met that only a newer build can read."""
        self._taken: list[Read] = []
        self._loading: list[Pending[Loaded]] = []
        self._committing: list[Pending[None]] = []
        self._checkpoint = self._store.checkpoint(partition)
        check_projection(self.genesis, self._checkpoint)
        self._place = self._store.place(partition)
        self._projection = Projection(
            partition,
            self.genesis,
            next_offset=offset_of(self._checkpoint.next_sequence) if self._checkpoint else 0,
            registry=self._checkpoint.registry if self._checkpoint else None,
            upcasters=self._place.upcasters,
        )

    @property
    def next_offset(self) -> int:
        """The *next* offset to be handed in."""
        return self._projection.next_offset

    def is_at(self, stored: Checkpoint | None) -> bool:
        """Whether a checkpoint that was just looked up is the one that this stands at, in the same namespace."""
        is_here = self._store.place(self.genesis.partition) == self._place
        return is_here and (offset_of(stored.next_sequence) if stored else 0) == self.next_offset

    @property
    def unsettled(self) -> bool:
        """Whether commits were sent that nobody has waited for yet."""
        return bool(self._committing)

    def project(self, records: Sequence[LogRecord]) -> int:
        """Take, fold and settle records; how many there were. Raises what those raise."""
        taken = self.take(records)
        self.fold()
        self.settle()
        return taken

    def take(self, records: Sequence[LogRecord]) -> int:
        """Decode records, which follow on each other, and ask the store for what they need; how many were taken.

        Records below `next_offset` are passed over. Raises StoreUnavailable.
        """
        projection, partition, next_offset = self._projection, self.genesis.partition, self.next_offset
        projection.forget_events()
        self._taken, self._loading = [], []
        for first in range(0, len(records), MAX_EVENTS):  # the store looks up while what follows is read
            part = records[first : first + MAX_EVENTS]
            reads = [projection.read(record) for record in part if record.offset >= next_offset]
            self._taken += reads
            needs = projection.needs(reads)
            self._loading += [self._store.load(partition, asked) for asked in needs.parts(MAX_EVENTS)]
        return len(self._taken)

    def fold(self) -> None:
        """Fold what was taken and send the commits.

        Raises PartitionWaits after what precedes it was sent and settled; StoreUnavailable or DeadLetterNotWritten
        (reopen, then again from `next_offset`); OtherProjection, WrongGenesis.
        """
        taken, self._taken = self._taken, []
        loading, self._loading = self._loading, []
        for pending in loading:
            loaded = pending.result()
            self._projection.load(loaded.events, loaded.entries)
        apply = self._projection.apply
        events = size = 0
        try:
            for read in taken:
                length = len(read.record.value or b"")
                if events == MAX_EVENTS or (events and size + length > MAX_BYTES):
                    self._commit()
                    events = size = 0
                try:
                    apply(read)
                except NotLoaded as missing:
                    self._apply_with(missing.needs, read)
                events, size = events + 1, size + length
        except PartitionWaits as waits:
            self._commit()
            self.settle()
            self.waits = waits
            raise
        self._commit()
        if taken:
            self.recorded_at = taken[-1].record.recorded_at

    def settle(self) -> None:
        """Wait for the commits that were sent.

        Raises CommitRefused after having reopened (continue from `next_offset`); OtherProjection; StoreUnavailable
        (reopen, then again).
        """
        committing, self._committing = self._committing, []
        try:
            for pending in committing:
                pending.result()
        except CommitRefused:
            self.reopen()
            raise

    def _apply_with(self, needs: Needs, read: Read) -> None:
        """Apply a record that needs more than was asked for: most often a key's history."""
        while True:
            self._load_now(needs)
            try:
                self._projection.apply(read)
            except NotLoaded as missing:
                needs = missing.needs
            else:
                return

    def _load_now(self, needs: Needs) -> None:
        partition = self.genesis.partition
        loaded = self._store.load(partition, needs).result()
        below = sequence_of(self.genesis.generation, self.next_offset)
        histories = {ref: self._store.key_history(partition, ref, below=below) for ref in needs.histories}
        citing = {ref: self._store.citing(partition, ref, below=below) for ref in needs.citing}
        self._projection.load(loaded.events, loaded.entries, histories, citing)

    def _commit(self) -> None:
        genesis, before = self.genesis, self._checkpoint
        changes = self._projection.take_changes()
        sequence = sequence_of(genesis.generation, changes.next_offset)
        if before is not None and before.next_sequence == sequence:
            return
        if changes.dead:
            self._dead_letters.send(genesis, changes.dead)
        pending = self._store.commit(genesis.partition, genesis, before, changes, self._now_ms())
        self._committing.append(pending)
        clock: Clock = before.clock if before else ("broker" if changes.stamped else "publisher")
        self._checkpoint = Checkpoint(sequence, genesis, FOLD_VERSION, self._projection.keys.registry, clock)


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
            "new log into another namespace (LASTWORD_NAMESPACE), or replace this one with `lastword rebuild`"
        )
    if checkpoint.fold_version != FOLD_VERSION:
        raise OtherProjection(
            f"partition {partition}: folded under version {checkpoint.fold_version}, this build folds under "
            f"{FOLD_VERSION}; rebuild into another namespace"
        )
