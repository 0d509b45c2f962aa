"""Commands on contexts: context, check."""

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lastword.cli import render
from lastword.cli.client import connect
from lastword.cli.options import WAIT_MS, Boundary, Json, NoFallback, Owner, Scope, ungrouped
from lastword_schemas import limits
from lastword_schemas.contexts import CheckedItem, ContextAnswer, ContextCheck
from lastword_schemas.identity import GLOBAL, scope_chain


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(context)
    app.command()(check)


@ungrouped
def context(
    owner: Owner,
    task: Annotated[str, typer.Argument(help="What a model is to do; without it: what is kept for any task.")] = "",
    scope: Scope = GLOBAL,
    budget: Annotated[
        int, typer.Option(min=1, max=limits.MAX_CONTEXT_TOKENS, help="Tokens that the prompt may have.")
    ] = 1_000,
    limit: Annotated[int, typer.Option(min=0, max=limits.MAX_CONTEXT_ITEMS, help="How many records to choose.")] = 8,
    key: Annotated[list[str] | None, typer.Option(help="A key to be there always; more than once.")] = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Keep it nowhere; it has no id.")] = False,
    no_fallback: NoFallback = False,
    reading: Boundary = Boundary(),
    json: Json = False,
) -> None:
    """The few cited records that a model needs for a task, as text for its prompt."""
    body: dict[str, Any] = {"owner": owner, "task": task, "budget": budget, "limit": limit, "keys": key or []}
    body |= {"scopes": list(scope_chain(scope, fallback=not no_fallback)), "store": not no_store} | reading.asked()
    with connect() as api:
        text = api.post("/v1/contexts", body)
    if json:
        render.print_json(text)
        return
    answer = ContextAnswer.model_validate_json(text)
    if answer.prompt:
        render.console().print(Text("\n".join(map(render.clean, answer.prompt.splitlines()))), soft_wrap=True)
    left = "; ".join(f"{count} for {reason}" for reason, count in answer.left_out_by_reason.items())
    _note(f"{answer.tokens} of {budget} tokens, {len(answer.items)} of {answer.considered} records that apply")
    if left:
        _note(f"left out: {left}")
    if answer.id is not None:
        _note(f"lastword check {answer.id}")


def check(
    ident: Annotated[str, typer.Argument(metavar="ID", help="Of a context ('c1.…').", show_default=False)],
    at_least: Annotated[
        str | None, typer.Option(help="Answer nothing older than this receipt or position; waits for it up to 10 s.")
    ] = None,
    json: Json = False,
) -> None:
    """Whether a stored context still says what applies, and what to change in the prompt."""
    body: dict[str, Any] = {"id": ident, "wait_ms": WAIT_MS} | ({} if at_least is None else {"at_least": at_least})
    with connect() as api:
        text = api.post("/v1/contexts/check", body)
    if json:
        render.print_json(text)
        return
    answer = ContextCheck.model_validate_json(text)
    if answer.items:
        render.console().print(_checked_table(answer.items))
    for item in answer.newer:
        _note(f"newer: {item.scope} {item.key} at {item.source_sequence}")
    _note("stale: put what --json shows as delta.prompt behind it, or make a new one" if answer.stale else "not stale")


def _checked_table(items: list[CheckedItem]) -> Table:
    made = render.table("scope", "key", "status", "supplied", "current", "by event")
    for item in items:
        made.add_row(
            render.clean(item.scope),
            render.clean(item.key),
            render.styled(item.status),
            "" if item.supplied_sequence is None else str(item.supplied_sequence),
            "" if item.current_sequence is None else str(item.current_sequence),
            "" if item.by is None else item.by.event_id,
        )
    return made


def _note(text: str) -> None:
    render.console().print(Text(render.clean(text), style="dim"), soft_wrap=True)
