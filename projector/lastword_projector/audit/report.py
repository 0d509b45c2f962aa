"""What an audit looked at, and what it found."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from lastword_projector.audit.violations import GroundingInvariantViolation, Violation, What

MOST_NAMED: Final = 1_000
"""Violations that a report names; all are counted."""
_THEN: Final = "docs/operations.md says what to do: the log is right, and `lastword rebuild` projects it anew"


@dataclass(slots=True)
class Report:
    """The figures of an audit, kept up to date while it runs."""

    log_id: str
    namespace: str
    seed: int
    """Chose the owners of a sample; the same seed chooses the same ones."""
    partitions: int = 0
    """Partitions that are done."""
    not_projected: list[int] = field(default_factory=list)
    """Partitions without a checkpoint: there is nothing to compare."""
    records: int = 0
    """Records of the log that were read."""
    owners: int = 0
    """Owners whose state was compared."""
    entries: int = 0
    events: int = 0
    """Entries and items of histories that were compared."""
    checkpoints: dict[int, int] = field(default_factory=dict)
    """By partition: the *next* offset at which the audit of it began."""
    counts: Counter[What] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    """The first of them."""
    seconds: float = 0.0

    @property
    def count(self) -> int:
        """All violations."""
        return self.counts.total()

    def add(self, violation: Violation) -> None:
        """Take in a violation."""
        self.counts[violation.what] += 1
        if len(self.violations) < MOST_NAMED:
            self.violations.append(violation)

    def check(self, then: str = _THEN) -> None:
        """Raise GroundingInvariantViolation if there is a violation."""
        if self.count:
            raise GroundingInvariantViolation(self.violations, self.count, then=then)

    def members(self) -> dict[str, Any]:
        """For machines."""
        return {
            "log_id": self.log_id,
            "namespace": self.namespace,
            "grounded": self.count == 0,
            "seed": self.seed,
            "partitions": self.partitions,
            "not_projected": self.not_projected,
            "records": self.records,
            "owners": self.owners,
            "entries": self.entries,
            "events": self.events,
            "checkpoints": {str(partition): offset for partition, offset in self.checkpoints.items()},
            "seconds": round(self.seconds, 3),
            "counts": {what.value: count for what, count in sorted(self.counts.items())},
            "violations": [violation.members() for violation in self.violations],
        }
