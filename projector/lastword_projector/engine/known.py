"""What a `Projection` has in memory of its owners, and how it asks for what it has not: it raises `NotLoaded`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lastword_projector.engine.decode import Malformed
from lastword_projector.engine.reading import Read
from lastword_projector.engine.records import LEDGER, Entry, Record

_MOST_ENTRIES = 50_000
"""Entries of one partition that are held in memory."""
_MOST_EVENTS = 500
"""Events of one partition that are held in memory, twice so many at most: a candidate is most often of a turn that was
just folded, and a retry of an event likewise."""


class EventRef(NamedTuple):
    """An event of an owner, by id."""

    owner: str
    event_id: bytes


class KeyRef(NamedTuple):
    """An entry of an owner."""

    owner: str
    scope: str
    key: str


class SourceRef(NamedTuple):
    """An event of an owner that candidates may cite."""

    owner: str
    event_id: bytes
    sequence: int


@dataclass(frozen=True, slots=True)
class Needs:
    """What folding an event may ask for."""

    events: Sequence[tuple[str, bytes]] = ()
    """Each an `EventRef`, or a tuple that is equal to it."""
    entries: Sequence[tuple[str, str, str]] = ()
    """Each a `KeyRef`, or a tuple that is equal to it."""
    histories: Sequence[KeyRef] = ()
    citing: Sequence[SourceRef] = ()
    """Events whose readings are asked for."""

    def parts(self, most: int) -> "Iterator[Needs]":
        """The same events and entries in parts of at most `most` each."""
        for first in range(0, max(len(self.events), len(self.entries)), most):
            yield Needs(self.events[first : first + most], self.entries[first : first + most])


class NotLoaded(Exception):
    """Folding needs something that was not loaded."""

    def __init__(self, needs: Needs) -> None:
        super().__init__(needs)
        self.needs = needs


class Known:
    """Events, entries and histories of one partition that were loaded or folded."""

    def __init__(self) -> None:
        self._events: dict[tuple[str, bytes], Record | None] = {}
        self._older_events: dict[tuple[str, bytes], Record | None] = {}
        self._entries: dict[tuple[str, str, str], Entry | None] = {}
        self._histories: dict[tuple[str, str, str], list[Record]] = {}
        self._citing: dict[tuple[str, bytes], list[Record]] = {}

    def needs(self, reads: Iterable[Read]) -> Needs:
        """What these will surely ask for and is not there yet; loading it beforehand saves round trips."""
        events: dict[tuple[str, bytes], None] = {}
        entries: dict[tuple[str, str, str], None] = {}
        known_events, older_events, known_entries = self._events, self._older_events, self._entries
        for read in reads:
            if (made := read.made) is not None:
                owner, scope, key = place = read.place
                if (ref := (owner, made.event_id)) not in known_events and ref not in older_events:
                    events[ref] = None
                if (source := made.source_event_id) is not None:
                    ref = (owner, source)
                    if ref not in known_events and ref not in older_events:
                        events[ref] = None
                    if (at := (owner, *LEDGER)) not in known_entries:
                        entries[at] = None
                if key is not None and place not in known_entries:
                    entries[owner, scope, key] = None
                for other in made.retires or ():
                    if (at := (owner, *other)) not in known_entries:
                        entries[at] = None
                if made.decision is not None:
                    self._needs_of_decision(owner, made, events, entries)
            elif isinstance(item := read.item, Malformed):
                events[item.owner, item.event_id] = None
        return Needs(list(events), list(entries))

    def _needs_of_decision(
        self,
        owner: str,
        made: Record,
        events: dict[tuple[str, bytes], None],
        entries: dict[tuple[str, str, str], None],
    ) -> None:
        decision = made.decision
        for event_id in () if decision is None else (*decision.withdraws, *decision.resolves):
            if (ref := (owner, event_id)) not in self._events and ref not in self._older_events:
                events[ref] = None
        if (at := (owner, *LEDGER)) not in self._entries:
            entries[at] = None

    def load(
        self,
        events: Mapping[tuple[str, bytes], Record | None],
        entries: Mapping[tuple[str, str, str], Entry | None],
        histories: Mapping[KeyRef, list[Record]],
        citing: Mapping[SourceRef, list[Record]],
        pending: Sequence[tuple[str, Record]],
    ) -> None:
        """Take what the store has. What was folded since is newer and stays; `pending` is what was folded since of
        histories, with its owners."""
        for event_ref, record in events.items():
            self._events.setdefault(event_ref, record)
        for key_ref, entry in entries.items():
            self._entries.setdefault(key_ref, entry)
        for key_ref, records in histories.items():
            stored = {record.sequence for record in records}
            self._histories[key_ref] = records + [
                part
                for owner, record in pending
                if owner == key_ref.owner and record.sequence not in stored
                if (part := record.part_of(key_ref.scope, key_ref.key)) is not None
            ]
        for source, records in citing.items():
            stored = {record.sequence for record in records}
            late = [record for owner, record in pending if owner == source.owner and record.sequence not in stored]
            self._citing[source.owner, source.event_id] = [
                record for record in (*records, *late) if record.source_event_id == source.event_id and record.counts
            ]

    def first_copy(self, ref: tuple[str, bytes]) -> Record | None:
        """The first copy of an event; None if there is none. Raises NotLoaded."""
        if ref in self._events:
            return self._events[ref]
        try:
            return self._older_events[ref]
        except KeyError:
            raise NotLoaded(Needs(events=[EventRef(*ref)])) from None

    def entry(self, ref: tuple[str, str, str]) -> Entry | None:
        """An entry; None if there is none. Raises NotLoaded."""
        try:
            return self._entries[ref]
        except KeyError:
            raise NotLoaded(Needs(entries=[KeyRef(*ref)])) from None

    def history(self, ref: tuple[str, str, str]) -> list[Record]:
        """What the events of a key do to it, in accepted order. Raises NotLoaded."""
        self.require(histories=[ref])
        return self._histories[ref]

    def citing(self, source: SourceRef) -> list[Record]:
        """The counting candidates that cite an event. Raises NotLoaded."""
        self.require(citing=[source])
        return self._citing[source.owner, source.event_id]

    def require(
        self,
        *,
        events: Iterable[tuple[str, bytes]] = (),
        entries: Iterable[tuple[str, str, str]] = (),
        histories: Iterable[tuple[str, str, str]] = (),
        citing: Iterable[SourceRef] = (),
    ) -> None:
        """Raise NotLoaded with all of these that are not there, if there are such."""
        needs = Needs(
            [ref for ref in events if ref not in self._events and ref not in self._older_events],
            [ref for ref in entries if ref not in self._entries],
            [KeyRef(*ref) for ref in histories if ref not in self._histories],
            [source for source in citing if (source.owner, source.event_id) not in self._citing],
        )
        if needs.events or needs.entries or needs.histories or needs.citing:
            raise NotLoaded(needs)

    def keep_event(self, ref: tuple[str, bytes], made: Record) -> None:
        """An event was folded, the first with its id."""
        self._events[ref] = made
        if self._citing and made.source_event_id is not None:
            self._citing.pop((ref[0], made.source_event_id), None)

    def keep_entry(self, ref: tuple[str, str, str], entry: Entry, record: Record | None) -> Entry | None:
        """An entry became this one, by an event of the key if there was one. What it was before."""
        if self._histories and record is not None and ref in self._histories:
            self._histories[ref].append(record)
        before, self._entries[ref] = self._entries[ref], entry
        return before

    def forget_histories(self, refs: Iterable[tuple[str, str, str]]) -> None:
        """Something came to these keys that did not change their entries; what is asked for anew has it."""
        for ref in refs:
            self._histories.pop(ref, None)

    def committed(self) -> None:
        """What was folded is going to be committed, and is asked of the store from here on."""
        self._histories.clear()
        self._citing.clear()
        if len(self._entries) > _MOST_ENTRIES:
            self._entries.clear()

    def forget_events(self) -> None:
        """Drop the older ones of the events: the store will be asked again."""
        if len(self._events) >= _MOST_EVENTS:
            self._events, self._older_events = {}, self._events
