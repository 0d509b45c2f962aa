"""One partition of the log, folded record by record in memory.

A `Projection` knows what it was given and what it made of it since; where an event needs something else it raises
`NotLoaded` before it has changed anything, and the shell loads that and tries again. What has been folded since the
last commit is in `changes`, ready for the stores.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lastword_projector.engine.decode import Event, LogRecord, Malformed, Newer, Undecodable
from lastword_projector.engine.keys import Keys, compile_registry
from lastword_projector.engine.policies import policy_of
from lastword_projector.engine.reading import Read, RecordReader
from lastword_projector.engine.records import NO_MARK, Entry, Mark, Record
from lastword_projector.engine.steps import NEEDS_HISTORY, NeedsHistory, Step
from lastword_projector.engine.upcasting import AS_WRITTEN, Upcasters
from lastword_projector.engine.verdict import (
    Refusal,
    judge_authority,
    judge_citation,
    judge_event,
    judge_expected,
    same_content,
)
from lastword_schemas.authority import Role
from lastword_schemas.control import Genesis, RegistryRecord
from lastword_schemas.errors import InvalidInput, LastwordError
from lastword_schemas.registry import Registry
from lastword_schemas.verdicts import Effect, Reason

FOLD_VERSION = 1
"""Version of verdict and fold; a namespace holds the work of exactly one."""
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


@dataclass(frozen=True, slots=True)
class Needs:
    """What folding an event may ask for."""

    events: Sequence[tuple[str, bytes]] = ()
    """Each an `EventRef`, or a tuple that is equal to it."""
    entries: Sequence[tuple[str, str, str]] = ()
    """Each a `KeyRef`, or a tuple that is equal to it."""
    histories: Sequence[KeyRef] = ()

    def parts(self, most: int) -> "Iterator[Needs]":
        """The same events and entries in parts of at most `most` each."""
        for first in range(0, max(len(self.events), len(self.entries)), most):
            yield Needs(self.events[first : first + most], self.entries[first : first + most])


class NotLoaded(Exception):
    """Folding needs something that was not loaded."""

    def __init__(self, needs: Needs) -> None:
        super().__init__(needs)
        self.needs = needs


class PartitionWaits(LastwordError):
    """The partition has a record that only a newer build can read; it waits."""

    code = "partition-waits"

    def __init__(self, partition: int, offset: int, problem: str) -> None:
        super().__init__(
            f"partition {partition} waits at offset {offset}: {problem}. Nothing is skipped; run a build that knows it."
        )
        self.partition, self.offset = partition, offset


class WrongGenesis(LastwordError):
    """The partition does not begin as this log's partitions do."""

    code = "wrong-genesis"


class DeadLetter(NamedTuple):
    """A record that cannot be given to any owner."""

    record: LogRecord
    problem: str


@dataclass(slots=True)
class Changes:
    """What has been folded since the last commit."""

    next_offset: int
    """The *next* offset to be read."""
    entries: dict[tuple[str, str, str], tuple[Mark, Entry]] = field(default_factory=dict)
    """By owner, scope and key: the mark that the fold started from (empty where there was no entry), the entry now."""
    events: list[tuple[tuple[str, bytes], int]] = field(default_factory=list)
    """First copies: owner and event id, and the sequence."""
    records: list[tuple[str, Record]] = field(default_factory=list)
    """Items of owners' histories, in order."""
    dead: list[DeadLetter] = field(default_factory=list)
    registry: Registry | None = None
    """The registry applied last, if one was."""
    stamped: bool = True
    """Whether the broker stamps the records (seen at the genesis record)."""


