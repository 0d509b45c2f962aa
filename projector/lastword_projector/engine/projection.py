"""One partition of the log, folded record by record in memory.

A `Projection` knows what it was given and what it made of it since; where an event needs something else it raises
`NotLoaded` before it has changed anything, and the shell loads that and tries again. What has been folded since the
last commit is in `changes`, ready for the stores.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import msgspec

from lastword_projector.engine.decode import (
    Decoded,
    Event,
    LogRecord,
    Malformed,
    Newer,
    Undecodable,
    decode,
)
from lastword_projector.engine.fold import NEEDS_HISTORY, fold, step
from lastword_projector.engine.keys import Keys, compile_registry
from lastword_projector.engine.records import NO_MARK, Entry, Mark, Record
from lastword_projector.engine.verdict import (
    Refusal,
    judge_authority,
    judge_citation,
    judge_key,
    same_content,
)
from lastword_schemas.authority import Operation, Role
from lastword_schemas.control import Genesis, RegistryRecord
from lastword_schemas.errors import InvalidInput, LastwordError
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import sequence_of
from lastword_schemas.registry import Registry
from lastword_schemas.verdicts import Effect, Reason

FOLD_VERSION = 1
"""Version of verdict and fold; a namespace holds the work of exactly one."""


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

    events: tuple[EventRef, ...] = ()
    entries: tuple[KeyRef, ...] = ()
    histories: tuple[KeyRef, ...] = ()


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


class EntryChange(NamedTuple):
    """An entry before and after."""

    before: Mark
    """The mark that the fold started from; empty where there was no entry."""
    entry: Entry
    mode: Literal["above", "equal"]
    """What the new mark must be to the old one: `above`, or `equal` (a late event or a refold)."""


@dataclass(slots=True)
class Changes:
    """What has been folded since the last commit."""

    next_offset: int
    """The *next* offset to be read."""
    entries: dict[KeyRef, EntryChange] = field(default_factory=dict)
    events: list[tuple[EventRef, int]] = field(default_factory=list)
    """First copies: the event and its sequence."""
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
        self, partition: int, genesis: Genesis, *, next_offset: int = 0, registry: Registry | None = None
    ) -> None:
        self.partition = partition
        self.genesis = genesis
        self.keys: Keys = compile_registry((registry or Registry()).to_canonical())
        self.changes = Changes(next_offset)
        self._events: dict[EventRef, Record | None] = {}
        self._entries: dict[KeyRef, Entry | None] = {}
        self._histories: dict[KeyRef, list[Record]] = {}

    @property
    def next_offset(self) -> int:
        """The *next* offset to be read."""
        return self.changes.next_offset

    def needs(self, decoded: Iterable[Decoded]) -> Needs:
        """What these will surely ask for and is not there yet; loading it beforehand saves round trips."""
        events: dict[EventRef, None] = {}
        entries: dict[KeyRef, None] = {}
        for item in decoded:
            if isinstance(item, Event | Malformed):
                events[EventRef(item.owner, item.event_id)] = None
            if isinstance(item, Event):
                if item.source_event_id is not None:
                    events[EventRef(item.owner, item.source_event_id)] = None
                if item.key is not None:
                    entries[KeyRef(item.owner, item.scope, item.key)] = None
        return Needs(
            tuple(ref for ref in events if ref not in self._events),
            tuple(ref for ref in entries if ref not in self._entries),
        )

    def load(
        self,
        events: dict[EventRef, Record | None] | None = None,
        entries: dict[KeyRef, Entry | None] | None = None,
        histories: dict[KeyRef, list[Record]] | None = None,
    ) -> None:
        """Take what the stores have. What was folded since is newer and stays; so do histories' items since then."""
        for event_ref, record in (events or {}).items():
            self._events.setdefault(event_ref, record)
        for key_ref, entry in (entries or {}).items():
            self._entries.setdefault(key_ref, entry)
        for key_ref, records in (histories or {}).items():
            since = [
                record
                for owner, record in self.changes.records
                if record.counts and (owner, record.scope, record.key) == key_ref
            ]
            stored = {record.sequence for record in records}
            self._histories[key_ref] = records + [record for record in since if record.sequence not in stored]

    def committed(self) -> None:
        """The changes are in the stores: begin new ones. Entries stay cached, events and histories do not."""
        self.changes = Changes(self.changes.next_offset)
        self._events.clear()
        self._histories.clear()

    @property
    def cached_entries(self) -> int:
        """How many entries are held in memory."""
        return len(self._entries)

    def forget_entries(self) -> None:
        """Drop the cache of entries; only between commits."""
        self._entries.clear()

    def apply(self, record: LogRecord, decoded: Decoded | None = None) -> Record | None:
        """Fold the next record; its history item if it is an event.

        Raises NotLoaded (load that, then the same call again), PartitionWaits, WrongGenesis; nothing has changed then.
        """
        if record.offset < self.changes.next_offset:
            raise ValueError(f"offset {record.offset} was folded already")
        item = decode(record) if decoded is None else decoded
        if isinstance(item, Genesis):
            self._genesis(record, item)
            made = None
        elif record.offset == 0:
            raise WrongGenesis(f"partition {self.partition} does not begin with a genesis record")
        elif isinstance(item, Newer):
            raise PartitionWaits(self.partition, record.offset, item.problem)
        elif isinstance(item, RegistryRecord):
            self._registry(record, item)
            made = None
        elif isinstance(item, Undecodable):
            self.changes.dead.append(DeadLetter(record, item.problem))
            made = None
        elif partition_for(item.owner, self.genesis.partitions) != self.partition:
            self.changes.dead.append(DeadLetter(record, "the record is not in its owner's partition"))
            made = None
        else:
            made = self._refuse_malformed(record, item) if isinstance(item, Malformed) else self._event(record, item)
        self.changes.next_offset = record.offset + 1
        return made

    def _genesis(self, record: LogRecord, item: Genesis) -> None:
        if item != self.genesis:
            raise WrongGenesis(
                f"partition {self.partition} has another genesis record at offset {record.offset}: two logs were mixed"
            )
        self.changes.stamped = record.stamped

    def _registry(self, record: LogRecord, item: RegistryRecord) -> None:
        try:
            self.keys = compile_registry(item.registry.to_canonical())
        except InvalidInput as error:
            self.changes.dead.append(DeadLetter(record, f"a registry that cannot be used: {error.message}"))
        else:
            self.changes.registry = item.registry

    def _event(self, record: LogRecord, event: Event) -> Record:
        ref = EventRef(event.owner, event.event_id)
        first = self._first_copy(ref)
        sequence = sequence_of(self.genesis.generation, record.offset)
        base = _base_record(record, event, sequence)
        if first is not None and first.sequence == sequence:
            return first  # the stores are ahead of the checkpoint, which was set back: it is in them already
        if first is not None:
            if same_content(event, first):
                return self._copy(event.owner, base, first)
            detail = f"the id is that of sequence {first.sequence}, which has other content"
            return self._keep(ref, _refused(base, Refusal(Reason.EVENT_ID_REUSED, detail)), first_copy=False)
        refusal = judge_key(event, record.key, self.keys)
        source: Record | None = None
        if refusal is None and event.source_event_id is not None:
            source = self._source(event)
            refusal = judge_citation(
                event, source, log_id=self.genesis.log_id, partition=self.partition, offset=record.offset
            )
        refusal = refusal or judge_authority(event, self.keys)
        if refusal is not None:
            return self._keep(ref, _refused(base, refusal))
        if source is not None:
            base = _with(
                base,
                source_sequence=source.sequence,
                source_recorded_at=source.recorded_at,
                thread=source.thread,
                message=source.message,
            )
        if event.operation is Operation.SAY or event.key is None:
            return self._keep(ref, _with(base, verdict=Effect.RECORDED.value))
        return self._fold(ref, KeyRef(event.owner, event.scope, event.key), base)

    def _fold(self, ref: EventRef, key_ref: KeyRef, base: Record) -> Record:
        if key_ref not in self._entries:
            raise NotLoaded(Needs(entries=(key_ref,)))
        before = self._entries[key_ref]
        effect, stepped, related = step(before, base)
        folded = _with(base, verdict=effect.value, related=related)
        entry: Entry | None
        if stepped is NEEDS_HISTORY:
            if key_ref not in self._histories:
                raise NotLoaded(Needs(histories=(key_ref,)))
            entry = fold([*self._histories[key_ref], folded])
        elif stepped.record is base:
            entry = Entry(folded, stepped.start, stepped.started_at, stepped.previous, stepped.unresolved)
        else:
            entry = stepped
        if entry is None:
            raise AssertionError("a fold of events has an entry")
        if key_ref in self._histories:
            self._histories[key_ref].append(folded)
        self._entries[key_ref] = entry
        if entry is not before:
            self._change(key_ref, before, entry)
        return self._keep(ref, folded)

    def _change(self, key_ref: KeyRef, before: Entry | None, entry: Entry) -> None:
        earlier = self.changes.entries.get(key_ref)
        started_from = earlier.before if earlier else (before.mark if before else NO_MARK)
        self.changes.entries[key_ref] = EntryChange(
            started_from, entry, "above" if entry.mark > started_from else "equal"
        )

    def _first_copy(self, ref: EventRef) -> Record | None:
        if ref not in self._events:
            raise NotLoaded(Needs(events=(ref,)))
        return self._events[ref]

    def _source(self, event: Event) -> Record | None:
        if event.source_event_id is None or event.source_event_id == event.event_id:
            return None
        return self._first_copy(EventRef(event.owner, event.source_event_id))

    def _refuse_malformed(self, record: LogRecord, item: Malformed) -> Record:
        ref = EventRef(item.owner, item.event_id)
        first = self._first_copy(ref)
        base = Record(
            sequence=sequence_of(self.genesis.generation, record.offset),
            recorded_at=record.recorded_at,
            event_id=item.event_id,
            operation="",
            scope="",
            key=None,
            authority=0,
            service="",
            role=Role.SERVICE.value,
            verdict="",
            source_sequence=sequence_of(self.genesis.generation, record.offset),
            source_recorded_at=record.recorded_at,
        )
        if first is not None and first.sequence == base.sequence:
            return first
        if first is not None:
            detail = f"the id is that of sequence {first.sequence}; this copy is malformed: {item.problem}"
            return self._keep(ref, _refused(base, Refusal(Reason.EVENT_ID_REUSED, detail)), first_copy=False)
        return self._keep(ref, _refused(base, Refusal(Reason.MALFORMED, item.problem)))

    def _copy(self, owner: str, base: Record, first: Record) -> Record:
        """A copy is recorded without its body: the first has it."""
        copy = _with(base, verdict="duplicate", related=(first.sequence,), value=None, text=None, quote=None)
        self.changes.records.append((owner, copy))
        return copy

    def _keep(self, ref: EventRef, record: Record, *, first_copy: bool = True) -> Record:
        if first_copy:
            self._events[ref] = record
            self.changes.events.append((ref, record.sequence))
        self.changes.records.append((ref.owner, record))
        return record

    def __repr__(self) -> str:
        return f"<Projection partition={self.partition} next_offset={self.next_offset}>"


def _base_record(record: LogRecord, event: Event, sequence: int) -> Record:
    return Record(
        sequence=sequence,
        recorded_at=record.recorded_at,
        event_id=event.event_id,
        operation=event.operation.value,
        scope=event.scope,
        key=event.key,
        authority=event.authority.rank.value,
        service=event.service,
        role=event.role.value,
        verdict="",
        source_sequence=sequence,
        source_recorded_at=record.recorded_at,
        value=event.value,
        text=event.text,
        quote=event.quote,
        span=event.span,
        source_event_id=event.source_event_id,
        thread=event.thread,
        message=event.message,
        confidence=event.confidence,
        occurred_at=event.occurred_at,
        expires_at=event.expires_at,
    )


def _refused(base: Record, refusal: Refusal) -> Record:
    return _with(base, verdict="refused", reason=refusal.reason.value, detail=refusal.detail)


def _with(record: Record, **changes: object) -> Record:
    return msgspec.structs.replace(record, **changes)
