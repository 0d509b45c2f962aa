"""Commands that read: get, why, profile, history, search, changes."""

import sys
from typing import Annotated

import typer
from rich.text import Text

from lastword.cli import inspecting, render
from lastword.cli.client import StreamEnded, connect
from lastword.cli.options import Boundary, FewHits, Json, Key, NoFallback, Owner, Pages, Scope, ungrouped
from lastword_schemas import jsontext
from lastword_schemas.answers import HistoryAnswer, InspectionRecord, ProfileAnswer, Reading, ValuesAnswer
from lastword_schemas.changes import Change
from lastword_schemas.identity import GLOBAL, scope_chain
from lastword_schemas.search import SearchAnswer


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(get)
    app.command()(why)
    app.command()(profile)
    app.command()(history)
    app.command()(search)
    app.command()(changes)


@ungrouped
def get(
    owner: Owner,
    keys: Annotated[list[str], typer.Argument(help="One key or more.", show_default=False)],
    scope: Scope = GLOBAL,
    reading: Boundary = Boundary(),
    no_fallback: NoFallback = False,
    json: Json = False,
) -> None:
    """What applies for a key, or for several at one moment."""
    with connect() as api:
        if len(keys) == 1:
            text = _value(owner, keys[0], scope, reading, no_fallback)
            records = [] if json else [InspectionRecord.model_validate_json(text)]
        else:
            scopes = list(scope_chain(scope, fallback=not no_fallback))
            text = api.post("/v1/values/read", {"owner": owner, "keys": keys, "scopes": scopes} | reading.asked())
            records = [] if json else ValuesAnswer.model_validate_json(text).values
    if json:
        render.print_json(text)
        return
    render.console().print(render.profile_table(records))
    _say_if_provisional(any(record.selection.provisional for record in records))
    for record in records:
        if record.source is None and not record.identity.declared:
            key = render.clean(record.identity.key)
            _note(f"{key} is not declared; `lastword keys show` shows the keys that are")


@ungrouped
def why(
    owner: Owner,
    key: Key,
    scope: Scope = GLOBAL,
    reading: Boundary = Boundary(),
    no_fallback: NoFallback = False,
    json: Json = False,
) -> None:
    """What applies for a key, since when, who said it, and why this is the answer."""
    text = _value(owner, key, scope, reading, no_fallback)
    if json:
        render.print_json(text)
    else:
        inspecting.tell(InspectionRecord.model_validate_json(text))


@ungrouped
def profile(
    owner: Owner,
    scope: Annotated[str | None, typer.Option("--scope", "-s", help="Only this scope.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Deleted and expired entries too.")] = False,
    unresolved: Annotated[bool, typer.Option("--unresolved", help="Only what somebody has to decide.")] = False,
    reading: Pages = Pages(),
    json: Json = False,
) -> None:
    """Everything that applies for an owner."""
    with connect() as api:
        text = api.get(
            "/v1/profile",
            owner=owner,
            scope=scope,
            everything=everything,
            unresolved=unresolved or None,
            **reading.asked(),
        )
    if json:
        render.print_json(text)
        return
    answer = ProfileAnswer.model_validate_json(text)
    if answer.entries:
        render.console().print(render.profile_table(answer.entries))
    else:
        _note("nothing applies" if everything else "nothing applies; --all shows what was deleted, too")
    _say_how_far(answer, answer.next_page)


@ungrouped
def history(
    owner: Owner,
    key: Annotated[str | None, typer.Argument(help="Without one: all events of the owner.", show_default=False)] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", "-s", help="With a key: global unless given.", show_default=False)
    ] = None,
    events: Annotated[bool, typer.Option("--events", help="Single events with their verdicts, not versions.")] = False,
    reading: Pages = Pages(),
    json: Json = False,
) -> None:
    """The versions of a key with what ended each; or an owner's events with their verdicts."""
    with connect() as api:
        text = api.get(
            "/v1/history",
            owner=owner,
            scope=scope,
            key=key,
            view="events" if events else None,
            **reading.asked(),
        )
    if json:
        render.print_json(text)
        return
    answer = HistoryAnswer.model_validate_json(text)
    if answer.versions:
        render.console().print(render.versions_table(answer.versions))
    elif answer.events:
        render.console().print(render.events_table(answer.events))
    else:
        _note("nothing was ever said")
    _say_how_far(answer, answer.next_page)


@ungrouped
def search(
    owner: Owner,
    query: Annotated[str, typer.Argument(help="A question or a task, in any words.", show_default=False)],
    scope: Scope = GLOBAL,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Every scope by itself, not this and global.")
    ] = False,
    past: Annotated[bool, typer.Option("--history", help="Also values that no longer apply.")] = False,
    groups: Annotated[
        str | None, typer.Option("--groups", help="Only keys of these groups: names with commas.", show_default=False)
    ] = None,
    no_fallback: NoFallback = False,
    reading: FewHits = FewHits(),
    json: Json = False,
) -> None:
    """The records nearest to a question, of those that apply."""
    with connect() as api:
        text = api.get(
            "/v1/search",
            owner=owner,
            query=query,
            scope=scope,
            fallback=not no_fallback,
            everywhere=everywhere,
            include="history" if past else None,
            groups=groups,
            **reading.asked(),
        )
    if json:
        render.print_json(text)
        return
    answer = SearchAnswer.model_validate_json(text)
    if answer.hits:
        render.console().print(render.hits_table(answer.hits))
    else:
        _note(f"nothing was found among {answer.considered} records that apply")
    _say_how_far(answer, answer.next_page)


def changes(
    owner: Owner,
    key: Annotated[str | None, typer.Argument(help="Only this key.", show_default=False)] = None,
    scope: Annotated[str | None, typer.Option("--scope", "-s", help="Only this scope.", show_default=False)] = None,
    after: Annotated[
        str | None, typer.Option(help="First what came after this receipt or position. [default: from now on]")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each.")] = False,
) -> None:
    """Changes of an owner's entries, as they come; Ctrl-C ends it. A change says that and where, not the value."""
    out = render.console()
    with connect() as api:
        for event, data in api.events("/v1/changes", owner=owner, scope=scope, key=key, after=after):
            if event == "change" and json:
                render.print_json(data)
                sys.stdout.flush()
            elif event == "change":
                out.print(render.change_line(Change.model_validate_json(data)), soft_wrap=True)
            elif event == "position" and not json:
                _note(f"up to {jsontext.parse(data)['position_token']}")
            elif event in ("dropped", "closing"):
                last = jsontext.parse(data)
                raise StreamEnded(f"{last['detail'].rstrip('.')}: go on with --after {last['position_token']}")


def _value(owner: str, key: str, scope: str, reading: Boundary, no_fallback: bool) -> str:
    with connect() as api:
        return api.get(
            "/v1/value",
            owner=owner,
            key=key,
            scope=scope,
            fallback=not no_fallback,
            **reading.asked(),
        )


def _say_how_far(answer: Reading, next_page: str | None) -> None:
    if next_page is not None:
        _note(f"there is more: --page {next_page}")
    _say_if_provisional(answer.provisional)


def _say_if_provisional(provisional: bool) -> None:
    if provisional:
        _note("provisional: the boundary lies beyond what the log holds so far")


def _note(text: str) -> None:
    render.console().print(Text(text, style="dim"), soft_wrap=True)
