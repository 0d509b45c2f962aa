"""What a decision changes: the entries of the keys whose events it makes count, or not count, or chooses among."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from lastword_projector.engine.decisions import Standing, decided_by
from lastword_projector.engine.known import Known, SourceRef
from lastword_projector.engine.policies import policy_of
from lastword_projector.engine.records import LEDGER, NO_MARK, ZERO_MARK, Branches, Entry, Ledger, Record, mark_of
from lastword_schemas.changes import CHANGING
from lastword_schemas.registry import Registry

_CHANGING = frozenset(effect.value for effect in CHANGING)

Ref = tuple[str, str, str]
"""Owner, scope and key."""


class Deciding(NamedTuple):
    """A decision that was worked out; nothing has changed yet."""

    ledger: Entry
    """The owner's decisions, with this one."""
    standing: Standing
    """What they make of the owner's events."""
    entries: dict[Ref, Entry]
    """The entries that it touches, folded anew."""
    before: dict[Ref, Entry | None]
    """What they were."""


def standing_in(ledger: Entry | None) -> Standing:
    """What an owner's decisions make of the owner's events."""
    return Standing(ledger.ledger.decisions) if ledger is not None and ledger.ledger is not None else Standing()


def decide(known: Known, owner: str, made: Record, registry: Registry) -> Deciding:
    """Work out what an event that counts decides about others. Raises NotLoaded."""
    stored = known.entry((owner, *LEDGER))
    decisions = () if stored is None or stored.ledger is None else stored.ledger.decisions
    decided = decided_by(made)
    if decided is None:
        raise AssertionError("only what decides something is worked out")
    before, after = Standing(decisions), Standing((*decisions, decided))
    # In an order that all processes have alike: the record tells what changed, in the same bytes everywhere.
    either = dict.fromkeys((*after.withdrawn, *before.withdrawn))
    changing = [each for each in either if (each in after.withdrawn) is not (each in before.withdrawn)]
    touched = _touched(known, owner, made, changing)
    known.require(entries=touched, histories=touched)
    entries = {ref: known.entry(ref) for ref in touched}
    folded: dict[Ref, Entry] = {}
    for ref, entry in entries.items():
        policy = policy_of(entry, ref[2], registry)
        found = policy.fold(after.counting(known.history(ref)), after.resolves(*ref[1:]))
        if found is not None:
            folded[ref] = found
        elif entry is not None:
            folded[ref] = _void(entry)
    mark = mark_of(made.sequence, made.authority, 0)
    ledger = Entry(
        made,
        mark,
        mark,
        made.source_recorded_at,
        stored.mark if stored else NO_MARK,
        ledger=Ledger((*decisions, decided)),
    )
    return Deciding(ledger, after, folded, entries)


def changed(deciding: Deciding, parts: Iterable[Record]) -> tuple[tuple[str, str, str], ...]:
    """Scope, key and what is said since, of the entries that became others by a decision, but for those that one of the
    event's own parts says to have changed."""
    told = {part.place for part in parts if part.verdict in _CHANGING}
    return tuple(
        (ref[1], ref[2], _says(entry))
        for ref, entry in deciding.entries.items()
        if ref[1:] not in told and entry != deciding.before[ref]
    )


def _touched(known: Known, owner: str, made: Record, events: Iterable[bytes]) -> list[Ref]:
    """The keys of events that count since, or no more, and of what reads them; and the key of a resolve."""
    refs = [(owner, event_id) for event_id in events]
    known.require(events=refs)
    found = [record for ref in refs if (record := known.first_copy(ref)) is not None]
    sources = [SourceRef(owner, record.event_id, record.sequence) for record in found if not record.is_candidate]
    known.require(citing=sources)
    for source in sources:
        found += known.citing(source)
    touched = {
        (owner, part.scope, part.key): None for record in found for part in record.parts() if part.key is not None
    }
    for record in (made, *found):
        if record.decision is not None and record.decision.resolves and record.key is not None:
            touched[owner, record.scope, record.key] = None
    return list(touched)


def _void(entry: Entry) -> Entry:
    state = None if entry.state is None else Branches()
    return Entry(entry.record, ZERO_MARK, ZERO_MARK, 0, state=state, is_void=True)


def _says(entry: Entry) -> str:
    if entry.is_void:
        return "absent"
    if entry.unresolved:
        return "unresolved"
    return "deleted" if entry.record.is_delete else "set"


def with_changes(made: Record, entries: tuple[tuple[str, str, str], ...]) -> None:
    """Write into a decision which other entries it made others."""
    if made.decision is not None:
        made.decision = replace(made.decision, changed=entries)
