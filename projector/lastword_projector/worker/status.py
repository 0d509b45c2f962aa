"""How a worker is doing: what `/healthz` answers."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class PartitionStatus:
    """One assigned partition."""

    next_offset: int
    """The *next* offset to be folded."""
    log_end: int | None = None
    """The *next* offset to be written, as of the last fetch; None before the first."""
    recorded_at: int | None = None
    """Append time of the last record folded, ms since 1970; of the first that came while none is."""
    waits: str | None = None
    """Why the partition waits for a newer build; None if it does not."""

    @property
    def records_behind(self) -> int | None:
        """Records in the log that are not folded yet; None if not known."""
        return None if self.log_end is None else max(0, self.log_end - self.next_offset)

    def seconds_behind(self, now_ms: int) -> float | None:
        """Age of the last record folded while there are more; 0 when there are none; None if not known."""
        if self.records_behind == 0:
            return 0.0
        return None if self.recorded_at is None else max(0, now_ms - self.recorded_at) / 1000


@dataclass(slots=True)
class WorkerStatus:
    """A worker and its partitions. Written by the worker's thread, read by the health server's."""

    partitions: dict[int, PartitionStatus] = field(default_factory=dict)
    group_protocol: str = ""
    problem: str | None = None
    """What keeps the whole worker from working; None if nothing does."""
    unreachable: str | None = None
    """Why Kafka cannot be reached; None if it can."""
    outbox_commits: int = 0
    """Commits whose changes wait in the outboxes of these partitions, as of the relay's last look."""
    changes_wait: str | None = None
    """Why changes are not relayed; None if they are. Reads are right all the same, so the worker is healthy."""

    @property
    def healthy(self) -> bool:
        """Whether everything assigned is being folded."""
        is_working = self.problem is None and self.unreachable is None
        return is_working and all(status.waits is None for status in list(self.partitions.values()))

    @property
    def records_behind(self) -> int:
        """Records in the log that are not folded yet, as far as is known."""
        return sum(status.records_behind or 0 for status in list(self.partitions.values()))

    def report(self, now_ms: int | None = None) -> dict[str, Any]:
        """The answer of `/healthz`."""
        now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        partitions = dict(sorted(self.partitions.items()))
        seconds = [status.seconds_behind(now) for status in partitions.values()]
        return {
            "status": "ok" if self.healthy else "failing",
            "problem": self.problem or self.unreachable,
            "group_protocol": self.group_protocol,
            "records_behind": self.records_behind,
            "seconds_behind": max((age for age in seconds if age is not None), default=0.0),
            "outbox_commits": self.outbox_commits,
            "changes_wait": self.changes_wait,
            "partitions": {
                str(number): asdict(status)
                | {"records_behind": status.records_behind, "seconds_behind": status.seconds_behind(now)}
                for number, status in partitions.items()
            },
        }
