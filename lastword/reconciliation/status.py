"""How a reconciler is doing: what its `/healthz` answers. Positions and counts, no owners, keys or values."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ReconcilerStatus:
    """Written by the reconciler's thread, read by the health server's."""

    problem: str | None = "the log has not been asked for yet"
    """What keeps it from going on; None if nothing does."""
    assigned: set[int] = field(default_factory=set)
    next_offsets: dict[int, int] = field(default_factory=dict)
    """The stored checkpoints of the partitions that it has had, in the topic of changes."""
    conflicts: int = 0
    """Changes that left an entry unresolved."""
    decided: Counter[str] = field(default_factory=Counter)
    """Decisions by rule."""
    left_open: Counter[str] = field(default_factory=Counter)
    """Of what was left to a person: how often, by rule."""
    given_up: int = 0
    """Conflicts that could not be looked at."""

    @property
    def healthy(self) -> bool:
        """Whether it goes on."""
        return self.problem is None

    def waits_for(self, problem: str | None) -> None:
        """What keeps it from going on; None: nothing any more."""
        self.problem = problem

    def report(self) -> dict[str, Any]:
        """The answer of `/healthz`."""
        return {
            "status": "ok" if self.healthy else "failing",
            "problem": self.problem,
            "conflicts": self.conflicts,
            "decided": dict(sorted(self.decided.items())),
            "left_open": dict(sorted(self.left_open.items())),
            "given_up": self.given_up,
            "partitions": sorted(self.assigned),
            "next_offsets": {str(number): offset for number, offset in sorted(self.next_offsets.items())},
        }