class Projection:
    """The fold of one partition from `next_offset` on."""

    def __init__(
        self,
        partition: int,
        genesis: Genesis,
        *,
        next_offset: int = 0,
        registry: Registry | None = None,
        upcasters: Upcasters = AS_WRITTEN,
    ) -> None:
        self.partition = partition
        self.genesis = genesis
        self.keys: Keys = compile_registry((registry or Registry()).to_canonical())
        self.changes = Changes(next_offset)
        self._reader = RecordReader(genesis, upcasters)
        self.read = self._reader.read
        """Read a record of the partition, whatever has been folded: see `RecordReader`."""
        self._events: dict[tuple[str, bytes], Record | None] = {}
        self._older_events: dict[tuple[str, bytes], Record | None] = {}
        self._entries: dict[tuple[str, str, str], Entry | None] = {}
        self._histories: dict[tuple[str, str, str], list[Record]] = {}

    @property
    def next_offset(self) -> int:
        """The *next* offset to be read."""
        return self.changes.next_offset

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
                if key is not None and place not in known_entries:
                    entries[owner, scope, key] = None
                for other in made.retires or ():
                    if (at := (owner, *other)) not in known_entries:
                        entries[at] = None
            elif isinstance(item := read.item, Malformed):
                events[item.owner, item.event_id] = None
        return Needs(list(events), list(entries))

    def load(
        self,
        events: Mapping[tuple[str, bytes], Record | None] | None = None,
        entries: Mapping[tuple[str, str, str], Entry | None] | None = None,
        histories: Mapping[KeyRef, list[Record]] | None = None,
    ) -> None:
        """Take what the store has. What was folded since is newer and stays; so do histories' items since then."""
        for event_ref, record in (events or {}).items():
            self._events.setdefault(event_ref, record)
        for key_ref, entry in (entries or {}).items():
            self._entries.setdefault(key_ref, entry)
        for key_ref, records in (histories or {}).items():
            stored = {record.sequence for record in records}
            self._histories[key_ref] = records + [
                part
                for owner, record in self.changes.records
                if owner == key_ref.owner and record.sequence not in stored
                if (part := record.part_of(key_ref.scope, key_ref.key)) is not None
            ]

    def take_changes(self) -> Changes:
        """What was folded since the last call; it is going to be committed, and counts as stored from here on."""
        changes, self.changes = self.changes, Changes(self.changes.next_offset)
        self._histories.clear()
        if len(self._entries) > _MOST_ENTRIES:
            self._entries.clear()
        return changes

    def forget_events(self) -> None:
        """Drop the older ones of the events that were loaded or folded: the store will be asked again."""
        if len(self._events) >= _MOST_EVENTS:
            self._events, self._older_events = {}, self._events

    def apply(self, read: Read) -> Record | None:
        """Fold the next record; its history item if it is an event.

        Raises NotLoaded (load that, then the same call again), PartitionWaits, WrongGenesis; nothing has changed then.
        """
        record, item = read.record, read.item
        offset = record.offset
        if offset < self.changes.next_offset:
            raise ValueError(f"offset {offset} was folded already")
        if offset == 0 and not isinstance(item, Genesis):
            raise WrongGenesis(f"partition {self.partition} does not begin with a genesis record")
        made = read.made
        if made is not None and isinstance(item, Event):
            made = self._event(read, item, made)
        elif isinstance(item, Malformed):
            made = self._malformed(record, item)
        else:
            self._not_of_an_owner(read)
        self.changes.next_offset = offset + 1
        return made

    def _not_of_an_owner(self, read: Read) -> None:
        record, item = read.record, read.item
        if isinstance(item, Genesis):
            self._genesis(record, item)
        elif isinstance(item, RegistryRecord):
            self._registry(record, item)
        elif isinstance(item, Newer):
            raise PartitionWaits(self.partition, record.offset, item.problem)
        elif isinstance(item, Undecodable):
            self.changes.dead.append(DeadLetter(record, item.problem))

    def _genesis(self, record: LogRecord, item: Genesis) -> None:
        if item != self.genesis:
            raise WrongGenesis(
                f"partition {self.partition} has another genesis record at offset {record.offset}: two logs were mixed"
            )
        self.changes.stamped = record.stamped

    def _registry(self, record: LogRecord, item: RegistryRecord) -> None:
        try:
            self.keys = compile_registry(item.registry.following(self.keys.registry).to_canonical())
        except InvalidInput as error:
            self.changes.dead.append(DeadLetter(record, f"a registry that cannot be used: {error.message}"))
        else:
            self.changes.registry = self.keys.registry

    def _event(self, read: Read, event: Event, made: Record) -> Record:
        owner, scope, key = read.place
        ref = (owner, made.event_id)
        if (first := self._first_copy(ref)) is not None:
            if first.sequence == made.sequence:
                return first  # the store is ahead of the checkpoint, which was set back: it is in there already
            return self._copy(event, made, first)
        refusal = (
            judge_event(event, read.key_matches, self.keys)
            or (None if made.source_event_id is None else self._cite(event, made, read.record.offset))
            or judge_authority(event, made.authority, self.keys)
            or (None if made.expected_sequence is None else self._expect(event, made.expected_sequence))
        )
        if refusal is not None:
            _refuse(made, refusal)
        elif key is None:
            made.verdict = _RECORDED
        else:
            self._fold(owner, scope, key, made)
        return self._keep(ref, made)

    def _fold(self, owner: str, scope: str, key: str, made: Record) -> None:
        """Fold an event and the deletes that it brings: all of it, or nothing where something is not loaded."""
        ref = (owner, scope, key)
        stepped = self._step(ref, made)
        if made.retires:
            self._retire(owner, made)
        made.verdict, made.related = stepped.effect._value_, stepped.related
        self._put(ref, made, stepped.entry)

    def _retire(self, owner: str, made: Record) -> None:
        deletes = [((owner, part.scope, part.key or ""), part) for part in made.deletes()]
        steps = [self._step(ref, part) for ref, part in deletes]
        for (ref, part), stepped in zip(deletes, steps, strict=True):
            part.verdict = stepped.effect._value_
            self._put(ref, part, stepped.entry)
        made.retired = tuple(part.verdict for _, part in deletes)

    def _step(self, ref: tuple[str, str, str], record: Record) -> Step:
        """What an event does to an entry; an entry that alone does not tell is folded anew."""
        entry = self._entry(ref)
        policy = policy_of(entry, ref[2], self.keys.registry)
        stepped = policy.step(entry, record)
        if stepped.entry is not NEEDS_HISTORY:
            return stepped
        if ref not in self._histories:
            raise NotLoaded(Needs(histories=[KeyRef(*ref)]))
        return policy.refold(entry, record, self._histories[ref])

    def _put(self, ref: tuple[str, str, str], record: Record, entry: Entry | NeedsHistory) -> None:
        if not isinstance(entry, Entry):
            raise AssertionError("an entry that needs its history is folded from it")
        if self._histories and ref in self._histories:
            self._histories[ref].append(record)
        before, self._entries[ref] = self._entries[ref], entry
        if entry is not before:
            changed = self.changes.entries.get(ref)
            started_from = changed[0] if changed else before.mark if before else NO_MARK
            self.changes.entries[ref] = (started_from, entry)

    def _entry(self, ref: tuple[str, str, str]) -> Entry | None:
        try:
            return self._entries[ref]
        except KeyError:
            raise NotLoaded(Needs(entries=[KeyRef(*ref)])) from None

    def _expect(self, event: Event, expected_sequence: int) -> Refusal | None:
        """Judge a conditional statement, which has a key."""
        return judge_expected(expected_sequence, self._entry((event.owner, event.scope, event.key or "")))

    def _cite(self, event: Event, made: Record, offset: int) -> Refusal | None:
        """Judge what a candidate cites; if that is right, it gets its source's place."""
        source = None
        if made.source_event_id is not None and made.source_event_id != made.event_id:
            source = self._first_copy((event.owner, made.source_event_id))
        refusal = judge_citation(event, source, log_id=self.genesis.log_id, partition=self.partition, offset=offset)
        if refusal is None and source is not None:
            made.cited_sequence, made.cited_recorded_at = source.source_sequence, source.source_recorded_at
            made.thread, made.message, made.backfill = source.thread, source.message, source.backfill
        return refusal

    def _first_copy(self, ref: tuple[str, bytes]) -> Record | None:
        if ref in self._events:
            return self._events[ref]
        try:
            return self._older_events[ref]
        except KeyError:
            raise NotLoaded(Needs(events=[EventRef(*ref)])) from None

    def _malformed(self, record: LogRecord, item: Malformed) -> Record | None:
        ref = (item.owner, item.event_id)
        first = self._first_copy(ref)
        sequence = self._reader.sequence(record.offset)
        if first is not None and first.sequence == sequence:
            return first
        made = Record(sequence, record.recorded_at, item.event_id, "", "", None, 0, "", Role.SERVICE.value, "")
        _refuse(made, Refusal(Reason.MALFORMED, item.problem))
        return self._keep(ref, made) if first is None else self._reuse(item.owner, made, first)

    def _copy(self, event: Event, made: Record, first: Record) -> Record:
        """A copy is recorded without its body: the first has it."""
        if not same_content(event, first):
            return self._reuse(event.owner, made, first)
        made.verdict, made.related = "duplicate", (first.sequence,)
        made.value = made.text = made.quote = None
        self.changes.records.append((event.owner, made))
        return made

    def _reuse(self, owner: str, made: Record, first: Record) -> Record:
        detail = f"the id is that of sequence {first.sequence}, which has other content"
        _refuse(made, Refusal(Reason.EVENT_ID_REUSED, detail))
        self.changes.records.append((owner, made))
        return made

    def _keep(self, ref: tuple[str, bytes], made: Record) -> Record:
        self._events[ref] = made
        self.changes.events.append((ref, made.sequence))
        self.changes.records.append((ref[0], made))
        return made

    def __repr__(self) -> str:
        return f"<Projection partition={self.partition} next_offset={self.next_offset}>"


_RECORDED = Effect.RECORDED.value


def _refuse(made: Record, refusal: Refusal) -> None:
    made.verdict, made.reason, made.detail = "refused", refusal.reason.value, refusal.detail
