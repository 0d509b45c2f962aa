"""Which records go into a context, and why the others do not. Pure: what applies was settled before."""

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from lastword_query_api import answering
from lastword_query_api.search.documents import Document
from lastword_query_api.search.ranking import Candidates
from lastword_query_api.search.searches import Applicable, Wanted
from lastword_query_api.search.words import terms
from lastword_schemas import limits
from lastword_schemas.authority import Authority, AuthorityRank
from lastword_schemas.contexts import ContextItem, LeftOut
from lastword_schemas.ids import record_id
from lastword_schemas.model import from_micros
from lastword_schemas.positions import Receipt

NEWEST: Final = "authority-newest"
"""What contexts without a task call their order: the greatest authority first, then the newest source."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """A statement of the current turn, handed in because the projection may not have it."""

    scope: str
    key: str
    value: Any
    receipt: Receipt | None


@dataclass(frozen=True, slots=True)
class Task:
    """What a context is for, and what may be in it."""

    text: str
    """Empty: what is kept for any task."""
    scopes: tuple[str, ...]
    """The chain, first scope first."""
    keys: tuple[str, ...] = ()
    """Always to be there, if something applies, before all others."""
    groups: tuple[str, ...] = ()
    """Only keys of these groups, unless it is empty; those that are named aside."""
    min_authority: Authority | None = None
    unresolved: bool = True
    """Also values that others contradict."""
    limit: int = 8
    """Records to be chosen besides those that are named."""

    @property
    def wanted(self) -> Wanted:
        """All that applies along the chain, as search takes it."""
        return Wanted(self.text, self.scopes)

    @property
    def is_any(self) -> bool:
        """Whether there is nothing to be looked for."""
        return not terms(self.text)

    @property
    def chosen(self) -> Literal["task", "newest"]:
        """Why a record that was ranked is there."""
        return "newest" if self.is_any else "task"

    def excluded(self, document: Document) -> "Reason | None":
        """Why a record may not be chosen."""
        if not self.unresolved and document.unresolved:
            return "unresolved"
        if self.groups and document.declared.group not in self.groups:
            return "group"
        if self.min_authority is not None and document.record.authority < self.min_authority.rank:
            return "authority"
        return None

    def among(self, candidates: Candidates) -> Candidates:
        """Those that may be chosen."""
        documents = candidates.corpus.documents
        return Candidates(
            candidates.corpus, [number for number in candidates.numbers if self.excluded(documents[number]) is None]
        )


Reason = Literal["budget", "rank", "no-match", "unresolved", "group", "authority", "overlaid", "shadowed", "projected"]


class Left(NamedTuple):
    """A record that was left out."""

    scope: str
    key: str
    source_sequence: int | None
    reason: Reason


class Selection(NamedTuple):
    """What was chosen, the first to be kept first, and what was not."""

    items: list[ContextItem]
    left: list[Left]


def newest(candidates: Candidates) -> list[int]:
    """The numbers of the candidates, the greatest authority first, then the newest source."""
    return [
        number
        for number, _ in sorted(
            candidates, key=lambda one: (-one[1].record.authority, -one[1].source_sequence, one[1].scope, one[1].key)
        )
    ]


def select(task: Task, applicable: Applicable, order: Sequence[int], overlays: Sequence[Overlay] = ()) -> Selection:
    """Overlays first, then the named keys, then the first of `order`: numbers of candidates that may be chosen."""
    owner, origin = applicable.reading.owner, applicable.reading.representation
    documents = applicable.candidates.corpus.documents
    by_key = {documents[number].key: documents[number] for number in applicable.candidates.numbers}
    laid, left = _lay_over(task, applicable, overlays, by_key)
    items = [_overlaid(owner, overlay) for overlay in laid]
    taken = {overlay.key for overlay in laid}
    for key in task.keys:
        if key in by_key and key not in taken:
            items.append(item_of(owner, by_key[key], origin, "key"))
            taken.add(key)
    rank, seen = 0, set(taken)
    for number in order:
        document = documents[number]
        seen.add(document.key)
        if document.key in taken:
            continue
        rank += 1
        if rank <= task.limit:
            items.append(item_of(owner, document, origin, task.chosen, rank))
        else:
            left.append(_left(document, "rank"))
    left += [
        _left(document, task.excluded(document) or "no-match") for key, document in by_key.items() if key not in seen
    ]
    return Selection(items, left)


def _lay_over(
    task: Task, applicable: Applicable, overlays: Sequence[Overlay], by_key: dict[str, Document]
) -> tuple[list[Overlay], list[Left]]:
    """The overlays that say what applies, and what is left out because of it."""
    laid, left = [], list[Left]()
    for overlay in overlays:
        document, receipt = by_key.get(overlay.key), overlay.receipt
        sequence = None if receipt is None else receipt.sequence
        if sequence is not None and sequence <= applicable.reading.known_at:
            left.append(Left(overlay.scope, overlay.key, sequence, "projected"))
        elif document is not None and task.scopes.index(document.scope) < task.scopes.index(overlay.scope):
            left.append(Left(overlay.scope, overlay.key, sequence, "shadowed"))
        else:
            laid.append(overlay)
            left += [] if document is None else [_left(document, "overlaid")]
    return laid, left


def item_of(
    owner: str,
    document: Document,
    origin: Literal["profile", "history"],
    chosen: Literal["key", "task", "newest"],
    rank: int | None = None,
) -> ContextItem:
    """A record that applies, as a context has it."""
    record = document.record
    return ContextItem(
        scope=document.scope,
        key=document.key,
        value=answering.value_of(record),
        origin=origin,
        chosen=chosen,
        rank=rank,
        resolution_state="unresolved" if document.unresolved else "resolved",
        authority=AuthorityRank(record.authority).authority,
        source_sequence=record.source_sequence,
        updated_at=answering.source_time(record.source_recorded_at),
        expires_at=None if document.expires_at is None else from_micros(document.expires_at),
        record_id=record_id(owner, document.scope, document.key),
        event_id=str(uuid.UUID(bytes=record.event_id)),
        source=answering.words_of(record),
    )


def _overlaid(owner: str, overlay: Overlay) -> ContextItem:
    receipt = overlay.receipt
    return ContextItem(
        scope=overlay.scope,
        key=overlay.key,
        value=overlay.value,
        origin="overlay",
        chosen="overlay",
        resolution_state="resolved",
        authority=None,
        source_sequence=None if receipt is None else receipt.sequence,
        updated_at=None,
        record_id=record_id(owner, overlay.scope, overlay.key),
        event_id=None if receipt is None else receipt.event_id,
        source=None,
    )


def _left(document: Document, reason: Reason) -> Left:
    return Left(document.scope, document.key, document.source_sequence, reason)


def told(left: Sequence[Left]) -> tuple[list[LeftOut], dict[str, int]]:
    """What a context says of what it leaves out: the nearest, and how many for each reason."""
    shown = [LeftOut(**one._asdict()) for one in left[: limits.MAX_LEFT_OUT]]
    return shown, dict(Counter(one.reason for one in left))
