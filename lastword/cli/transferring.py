"""Commands that move memories: export, import."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from lastword.cli import render
from lastword.cli.client import Api, connect
from lastword.cli.exporting import export_lines
from lastword.cli.importing import Imported, look, publish
from lastword.cli.rows import counts_table, left_out_row, prospect_row, tell_rows
from lastword.cli.streams import STDIO, opened, written
from lastword.settings import ConnectionSettings
from lastword.transfer.files import is_whole, read_items
from lastword.transfer.langgraph import LANGGRAPH
from lastword.transfer.lines import json_schema, line_text
from lastword.transfer.mapping import Rule, read_mapping
from lastword.transfer.mem0 import MEM0
from lastword.transfer.own import LASTWORD
from lastword.transfer.planning import LeftOut, Statement, declarations, plan
from lastword.transfer.zep import ZEP
from lastword_schemas import jsontext
from lastword_schemas.authority import Authority
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import Owner

_ORIGINS = {origin.name: origin for origin in (LASTWORD, MEM0, ZEP, LANGGRAPH)}


class From(StrEnum):
    """Where a file comes from."""

    LASTWORD = "lastword"
    MEM0 = "mem0"
    ZEP = "zep"
    LANGGRAPH = "langgraph"


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(name="export")(export_)
    app.command(name="import")(import_)


def export_(
    owner: Annotated[
        list[str] | None, typer.Option(help="user:<id>, org:<id> or <tenant>/user:<id>; give it again for more.")
    ] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Everybody; asks Redis who there is.")] = False,
    history: Annotated[bool, typer.Option("--history", help="All events, too.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file; - is standard output.")] = STDIO,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a line instead.")] = False,
) -> None:
    """Write what applies for an owner, or for everybody, as JSON lines; tombstones and expired values too."""
    if schema:
        render.print_json(jsontext.dump(json_schema()))
        return
    if bool(owner) == everybody:
        raise InvalidInput("say whose: --owner user:ada, or --all", field="--owner")
    named = None if everybody else [str(Owner.parse(text)) for text in owner or ()]
    with connect() as api, _shown("export", "owners") as told, written(output) as file:
        owners = _everybody(history=history) if named is None else named
        done = 0
        for line in export_lines(api, owners, named, datetime.now(UTC), history=history):
            file.write(line_text(line) + "\n")
            if line.type == "owner":
                done += 1
                told.update(done)
    if output != STDIO and line.type == "end":
        counts = ", ".join(
            (
                render.counted(line.owners, "owner"),
                render.counted(line.entries, "entry", "entries"),
                render.counted(line.events, "event"),
            )
        )
        render.console(stderr=True).print(Text.assemble(("exported ", "green"), counts))


def import_(
    file: Annotated[Path, typer.Argument(help="JSON or JSON lines; - is standard input.", show_default=False)],
    origin: Annotated[From, typer.Option("--from", help="The system that the file comes from.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would become what; write nothing.")] = False,
    mapping: Annotated[
        Path | None,
        typer.Option("--map", exists=True, dir_okay=False, help="Rules (TOML) that say what goes where."),
    ] = None,
    owner: Annotated[
        str | None, typer.Option(help="Whose it is: a template, such as 'user:{user_id}' or 'user:{namespace.0}'.")
    ] = None,
    scope: Annotated[str | None, typer.Option(help="Its scope: a template, such as 'agent:{agent_id}'.")] = None,
    key: Annotated[str | None, typer.Option(help="Its key: a template, such as 'imported.{id}'.")] = None,
    authority: Annotated[
        Authority | None, typer.Option(help="What it claims; of mem0 and zep inferred, else as it stands or stated.")
    ] = None,
    service: Annotated[str | None, typer.Option(help="Who is named as publisher; default: import-<origin>.")] = None,
    rows: Annotated[int, typer.Option(min=0, help="How many rows a dry run shows; 0: all.")] = 100,
    json: Json = False,
) -> None:
    """Publish what another system remembers, as statements from before this log.

    They fill only what nothing here has touched: no value that was said since, no tombstone. Twice adds nothing.
    """
    if file != STDIO and not file.is_file():
        raise InvalidInput(f"there is no file {file}", field="FILE")
    source = _ORIGINS[origin.value]
    rules = [] if mapping is None else read_mapping(mapping.read_text("utf-8"), name=str(mapping))
    usual = Rule(owner=owner, scope=scope, key=key, authority=authority)
    if source is LASTWORD and file != STDIO and not is_whole(file):
        _warn(f"{file} has no last line of an export: it was cut off, what is missing is not imported")
    with connect() as api, opened(file) as lines:
        api.log_id()  # that it is there and ready is seen at once; from here on it is waited for
        planned = plan(read_items(lines, source), source, rules, usual, service)
        code = _dry_run(api, planned, rows, json=json) if dry_run else _import(api, planned, json=json)
    if code:
        raise typer.Exit(code)


# --- a dry run


def _dry_run(api: Api, planned: Iterable[Statement | LeftOut], most: int, *, json: bool) -> int:
    imported, shown = Imported(), list[dict[str, Any]]()
    undeclared: dict[tuple[str, Authority], Statement] = {}

    def statements() -> Iterator[Statement]:
        for one in planned:
            if isinstance(one, Statement):
                yield one
                continue
            imported.leave_out(one)
            if not most or len(shown) < most:
                shown.append(left_out_row(one))

    for prospect in look(api, statements()):
        imported.counts[prospect.becomes] += 1
        if not prospect.declared:
            draft = prospect.statement.draft
            undeclared.setdefault((draft["key"], draft["authority"]), prospect.statement)
        if not most or len(shown) < most:
            shown.append(prospect_row(prospect))
    toml = declarations(undeclared.values())
    if json:
        told = {"rows": shown, "counts": dict(sorted(imported.counts.items())), "declare": toml}
        render.print_json(jsontext.dump(told))
    else:
        tell_rows(shown, imported.counts, toml)
    return int(bool(imported.counts["refused"] or imported.problems))


# --- a real run


def _import(api: Api, planned: Iterable[Statement | LeftOut], *, json: bool) -> int:
    imported = Imported()
    with _shown("import", "statements") as told:
        publish(api, _statements(planned, imported), imported, told.update)
    toml = declarations(imported.undeclared)
    if json:
        problems = [{"row": number, "reason": reason} for number, reason in sorted(imported.problems)]
        told_json = {"counts": dict(sorted(imported.counts.items())), "problems": problems, "declare": toml}
        render.print_json(jsontext.dump(told_json))
        return int(bool(imported.problems))
    errors = render.console(stderr=True)
    for number, reason in sorted(imported.problems):
        errors.print(Text.assemble((f"row {number}: ", "bold"), render.clean(reason)), soft_wrap=True)
    render.console().print(counts_table(imported.counts))
    if toml:
        _warn("keys that are not declared; add this to your keys.toml, apply it and import again:")
        typer.echo(toml)
    return int(bool(imported.problems))


def _statements(planned: Iterable[Statement | LeftOut], imported: Imported) -> Iterator[Statement]:
    for one in planned:
        if isinstance(one, Statement):
            yield one
        else:
            imported.leave_out(one)


# --- files and progress


def _everybody(*, history: bool) -> Iterator[str]:
    from lastword.running import open_store  # with the whole API behind it: slow

    return open_store(ConnectionSettings()).owners(with_history=history)


class _Told:
    """Shows how many are done."""

    def __init__(self, progress: Progress, what: str) -> None:
        self._progress, self._task = progress, progress.add_task(what, total=None, done=0)

    def update(self, done: int) -> None:
        """So many are done."""
        self._progress.update(self._task, done=f"{done:,}")


@contextmanager
def _shown(name: str, what: str) -> Iterator[_Told]:
    columns = (SpinnerColumn(), TextColumn(f"{name}: {{task.fields[done]}} {what}"), TimeElapsedColumn())
    errors = render.console(stderr=True)
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        yield _Told(progress, name)


def _warn(text: str) -> None:
    render.console(stderr=True).print(Text(render.clean(text), style="yellow"), soft_wrap=True)
