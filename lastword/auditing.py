"""The continuous auditor: partition after partition, at a bounded rate, for as long as it runs.

A plain loop, not an agent of a stream: it follows no topic and joins no group, and where it stands in its round is
nothing that could be lost.
"""

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from lastword.metrics import audit_metrics
from lastword.settings import AuditorSettings
from lastword_producers.kafka_log import LogIdentity
from lastword_projector.audit.auditor import Auditor
from lastword_projector.audit.pace import Pace
from lastword_projector.audit.report import Report
from lastword_projector.audit.violations import Violation, What
from lastword_projector.store.pointer import Pointer
from lastword_schemas.errors import LastwordError
from lastword_schemas.positions import offset_of

_log = logging.getLogger(__name__)
_LOGGED: Final = 20
"""Violations of one partition that are logged one by one."""
_BACK_OFF_S: Final = 10.0


class _Stopped(Exception):
    """It was told to stop."""


@dataclass(slots=True)
class AuditorStatus:
    """What the auditor has seen. Written by its thread, read by the health server's."""

    namespace: str = ""
    log_id: str = ""
    problem: str | None = "the log has not been asked for yet"
    """What keeps it from auditing; None if nothing does."""
    rounds: int = 0
    """How often it has been through all partitions."""
    reports: dict[int, Report] = field(default_factory=dict)
    """The last one of each partition."""
    ended_at: dict[int, float] = field(default_factory=dict)
    """When that was, seconds since 1970."""

    @property
    def violations(self) -> int:
        """Of the last looks at all partitions."""
        return sum(report.count for report in list(self.reports.values()))

    @property
    def healthy(self) -> bool:
        """Whether it audits, and found everything grounded."""
        return self.problem is None and self.violations == 0

    def report(self) -> dict[str, Any]:
        """The answer of `/healthz`. Positions and event ids; no owners, keys or values."""
        reports = dict(sorted(self.reports.items()))
        found = [violation for report in reports.values() for violation in report.violations]
        return {
            "status": "ok" if self.healthy else "failing",
            "problem": self.problem or (f"{self.violations} violations" if found else None),
            "rounds": self.rounds,
            "entries": sum(report.entries for report in reports.values()),
            "events": sum(report.events for report in reports.values()),
            "violations": [_place(violation) for violation in found[:_LOGGED]],
            "partitions": {
                str(partition): {
                    "violations": report.count,
                    "entries": report.entries,
                    "ended_at": round(self.ended_at[partition], 3),
                    "next_offset": report.checkpoints.get(partition),
                }
                for partition, report in reports.items()
            },
        }

    def metrics(self) -> str:
        """The answer of `/metrics`: the last looks at all partitions, together."""
        together = Report(self.log_id, self.namespace, seed=0)
        for report in list(self.reports.values()):
            together.owners += report.owners
            together.entries += report.entries
            together.events += report.events
            together.seconds += report.seconds
            together.counts = together.counts + Counter[What](report.counts)
        return audit_metrics(together, max(self.ended_at.values(), default=0.0))


def audit_for_ever(settings: AuditorSettings, log: LogIdentity, status: AuditorStatus, stop: threading.Event) -> None:
    """Audit until `stop` is set. What keeps it from it is told in the status, and tried again."""
    status.log_id, status.namespace, status.problem = log.log_id, settings.namespace, None
    first = random.randrange(log.partitions)  # else one that is often restarted would never come to the last ones
    while not stop.is_set():
        began = time.monotonic()
        for number in range(log.partitions):
            partition = (first + number) % log.partitions
            try:
                _audit(settings, log, status, stop, partition)
            except _Stopped:
                return
            except LastwordError as error:
                if status.problem is None:
                    _log.warning("waiting: %s", error, extra={"code": error.code, "partition": partition})
                status.problem = error.message
                stop.wait(_BACK_OFF_S)
            else:
                status.problem = None
        status.rounds += 1
        figures = (status.rounds, time.monotonic() - began, status.violations)
        _log.info("round %d of the audit took %.0f s: %d violations", *figures)
        stop.wait(max(0.0, settings.auditor_round_s - (time.monotonic() - began)))


def _audit(
    settings: AuditorSettings, log: LogIdentity, status: AuditorStatus, stop: threading.Event, partition: int
) -> None:
    def on_progress(report: Report) -> None:
        if stop.is_set():
            raise _Stopped

    auditor = Auditor(
        settings.kafka_settings.client_config(),
        settings.topic,
        log.genesis,
        settings.redis.get_secret_value(),
        Pointer(settings.namespace),
        pace=Pace(settings.auditor_rate, sleep=stop.wait),
        on_progress=on_progress,
    )
    report = auditor.audit(partitions=[partition])
    status.reports[partition], status.ended_at[partition] = report, time.time()
    for violation in _to_log(report):
        _log.error(
            "not grounded: %s at partition %d, offset %s; `lastword audit --partition %d` says whose",
            violation.what.value,
            partition,
            "?" if violation.sequence is None else offset_of(violation.sequence),
            partition,
            extra={"code": "grounding-invariant-violation", "partition": partition},
        )


def _to_log(report: Report) -> Iterator[Violation]:
    yield from report.violations[:_LOGGED]
    if (more := report.count - _LOGGED) > 0:
        _log.error("not grounded: %d more violations", more, extra={"code": "grounding-invariant-violation"})


def _place(violation: Violation) -> dict[str, Any]:
    return {
        "what": violation.what.value,
        "partition": violation.partition,
        "offset": None if violation.sequence is None else offset_of(violation.sequence),
        "event_id": violation.event,
    }
