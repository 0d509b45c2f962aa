"""The projector on a log in memory, without a thread: it projects when it is told to."""

import contextlib
from collections.abc import Sequence

from lastword.testing.clock import Clock
from lastword.testing.log import MemoryLog, is_control
from lastword_projector.engine.decode import LogRecord
from lastword_projector.engine.projection import DeadLetter, PartitionWaits
from lastword_projector.projector import PartitionProjector
from lastword_projector.store.ports import Store, StoreUnavailable
from lastword_schemas.control import Genesis


class MemoryDeadLetters:
    """Keeps what could not be given to any owner."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []

    def send(self, genesis: Genesis, letters: Sequence[DeadLetter]) -> None:
        """Acknowledged at once."""
        self.letters += letters


class MemoryWorker:
    """Folds the log into the store with the real projector, as far as it is told to."""

    def __init__(self, log: MemoryLog, store: Store, clock: Clock) -> None:
        self._log, self._store, self._clock = log, store, clock
        self.dead_letters = MemoryDeadLetters()
        self._projectors: list[PartitionProjector] = []
        self._next = 0
        """Place of the next record in the log's order."""

    def project(self, most: int | None = None) -> int:
        """Project all that is in the log, or at most so many events in the order of the log; how many events it were.

        A store that does not answer ends it: what is missing is projected the next time.
        """
        with self._log.lock:
            order = self._log.order
            upto, events = self._next, 0
            while upto < len(order) and (most is None or events < most):
                events += not is_control(order[upto][1])
                upto += 1
            try:
                self._project(order[self._next : upto])
            except StoreUnavailable:
                self._projectors = []  # opened again at the stored checkpoints
                return 0
            self._next = upto
            return events

    def _project(self, records: Sequence[tuple[int, LogRecord]]) -> None:
        if not self._projectors:
            self._projectors = [
                PartitionProjector(genesis, self._store, self.dead_letters, now_ms=self._clock.ms)
                for genesis in self._log.identity.genesis
            ]
        runs: dict[int, list[LogRecord]] = {}
        for partition, record in records:
            runs.setdefault(partition, []).append(record)
        for partition, run in runs.items():
            projector = self._projectors[partition]
            if projector.waits is None:
                with contextlib.suppress(PartitionWaits):  # the projector keeps it: the partition goes no further
                    projector.project(run)
