"""What is looked at before a migration: nothing that it would touch may be unresolved, and all has to be grounded."""

from collections.abc import Sequence
from typing import NamedTuple

from lastword_projector.audit.report import Report
from lastword_projector.engine.records import Entry
from lastword_projector.engine.upcasting import Upcasters
from lastword_schemas.errors import LastwordError

_NAMED = 20


class Unresolved(NamedTuple):
    """An entry that has no single answer."""

    owner: str
    scope: str
    key: str
    sequence: int
    """Of the event that the pointer is on."""

    def __str__(self) -> str:
        return f"{self.owner} {self.scope} {self.key} (sequence {self.sequence})"


class MigrationHalted(LastwordError):
    """The migration would touch what is not settled; nothing was changed."""

    code = "migration-halted"

    def __init__(self, unresolved: Sequence[Unresolved], report: Report) -> None:
        parts = []
        if unresolved:
            named = ", ".join(map(str, unresolved[:_NAMED]))
            more = f" and {len(unresolved) - _NAMED:,} more" if len(unresolved) > _NAMED else ""
            parts.append(f"{len(unresolved):,} entries that it would touch are unresolved: {named}{more}; resolve them")
        if report.count:
            named = "; ".join(map(str, report.violations[:_NAMED]))
            more = f"; and {report.count - _NAMED:,} more" if report.count > _NAMED else ""
            parts.append(f"{report.count:,} violations of the grounding invariant: {named}{more}; see `lastword audit`")
        if report.not_projected:
            numbers = ", ".join(map(str, report.not_projected))
            parts.append(f"partitions that are not projected: {numbers}; start a worker")
        super().__init__(f"the migration is halted, nothing was changed. {'. '.join(parts)}")
        self.unresolved = tuple(unresolved)
        self.report = report


class Check:
    """Collects, from an audit's entries, those that a migration would touch and that are unresolved."""

    def __init__(self, upcasters: Upcasters) -> None:
        self._touched = upcasters.touched
        self.unresolved: list[Unresolved] = []

    def note(self, owner: str, scope: str, key: str, entry: Entry) -> None:
        """See `OnEntry`."""
        if key in self._touched and entry.unresolved:
            self.unresolved.append(Unresolved(owner, scope, key, entry.record.sequence))

    def end(self, report: Report) -> None:
        """Raise MigrationHalted unless all is settled and grounded."""
        if self.unresolved or report.count or report.not_projected:
            raise MigrationHalted(self.unresolved, report)
