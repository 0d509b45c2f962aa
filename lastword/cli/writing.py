"""Commands that write: publish, replay."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from lastword.cli import render
from lastword.cli.client import Api, connect
from lastword.cli.journal import Journal
from lastword.cli.options import WAIT_MS, Owner
from lastword.cli.replaying import Replayed, replay_lines
from lastword.cli.streams import STDIO, opened
from lastword.cli.telling import tell_item
from lastword.cli.values import json_value
from lastword_schemas import jsontext
from lastword_schemas.authority import Authority, Role
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import GLOBAL


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(publish)
    app.command()(replay)


def publish(
    owner: Owner,
    key: Annotated[str | None, typer.Argument(help="A declared key, such as mail.tone.", show_default=False)] = None,
    value: Annotated[
        str | None,
        typer.Argument(
            help="JSON if it parses as JSON, else a string: brief and '\"brief\"' are the same, 12 is a number, "
            "'\"12\"' a string.",
            show_default=False,
        ),
    ] = None,
    scope: Annotated[str, typer.Option("--scope", "-s", help="global or <kind>:<name>.")] = GLOBAL,
    delete: Annotated[bool, typer.Option("--delete", help="Take the value back.")] = False,
    say: Annotated[str | None, typer.Option(help="Publish a turn with this text (no key, no value).")] = None,
    thread: Annotated[str | None, typer.Option(help="The thread it was said in; a turn needs one.")] = None,
    reads: Annotated[
        str | None, typer.Option(help="Publish a candidate: a reading of this earlier event (id or receipt).")
    ] = None,
    quote: Annotated[str | None, typer.Option(help="Of a candidate: the words of the turn that say so.")] = None,
    at: Annotated[int | None, typer.Option(help="Where the quote begins in the turn, in characters.")] = None,
    authority: Annotated[
        Authority | None, typer.Option(help="Default: stated; of a candidate without a quote inferred.")
    ] = None,
    service: Annotated[str, typer.Option(help="Who publishes.")] = "command-line",
    role: Annotated[Role | None, typer.Option(help="Default: person; of a candidate extractor.")] = None,
    expected_sequence: Annotated[
        int | None,
        typer.Option(min=0, help="Only if the value there has this sequence (`lastword get` shows it); 0: if none is."),
    ] = None,
    retires: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'SCOPE KEY'",
            help="Delete this other key in the same step, such as 'project:Comet mail.tone'; give it again for more.",
        ),
    ] = None,
    event_id: Annotated[str | None, typer.Option(help="Yours, so that a retry is the same event.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait for the verdict.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print the API's JSON.")] = False,
) -> None:
    """Publish a value, a deletion (--delete), a turn (--say) or a candidate (--reads)."""
    draft: dict[str, Any] = {"owner": owner, "scope": scope, "actor": {"service": service}}
    draft |= _content(key, value, delete, say)
    optional = {
        "thread": thread,
        "event_id": event_id,
        "authority": authority and authority.value,
        "expected_sequence": expected_sequence,
        "retires": [_scoped_key(text) for text in retires] if retires else None,
    }
    draft |= {name: given for name, given in optional.items() if given is not None}
    draft["actor"]["role"] = (role or (Role.PERSON if reads is None else Role.EXTRACTOR)).value
    if reads is not None:
        draft |= _citation(reads, quote, at, authority)
    elif quote is not None or at is not None:
        raise InvalidInput("only a candidate quotes: say with --reads which event it reads", field="--reads")
    with connect() as api:
        text = api.post(
            "/v1/events" if reads is None else "/v1/candidates",
            draft,
            wait="applied" if wait else None,
            wait_ms=WAIT_MS if wait else None,
        )
    if json:
        render.print_json(text)
    else:
        tell_item(jsontext.parse(text))


def replay(
    file: Annotated[
        Path,
        typer.Argument(help="JSON lines; - is standard input.", show_default=False),
    ],
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Events in one request.")] = 500,
    wait: Annotated[
        bool, typer.Option(help="Wait for the verdicts. Without them only what the door refuses is seen.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print the counts and the refusals as JSON.")] = False,
) -> None:
    """Publish a file of events: a line is what POST /v1/events takes, or with a source_event_id POST /v1/candidates.

    They are in the log in the order of the lines. A replay that was stopped, in whatever way, goes on where it was when
    it is run again, and adds nothing twice: FILE.replaying keeps how far it is. With event ids, replaying a whole file
    again changes nothing.
    """
    if file != STDIO and not file.is_file():
        raise InvalidInput(f"there is no file {file}", field="FILE")
    with connect() as api:
        replayed = _replay(api, file, batch, wait=wait, to_people=not json)
    if json:
        render.print_json(jsontext.dump(replayed.as_json()))
    else:
        _tell_counts(replayed)
    if replayed.stopped is not None:
        raise replayed.stopped
    if replayed.refusals:
        raise typer.Exit(1)


def _content(key: str | None, value: str | None, delete: bool, say: str | None) -> dict[str, Any]:
    """The part of a draft that says what happens. Raises InvalidInput where the arguments do not fit together."""
    if say is not None:
        if key is not None or delete:
            raise InvalidInput("a turn has no key: --say goes without KEY, VALUE and --delete", field="--say")
        return {"operation": "say", "text": say}
    if key is None:
        raise InvalidInput("name a KEY and its VALUE, or --say something", field="KEY")
    if delete:
        if value is not None:
            raise InvalidInput("--delete takes no VALUE", field="VALUE")
        return {"operation": "delete", "key": key}
    if value is None:
        raise InvalidInput("which VALUE? To take the value back say --delete", field="VALUE")
    return {"operation": "set", "key": key, "value": json_value(value)}


def _scoped_key(text: str) -> dict[str, str]:
    """A scope and a key, divided by the last blank."""
    scope, _, key = text.rpartition(" ")
    if not scope:
        raise InvalidInput("name scope and key in one argument, such as 'global mail.tone'", field="--retires")
    return {"scope": scope, "key": key}


def _citation(reads: str, quote: str | None, at: int | None, authority: Authority | None) -> dict[str, Any]:
    if (quote is None) != (at is None):
        raise InvalidInput("--quote and --at go together: the words, and where they begin", field="--at")
    cited: dict[str, Any] = {"source_event_id": reads}
    if quote is not None and at is not None:
        cited |= {"quote": quote, "span": [at, at + len(quote)]}
        if authority is None:
            cited["authority"] = Authority.STATED.value
    return cited


def _replay(api: Api, file: Path, batch: int, *, wait: bool, to_people: bool) -> Replayed:
    errors = render.console(stderr=True)

    def refused(line: int, why: str) -> None:
        if to_people:
            errors.print(Text.assemble((f"line {line}: ", "bold"), render.clean(why)), soft_wrap=True, highlight=False)

    columns = (
        TextColumn("replay"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[events]} events"),
        TimeRemainingColumn(),
    )
    size = None if file == STDIO else file.stat().st_size
    shown = Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal)
    with _journal(file) as journal, shown as progress, opened(file) as lines:
        task = progress.add_task("replay", total=size, events=0)

        def done(events: int, bytes_done: int) -> None:
            progress.update(task, completed=bytes_done, events=events)

        return replay_lines(api, lines, journal, batch, wait=wait, on_refused=refused, on_progress=done)


@contextmanager
def _journal(file: Path) -> Iterator[Journal | None]:
    """What is kept of how far a file is; of standard input nothing is."""
    if file == STDIO:
        yield None
        return
    journal = Journal.open(file)
    try:
        yield journal
    finally:
        journal.close()


def _tell_counts(replayed: Replayed) -> None:
    if replayed.done_before:
        render.console().print(f"went on after line {replayed.done_before:,}; what was done before is not counted")
    table = render.table("outcome", "events")
    table.columns[1].justify = "right"
    for outcome, count in sorted(replayed.counts.items()):
        table.add_row(render.styled(outcome), f"{count:,}")
    table.add_row(Text("all", style="bold"), f"{replayed.total:,}")
    render.console().print(table)
