"""Commands that look whether Redis holds what the log explains: audit."""

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from lastword.cli import render
from lastword.settings import ConnectionSettings
from lastword_producers.kafka_log import open_log
from lastword_schemas import jsontext
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import Owner

if TYPE_CHECKING:
    from lastword_projector.audit.auditor import Sample
    from lastword_projector.audit.report import Report

_TIMEOUT_S = 10.0
_SHOWN = 50
_SHARE = re.compile(r"(\d{1,3}(?:\.\d+)?)%")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(audit)


def audit(
    owner: Annotated[str | None, typer.Argument(help="Only this owner, such as user:ada.")] = None,
    sample: Annotated[
        str | None, typer.Option(metavar="N|P%", help="Only so many owners, or this share of them; any of them.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only the owners of this partition.")] = None,
    rate: Annotated[
        float | None, typer.Option(min=1, help="At most so many records, entries and events a second.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**32 - 1, help="Take the sample that an earlier audit took.")
    ] = None,
    metrics: Annotated[
        Path | None, typer.Option(help="Write the figures there, for Prometheus' textfile collector.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Derive what Redis holds from the log again, and compare. Exit status 1 if something is not grounded.

    Workers and reads go on meanwhile.
    """
    from lastword.running import make_auditor  # with the whole API behind it: slow

    whom = None if owner is None else str(Owner.parse(owner))
    if whom is not None and (sample is not None or partition is not None):
        raise InvalidInput("one owner is audited, or a sample, or a partition", field="owner")
    chosen = _sample(sample)
    settings = ConnectionSettings()
    log = open_log(settings.kafka_settings, _TIMEOUT_S)
    if partition is not None and partition >= log.partitions:
        raise InvalidInput(f"the log has partitions 0 to {log.partitions - 1}", field="partition")
    partitions = None if partition is None else [partition]
    total = 1 if whom is not None or partition is not None else log.partitions
    columns = (
        TextColumn("audit"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("partitions, {task.fields[told]}"),
        TimeElapsedColumn(),
    )
    out = render.console(stderr=True)
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as progress:
        task = progress.add_task("audit", total=total, told="")

        def on_progress(report: "Report") -> None:
            told = f"{report.records:,} records, {report.entries:,} entries, {report.count:,} violations"
            progress.update(task, completed=report.partitions, told=told)

        auditor = make_auditor(settings, log, rate=rate, seed=seed, on_progress=on_progress)
        report = auditor.audit(chosen, partitions) if whom is None else auditor.audit_owner(whom)
    if metrics is not None:
        _write(metrics, report)
    if json:
        render.print_json(jsontext.dump(report.members()))
    else:
        _show(report, sampled=sample is not None)
    if report.count:
        raise typer.Exit(1)


def _sample(text: str | None) -> "Sample":
    from lastword_projector.audit.auditor import EVERYBODY, Sample

    if text is None:
        return EVERYBODY
    if (share := _SHARE.fullmatch(text)) and 0 < float(share[1]) <= 100:
        return Sample(share=float(share[1]) / 100)
    if text.isdecimal() and int(text):
        return Sample(owners=int(text))
    raise InvalidInput("a sample is a number of owners, such as 100, or a share of them, such as 5%", field="sample")


def _write(path: Path, report: "Report") -> None:
    """All at once: the collector never reads half of it."""
    from lastword.metrics import audit_metrics

    written = path.with_name(f".{path.name}.written")
    written.write_text(audit_metrics(report, time.time()), "utf-8")
    written.rename(path)


def _show(report: "Report", *, sampled: bool) -> None:
    out = render.console()
    if report.violations:
        out.print(violations_table(report))
        out.print()
        if (more := report.count - _SHOWN) > 0:
            out.print(Text(f"and {more:,} more; --json names {len(report.violations):,}", style="red"))
    found = f"{report.count:,} {'violation' if report.count == 1 else 'violations'} in "
    verdict = (found, "bold red") if report.count else ("grounded ", "green")
    rate = (report.entries + report.events) / max(report.seconds, 0.001)
    told = (
        f"{report.entries:,} entries and {report.events:,} events of {report.owners:,} owners, "
        f"from {report.records:,} records of log {report.log_id}"
    )
    out.print(Text.assemble(verdict, told), soft_wrap=True)
    seed = f"; the sample again: --seed {report.seed}" if sampled else ""
    out.print(Text(f"namespace {report.namespace}, {report.seconds:.1f} s, {rate:,.0f} a second{seed}", style="dim"))
    if report.not_projected:
        numbers = ", ".join(map(str, report.not_projected))
        out.print(Text(f"not projected, so nothing to compare: partitions {numbers}", style="yellow"))
    if report.count:
        out.print("The log is right. What to do: docs/operations.md, “When the audit finds something”")


def violations_table(report: "Report") -> Any:
    """Violations, one a line."""
    table = render.table("violation", "owner", "scope", "key", "sequence", "event", "")
    for found in report.violations[:_SHOWN]:
        table.add_row(
            Text(found.what.value, style="red"),
            render.clean(found.owner or f"partition {found.partition}"),
            render.clean(found.scope or ""),
            render.clean(found.key or ""),
            "" if found.sequence is None else str(found.sequence),
            found.event or "",
            render.clean(found.detail),
        )
    return table
