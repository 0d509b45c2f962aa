"""How an extractor is doing: what its `/healthz` answers. Positions and counts, no owners, keys, texts or values."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Final

from lastword.extraction.protocol import Extraction

_LAST: Final = 20


@dataclass(slots=True)
class ExtractorStatus:
    """An extractor in the background. Written by its thread, read by the health server's."""

    extractor: str = ""
    problem: str | None = "the log has not been asked for yet"
    """What keeps it from reading on; None if nothing does."""
    assigned: set[int] = field(default_factory=set)
    next_offsets: dict[int, int] = field(default_factory=dict)
    """The stored checkpoints of the partitions that it has had."""
    turns: int = 0
    candidates: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """What was not proposed, by reason."""
    given_up: int = 0
    last_given_up: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_LAST))

    @property
    def healthy(self) -> bool:
        """Whether it reads on."""
        return self.problem is None

    def waits_for(self, problem: str | None) -> None:
        """What keeps it from reading on; None: nothing any more."""
        self.problem = problem

    def note(self, found: Extraction) -> None:
        """A turn was read."""
        self.turns += 1
        self.candidates += len(found.candidates)
        self.refused.update(str(one.why) for one in found.refused)

    def note_given_up(self, partition: int, offset: int, code: str) -> None:
        """A turn cannot be read, or what was found in it cannot be published."""
        self.given_up += 1
        self.last_given_up.append({"partition": partition, "offset": offset, "code": code})

    def report(self) -> dict[str, Any]:
        """The answer of `/healthz`."""
        return {
            "status": "ok" if self.healthy else "failing",
            "problem": self.problem,
            "extractor": self.extractor,
            "turns": self.turns,
            "candidates": self.candidates,
            "refused": dict(sorted(self.refused.items())),
            "given_up": self.given_up,
            "last_given_up": list(self.last_given_up),
            "partitions": sorted(self.assigned),
            "next_offsets": {str(number): offset for number, offset in sorted(self.next_offsets.items())},
        }
