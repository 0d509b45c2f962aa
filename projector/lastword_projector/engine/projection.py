"""One partition of the log, folded record by record in memory.

A `Projection` knows what it was given and what it made of it since; where an event needs something else it raises
`NotLoaded` before it has changed anything, and the shell loads that and tries again. What has been folded since the
last commit is in `changes`, ready for the stores.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lastword_projector.engine.decode import (
    Decoded,
    Event,
    LogRecord,
    Malformed,
    Newer,
    Undecodable,
    decode,
    salvage,
)
from lastword_projector.engine.fold import NEEDS_HISTORY, fold, step
from lastword_projector.engine.identities import Identities
from lastword_projector.engine.keys import Keys, compile_registry
from lastword_projector.engine.records import NO_MARK, Entry, Mark, Record
from lastword_projector.engine.verdict import (
    Refusal,
    judge_authority,
    judge_citation,
    judge_event,
    judge_expected,
    same_content,
)
from lastword_schemas.authority import AuthorityRank, Operation, Role
from lastword_schemas.control import Genesis, RegistryRecord
from lastword_schemas.errors import InvalidInput, LastwordError
from lastword_schemas.model import parse_instant, to_micros
from lastword_schemas.positions import sequence_of
from lastword_schemas.registry import Registry
from lastword_schemas.verdicts import Effect, Reason

FOLD_VERSION = 1
"""Version of verdict and fold; a namespace holds the work of exactly one."""
_MOST_ENTRIES = 50_000
"""Entries of one partition that are held in memory."""


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

    events: Sequence[EventRef] = ()
    entries: Sequence[KeyRef] = ()
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
        self, partition: int, genesis: Genesis, *, next_offset: int = 0, registry: Registry | None = None
    ) -> None:
        self.partition = partition
        self.genesis = genesis
        self.keys: Keys = compile_registry((registry or Registry()).to_canonical())
        self.changes = Changes(next_offset)
        self._first_sequence = sequence_of(genesis.generation, 0)
        self._identities = Identities(genesis.partitions)
        self._events: dict[tuple[str, bytes], Record | None] = {}
        self._entries: dict[tuple[str, str, str], Entry | None] = {}
        self._histories: dict[tuple[str, str, str], list[Record]] = {}

    @property
    def next_offset(self) -> int:
        """The *next* offset to be read."""
        return self.changes.next_offset

    def needs(self, decoded: Iterable[Decoded]) -> Needs:
        """What these will surely ask for and is not there yet; loading it beforehand saves round trips."""
        events: dict[tuple[str, bytes], None] = {}
        entries: dict[tuple[str, str, str], None] = {}
        known = self._entries
        for item in decoded:
            if isinstance(item, Event):
                owner = item.owner
                events[owner, item.id] = None
                if (source := item.source_id) is not None:
                    events[owner, source] = None
                if item.key is not None and (ref := (owner, item.scope, item.key)) not in known:
                    entries[ref] = None
                for scope, key in item.retired_keys or ():
                    if (ref := (owner, scope, key)) not in known:
                        entries[ref] = None
            elif isinstance(item, Malformed):
                events[item.owner, item.event_id] = None
        return Needs([EventRef(*ref) for ref in events if ref not in self._events], [KeyRef(*ref) for ref in entries])

    def load(
        self,
        events: Mapping[EventRef, Record | None] | None = None,
        entries: Mapping[KeyRef, Entry | None] | None = None,
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
        """Drop the events that were loaded or folded: the store will be asked again."""
        self._events.clear()

    def apply(self, record: LogRecord, decoded: Decoded | None = None) -> Record | None:
        """Fold the next record; its history item if it is an event.

        Raises NotLoaded (load that, then the same call again), PartitionWaits, WrongGenesis; nothing has changed then.
        """
        if record.offset < self.changes.next_offset:
            raise ValueError(f"offset {record.offset} was folded already")
        item = decode(record) if decoded is None else decoded
        made = None
        if record.offset == 0 and not isinstance(item, Genesis):
            raise WrongGenesis(f"partition {self.partition} does not begin with a genesis record")
        if isinstance(item, Event):
            made = self._event(record, item)
        elif isinstance(item, Genesis):
            self._genesis(record, item)
        elif isinstance(item, Newer):
            raise PartitionWaits(self.partition, record.offset, item.problem)
        elif isinstance(item, RegistryRecord):
            self._registry(record, item)
        elif isinstance(item, Undecodable):
            self.changes.dead.append(DeadLetter(record, item.problem))
        else:
            made = self._malformed(record, item)
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

    def _event(self, record: LogRecord, event: Event) -> Record | None:
        try:
            owner = self._identities.owner(event.owner)
            kafka_key = self._identities.record_key(owner, event.scope, event.key)
        except InvalidInput as error:
            problem = salvage(record.value or b"", error.message)
            if isinstance(problem, Malformed):
                return self._malformed(record, problem)
            self.changes.dead.append(DeadLetter(record, problem.problem))
            return None
        if owner.partition != self.partition:
            self._misplaced(record)
            return None
        made = _record_of(record, event, self._first_sequence + record.offset)
        ref = (event.owner, made.event_id)
        if (first := self._first_copy(ref)) is not None:
            if first.sequence == made.sequence:
                return first  # the store is ahead of the checkpoint, which was set back: it is in there already
            return self._copy(event, made, first)
        refusal = (
            judge_event(event, kafka_key == record.key, self.keys)
            or (None if event.source_event_id is None else self._cite(event, made, record.offset))
            or judge_authority(event, self.keys)
            or (None if event.expected_sequence is None else self._expect(event, event.expected_sequence))
        )
        if refusal is not None:
            _refuse(made, refusal)
        elif event.key is None:
            made.verdict = Effect.RECORDED.value
        else:
            self._fold(event.owner, event.scope, event.key, made)
        return self._keep(ref, made)

    def _fold(self, owner: str, scope: str, key: str, made: Record) -> None:
        """Fold an event and the deletes that it brings: all of it, or nothing where something is not loaded."""
        refs = [(owner, scope, key), *((owner, *other) for other in made.retires or ())]
        parts = [made, *made.deletes()]
        steps = [self._step(ref, part) for ref, part in zip(refs, parts, strict=True)]
        for ref, part, (effect, entry, _) in zip(refs, parts, steps, strict=True):
            part.verdict = effect.value
            self._put(ref, part, entry)
        made.related = steps[0][2]
        if made.retires:
            made.retired = tuple(delete.verdict for delete in parts[1:])

    def _step(self, ref: tuple[str, str, str], record: Record) -> tuple[Effect, Entry, tuple[int, ...] | None]:
        effect, entry, related = step(self._entry(ref), record)
        if entry is not NEEDS_HISTORY:
            return effect, entry, related
        if ref not in self._histories:
            raise NotLoaded(Needs(histories=[KeyRef(*ref)]))
        refolded = fold([*self._histories[ref], record])
        if refolded is None:
            raise AssertionError("a fold of events has an entry")
        return effect, refolded, related

    def _put(self, ref: tuple[str, str, str], record: Record, entry: Entry) -> None:
        if ref in self._histories:
            self._histories[ref].append(record)
        before, self._entries[ref] = self._entries[ref], entry
        if entry is not before:
            changed = self.changes.entries.get(ref)
            started_from = changed[0] if changed else before.mark if before else NO_MARK
            self.changes.entries[ref] = (started_from, entry)

    def _entry(self, ref: tuple[str, str, str]) -> Entry | None:
        if ref not in self._entries:
            raise NotLoaded(Needs(entries=[KeyRef(*ref)]))
        return self._entries[ref]

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
            made.cited_sequence, made.cited_recorded_at = source.sequence, source.recorded_at
            made.thread, made.message = source.thread, source.message
        return refusal

    def _first_copy(self, ref: tuple[str, bytes]) -> Record | None:
        if ref not in self._events:
            raise NotLoaded(Needs(events=[EventRef(*ref)]))
        return self._events[ref]

    def _malformed(self, record: LogRecord, item: Malformed) -> Record | None:
        if self._identities.owner(item.owner).partition != self.partition:
            self._misplaced(record)
            return None
        ref = (item.owner, item.event_id)
        first = self._first_copy(ref)
        sequence = self._first_sequence + record.offset
        if first is not None and first.sequence == sequence:
            return first
        made = Record(sequence, record.recorded_at, item.event_id, "", "", None, 0, "", Role.SERVICE.value, "")
        _refuse(made, Refusal(Reason.MALFORMED, item.problem))
        return self._keep(ref, made) if first is None else self._reuse(item.owner, made, first)

    def _misplaced(self, record: LogRecord) -> None:
        self.changes.dead.append(DeadLetter(record, "the record is not in its owner's partition"))

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


_RANK = {rank.authority: rank.value for rank in AuthorityRank}
_OPERATION = {operation: operation.value for operation in Operation}
_ROLE = {role: role.value for role in Role}


def _record_of(record: LogRecord, event: Event, sequence: int) -> Record:
    return Record(
        sequence,
        record.recorded_at,
        event.id,
        _OPERATION[event.operation],
        event.scope,
        event.key,
        _RANK[event.authority],
        event.actor.service,
        _ROLE[event.actor.role],
        "",
        event.value,
        None,
        None,
        event.source_id,
        event.span,
        event.body.quote,
        event.body.text,
        event.thread,
        event.message,
        event.confidence,
        None if event.occurred_at is None else to_micros(parse_instant(event.occurred_at)),
        None if event.expires_at is None else to_micros(parse_instant(event.expires_at)),
        expected_sequence=event.expected_sequence,
        retires=event.retired_keys,
    )


def _refuse(made: Record, refusal: Refusal) -> None:
    made.verdict, made.reason, made.detail = "refused", refusal.reason.value, refusal.detail
