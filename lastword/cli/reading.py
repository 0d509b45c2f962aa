"""Commands that read: get, why, profile, history, search, changes."""

import sys
from typing import Annotated, Any

import typer
from rich.text import Text

from lastword.cli import render
from lastword.cli.client import StreamEnded, connect
from lastword_schemas import jsontext
from lastword_schemas.answers import HistoryAnswer, InspectionRecord, ProfileAnswer, Reading, ValuesAnswer
from lastword_schemas.changes import Change
from lastword_schemas.identity import GLOBAL, scope_chain
from lastword_schemas.search import SearchAnswer

Owner = Annotated[str, typer.Argument(help="user:<id>, org:<id> or <tenant>/user:<id>.", show_default=False)]
Key = Annotated[str, typer.Argument(help="Such as mail.tone.", show_default=False)]
Scope = Annotated[str, typer.Option("--scope", "-s", help="global or <kind>:<name>, such as project:Comet.")]
AsOf = Annotated[
    str | None,
    typer.Option(help="What had been said by then: a sequence, or an instant such as 2026-03-01T12:00:00Z."),
]
KnownAt = Annotated[str | None, typer.Option(help="What the log held by then: a sequence.")]
AtLeast = Annotated[
    str | None, typer.Option(help="Answer nothing older than this receipt or position; waits for it up to 10 s.")
]
NoFallback = Annotated[bool, typer.Option("--no-fallback", help="Ask this scope alone, not global after it.")]
Json = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="How many to show.")]
Page = Annotated[str | None, typer.Option(help="Go on from the end of another answer.")]

_WAIT_MS = 10_000


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(get)
    app.command()(why)
    app.command()(profile)
    app.command()(history)
    app.command()(search)
    app.command()(changes)


def get(
    owner: Owner,
    keys: Annotated[list[str], typer.Argument(help="One key or more.", show_default=False)],
    scope: Scope = GLOBAL,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    at_least: AtLeast = None,
    no_fallback: NoFallback = False,
    json: Json = False,
) -> None:
    """What applies for a key, or for several at one moment."""
    with connect() as api:
        if len(keys) == 1:
            text = _value(owner, keys[0], scope, as_of, known_at, at_least, no_fallback)
            records = [] if json else [InspectionRecord.model_validate_json(text)]
        else:
            body: dict[str, Any] = {"owner": owner, "keys": keys}
            body["scopes"] = [scope] if no_fallback else list(scope_chain(scope))
            optional = {"as_of": as_of, "known_at": known_at} | _demand(at_least)
            text = api.post("/v1/values/read", body | {k: v for k, v in optional.items() if v is not None})
            records = [] if json else ValuesAnswer.model_validate_json(text).values
    if json:
        render.print_json(text)
        return
    render.console().print(render.profile_table(records))
    _say_if_provisional(any(record.selection.provisional for record in records))


def why(
    owner: Owner,
    key: Key,
    scope: Scope = GLOBAL,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    at_least: AtLeast = None,
    no_fallback: NoFallback = False,
    json: Json = False,
) -> None:
    """What applies for a key, since when, who said it, and why this is the answer."""
    text = _value(owner, key, scope, as_of, known_at, at_least, no_fallback)
    if json:
        render.print_json(text)
    else:
        render.why(InspectionRecord.model_validate_json(text))


def profile(
    owner: Owner,
    scope: Annotated[str | None, typer.Option("--scope", "-s", help="Only this scope.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Deleted and expired entries too.")] = False,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    at_least: AtLeast = None,
    limit: Limit = 100,
    page: Page = None,
    json: Json = False,
) -> None:
    """Everything that applies for an owner."""
    with connect() as api:
        text = api.get(
            "/v1/profile",
            owner=owner,
            scope=scope,
            everything=everything,
            as_of=as_of,
            known_at=known_at,
            limit=limit,
            page=page,
            **_demand(at_least),
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


def history(
    owner: Owner,
    key: Annotated[str | None, typer.Argument(help="Without one: all events of the owner.", show_default=False)] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", "-s", help="With a key: global unless given.", show_default=False)
    ] = None,
    events: Annotated[bool, typer.Option("--events", help="Single events with their verdicts, not versions.")] = False,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    at_least: AtLeast = None,
    limit: Limit = 100,
    page: Page = None,
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
            as_of=as_of,
            known_at=known_at,
            limit=limit,
            page=page,
            **_demand(at_least),
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
    as_of: AsOf = None,
    known_at: KnownAt = None,
    at_least: AtLeast = None,
    no_fallback: NoFallback = False,
    limit: Limit = 3,
    page: Page = None,
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
            as_of=as_of,
            known_at=known_at,
            limit=limit,
            page=page,
            **_demand(at_least),
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
                raise StreamEnded(f"{last['detail']}: go on with --after {last['position_token']}")


def _value(
    owner: str, key: str, scope: str, as_of: str | None, known_at: str | None, at_least: str | None, no_fallback: bool
) -> str:
    with connect() as api:
        return api.get(
            "/v1/value",
            owner=owner,
            key=key,
            scope=scope,
            as_of=as_of,
            known_at=known_at,
            fallback=not no_fallback,
            **_demand(at_least),
        )


def _demand(at_least: str | None) -> dict[str, Any]:
    return {} if at_least is None else {"at_least": at_least, "wait_ms": _WAIT_MS}


def _say_how_far(reading: Reading, next_page: str | None) -> None:
    if next_page is not None:
        _note(f"there is more: --page {next_page}")
    _say_if_provisional(reading.provisional)


def _say_if_provisional(provisional: bool) -> None:
    if provisional:
        _note("provisional: the boundary lies beyond what the log holds so far")


def _note(text: str) -> None:
    render.console().print(Text(text, style="dim"), soft_wrap=True)
