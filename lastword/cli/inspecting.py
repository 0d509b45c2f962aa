"""An inspection record as people read it: what applies, and why."""

from rich.table import Table
from rich.text import Text

from lastword.cli import render
from lastword_schemas.answers import BranchAnswer, InspectionRecord, Rule, State, Status, Words


def tell(record: InspectionRecord) -> None:
    """An inspection record, told."""
    identity, state, source, selection = record.identity, record.state, record.source, record.selection
    out = render.console()
    name = " · ".join(render.clean(part) for part in (identity.owner, identity.scope, identity.key))
    out.print(Text(name, style="bold"))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("applies", _applies(state))
    if source is not None:
        grid.add_row("since", f"{render.since_text(state, ' UTC')}, sequence {state.version_start}")
        if state.mark is not None and state.mark.source_sequence != state.version_start:
            grid.add_row(
                "restated", f"{render.time_text(source.updated_at)} UTC, sequence {state.mark.source_sequence}"
            )
        if source.updated_at is None and source.occurred_at is not None:
            grid.add_row("occurred", f"{render.time_text(source.occurred_at)} UTC, by the publisher's clock")
        if state.expires_at is not None:
            grid.add_row("expires", f"{render.time_text(state.expires_at)} UTC")
        authority = "" if state.authority is None else f", authority {state.authority.value}"
        sure = "" if source.confidence is None else f", confidence {source.confidence:g}"
        actor = source.actor
        grid.add_row("said by", f"{render.clean(actor.service)} as {actor.role.value}{authority}{sure}")
        grid.add_row("where", _where(source.source))
        if (by := source.retired_by) is not None:
            grid.add_row("retired by", f"the set of {render.clean(by.scope)} · {render.clean(by.key)}")
        grid.add_row("replaced", f"sequence {', '.join(map(str, state.supersedes))}" if state.supersedes else "nothing")
    for branch in record.branches:
        if not branch.current:
            grid.add_row("beside it" if branch.ended_by is None else "ended", _beside(branch))
    grid.add_row("chosen because", _because(record))
    grid.add_row("boundary", _boundary(record))
    if source is not None:
        at = source.position
        grid.add_row("event", f"{source.event_id}, partition {at.partition}, offset {at.offset}")
    written = (
        ""
        if source is None or source.projected_at is None
        else f", written {render.time_text(source.projected_at)} UTC"
    )
    grid.add_row("read from", f"{selection.representation}{written}")
    if identity.record_id is not None:
        grid.add_row("record", identity.record_id)
    grid.add_row("position", selection.position_token)
    out.print(grid)
    if state.resolution_reason == "values_differ":
        out.print(Text("to decide: lastword resolve OWNER KEY VALUE, with the value that is right", style="dim"))


def _beside(branch: BranchAnswer) -> str:
    """What else stands under policy `branch`, and who said it."""
    what = render.value_text(branch.value) if branch.operation == "set" else "a delete"
    times = "" if branch.assertions == 1 else f", {branch.assertions} times"
    actor = render.clean(branch.source.actor.service)
    by = "" if branch.ended_by is None else f"; ended by the resolve at sequence {branch.ended_by.sequence}"
    return f"{what}, said by {actor}, authority {branch.authority}, sequence {branch.latest}{times}{by}"


def _applies(state: State) -> Text:
    text = render.state_text(state)
    if state.status is Status.ABSENT:
        return text.append(": nothing was ever said")
    if state.status is Status.DELETED:
        return text.append(": it was taken back")
    if state.status is Status.EXPIRED:
        return text.append(": it was said, and its time is over")
    return text


def _where(words: Words) -> str:
    parts = []
    if words.thread is not None:
        parts.append(f"thread {render.clean(words.thread)}")
    if words.message is not None:
        parts.append(f"message {render.clean(words.message)}")
    if words.span is not None:
        parts.append(f"characters {words.span[0]} to {words.span[1]}")
    if words.quote is not None:
        parts.append(f"“{render.clean(words.quote)}”")
    return ", ".join(parts) or "no thread: a statement by itself"


def _because(record: InspectionRecord) -> str:
    asked, answered = render.clean(record.identity.scope), render.clean(record.identity.answered_scope or "")
    reasons = {
        Rule.EXACT: f"{asked} has a value",
        Rule.FALLBACK: f"{asked} has no entry, so {answered} answers",
        Rule.FELL_THROUGH: f"{asked} has no value any more, and the key is declared to fall through to {answered}",
        Rule.TOMBSTONE: f"a tombstone in {answered} answers",
        Rule.EXPIRED: f"an expired value in {answered} answers",
        Rule.ABSENT: f"neither {asked} nor a scope after it has an entry",
    }
    if record.identity.scope == "global" and record.selection.rule is Rule.ABSENT:
        reasons[Rule.ABSENT] = f"{asked} has no entry"
    declared = "" if record.identity.declared else "; the key is not declared"
    return f"{reasons[record.selection.rule]} (rule: {record.selection.rule.value}){declared}"


def _boundary(record: InspectionRecord) -> str:
    selection = record.selection
    said = "everything said" if selection.as_of is None else f"what had been said as of {selection.as_of}"
    more = ", provisional: the log has not come that far" if selection.provisional else ""
    clock = "" if selection.clock == "broker" else "; times are the publishers' clocks"
    return f"{said}, in the log up to {selection.known_at}{more}{clock}"
