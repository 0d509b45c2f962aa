"""Logs of one partition, built in memory, and their projection into a memory store. No broker, no Redis.

    log = Log()                                       # genesis at offset 0, REGISTRY at offset 1
    turn = log.say(ADA, "I like it brief.")
    log.candidate(ADA, "tone", "brief", source=turn, quote="brief", start=10)
    stores = project(log)
    assert stores.value(ADA, "tone") == "brief"

What the door refuses is refused here too; `Log.raw` writes an envelope past the door's check of the actor, and
`Log.append` any bytes. Offsets follow on each other unless `at` says where a record stands (gaps are allowed).
"""

import itertools
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from lastword_projector.engine.decode import Event, LogRecord, Malformed, decode
from lastword_projector.engine.known import EventRef, KeyRef, Needs
from lastword_projector.engine.projection import DeadLetter
from lastword_projector.engine.records import Entry, Record, pack_record
from lastword_projector.projector import DeadLetters, PartitionProjector
from lastword_projector.store.memory import MemoryStore
from lastword_projector.store.packing import unpack_entry
from lastword_query_api.answering import PolicyOf, policies_of
from lastword_schemas import jsontext
from lastword_schemas.control import GENESIS_KEY, REGISTRY_KEY, Genesis, RegistryRecord, control_bytes
from lastword_schemas.drafts import CandidateDraft, EventDraft, read_draft, to_envelope
from lastword_schemas.envelope import Envelope
from lastword_schemas.identity import record_key
from lastword_schemas.positions import Receipt, sequence_of
from lastword_schemas.registry import Registry

ADA, BEN = "main/user:ada", "main/user:ben"
START_MS = 1_772_366_400_000
"""`recorded_at` of offset 0; each offset is a second later."""
PUBLISHED_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
UNSET = object()
"""No value: the event is a delete."""


def registry_of(**keys: dict[str, Any]) -> Registry:
    """A registry with policy `latest` for each key; the rest of the declaration as given."""
    return Registry.read({"v": 1, "keys": {key: {"policy": "latest"} | more for key, more in keys.items()}})


REGISTRY = registry_of(
    tone={},
    theme={},
    answer_detail={},
    size={"schema": {"enum": ["small", "large", 3]}},
    guess={"min_authority": "inferred"},
    vow={"min_authority": "confirmed"},
)
"""`tone`, `theme`, `answer_detail`: anything stated; `size` has a schema; `guess` takes inferred, `vow` confirmed."""


def event_id(number: int) -> str:
    """A UUID that sorts as its number."""
    return str(uuid.UUID(int=number))


def recorded_at(offset: int) -> int:
    """Append time of an offset, ms since 1970."""
    return START_MS + offset * 1000


