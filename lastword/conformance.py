"""Whether a producer writes right: its records are judged by the log's own reader, and each finding says what to do.

    from lastword.conformance import Produced, check

    report = check([Produced(partition, key, value)], partitions=24)
    assert report.ok, report

Neither Kafka nor Redis is needed. `lastword topics check-producer` does the same with the records of a topic.
"""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from msgspec import structs

from lastword_projector.engine.decode import Event, LogRecord, Malformed, Newer, decode
from lastword_projector.engine.keys import Keys
from lastword_projector.engine.known import NotLoaded
from lastword_projector.engine.projection import PartitionWaits, Projection, WrongGenesis
from lastword_projector.engine.reading import MISPLACED, Read
from lastword_projector.engine.records import Record
from lastword_schemas import jsontext
from lastword_schemas.control import Genesis
from lastword_schemas.errors import InvalidInput
from lastword_schemas.model import from_micros, parse_instant
from lastword_schemas.partitions import partition_for
from lastword_schemas.registry import Registry
from lastword_schemas.verdicts import Reason

CLOCK_AHEAD_S: Final = 60
"""Seconds that a publisher's clock may be ahead of the broker's without a word."""

ADVICE: Final[dict[str, str]] = {
    "no-envelope": "Write JSON of envelope version 1, as docs/asyncapi.json has it; such a record is a dead letter",
    "wrong-partition": "Choose the partition yourself: (murmur2(owner) & 0x7fffffff) % N, over the canonical owner "
    "alone; such a record is a dead letter",
    "newer-version": "Write no version, operation or member that the running build does not know: the partition waits "
    "there, for everybody in it",
    "wrong-genesis": "Write no control records, and nothing to a topic that `lastword topics create` has not made",
    Reason.MALFORMED: "Mend the member; unknown members are not allowed",
    Reason.KEY_MISMATCH: "Make the record key from the envelope: owner/scope/key, each percent-encoded; a turn's ends "
    "in /",
    Reason.EVENT_ID_REUSED: "Make a new id for every event, and write the very same envelope when you try again",
    Reason.UNDECLARED_KEY: "Declare the key: lastword keys apply",
    Reason.VALUE_SCHEMA: "Write a value that fits the key's schema",
    Reason.ACTOR_NOT_ALLOWED: "Set actor.role, source_event_id and authority to what they are",
    Reason.SOURCE_MISSING: "Cite an event of this owner that was acknowledged before",
    Reason.SOURCE_OF_OTHER_OWNER: "Cite an event of the same owner",
    Reason.SOURCE_LATER: "Write the source first, then what reads it",
    Reason.SOURCE_IS_CANDIDATE: "Cite the turn or statement that it reads",
    Reason.SOURCE_REFUSED: "Mend the cited event first",
    Reason.QUOTE_NOT_AT_SPAN: "Count the span in Unicode code points, not in bytes or UTF-16 units",
    Reason.QUOTE_MISSING: "Quote the turn with its span, or claim 'inferred'",
    Reason.AUTHORITY_ABOVE_SOURCE: "Claim no more than the cited statement",
    Reason.AUTHORITY_TOO_LOW: "Quote the person, or have it confirmed; or lower min_authority of the key",
    Reason.NAMED_MISSING: "Name events of this owner that were acknowledged before, by their event_id",
    Reason.NAMED_REFUSED: "Leave it out: what was refused does not count anyway",
    Reason.NAMED_NOT_ALLOWED: "Let a statement withdraw it, or a resolve name sets of its own scope and key",
    Reason.AUTHORITY_BELOW_NAMED: "Let somebody decide who has at least the authority of what is withdrawn or ended",
    Reason.EXPECTED_SEQUENCE: "Somebody was faster, which is what a condition is for: read again and decide again",
    "duplicate": "A retry, which changes nothing; if there are many, set enable.idempotence",
    "event-id-version": "Make ids of version 7, which rise with time and take less room (or 5, made from a name)",
    "out-of-order": "Keep the order of one owner's events: enable.idempotence, and one writer for an owner at a time",
    "clock-ahead": "Set the publisher's clock; it decides nothing, but people read it",
    "expired-at-birth": "Set expires_at later than now, or leave it out",
    "not-stamped": "Set the topic's message.timestamp.type to LogAppendTime: times are the publishers' now",
}
"""What to do, by kind of finding."""
HINTS: Final = frozenset(
    {
        Reason.EXPECTED_SEQUENCE.value,
        "duplicate",
        "event-id-version",
        "out-of-order",
        "clock-ahead",
        "expired-at-birth",
        "not-stamped",
    }
)
"""Kinds that a right producer may have, too."""
_OF_THE_PAST: Final = frozenset(
    {Reason.SOURCE_MISSING, Reason.SOURCE_OF_OTHER_OWNER, Reason.SOURCE_REFUSED, Reason.EXPECTED_SEQUENCE}
    | {Reason.NAMED_MISSING, Reason.NAMED_REFUSED}
)
"""Reasons that are no finding where the records before are not known."""


