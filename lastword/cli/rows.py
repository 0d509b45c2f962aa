"""The rows of an import as people see them: what becomes of each."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from lastword.cli import render
from lastword.cli.importing import Prospect
from lastword.transfer.planning import LeftOut


def prospect_row(prospect: Prospect) -> dict[str, Any]:
    """What a statement would become."""
    draft = prospect.statement.draft
    row = {"row": prospect.statement.number, "origin_id": prospect.statement.origin_id}
    row |= {name: draft[name] for name in ("owner", "scope", "key", "operation")}
    row |= {name: draft[name] for name in ("value", "expires_at", "occurred_at") if name in draft}
    return row | {"authority": draft["authority"], "becomes": prospect.becomes, "why": prospect.why}


def left_out_row(row: LeftOut) -> dict[str, Any]:
    """Why a row becomes nothing."""
    becomes = "left out" if row.wanted else "not importable"
    return {"row": row.number, "origin_id": row.origin_id, "becomes": becomes, "why": row.reason}


def tell_rows(rows: list[dict[str, Any]], counts: Counter[str], toml: str) -> None:
    """Print what would become of the rows, how many of each there are, and the keys to declare."""
    out = render.console()
    table = render.table("row", "origin id", "owner", "scope", "key", "operation", "becomes")
    for row in _in_runs(rows):
        told = [
            render.clean(str(row.get(name, ""))) for name in ("row", "origin_id", "owner", "scope", "key", "operation")
        ]
        becomes = render.styled(row["becomes"])
        table.add_row(*told, becomes.append(f": {render.clean(row['why'])}") if row["why"] else becomes)
    out.print(table)
    if (more := counts.total() - len(rows)) > 0:
        out.print(Text(f"and {more:,} more; --rows 0 shows all", style="dim"))
    out.print()
    out.print(counts_table(counts))
    if toml:
        out.print("\nNot declared yet. Add this to your keys.toml, then `lastword keys apply keys.toml`:\n")
        typer.echo(toml)


def _in_runs(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows by their numbers; neighbours that are left out for one reason are one row, `10…24`."""
    in_order = sorted(rows, key=lambda row: int(row["row"]))

    def run_of(place: int) -> tuple[str | None, int]:
        row = in_order[place]
        return (row["why"] if row["becomes"] == "left out" else None), int(row["row"]) - place

    for (left_out, _), places in groupby(range(len(in_order)), key=run_of):
        first, *others = (in_order[place] for place in places)
        if left_out is None or not others:
            yield from (first, *others)
        else:
            yield first | {"row": f"{first['row']}…{others[-1]['row']}", "origin_id": ""}


def counts_table(counts: Counter[str]) -> Table:
    """Rows by what becomes of them."""
    table = render.table("becomes", "rows")
    table.columns[1].justify = "right"
    for name, count in sorted(counts.items()):
        table.add_row(render.styled(name), f"{count:,}")
    table.add_row(Text("all", style="bold"), f"{counts.total():,}")
    return table
