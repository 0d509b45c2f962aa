"""The audit of a namespace, partition by partition, beside running workers."""

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from lastword_projector.audit.choice import END, SEEDS, OneOwner, Range
from lastword_projector.audit.log_reader import LogReader
from lastword_projector.audit.pace import Pace
from lastword_projector.audit.passing import OnEntry, Pass, Shared
from lastword_projector.audit.recompute import MOST_RECORDS, Recomputed
from lastword_projector.audit.report import Report
from lastword_projector.audit.violations import Violation, What
from lastword_projector.projector import check_projection
from lastword_projector.store import plans
from lastword_projector.store.names import Names
from lastword_projector.store.pipe import Pipe
from lastword_projector.store.pointer import Fixed, Pointer
from lastword_schemas.control import Genesis
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import offset_of, sequence_of


class Sample(NamedTuple):
    """How many of the owners are looked at."""

    owners: int | None = None
    """So many in all, about equally many of each partition."""
    share: float = 1.0
    """Else this share of them."""


EVERYBODY = Sample()


class Auditor:
    """Audits one namespace's projection of a log."""

    def __init__(
        self,
        config: Mapping[str, str | int | bool],
        topic: str,
        geneses: Sequence[Genesis],
        redis_url: str,
        names: Names | Pointer,
        *,
        pace: Pace | None = None,
        seed: int | None = None,
        most_records: int = MOST_RECORDS,
        on_progress: Callable[[Report], object] = lambda report: None,
        on_entry: OnEntry | None = None,
    ) -> None:
        """`pace` counts records of the log, and owners' entries and events. Without a `seed` a sample is any sample."""
        self._config, self._topic, self._geneses = config, topic, geneses
        self._seed = random.randrange(SEEDS) if seed is None else seed
        self._most_records = most_records
        self._pointer = names if isinstance(names, Pointer) else Fixed(names)
        self.report = Report(geneses[0].log_id, self._pointer.namespace, self._seed)
        """As far as the audit has come."""
        pipe = Pipe(redis_url)
        self._shared = Shared(pipe, self._pointer.names, pace or Pace(), self.report, on_progress, on_entry)

    def audit(self, sample: Sample = EVERYBODY, partitions: Iterable[int] | None = None) -> Report:
        """Audit all owners, or some of them, of these partitions, or of all.

        Raises AuditStopped, StoreUnavailable, OtherProjection, PartitionWaits or WrongGenesis where it cannot be done.
        """
        chosen = list(range(len(self._geneses)) if partitions is None else partitions)
        with self._reading() as log:
            for partition, owners in self._shares(chosen, sample.owners):
                self._audit(log, partition, partial(self._in_ranges, log, partition, owners, sample.share))
        return self.report

    def audit_owner(self, owner: str) -> Report:
        """Audit one owner, by canonical name. Raises as `audit` does."""
        partition = partition_for(owner, len(self._geneses))
        with self._reading() as log:
            self._audit(log, partition, partial(self._one_owner, log, partition, owner))
        return self.report

    @contextlib.contextmanager
    def _reading(self) -> Iterator[LogReader]:
        """The connection to Redis, too, is given back afterwards."""
        began = time.monotonic()
        try:
            with LogReader(self._config, self._topic) as log:
                yield log
        finally:
            self._shared.pipe.reset()
            self.report.seconds += time.monotonic() - began

    def _one_owner(self, log: LogReader, partition: int, owner: str) -> None:
        recomputed = Recomputed(self._geneses[partition], OneOwner(owner), self._pointer.upcasters)
        log.begin(partition)
        Pass(self._shared, log, recomputed).run(also=[owner])

    def _shares(self, partitions: list[int], owners: int | None) -> Iterator[tuple[int, int | None]]:
        """How many owners of each partition: all, or, in any order, an equal share of those still to be found."""
        if owners is None:
            yield from ((partition, None) for partition in partitions)
            return
        for place, partition in enumerate(random.Random(self._seed).sample(partitions, len(partitions))):
            if (left := owners - self.report.owners) > 0:
                yield partition, math.ceil(left / (len(partitions) - place))

    def _audit(self, log: LogReader, partition: int, passes: Callable[[], object]) -> None:
        report, names = self.report, self._shared.pipe.run(self._pointer.look())
        shared = self._shared = self._shared._replace(names=names)
        report.namespace = names.namespace
        checkpoint = shared.pipe.run(plans.checkpoint(names, partition))
        check_projection(self._geneses[partition], checkpoint)
        if checkpoint is None:
            report.not_projected.append(partition)
            return
        upcoming = report.checkpoints[partition] = offset_of(checkpoint.next_sequence)
        first, end = log.bounds(partition)
        if first > 0:
            genesis_at = sequence_of(self._geneses[partition].generation, 0)
            detail = f"it begins at offset {first}"
            report.add(Violation(What.LOG_CUT, partition, sequence=genesis_at, detail=detail))
        elif upcoming > end:
            last, detail = checkpoint.last_sequence, f"the log ends before offset {end}"
            report.add(Violation(What.CHECKPOINT_AHEAD, partition, sequence=last, detail=detail))
        else:
            passes()
        report.partitions += 1
        shared.on_progress(report)

    def _in_ranges(self, log: LogReader, partition: int, owners: int | None, share: float) -> None:
        """Pass after pass, until their ranges have covered what is chosen."""
        low, high, done = 0, round(share * END), 0
        while low < high and (owners is None or done < owners):
            chosen = Range(self._seed, low, high)
            recomputed = Recomputed(
                self._geneses[partition],
                chosen,
                self._pointer.upcasters,
                most_records=self._most_records,
                most_owners=None if owners is None else owners - done,
            )
            log.begin(partition)
            done += Pass(self._shared, log, recomputed).run(stored=chosen.wants)
            low = chosen.high