class Produced(NamedTuple):
    """A record as a producer hands it to Kafka."""

    partition: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with some records, or worth a look."""

    kind: str
    """A key of `ADVICE`: the reason of a refused event, or what happens to the record otherwise."""
    wrong: bool
    """Whether a right producer has no such record."""
    count: int
    partition: int
    """Of the first such record."""
    offset: int
    """Of the first such record; where the records are of no topic its number, from 1."""
    detail: str
    """What is wrong with that one. Of a record that is no envelope it may quote it."""
    advice: str
    """What to do."""

    def __str__(self) -> str:
        return f"{self.kind} ({self.count}, first: {self.offset} in partition {self.partition}): {self.detail}"


@dataclass(frozen=True, slots=True)
class Report:
    """What was found."""

    records: int
    """Records that were read, whoever wrote them."""
    events: int
    """Events among them that were checked."""
    findings: tuple[Finding, ...]
    """What is wrong first, then hints; each kind once."""
    unchecked: tuple[str, ...]
    """What could not be checked, and why."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong. Hints are not wrong."""
        return not any(finding.wrong for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """The same for machines."""
        return {"ok": self.ok} | asdict(self)

    def __str__(self) -> str:
        return "\n".join(f"{finding}. {finding.advice}" for finding in self.findings) or "nothing was found"


def check(
    records: Iterable[Produced],
    *,
    partitions: int = 24,
    registry: Registry | None = None,
    service: str | None = None,
) -> Report:
    """Judge records in the order in which they were written; see `ProducerCheck`.

    Raises InvalidInput where a partition is none of `partitions`.
    """
    checked = ProducerCheck(partitions, registry=registry, service=service)
    for number, record in enumerate(records, start=1):
        checked.take(record.partition, LogRecord(number, _UNKNOWN_TIME, record.key, record.value))
    return checked.report()


class ProducerCheck:
    """Judges records of a log one by one, as a projector would; all of them stay in memory.

    Without a `registry`, and as long as none stands in the log, keys and values are not checked. Where a partition is
    not read from its beginning, neither is what needs the events before. `genesis` is a log's, of each partition in
    turn; without it the records are of some topic that is none. With `service`, only what that service wrote is
    reported, and records of which nobody can tell who wrote them.
    """

    def __init__(
        self,
        partitions: int,
        *,
        genesis: Sequence[Genesis] | None = None,
        registry: Registry | None = None,
        service: str | None = None,
    ) -> None:
        self.partitions = partitions
        self._is_log = genesis is not None
        self._genesis = genesis or [_no_genesis(number, partitions) for number in range(partitions)]
        self._registry, self._service = registry, service
        self._projections: dict[int, Projection] = {}
        self._whole: set[int] = set()
        self._published: dict[tuple[str, str], datetime] = {}
        self._findings: dict[str, Finding] = {}
        self._unchecked: dict[str, None] = {}
        self._records = self._events = 0

    def take(self, partition: int, record: LogRecord) -> None:
        """Judge the next record of a partition. Raises InvalidInput where there is no such partition."""
        at = record.offset
        if not self._is_log:  # there the first offset is not that of a genesis record
            record = structs.replace(record, offset=at + 1)
        projection = self._projections.get(partition) or self._begin(partition, record)
        read = projection.read(record)
        self._records += 1
        found = self._judge(projection, read)
        if self._service is not None and (wrote := _service_of(read)) is not None and wrote != self._service:
            return
        self._events += isinstance(read.item, Event | Malformed)
        for kind, detail in found:
            self._add(kind, partition, at, detail)

    def report(self) -> Report:
        """What was found so far."""
        findings = sorted(self._findings.values(), key=lambda finding: not finding.wrong)
        return Report(self._records, self._events, tuple(findings), tuple(self._unchecked))

    def _begin(self, partition: int, record: LogRecord) -> Projection:
        if not 0 <= partition < len(self._genesis):
            raise InvalidInput(f"there is no partition {partition} of {len(self._genesis)}", field="partition")
        projection = Projection(partition, self._genesis[partition], next_offset=record.offset, registry=self._registry)
        if self._registry is None:
            projection.keys = _AnyKeys(Registry())
        if self._is_log and record.offset == 0:
            self._whole.add(partition)
        self._projections[partition] = projection
        return projection

    def _judge(self, projection: Projection, read: Read) -> list[tuple[str, str]]:
        """Kind and detail of everything that is to be said of a record."""
        letters = len(projection.changes.dead)
        try:
            made = _apply(projection, read)
        except PartitionWaits:
            return [("newer-version", read.item.problem if isinstance(read.item, Newer) else "")]
        except WrongGenesis as error:
            return [("wrong-genesis", error.message)]
        if len(projection.changes.dead) > letters:
            return [_dead_letter(projection, read)]
        if made is None:
            return []
        if isinstance(projection.keys, _AnyKeys):
            self._unchecked["keys and values, because no registry is known"] = None
        verdict = self._verdict(made, whole=projection.partition in self._whole)
        return [*verdict, *(self._hints(read.item, read.record, made) if isinstance(read.item, Event) else ())]

    def _verdict(self, made: Record, *, whole: bool) -> list[tuple[str, str]]:
        if made.verdict == "duplicate":
            return [("duplicate", "a copy of an earlier event")]
        if made.reason is None:
            return []
        if made.reason == Reason.EVENT_ID_REUSED:  # the verdict names a sequence, which has no meaning outside a log
            return [(made.reason, "an earlier event of the owner has the id, with other content")]
        if not whole and made.reason in _OF_THE_PAST:
            self._unchecked["citations and conditions on events before those that were read"] = None
            return []
        return [(made.reason, made.detail or "")]

    def _hints(self, event: Event, record: LogRecord, made: Record) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        if (version := event.event_id[14]) not in "57":
            found.append(("event-id-version", f"the event id is a UUID of version {version}"))
        published = None if event.published_at is None else parse_instant(event.published_at)
        if published is not None and made.verdict != "duplicate":
            before = self._published.get(of := (event.owner, event.actor.service))
            if before is not None and published < before:
                found.append(("out-of-order", "the service published the owner's event before this one later"))
            self._published[of] = published
        if record.recorded_at == _UNKNOWN_TIME:
            return found
        if not record.stamped:
            return [*found, ("not-stamped", "the record has no time of the broker")]
        for name, said in (("published_at", published), ("occurred_at", _instant(made.occurred_at))):
            if said is not None and said.timestamp() > record.recorded_at / 1000 + CLOCK_AHEAD_S:
                found.append(("clock-ahead", f"{name} is more than {CLOCK_AHEAD_S} s after the append time"))
                break
        expires = _instant(made.expires_at)
        if expires is not None and expires.timestamp() * 1000 <= record.recorded_at:
            found.append(("expired-at-birth", "expires_at is before the append time"))
        return found

    def _add(self, kind: str, partition: int, offset: int, detail: str) -> None:
        if (before := self._findings.get(kind)) is not None:
            self._findings[kind] = replace(before, count=before.count + 1)
        else:
            self._findings[kind] = Finding(kind, kind not in HINTS, 1, partition, offset, detail, ADVICE[kind])


class _AnyKeys(Keys):
    """Every key is declared, with any value."""

    def takes(self, key: str) -> bool:
        return True


_UNKNOWN_TIME: Final = 0


def _no_genesis(partition: int, partitions: int) -> Genesis:
    return Genesis(generation=0, partition=partition, partitions=partitions, cluster_id="", topic_id="")


def _apply(projection: Projection, read: Read) -> Record | None:
    """Fold a record: nothing but what was folded here is stored anywhere."""
    while True:
        try:
            return projection.apply(read)
        except NotLoaded as missing:
            needs = missing.needs
            projection.load(
                dict.fromkeys(needs.events), dict.fromkeys(needs.entries), {ref: [] for ref in needs.histories}
            )


def _dead_letter(projection: Projection, read: Read) -> tuple[str, str]:
    problem = projection.changes.dead[-1].problem
    if problem != MISPLACED:
        return "no-envelope", problem
    partitions, item = projection.genesis.partitions, decode(read.record)
    right = partition_for(item.owner, partitions) if isinstance(item, Event | Malformed) else None
    return "wrong-partition", f"the owner's partition is {right} of {partitions}"


def _service_of(read: Read) -> str | None:
    """Who wrote a record, if it can be told."""
    if isinstance(read.item, Event):
        return read.item.actor.service
    with contextlib.suppress(InvalidInput, KeyError, TypeError):
        return str(jsontext.parse_stored(read.record.value or b"")["actor"]["service"])
    return None


def _instant(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)
