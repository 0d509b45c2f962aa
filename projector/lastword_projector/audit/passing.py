"""One pass over a partition: its log is folded up to the checkpoint of what Redis answered, then the two are compared.

An owner's entries and the partition's checkpoint are read in one script call. The fold stands at or below that
checkpoint and is taken on to exactly there before they are compared: so what a worker writes meanwhile is never taken
for a violation, and no violation for what a worker may be writing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from lastword_projector.audit.compare import EventIds, compare_entries, compare_history, compare_key_index
from lastword_projector.audit.log_reader import AuditStopped, LogReader
from lastword_projector.audit.pace import Pace
from lastword_projector.audit.recompute import Recomputed
from lastword_projector.audit.report import Report
from lastword_projector.audit.violations import Violation, What
from lastword_projector.engine.records import LEDGER, Entry
from lastword_projector.store import auditing, plans
from lastword_projector.store.auditing import OwnerRead
from lastword_projector.store.calls import together
from lastword_projector.store.names import EVENT_BUCKETS, Names
from lastword_projector.store.pipe import Pipe, Reply
from lastword_projector.store.ports import Checkpoint
from lastword_schemas.positions import offset_of, sequence_of

_OWNERS: Final = 32
"""Owners that are read in one round trip."""
_RUNS: Final = 64
_BUCKETS: Final = 128
"""Runs and buckets of event ids that are."""
_GREATEST: Final = b"\xff" * 17
"""Above every event id."""

OnEntry = Callable[[str, str, str, Entry], object]
"""Told of each entry that the log makes: owner, scope, key, entry."""


class Shared(NamedTuple):
    """What all passes of an audit have in common."""

    pipe: Pipe
    names: Names
    pace: Pace
    report: Report
    on_progress: Callable[[Report], object]
    on_entry: OnEntry | None


class Pass:
    """Compares the owners that are chosen, of one partition."""

    def __init__(self, shared: Shared, log: LogReader, recomputed: Recomputed) -> None:
        self._pipe, self._names, self._pace, self._report, self._on_progress, self._on_entry = shared
        self._log, self._recomputed = log, recomputed
        self._genesis, self._partition = recomputed.genesis, recomputed.genesis.partition

    def run(self, *, also: Sequence[str] = (), stored: Callable[[str], bool] | None = None) -> int:
        """Compare; how many owners there were.

        Besides those of whom the log has events: `also` these, and those whom Redis knows and `stored` is true of.
        Raises AuditStopped, StoreUnavailable, PartitionWaits, WrongGenesis.
        """
        self._advance_to(checkpoint := self._checkpoint())
        self._recomputed.settle()
        self._compare_partition(checkpoint)
        self._compare_event_ids()
        owners = dict.fromkeys([*self._recomputed.owners, *also])
        if stored is not None:
            owners |= dict.fromkeys(filter(stored, self._stored_owners()))
        names = list(owners)
        large = self._compare_owners(names)
        for owner in large:  # at last, for they are read of later checkpoints than owners that are read ahead
            self._compare_large(owner)
        return len(names)

    def _checkpoint(self) -> Checkpoint:
        checkpoint = self._pipe.run(plans.checkpoint(self._names, self._partition))
        if checkpoint is None:
            raise self._set_back()
        return checkpoint

    def _advance_to(self, checkpoint: Checkpoint) -> None:
        """Fold the log up to a checkpoint, which is not below where the fold stands."""
        end = offset_of(checkpoint.next_sequence)
        if checkpoint.genesis != self._genesis or end < self._recomputed.next_offset:
            raise self._set_back()
        for records in self._log.up_to(end):
            self._recomputed.take(records)
            self._report.records += len(records)
            self._on_progress(self._report)
            self._pace.spend(len(records))
        self._recomputed.next_offset = end

    def _stored_owners(self) -> Iterator[str]:
        cursor = 0
        while True:
            cursor, found = self._pipe.run(auditing.owners(self._names, self._partition, cursor))
            yield from found
            if cursor == 0:
                return

    def _compare_partition(self, checkpoint: Checkpoint) -> None:
        """What is of no owner."""
        recomputed, partition, at = self._recomputed, self._partition, checkpoint.last_sequence
        if checkpoint.registry != recomputed.registry:
            self._report.add(Violation(What.REGISTRY_DIFFERS, partition, sequence=at))
        clock = "broker" if recomputed.stamped else "publisher"
        if checkpoint.clock != clock:
            detail = f"the log has the {clock}'s"
            self._report.add(Violation(What.CLOCK_DIFFERS, partition, sequence=at, detail=detail))
        stubs = set(self._pipe.run(auditing.dead(self._names, partition)))
        for offset in recomputed.dead:
            if (sequence := sequence_of(self._genesis.generation, offset)) not in stubs:
                self._report.add(Violation(What.DEAD_LETTER_MISSING, partition, sequence=sequence))
        if (greatest := recomputed.greatest_id) is not None:
            event_id, owner, sequence = greatest
            if self._pipe.run(plans.event_ids(self._names, partition)).is_new(event_id):
                found = Violation(What.EVENT_IDS_BEHIND, partition, owner, sequence=sequence, event_id=event_id)
                self._report.add(found)

    def _compare_owners(self, owners: Sequence[str]) -> list[str]:
        """Compare owner by owner, and read the next ones meanwhile; those who have too many entries for one call."""
        large: list[str] = []
        before: tuple[Sequence[str], Reply[list[OwnerRead | None]]] | None = None
        for first in range(0, len(owners), _OWNERS):
            some = owners[first : first + _OWNERS]
            asked = [auditing.owner(self._names, self._partition, owner) for owner in some]
            sent = self._pipe.send(together(asked))
            if before is not None:
                large += self._compare_read(before[0], before[1].result())
            before = (some, sent)
        if before is not None:
            large += self._compare_read(before[0], before[1].result())
        return large

    def _compare_read(self, owners: Sequence[str], reads: Sequence[OwnerRead | None]) -> list[str]:
        large = []
        found = [(owner, read) for owner, read in zip(owners, reads, strict=True) if read is not None]
        if len(found) < len(owners):
            raise self._set_back()
        for owner, read in found:  # each answer is of no earlier checkpoint than the one before
            self._advance_to(read.checkpoint)
            if read.entries is None:
                large.append(owner)
            else:
                self._compare_entries(owner, self._recomputed.of(owner).entries, read.entries)
            self._compare_history(owner, read)
        self._report.owners += len(owners)
        self._pace.spend(sum(len(read.items) + len(read.entries or ()) for _, read in found))
        self._on_progress(self._report)
        return large

    def _compare_large(self, owner: str) -> None:
        expected = self._recomputed.of(owner).entries
        for part in self._pipe.run(auditing.large_profile(self._names, self._partition, owner, list(expected))):
            self._advance_to(part.checkpoint)
            of_part = {at: expected[at] for at in part.entries if at in expected}
            self._compare_entries(owner, of_part, part.entries)
            self._pace.spend(len(part.entries))

    def _compare_entries(
        self, owner: str, expected: Mapping[tuple[str, str], Entry], stored: Mapping[tuple[str, str], bytes | None]
    ) -> None:
        self._tell(compare_entries(self._partition, owner, expected, stored))
        self._report.entries += len(expected)
        if self._on_entry is not None:
            for (scope, key), entry in expected.items():
                if (scope, key) != LEDGER:
                    self._on_entry(owner, scope, key, entry)

    def _compare_history(self, owner: str, read: OwnerRead) -> None:
        expected, below = self._recomputed.of(owner), read.checkpoint.next_sequence
        violations = self._tell(compare_history(self._partition, owner, expected, read.items, below))
        self._report.events += len(read.items)
        if not violations and len(read.items) >= plans.SLICE:  # else nobody looks into the indexes
            self._compare_key_indexes(owner, read)

    def _compare_event_ids(self) -> None:
        """The index is read as a whole, which is less than the log was; what was added meanwhile is not looked at."""
        run, names, partition = self._pipe.run, self._names, self._partition
        left = EventIds(partition, self._recomputed.owners)
        firsts = run(auditing.run_firsts(names, partition))
        for at in range(0, len(firsts), _RUNS):
            end = firsts[at + _RUNS] if at + _RUNS < len(firsts) else _GREATEST
            for indexed in run(auditing.in_runs(names, partition, firsts[at : at + _RUNS], end)):
                self._tell(left.compare(indexed))
        for at in range(0, EVENT_BUCKETS, _BUCKETS):
            for indexed in run(auditing.in_buckets(names, partition, range(at, at + _BUCKETS))):
                self._tell(left.compare(indexed))
        self._tell(left.missing())

    def _compare_key_indexes(self, owner: str, read: OwnerRead) -> None:
        sequences = [sequence for sequence, _ in read.items]
        folded = sequences[-1] < sequence_of(self._genesis.generation, self._recomputed.next_offset)
        events = list(self._recomputed.of(owner).places_of_keys(sequences).items())
        for first in range(0, len(events), _OWNERS):
            some = events[first : first + _OWNERS]
            asked = [auditing.key_index(self._names, self._partition, owner, at, list(found)) for at, found in some]
            for (at, found), index in zip(some, self._pipe.run(together(asked)), strict=True):
                more = not folded or index.length > len(sequences)
                self._tell(compare_key_index(self._partition, owner, at, found, index, may_have_more=more))

    def _tell(self, violations: Iterator[Violation]) -> int:
        """Report violations; how many there were."""
        count = 0
        for violation in violations:
            self._report.add(violation)
            count += 1
        return count

    def _set_back(self) -> AuditStopped:
        return AuditStopped(
            f"partition {self._partition}: the checkpoint went back or was emptied while it was audited; once that is "
            "over, run the audit again"
        )
