"""Commands that project the whole log anew: rebuild, migrate."""

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from lastword.cli import render
from lastword.settings import ConnectionSettings
from lastword_producers.kafka_log import LogIdentity, open_log
from lastword_schemas.errors import InvalidInput

if TYPE_CHECKING:
    from lastword_projector.audit.report import Report
    from lastword_projector.engine.upcasting import Upcasters
    from lastword_projector.replacement import Replaced

_TIMEOUT_S = 10.0

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(rebuild)
    app.command()(migrate)


def rebuild(
    yes: Yes = False,
    in_place: Annotated[
        bool,
        typer.Option("--in-place", help="Empty the namespace first: half the memory; reads answer 503 meanwhile."),
    ] = False,
) -> None:
    """Project the whole log again, beside what is there; audit it, and only then put it in force."""
    settings = ConnectionSettings()
    log = open_log(settings.kafka_settings, _TIMEOUT_S)
    whole = f"all {log.partitions} partitions of log {log.log_id}"
    if in_place:
        _ask(yes, f"Empty namespace '{settings.namespace}' in Redis and project {whole} again?")
        _in_place(settings, log)
        return
    _ask(yes, f"Project {whole} again, beside namespace '{settings.namespace}', and put that in its place?")
    with _progress("rebuild", log) as progress:
        began = time.monotonic()
        _tell("rebuilt", progress.replace(settings, None), log, time.monotonic() - began)


def migrate(
    move: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=KEY", help="Read the events of the first key as events of the second."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=POLICY", help="Fold the key by this policy, from the beginning of the log on."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only say whether it would be halted.")] = False,
    yes: Yes = False,
) -> None:
    """Rebuild under other readings of the log. Halts, and changes nothing, where something is not settled.

    Every event stays as it is. What it would touch must not be unresolved, and everything has to be grounded.
    """
    from lastword.running import check_migration  # with the whole API behind it: slow

    upcasters = _upcasters(move or [], policy or [])
    settings = ConnectionSettings()
    log = open_log(settings.kafka_settings, _TIMEOUT_S)
    keys = ", ".join(render.clean(key) for key in sorted(upcasters.touched))
    if not check:
        _ask(yes, f"Project log {log.log_id} again, with other entries of {keys}, and put that in force?")
    with _progress("check", log) as progress:
        check_migration(settings, log, upcasters, on_progress=progress.audited)
    if check:
        render.console().print(Text.assemble(("nothing halts it ", "green"), keys))
        return
    with _progress("migrate", log) as progress:
        began = time.monotonic()
        _tell("migrated", progress.replace(settings, upcasters), log, time.monotonic() - began)


def _upcasters(moves: list[str], policies: list[str]) -> "Upcasters":
    from lastword_projector.engine.upcasting import ChangePolicy, MoveKey, Upcasters

    steps: list[MoveKey | ChangePolicy] = []
    for text in moves:
        key, to = _pair(text, "move")
        steps.append(MoveKey(key=key, to=to))
    for text in policies:
        key, name = _pair(text, "policy")
        steps.append(ChangePolicy(key=key, policy=name))
    if not steps:
        raise InvalidInput("what is to be migrated? --move KEY=KEY or --policy KEY=POLICY", field="move")
    return Upcasters(steps)


def _pair(text: str, field: str) -> tuple[str, str]:
    one, _, other = text.partition("=")
    if not one or not other:
        raise InvalidInput(f"--{field} takes two words with '=' between them", field=field)
    return one, other


def _ask(yes: bool, question: str) -> None:
    if not yes:
        typer.confirm(question, abort=True)


class _Shown:
    """What is told while the log is replayed and audited."""

    def __init__(self, progress: Progress, name: str, log: LogIdentity) -> None:
        self._progress, self._log = progress, log
        self._task = progress.add_task(name, total=log.partitions, told="")
        self._offsets: dict[int, int] = {}

    def replayed(self, partition: int, next_offset: int) -> None:
        self._offsets[partition] = next_offset
        told = f"{sum(self._offsets.values()):,} records"
        self._progress.update(self._task, completed=len(self._offsets) - 1, told=told)

    def audited(self, report: "Report") -> None:
        told = f"audit: {report.entries:,} entries, {report.count:,} violations"
        self._progress.update(self._task, completed=report.partitions, told=told)

    def replace(self, settings: ConnectionSettings, upcasters: "Upcasters | None") -> "Replaced":
        from lastword.running import run_replacement

        return run_replacement(settings, self._log, upcasters, on_progress=self.replayed, on_audit=self.audited)


@contextlib.contextmanager
def _progress(name: str, log: LogIdentity) -> Iterator[_Shown]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
    )
    out = render.console(stderr=True)
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as progress:
        yield _Shown(progress, name, log)


def _in_place(settings: ConnectionSettings, log: LogIdentity) -> None:
    from lastword.running import run_rebuild

    began = time.monotonic()
    with _progress("rebuild", log) as progress:
        done = run_rebuild(settings, log, progress.replayed)
    rate = done / max(time.monotonic() - began, 0.001)
    told = f"{log.partitions} partitions from {done:,} records of log {log.log_id}, {rate:,.0f} a second"
    render.console().print(Text.assemble(("rebuilt ", "green"), told))


def _tell(done: str, replaced: "Replaced", log: LogIdentity, seconds: float) -> None:
    report = replaced.report
    told = (
        f"{log.partitions} partitions from {replaced.records:,} records of log {log.log_id}, "
        f"{report.entries:,} entries and {report.events:,} events grounded, {seconds:.0f} s"
    )
    out = render.console()
    out.print(Text.assemble((f"{done} ", "green"), told), soft_wrap=True)
    out.print(Text(f"in force: namespace {replaced.new}; {replaced.old} was dropped", style="dim"))
