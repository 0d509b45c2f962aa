"""What people see: tables, values, times, errors. Text from outside never reaches the terminal with control codes."""

import sys
from datetime import datetime
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lastword_schemas import jsontext
from lastword_schemas.answers import EventAnswer, InspectionRecord, State, Status, Version
from lastword_schemas.changes import Change
from lastword_schemas.model import instant_text
from lastword_schemas.search import Hit

_PIPE_WIDTH: Final = 120
BEFORE_THE_LOG: Final = "before the log"
_JOINERS: Final = "\u200c\u200d"

_STYLES: Final = {
    "set": "green",
    "current": "green",
    "counts": "green",
    "applied": "green",
    "accepted": "green",
    "deleted": "yellow",
    "superseded": "dim",
    "expired": "yellow",
    "absent": "dim",
    "recorded": "dim",
    "duplicate": "dim",
    "refused": "red",
    "failed": "red",
    "unknown": "red",
}


def console(*, stderr: bool = False) -> Console:
    """Where to print: as wide as the terminal, or wide enough for the tables where there is none."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else _PIPE_WIDTH)


def fail(message: str, field: str | None = None) -> None:
    """Say on standard error what went wrong."""
    text = Text.assemble(("lastword: ", "bold red"), clean(message))
    if field is not None and field not in message:
        text.append(f" (field: {clean(field)})")
    console(stderr=True).print(text, soft_wrap=True)


def print_json(text: str) -> None:
    """The API's JSON as it came, for machines."""
    sys.stdout.write(text + "\n")


def table(*columns: str, title: str | None = None) -> Table:
    """An empty table."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="bold")
    for name in columns:
        made.add_column(name, overflow="fold")
    return made


def clean(text: str) -> str:
    """The text with everything escaped that a terminal might obey."""
    return "".join(c if c.isprintable() or c in _JOINERS else c.encode("unicode_escape").decode() for c in text)


def value_text(value: Any) -> str:
    """A value as it would be written on the command line: a string as it is if it is none other, else JSON."""
    if isinstance(value, str) and value and clean(value) == value and not _is_json(value):
        return value
    return clean(jsontext.dump(value))


def counted(number: int, one: str, many: str | None = None) -> str:
    """So many of something."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def time_text(moment: datetime | None) -> str:
    """An instant in UTC, to the second."""
    return "" if moment is None else instant_text(moment.replace(microsecond=0)).replace("T", " ").removesuffix("Z")


def since_text(state: State, zone: str = "") -> str:
    """When the version began, and the zone; what was backfilled began before the log."""
    if state.version_start == 0:
        return BEFORE_THE_LOG
    return time_text(state.version_started_at) + (zone if state.version_started_at else "")


def styled(word: str) -> Text:
    """A status or an outcome in its colour."""
    return Text(word, style=_STYLES.get(word, ""))


def state_text(state: State) -> Text:
    """The value, or why there is none."""
    if state.status is not Status.SET:
        return styled(state.status.value)
    text = Text(value_text(state.value))
    if state.resolution_state == "unresolved":
        text.append(" (unresolved)", style="red")
    return text


def profile_table(records: list[InspectionRecord]) -> Table:
    """Entries, one a line."""
    made = table("scope", "key", "value", "since (UTC)", "sequence", "rule")
    for record in records:
        identity, source = record.identity, record.source
        made.add_row(
            clean(identity.scope),
            clean(identity.key),
            state_text(record.state),
            since_text(record.state),
            "" if source is None else str(source.source_sequence),
            record.selection.rule.value,
        )
    return made


def hits_table(hits: list[Hit]) -> Table:
    """What a search found, one a line."""
    made = table("scope", "key", "value", "status", "said (UTC)", "sequence", "score", "by")
    for hit in hits:
        value = Text(value_text(hit.fact.value))
        if hit.resolution_state == "unresolved":
            value.append(" (unresolved)", style="red")
        made.add_row(
            clean(hit.fact.scope),
            clean(hit.fact.key),
            value,
            styled(hit.status),
            time_text(hit.updated_at) or BEFORE_THE_LOG,
            str(hit.source_sequence),
            f"{hit.score:.2f}",
            clean(", ".join(hit.why.matched)),
        )
    return made


def versions_table(versions: list[Version]) -> Table:
    """Versions of a key, one a line."""
    made = table("value", "status", "from (UTC)", "sequence", "until (UTC)", "ended by", "said by")
    for version in versions:
        ended = version.ended
        value = Text(value_text(version.value)) if version.operation == "set" else styled("deleted")
        if version.retired_by is not None:
            value.append(f" by {clean(version.retired_by.scope)} {clean(version.retired_by.key)}")
        sequences = f"{version.start}" if version.latest == version.start else f"{version.start}…{version.latest}"
        by = "" if ended is None else ended.by if ended.sequence is None else f"{ended.by} at {ended.sequence}"
        made.add_row(
            value,
            styled(version.status),
            time_text(version.started_at) or BEFORE_THE_LOG,
            sequences,
            "" if ended is None else time_text(ended.at) or BEFORE_THE_LOG,
            by,
            f"{clean(version.actor.service)}, {version.authority.value}",
        )
    return made


def events_table(events: list[EventAnswer]) -> Table:
    """Events of an owner, one a line."""
    made = table("sequence", "time (UTC)", "operation", "scope", "key", "value or text", "verdict", "status")
    for event in events:
        verdict = event.effect or event.reason or event.outcome.value
        if event.retired_by is not None:
            verdict += f" by {clean(event.retired_by.scope)} {clean(event.retired_by.key)}"
        if event.sequences:
            verdict += f" ({', '.join(map(str, event.sequences))})"
        what = clean(event.text or "") if "value" not in event.model_fields_set else value_text(event.value)
        made.add_row(
            str(event.position.sequence),
            time_text(event.recorded_at),
            clean(event.operation),
            clean(event.scope),
            clean(event.key or ""),
            what,
            verdict,
            styled(event.status.value),
        )
    return made


def change_line(change: Change) -> Text:
    """A change, when the log had the event."""
    where = f"  {clean(change.scope)}  {clean(change.key)}  "
    when = Text(time_text(change.recorded_at), style="dim")
    return Text.assemble(when, "  ", styled(change.effect), where, (f"at {change.sequence}", "dim"))


def _is_json(text: str) -> bool:
    try:
        jsontext.parse(text)
    except ValueError:
        return False
    return True