class Log:
    """One partition of a log."""

    def __init__(
        self,
        *,
        registry: Registry | None = REGISTRY,
        partition: int = 0,
        partitions: int = 1,
        generation: int = 0,
        topic_id: str = "topic",
    ) -> None:
        self.genesis = Genesis(
            generation=generation,
            partition=partition,
            partitions=partitions,
            cluster_id="cluster",
            topic_id=topic_id,
        )
        self.records: list[LogRecord] = []
        self._ids = itertools.count(1)
        self.append(GENESIS_KEY.encode(), control_bytes(self.genesis))
        if registry is not None:
            self.apply(registry)

    @property
    def next_offset(self) -> int:
        """Where the next record goes unless `at` says otherwise."""
        return self.records[-1].offset + 1 if self.records else 0

    def append(self, key: bytes | None, value: bytes | None, *, at: int | None = None) -> int:
        """Append any bytes; their offset."""
        offset = self.next_offset if at is None else at
        assert offset >= self.next_offset, "a log grows at its end"
        self.records.append(LogRecord(offset, recorded_at(offset), key, value))
        return offset

    def apply(self, registry: Registry, *, at: int | None = None) -> int:
        """Append a registry record; its offset."""
        return self.append(REGISTRY_KEY.encode(), control_bytes(RegistryRecord(registry=registry)), at=at)

    def put(self, envelope: Envelope, *, at: int | None = None) -> Receipt:
        """Append an envelope under its own record key; the receipt that its publisher gets."""
        key = record_key(envelope.owner, envelope.scope, envelope.key).encode()
        offset = self.append(key, envelope.to_bytes(), at=at)
        genesis = self.genesis
        return Receipt(genesis.log_id, genesis.generation, genesis.partition, offset, envelope.event_id)

    def copy(self, receipt: Receipt, *, at: int | None = None) -> Receipt:
        """Append a second copy of an event, as a publisher that tries again does; the receipt of the copy."""
        (first,) = (record for record in self.records if record.offset == receipt.offset)
        return replace(receipt, offset=self.append(first.key, first.value, at=at))

    def set(self, owner: str, key: str, value: Any, *, at: int | None = None, **more: Any) -> Receipt:
        """A statement; `more` are fields of the draft (scope, authority, role, event_id, ...)."""
        return self._statement("set", owner, at, more, key=key, value=value)

    def delete(self, owner: str, key: str, *, at: int | None = None, **more: Any) -> Receipt:
        """A tombstone."""
        return self._statement("delete", owner, at, more, key=key)

    def say(self, owner: str, text: str, *, at: int | None = None, **more: Any) -> Receipt:
        """A turn, of thread `t1` unless said otherwise."""
        return self._statement("say", owner, at, {"thread": "t1"} | more, text=text)

    def withdraw(self, owner: str, *named: Receipt | str, at: int | None = None, **more: Any) -> Receipt:
        """A decision that the named events (receipts or event ids) were wrong."""
        return self._statement("withdraw", owner, at, more, names=ids_of(named))

    def resolve(self, owner: str, key: str, *named: Receipt | str, at: int | None = None, **more: Any) -> Receipt:
        """A decision that the first of the named assertions stands and the others ended."""
        return self._statement("resolve", owner, at, more, key=key, names=ids_of(named))

    def candidate(
        self,
        owner: str,
        key: str,
        value: Any = UNSET,
        *,
        source: Receipt | str,
        quote: str | None = None,
        start: int = 0,
        by_receipt: bool = False,
        at: int | None = None,
        **more: Any,
    ) -> Receipt:
        """A reading of `source` (a receipt, cited by event id unless `by_receipt`; or any event id); a delete without
        a value. With a quote it is `stated` and stands at `start` of the source's text, else it is `inferred`."""
        fields: dict[str, Any] = {"key": key, "operation": "delete" if value is UNSET else "set"}
        if value is not UNSET:
            fields["value"] = value
        if quote is not None:
            fields |= {"quote": quote, "span": [start, start + len(quote)], "authority": "stated"}
        cited = source if isinstance(source, str) else str(source) if by_receipt else source.event_id
        data = {"owner": owner, "scope": "global", "actor": {"service": "reader"}, "source_event_id": cited}
        return self._put(read_draft(data | fields | more, CandidateDraft), at)

    def raw(self, *, at: int | None = None, **fields: Any) -> Receipt:
        """Any valid envelope, whoever its actor is; what is not given is that of a plain `set` of `tone`."""
        body = fields.pop("body", {"value": "x"})
        data = {
            "event_id": event_id(next(self._ids)),
            "owner": ADA,
            "scope": "global",
            "key": "tone",
            "operation": "set",
            "actor": {"service": "app", "role": "service"},
            "body": body,
        }
        data |= fields
        return self.put(Envelope.read({name: value for name, value in data.items() if value is not None}), at=at)

    def _statement(self, operation: str, owner: str, at: int | None, more: dict[str, Any], **fields: Any) -> Receipt:
        actor = {"service": "app", "role": more.pop("role", "service")}
        data = {"operation": operation, "owner": owner, "scope": "global", "actor": actor}
        return self._put(read_draft(data | fields | more, EventDraft), at)

    def _put(self, draft: EventDraft | CandidateDraft, at: int | None) -> Receipt:
        return self.put(to_envelope(draft, event_id=event_id(next(self._ids)), published_at=PUBLISHED_AT), at=at)


def ids_of(named: Iterable[Receipt | str]) -> list[str]:
    """Event ids of receipts."""
    return [each if isinstance(each, str) else each.event_id for each in named]


