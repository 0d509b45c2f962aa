"""One partition of the log, folded record by record in memory.

A `Projection` knows what it was given and what it made of it since; where an event needs something else it raises
`NotLoaded` before it has changed anything, and the shell loads that and tries again. What has been folded since the
last commit is in `changes`, ready for the stores.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lastword_projector.engine.deciding import Deciding, changed, decide, standing_in, with_changes
from lastword_projector.engine.decode import Event, LogRecord, Malformed, Newer, Undecodable
from lastword_projector.engine.keys import Keys, compile_registry
from lastword_projector.engine.known import KeyRef, Known, SourceRef
from lastword_projector.engine.policies import policy_name, policy_of
from lastword_projector.engine.reading import Read, RecordReader
from lastword_projector.engine.records import LEDGER, NO_MARK, Decision, Entry, Mark, Record
from lastword_projector.engine.steps import NEEDS_HISTORY, NeedsHistory, Step
from lastword_projector.engine.upcasting import AS_WRITTEN, Upcasters
from lastword_projector.engine.verdict import (
    Refusal,
    judge_authority,
    judge_citation,
    judge_event,
    judge_expected,
    judge_named,
    judge_resolvable,
    same_content,
)
from lastword_schemas.authority import Operation, Role
from lastword_schemas.control import Genesis, RegistryRecord
from lastword_schemas.errors import InvalidInput, LastwordError
from lastword_schemas.registry import Registry
from lastword_schemas.verdicts import Effect, Reason

FOLD_VERSION = 1
"""Version of verdict and fold; a namespace holds the work of exactly one."""


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
    refolded: set[tuple[str, str, str]] = field(default_factory=set)
    """Those of them that a decision changed: their marks may be lower than before."""
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
        self._known = Known()
        self.needs = self._known.needs
        """What reads will surely ask for and is not there yet."""
        self.forget_events = self._known.forget_events
        """Drop the older ones of the events that were loaded or folded: the store will be asked again."""

    @property
    def next_offset(self) -> int:
        """The *next* offset to be read."""
        return self.changes.next_offset

    def load(
        self,
        events: Mapping[tuple[str, bytes], Record | None] | None = None,
        entries: Mapping[tuple[str, str, str], Entry | None] | None = None,
        histories: Mapping[KeyRef, list[Record]] | None = None,
        citing: Mapping[SourceRef, list[Record]] | None = None,
    ) -> None:
        """Take what the store has. What was folded since is newer and stays; so do histories' items since then."""
        self._known.load(events or {}, entries or {}, histories or {}, citing or {}, self.changes.records)

    def take_changes(self) -> Changes:
        """What was folded since the last call; it is going to be committed, and counts as stored from here on."""
        changes, self.changes = self.changes, Changes(self.changes.next_offset)
        self._known.committed()
        return changes

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
        if (first := self._known.first_copy(ref)) is not None:
            if first.sequence == made.sequence:
                return first  # the store is ahead of the checkpoint, which was set back: it is in there already
            return self._copy(event, made, first)
        refusal = (
            judge_event(event, read.key_matches, self.keys)
            or (None if made.source_event_id is None else self._cite(event, made, read.record.offset))
            or (None if made.decision is None else self._name(event, made, made.decision))
            or judge_authority(event, made.authority, self.keys)
            or (None if made.expected_sequence is None else self._expect(event, made.expected_sequence))
        )
        if refusal is not None:
            _refuse(made, refusal)
        elif made.decision is None and key is None:
            made.verdict = _RECORDED
        elif made.decision is not None or (made.is_candidate and self._known.entry((owner, *LEDGER)) is not None):
            self._fold_among_decisions(owner, made)
        else:
            self._fold(owner, scope, key or "", made)
        return self._keep(ref, made)

    def _fold(self, owner: str, scope: str, key: str, made: Record, deciding: Deciding | None = None) -> None:
        """Fold an event and the deletes that it brings, after what it decides: all of it, or nothing where something is
        not loaded."""
        ref = (owner, scope, key)
        stepped = self._step(ref, made, deciding)
        deletes = [((owner, part.scope, part.key or ""), part) for part in made.deletes()] if made.retires else []
        steps = [self._step(at, part, deciding) for at, part in deletes]
        if deciding is not None:
            self._put_decided(owner, deciding)
        for (at, part), done in zip(deletes, steps, strict=True):
            part.verdict = done.effect._value_
            self._put(at, part, done.entry)
        if made.retires:
            made.retired = tuple(part.verdict for _, part in deletes)
        made.verdict, made.related = stepped.effect._value_, stepped.related
        self._put(ref, made, stepped.entry)

    def _fold_among_decisions(self, owner: str, made: Record) -> None:
        """Fold a decision, a set that brings one, or a candidate of an owner who has decisions."""
        deciding = None if made.decision is None else decide(self._known, owner, made, self.keys.registry)
        standing = deciding.standing if deciding else standing_in(self._known.entry((owner, *LEDGER)))
        withdrawal = standing.withdrawal_of(made)
        if made.operation in _DECISIONS or withdrawal is not None:
            made.verdict = _DECISIONS.get(made.operation, _LATE)
            if withdrawal is not None:
                made.related = (withdrawal.sequence, made.source_sequence)
                made.retired = None if made.retires is None else (_LATE,) * len(made.retires)
                self._known.forget_histories((owner, part.scope, part.key or "") for part in made.parts())
            if deciding is not None:
                self._put_decided(owner, deciding)
        else:
            self._fold(owner, made.scope, made.key or "", made, deciding)
        if deciding is not None:
            with_changes(made, changed(deciding, made.parts()))

    def _put_decided(self, owner: str, deciding: Deciding) -> None:
        self._put((owner, *LEDGER), None, deciding.ledger)
        for ref, entry in deciding.entries.items():
            if entry != deciding.before[ref]:
                self._put(ref, None, entry)
                self.changes.refolded.add(ref)

    def _step(self, ref: tuple[str, str, str], record: Record, deciding: Deciding | None = None) -> Step:
        """What an event does to an entry; an entry that alone does not tell is folded anew."""
        known, entry = self._known, self._known.entry(ref)
        if deciding is not None:
            entry = deciding.entries.get(ref, entry)
        policy = policy_of(entry, ref[2], self.keys.registry)
        if entry is not None and entry.is_void:
            entry = None
        stepped = policy.step(entry, record)
        if stepped.entry is not NEEDS_HISTORY:
            return stepped
        ledger = (ref[0], *LEDGER)
        known.require(histories=[ref], entries=[ledger])
        standing = deciding.standing if deciding else standing_in(known.entry(ledger))
        return policy.refold(entry, record, standing.counting(known.history(ref)), standing.resolves(*ref[1:]))

    def _put(self, ref: tuple[str, str, str], record: Record | None, entry: Entry | NeedsHistory) -> None:
        if not isinstance(entry, Entry):
            raise AssertionError("an entry that needs its history is folded from it")
        before = self._known.keep_entry(ref, entry, record)
        if entry is not before:
            earlier = self.changes.entries.get(ref)
            started_from = earlier[0] if earlier else before.mark if before else NO_MARK
            self.changes.entries[ref] = (started_from, entry)

    def _expect(self, event: Event, expected_sequence: int) -> Refusal | None:
        """Judge a conditional statement, which has a key."""
        return judge_expected(expected_sequence, self._known.entry((event.owner, event.scope, event.key or "")))

    def _name(self, event: Event, made: Record, decision: Decision) -> Refusal | None:
        """Judge what an event withdraws, or chooses among."""
        owner, known = event.owner, self._known
        named = (*decision.withdraws, *decision.resolves)
        known.require(events=[(owner, event_id) for event_id in named], entries=[(owner, *LEDGER)])
        standing = standing_in(known.entry((owner, *LEDGER)))
        for event_id in named:
            if (refusal := judge_named(event, made, known.first_copy((owner, event_id)), standing)) is not None:
                return refusal
        if decision.resolves and made.key is not None:
            entry = known.entry((owner, made.scope, made.key))
            return judge_resolvable(policy_name(entry, made.key, self.keys.registry))
        return None

    def _cite(self, event: Event, made: Record, offset: int) -> Refusal | None:
        """Judge what a candidate cites; if that is right, it gets its source's place."""
        source = None
        if made.source_event_id is not None and made.source_event_id != made.event_id:
            source = self._known.first_copy((event.owner, made.source_event_id))
        refusal = judge_citation(event, source, log_id=self.genesis.log_id, partition=self.partition, offset=offset)
        if refusal is None and source is not None:
            made.cited_sequence, made.cited_recorded_at = source.source_sequence, source.source_recorded_at
            made.thread, made.message, made.backfill = source.thread, source.message, source.backfill
        return refusal

    def _malformed(self, record: LogRecord, item: Malformed) -> Record | None:
        ref = (item.owner, item.event_id)
        first = self._known.first_copy(ref)
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
        self._known.keep_event(ref, made)
        self.changes.events.append((ref, made.sequence))
        self.changes.records.append((ref[0], made))
        return made

    def __repr__(self) -> str:
        return f"<Projection partition={self.partition} next_offset={self.next_offset}>"


_RECORDED, _LATE = Effect.RECORDED.value, Effect.LATE.value
_DECISIONS = {Operation.WITHDRAW.value: Effect.WITHDREW.value, Operation.RESOLVE.value: Effect.RESOLVED.value}


def _refuse(made: Record, refusal: Refusal) -> None:
    made.verdict, made.reason, made.detail = "refused", refusal.reason.value, refusal.detail
