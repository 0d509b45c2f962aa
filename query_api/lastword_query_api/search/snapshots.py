"""An owner's documents at one moment, and those of the owners asked about lately, in memory alone."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lastword_projector.engine.records import Entry, Record
from lastword_projector.store.ports import Checkpoint
from lastword_query_api.answering import Entries, choose
from lastword_query_api.search.documents import Active, active_documents
from lastword_query_api.search.lexical import LexicalIndex
from lastword_query_api.search.ranking import Corpus
from lastword_schemas.registry import Registry


@dataclass(eq=False)
class Snapshot:
    """What applied to an owner at a moment, ready to be searched."""

    entries: Entries
    registry: Registry
    active: Active
    corpus: Corpus
    moment: int
    """Microseconds since 1970."""
    until: float
    """When the next value expires, likewise: from then on this is no longer what applies."""
    size: int
    """About how much memory it takes, in entries of some thirty words."""
    _chains: dict[tuple[str, ...], Sequence[int]] = field(default_factory=dict)

    @classmethod
    def made(cls, entries: Entries, registry: Registry, moment: int, before: "Snapshot | None" = None) -> "Snapshot":
        """From all of an owner's entries. What is as it was `before` is taken from there."""
        known = before.active if before is not None and before.registry is registry else {}
        active = active_documents(entries, registry, moment, known)
        documents = list(active.values())
        until = min((end for one in entries.values() for end in _ends(one.entry) if end > moment), default=float("inf"))
        size = len(entries) + sum(len(document.fields.value) for document in documents) // 30
        return cls(entries, registry, active, Corpus(documents, LexicalIndex(documents)), moment, until, size)

    def numbers(self, scopes: tuple[str, ...] | None) -> Sequence[int]:
        """The documents that apply along a scope chain; of every scope by itself where it is None."""
        if scopes is None:
            return range(len(self.active))
        if scopes not in self._chains:
            self._chains[scopes] = self._along(scopes)
        return self._chains[scopes]

    def _along(self, scopes: tuple[str, ...]) -> list[int]:
        number_of = {at: number for number, at in enumerate(self.active)}
        found = []
        for key in dict.fromkeys(key for _, key in self.entries):
            declared = self.registry.keys.get(key)
            falls_through = declared is not None and declared.falls_through
            scope, _, _ = choose(self.entries, scopes, key, self.moment, falls_through)
            if scope is not None and (number := number_of.get((scope, key))) is not None:
                found.append(number)
        return found


def _ends(entry: Entry) -> Iterator[int]:
    """When values of an entry expire, microseconds since 1970."""
    ends = [entry.record.expires_at] if entry.state is None else [one.expires_at for one in entry.state.branches]
    return (end for end in ends if end is not None)


@dataclass(frozen=True, slots=True)
class Held:
    """A snapshot and what it is of."""

    snapshot: Snapshot
    namespace: str
    checkpoint: Checkpoint

    def is_of(self, namespace: str, checkpoint: Checkpoint, last: Iterable[Record]) -> bool:
        """Whether it is still what the profile says: nothing of the owner came since, in the same projection.

        `last` is the owner's last record, if there is one.
        """
        mine = self.checkpoint
        return (
            self.namespace == namespace
            and mine.genesis == checkpoint.genesis
            and mine.fold_version == checkpoint.fold_version
            and mine.registry is checkpoint.registry
            and mine.last_sequence <= checkpoint.last_sequence
            and all(record.sequence <= mine.last_sequence for record in last)
        )


class SnapshotCache:
    """The snapshots of the owners that were asked about last, bounded by their size together."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, owner: str) -> Held | None:
        """What is held of an owner."""
        with self._lock:
            if owner in self._held:
                self._held.move_to_end(owner)
            return self._held.get(owner)

    def put(self, owner: str, held: Held) -> None:
        """Hold this, and let go of others where it is too much."""
        with self._lock:
            self._remove(owner)
            self._held[owner] = held
            self._size += held.snapshot.size
            while self._size > self._most:
                self._remove(next(iter(self._held)))

    def _remove(self, owner: str) -> None:
        if (held := self._held.pop(owner, None)) is not None:
            self._size -= held.snapshot.size