class SentLetters(DeadLetters):
    """Remembers what was sent."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []

    def send(self, genesis: Genesis, letters: Sequence[DeadLetter]) -> None:
        """Acknowledged at once."""
        self.letters += letters


@dataclass
class Stores:
    """What survives a crash: the store and the dead letters. Each `project` is by a new worker."""

    store: MemoryStore = field(default_factory=lambda: MemoryStore())
    dead: SentLetters = field(default_factory=SentLetters)
    worker: type[PartitionProjector] = PartitionProjector
    partition: int = 0

    def open(self, log: Log) -> PartitionProjector:
        """A new worker, which begins at the checkpoint."""
        self.partition = log.genesis.partition
        return self.worker(log.genesis, self.store, self.dead, now_ms=lambda: START_MS)

    def project(self, log: Log, *, batch: int | None = None) -> PartitionProjector:
        """A new worker that folds all of the log that it has not folded yet, `batch` records a commit."""
        worker = self.open(log)
        size = batch or max(1, len(log.records))
        for first in range(0, len(log.records), size):
            worker.project(log.records[first : first + size])
        return worker

    def entry(self, owner: str, key: str, scope: str = "global") -> Entry | None:
        """The stored entry."""
        ref = KeyRef(owner, scope, key)
        return self.store.load(self.partition, Needs(entries=[ref])).result().entries[ref]

    def policies(self, owner: str) -> PolicyOf:
        """By what policies the owner's keys fold."""
        checkpoint = self.store.checkpoint(self.partition)
        assert checkpoint is not None
        stored = {at: unpack_entry(data) for at, data in self.store.entries(self.partition, owner).items()}
        return policies_of(stored, checkpoint.registry)

    def value(self, owner: str, key: str, scope: str = "global") -> Any:
        """The current value; UNSET for a tombstone. Fails where there is no entry."""
        entry = self.entry(owner, key, scope)
        assert entry is not None, f"{owner} {scope} {key} is absent"
        return UNSET if entry.record.value is None else jsontext.parse_stored(entry.record.value)

    def records(self, owner: str) -> list[Record]:
        """All of an owner's history."""
        return self.store.history(self.partition, owner)

    def record(self, receipt: Receipt, owner: str = ADA) -> Record:
        """The history's record of what was appended under that receipt."""
        found = [record for record in self.records(owner) if record.sequence == receipt.sequence]
        assert len(found) == 1, f"{len(found)} records at {receipt.sequence}"
        return found[0]

    def verdict(self, receipt: Receipt, owner: str = ADA) -> str:
        """The verdict; of a refused event the reason."""
        record = self.record(receipt, owner)
        return record.reason or record.verdict

    def snapshot(self, log: Log) -> dict[str, bytes | None]:
        """Everything that the store holds of that log, as bytes by name: checkpoint, entries, event ids, history."""
        found: dict[str, bytes | None] = {"checkpoint": repr(self.store.checkpoint(self.partition)).encode()}
        for owner in owners_of(log):
            for record in self.records(owner):
                found[f"history {owner} {record.sequence}"] = pack_record(record)
        for item in (decode(record) for record in log.records):
            if isinstance(item, Event) and item.key is not None:
                stored = self.store.stored_entries.get((self.partition, KeyRef(item.owner, item.scope, item.key)))
                found[f"entry {item.owner} {item.scope} {item.key}"] = stored
                for scope, key in item.retired_keys or ():
                    retired = self.store.stored_entries.get((self.partition, KeyRef(item.owner, scope, key)))
                    found[f"entry {item.owner} {scope} {key}"] = retired
            if isinstance(item, Event | Malformed):
                ref = EventRef(item.owner, item.id if isinstance(item, Event) else item.event_id)
                first = self.store.load(self.partition, Needs(events=[ref])).result().events[ref]
                found[f"event {item.owner} {ref.event_id.hex()}"] = None if first is None else pack_record(first)
        for partition, letter in self.store.dead:
            found[f"dead {partition} {letter.record.offset}"] = letter.problem.encode()
        return found

    def set_back(self, log: Log, offset: int) -> None:
        """Set the checkpoint, and nothing else, back to `offset` as the next to be folded."""
        stored = self.store.checkpoint(self.partition)
        assert stored is not None
        earlier = replace(stored, next_sequence=sequence_of(log.genesis.generation, offset))
        self.store._checkpoints[self.partition] = earlier


def project(log: Log, *, batch: int | None = None) -> Stores:
    """A new store with the whole log folded into it."""
    stores = Stores()
    stores.project(log, batch=batch)
    return stores


def owners_of(log: Log) -> list[str]:
    """The owners of the log's events."""
    decoded = (decode(record) for record in log.records)
    return list(dict.fromkeys(item.owner for item in decoded if isinstance(item, Event | Malformed)))
