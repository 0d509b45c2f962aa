"""A rebuild beside the projection in force: into a new namespace, audited, and only then put in force.

Reads and workers go on in the old one meanwhile. The new one never comes further than the old one, so that all that is
still to be told is told once by whoever comes there. A migration is the same under more upcasters.
"""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from lastword_projector.audit.auditor import Auditor
from lastword_projector.audit.report import Report
from lastword_projector.engine.upcasting import AS_WRITTEN, Upcasters
from lastword_projector.projector import PartitionProjector
from lastword_projector.rebuild import OnProgress, RebuildStopped, Replay
from lastword_projector.store import pointer
from lastword_projector.store.names import Names
from lastword_projector.store.pipe import Pipe
from lastword_projector.store.pointer import Fixed, Pointer
from lastword_projector.store.redis import RedisStore
from lastword_projector.worker.dead_letters import MutedDeadLetters
from lastword_schemas.control import Genesis

_CLOSE: Final = 500
"""Records that the old namespace may be ahead of the new one when that is put in force."""
_ROUNDS: Final = 20
_SAY_S: Final = 5.0
GRACE_S: Final = 10.0
"""Seconds that what was begun in the old namespace has to come to its end."""
_THEN: Final = "Nothing was put in force; the log and the projection in force are as before. This is a bug: report it"


class Replaced(NamedTuple):
    """A namespace that was put in force."""

    records: int
    old: str
    new: str
    report: Report
    """Its audit."""


class Replacement:
    """Replaces the projection in force of a whole log."""

    def __init__(
        self,
        config: Mapping[str, str | int | bool],
        topic: str,
        geneses: Sequence[Genesis],
        redis_url: str,
        namespace: str,
        *,
        on_progress: OnProgress = lambda partition, next_offset: None,
        on_audit: Callable[[Report], object] = lambda report: None,
        grace_s: float = GRACE_S,
    ) -> None:
        """`namespace` is the one that the settings name."""
        self._config, self._topic, self._geneses = config, topic, geneses
        self._url, self._namespace, self._grace_s = redis_url, namespace, grace_s
        self._on_progress, self._on_audit = on_progress, on_audit
        self._pipe, self._token, self._said_at = Pipe(redis_url), uuid.uuid4().hex, 0.0

    def run(self, more: Upcasters = AS_WRITTEN) -> Replaced:
        """Rebuild under the upcasters in force and `more`, audit, put in force, drop the old one.

        Raises GroundingInvariantViolation where the new namespace is not grounded, RebuildStopped, and whatever
        replaying raises. Nothing has changed then but that Redis may have the beginning of a namespace that nobody
        reads, which the next rebuild removes.
        """
        if not self._pipe.run(pointer.begin(self._namespace, self._token)):
            raise RebuildStopped(
                f"namespace '{self._namespace}' is being rebuilt already; one that was broken off is over in a minute"
            )
        try:
            return self._run(more)
        finally:
            self._pipe.reset()
            if self._pipe.run(pointer.go_on(self._namespace, self._token)):
                self._pipe.run(pointer.end(self._namespace))
            self._pipe.reset()

    def _run(self, more: Upcasters) -> Replaced:
        in_force = Pointer(self._namespace)
        old = self._pipe.run(in_force.look())
        for names in self._pipe.run(pointer.left_over(self._namespace)):
            if names != old:
                self._take_back(old, names)
                self._drop(names)
                self._go_on(at_once=True)
        upcasters = in_force.upcasters.and_then(more)
        new = self._pipe.run(pointer.candidate(self._namespace, upcasters))
        store = RedisStore(self._url, Fixed(new, upcasters))
        with Replay(self._config, self._topic, self._replayed) as replay:
            projectors = [PartitionProjector(genesis, store, MutedDeadLetters()) for genesis in self._geneses]
            records = self._catch_up(replay, projectors, old)
            report = self._audit(new, upcasters)
            records += self._catch_up(replay, projectors, old)
            ends = [replay.end(genesis.partition) for genesis in self._geneses]
        self._go_on(at_once=True)
        self._put_in_force(old, new, ends)
        time.sleep(self._grace_s)
        self._drop(old)
        return Replaced(records, old.namespace, new.namespace, report)

    def _put_in_force(self, old: Names, new: Names, ends: Sequence[int]) -> None:
        """Where that does not come to its end, the old one is opened again: by this, or by the next rebuild."""
        try:
            for genesis, end in zip(self._geneses, ends, strict=True):
                self._pipe.run(pointer.hand_over(genesis, old, new, end))
            self._pipe.run(pointer.flip(self._namespace, old, new))
        except BaseException:
            self._pipe.reset()
            if self._pipe.run(Pointer(self._namespace).look()) == old:
                self._take_back(old, new)
            raise

    def _take_back(self, old: Names, left: Names) -> None:
        for genesis in self._geneses:
            self._pipe.run(pointer.take_back(genesis.partition, old, left))

    def _replayed(self, partition: int, next_offset: int) -> None:
        self._go_on()
        self._on_progress(partition, next_offset)

    def _audited(self, report: Report) -> None:
        self._go_on()
        self._on_audit(report)

    def _go_on(self, *, at_once: bool = False) -> None:
        """Now and then: say that this goes on. Raises RebuildStopped where somebody else has begun meanwhile."""
        now = time.monotonic()
        if not at_once and now - self._said_at < _SAY_S:
            return
        self._said_at = now
        if not self._pipe.run(pointer.go_on(self._namespace, self._token)):
            raise RebuildStopped("it stood still for so long that another one may have begun; run it again")

    def _catch_up(self, replay: Replay, projectors: Sequence[PartitionProjector], old: Names) -> int:
        """Fold up to where the old namespace is, until it is not much further; how many records were folded."""
        done = 0
        for _ in range(_ROUNDS):
            count = 0
            for projector in projectors:
                count += replay.project(projector, self._pipe.run(pointer.reached(projector.genesis, old)))
            done += count
            if count <= _CLOSE:
                return done
        raise RebuildStopped("the log grows faster than it can be replayed; run it again when less comes in")

    def _audit(self, new: Names, upcasters: Upcasters) -> Report:
        auditor = Auditor(
            self._config,
            self._topic,
            self._geneses,
            self._url,
            Fixed(new, upcasters),
            on_progress=self._audited,
        )
        report = auditor.audit()
        report.check(_THEN)
        return report

    def _drop(self, names: Names) -> None:
        store = RedisStore(self._url, names)
        for genesis in self._geneses:
            store.clear(genesis.partition)
        self._pipe.run(pointer.forget(self._namespace, names, len(self._geneses)))
