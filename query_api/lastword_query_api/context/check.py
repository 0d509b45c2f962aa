"""What has become of the records of a context. Pure."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from lastword_projector.engine.records import Record, canonical_value, sequence_in
from lastword_query_api import answering
from lastword_query_api.answering import Found
from lastword_query_api.context.prompt import changes_block, line_of
from lastword_query_api.context.selection import item_of
from lastword_query_api.search.snapshots import Snapshot
from lastword_schemas import jsontext
from lastword_schemas.answers import Status
from lastword_schemas.contexts import By, Change, CheckedItem, ContextItem, Delta

UNCHANGED: Final = frozenset({"fresh", "pending"})
"""Statuses of items that may stay as they are."""
_ENDED: Final[Mapping[Status, Literal["deleted", "expired"]]] = {Status.DELETED: "deleted", Status.EXPIRED: "expired"}


@dataclass(frozen=True, slots=True)
class Held:
    """A record that a model was handed."""

    scope: str
    key: str
    source_sequence: int | None
    event_id: str | None = None
    """None: not known."""
    value: str | None = None
    """As canonical JSON; None: not known."""
    unresolved: bool | None = None
    """Whether it was marked so; None: not known."""
    overlay: bool = False
    """Whether it was said in the turn and not read."""

    @classmethod
    def of(cls, item: ContextItem) -> "Held":
        """An item of a context."""
        return cls(
            item.scope,
            item.key,
            item.source_sequence,
            item.event_id,
            jsontext.canonical(item.value),
            item.resolution_state == "unresolved",
            item.origin == "overlay",
        )


def checked(
    held: Held, snapshot: Snapshot, scopes: Sequence[str], moment: int, *, since: int | None, known_at: int
) -> CheckedItem:
    """What has become of a record along a chain at a moment (microseconds since 1970).

    `since` is the last sequence that was taken into account when it was handed out, None where that is not known;
    `known_at` the last one that is now.
    """
    declared = snapshot.registry.keys.get(held.key)
    falls_through = declared is not None and declared.falls_through
    scope, found, _ = answering.choose(snapshot.entries, scopes, held.key, moment, falls_through)
    if held.overlay and _is_pending(held, found, since, known_at):
        return CheckedItem(
            scope=held.scope,
            key=held.key,
            status="pending",
            supplied_sequence=held.source_sequence,
            current_sequence=None if found is None else found.entry.record.source_sequence,
        )
    if scope is None or found is None:
        return CheckedItem(
            scope=held.scope,
            key=held.key,
            status="absent" if held.event_id is None or held.overlay else "withdrawn",
            supplied_sequence=held.source_sequence,
            current_sequence=None,
        )
    status = _status(held, scope, found, snapshot, scopes, moment)
    record = found.entry.record
    return CheckedItem(
        scope=held.scope,
        key=held.key,
        status=status,
        supplied_sequence=held.source_sequence,
        current_sequence=record.source_sequence,
        restated=status == "fresh" and record.source_sequence != held.source_sequence,
        by=None if status in ("fresh", "expired") else _by(scope, record),
    )


def _status(held: Held, scope: str, found: Found, snapshot: Snapshot, scopes: Sequence[str], moment: int) -> Any:
    now = answering.status_of(found.entry, moment)
    if now is not Status.SET:
        return _ENDED[now]
    if scope != held.scope:
        if held.scope not in scopes or scopes.index(scope) < scopes.index(held.scope):
            return "shadowed"
        own = snapshot.entries.get((held.scope, held.key))
        return "absent" if own is None else _ENDED.get(answering.status_at(own.entry, moment), "superseded")
    if not _says_the_same(held, found):
        if _stands_beside(held, found):
            return "unresolved"
        return "withdrawn" if _was_withdrawn(held, found) else "superseded"
    if held.unresolved is not None and held.unresolved != found.entry.unresolved:
        return "unresolved" if found.entry.unresolved else "resolved"
    return "unresolved" if held.unresolved is None and found.entry.unresolved else "fresh"


def _says_the_same(held: Held, found: Found) -> bool:
    """Whether the value is still the one that was handed out, whoever has said it again since.

    Where only a sequence is known, that of a version whose value it was: a version begins at its first event and goes
    on with each restatement.
    """
    entry, record = found.entry, found.entry.record
    if held.event_id == str(uuid.UUID(bytes=record.event_id)):
        return True
    if held.value is not None:
        return record.value is not None and canonical_value(record.value) == held.value
    if held.source_sequence is None or (
        held.event_id is not None and held.source_sequence == record.source_sequence
    ):  # another reading of the same words
        return False
    return sequence_in(entry.start) <= held.source_sequence <= record.source_sequence


def _stands_beside(held: Held, found: Found) -> bool:
    """Whether it is one of several values that contradict each other, and another one is the current one."""
    entry = found.entry
    standing = entry.state.branches if entry.unresolved and entry.state is not None else ()
    return any(one.record.value is not None and canonical_value(one.record.value) == held.value for one in standing)


def _was_withdrawn(held: Held, found: Found) -> bool:
    """Whether something older took its place, and it was not ended by a resolve: nothing else brings that about."""
    entry = found.entry
    ended = () if entry.state is None else entry.state.ended
    return (
        held.source_sequence is not None
        and not held.overlay
        and entry.record.source_sequence < held.source_sequence
        and all(canonical_value(one.branch.record.value or b"null") != held.value for one in ended)
    )


def _is_pending(held: Held, found: Found | None, since: int | None, known_at: int) -> bool:
    """Whether nothing that is projected says anything about what was said in the turn."""
    if held.source_sequence is not None and held.source_sequence <= known_at:
        return False
    if found is None:
        return True
    record = found.entry.record
    if record.value is not None and canonical_value(record.value) == held.value:
        return False
    return since is not None and record.sequence <= since


def _by(scope: str, record: Record) -> By:
    return By(scope=scope, source_sequence=record.source_sequence, event_id=str(uuid.UUID(bytes=record.event_id)))


def delta_of(
    owner: str, items: Sequence[CheckedItem], newer: Sequence[ContextItem], snapshot: Snapshot, scopes: tuple[str, ...]
) -> Delta:
    """What to change in a prompt that has these items, one a line."""
    replace, remove, removed = list[Change](), list[Change](), list[tuple[Change, CheckedItem]]()
    if all(item.status in UNCHANGED for item in items) and not newer:
        return Delta()
    answers = {
        document.key: document
        for number in snapshot.numbers(scopes)
        for document in [snapshot.corpus.documents[number]]
    }
    for number, item in enumerate(items):
        if item.status in UNCHANGED:
            continue
        document = answers.get(item.key)
        if document is not None:
            replace.append(_change(item_of(owner, document, "profile", "key"), number, item.scope))
        else:
            remove.append(Change(item=number, scope=item.scope, key=item.key))
            removed.append((remove[-1], item))
    add = [_change(item, None, item.scope) for item in newer]
    return Delta(replace=replace, remove=remove, add=add, prompt=changes_block(replace, removed, add))


def _change(now: ContextItem, number: int | None, scope: str) -> Change:
    return Change(item=number, scope=scope, key=now.key, now=now, line=line_of(now))
