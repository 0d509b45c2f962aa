"""Verdicts and states a second time: obvious, slow, and sharing nothing with the engine but formats.

Every event is compared with all that were heard before it. The state of `latest` is worked out backwards from the last
word; for `branch` see `naive_branch`.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lastword_projector.engine.decode import LogRecord
from lastword_schemas import jsontext
from lastword_schemas.control import GENESIS_KEY, REGISTRY_KEY
from lastword_schemas.envelope import Envelope
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import record_key
from lastword_schemas.positions import parse_receipt
from tests.model import naive_branch, naive_decisions

DECISIONS = ("withdraw", "resolve")
RANKS = {"inferred": 1, "stated": 2, "confirmed": 3}
NOT_CONTENT = {"published_at", "occurred_at", "source_receipt"}

Mark = tuple[int, int, int]


@dataclass
class Heard:
    """One event of the log and what is made of it."""

    sequence: int
    recorded_at: int
    owner: str
    event_id: str
    header: dict[str, Any] = field(default_factory=dict)
    """The envelope as JSON; empty if it was malformed."""
    body: dict[str, Any] = field(default_factory=dict)
    source: "Heard | None" = None
    verdict: str = ""
    """An effect; `refused` or `duplicate`."""
    reason: str | None = None
    related: tuple[int, ...] | None = None
    retired: tuple[str, ...] | None = None
    """Of a set that counts and retires keys: the effect on each."""
    ended: Mark | None = None
    """Of what a resolve ended: its mark."""

    @property
    def counts(self) -> bool:
        return self.verdict not in ("refused", "duplicate")

    @property
    def key(self) -> tuple[str, str, str] | None:
        """Owner, scope, key."""
        key = self.header.get("key")
        return None if key is None else (self.owner, self.header["scope"], key)

    @property
    def rank(self) -> int:
        return RANKS[self.header["authority"]]

    @property
    def source_sequence(self) -> int:
        if self.source:
            return self.source.source_sequence
        return self.sequence if self.place is None else 0

    @property
    def place(self) -> int | None:
        """Among what is backfilled, of such a statement and of what reads it."""
        place: int | None = self.source.place if self.source else self.header.get("backfill")
        return place

    @property
    def started_at(self) -> int:
        """0 before the log."""
        said = self.source or self
        return said.recorded_at if said.place is None else 0

    @property
    def mark(self) -> Mark:
        return self.source_sequence, self.rank, (self.header.get("span") or [self.place or 0])[0]

    @property
    def says(self) -> str:
        """The value as one text; a delete says nothing else than any other delete."""
        return jsontext.canonical(self.body["value"]) if self.header["operation"] == "set" else "(deleted)"


Key = tuple[str, str, str]


def said_of(heard: Sequence[Heard], key: Key, as_of: int | None = None) -> list[Heard]:
    """What the counting events say of one key, those that stand: of the key, and a delete for each that retires it."""
    decisions = naive_decisions.withdrawing(heard)
    said = [
        part
        for event in heard
        if event.counts and event.key is not None and event.header["operation"] not in DECISIONS
        if as_of is None or event.source_sequence <= as_of
        for part in (event, *retirements(event))
        if part.key == key and not naive_decisions.withdrawn_by(event, decisions)
    ]
    return naive_decisions.resolved(said, key, heard)


def retirements(event: Heard) -> list[Heard]:
    """The deletes that a set brings."""
    others = event.header.get("retires") or []
    return [
        replace(event, header=event.header | other | {"operation": "delete", "retires": None}, body={}, verdict=effect)
        for other, effect in zip(others, event.retired or [""] * len(others), strict=True)
    ]


class State(NamedTuple):
    """What applies."""

    pointer: Heard
    start: Mark
    """Where the current version began."""
    started_at: int
    previous: Mark | None
    """The last mark of what it replaced."""
    unresolved: bool
    kept: tuple[Any, ...] = ()
    """What policy `branch` keeps: see `naive_branch.Kept`."""


class Rules:
    """The registry in force."""

    def __init__(self) -> None:
        self.declared: dict[str, Any] = {}
        self.ever: dict[str, str] = {}
        """The policy of every key that was ever declared: its first one."""
        self.takes_undeclared = False
        self.began: dict[Key, str] = {}
        """The policy under which an entry began."""

    def apply(self, registry: dict[str, Any]) -> None:
        before, self.declared = self.declared, {}
        for key, declaration in registry.get("keys", {}).items():
            if self.ever.setdefault(key, declaration["policy"]) == declaration["policy"]:
                self.declared[key] = declaration
            elif key in before:
                self.declared[key] = before[key]
        self.takes_undeclared = registry.get("undeclared") == "branch"

    def takes(self, key: str) -> bool:
        return key in self.declared or self.takes_undeclared

    def policy(self, key: str) -> str:
        return self.ever.get(key, "branch")

    def policy_at(self, key: Key) -> str:
        return self.began.get(key) or self.policy(key[2])

    def least(self, key: str) -> int:
        usual = "inferred" if self.policy(key) == "branch" else "stated"
        return RANKS[self.declared.get(key, {}).get("min_authority", usual)]


class Listened(list[Heard]):
    """Every event of a log with its verdict."""

    def __init__(self) -> None:
        super().__init__()
        self.rules = Rules()


def listen(records: Iterable[LogRecord], generation: int, log_id: str, partition: int = 0) -> Listened:
    """Every event of a log with its verdict."""
    heard = Listened()
    rules = heard.rules
    for record in records:
        if record.key == GENESIS_KEY.encode():
            continue
        if record.key == REGISTRY_KEY.encode():
            rules.apply(json.loads(record.value or b"")["registry"])
            continue
        event = _hear(record, generation)
        if event is None:
            continue
        _judge(event, record.key, heard, rules, (log_id, partition))
        heard.append(event)
        for key in {part.key for other in heard for part in (other, *retirements(other)) if part.counts} - {None}:
            if key is not None and key not in rules.began and said_of(heard, key):
                rules.began[key] = rules.policy(key[2])
    return heard


def state(events: Sequence[Heard], policy: str = "latest") -> State | None:
    """What applies of one key, from its counting events in any order."""
    if not events:
        return None
    if policy == "branch":
        return naive_branch.state(events)
    marks = sorted({event.mark for event in events})

    def tied(mark: Mark) -> list[Heard]:
        return sorted((event for event in events if event.mark == mark), key=lambda event: event.event_id)

    def disagree(mark: Mark) -> bool:
        return len({event.says for event in tied(mark)}) > 1

    last = tied(marks[-1])[0]
    began = len(marks) - 1
    while began > 0 and tied(marks[began - 1])[0].says == last.says and not disagree(marks[began - 1]):
        began -= 1
    first = tied(marks[began])[0]
    return State(
        pointer=last,
        start=marks[began],
        started_at=first.started_at,
        previous=marks[began - 1] if began else None,
        unresolved=disagree(marks[-1]),
    )


def current(said: Sequence[Heard], state: State, policy: str) -> list[Heard]:
    """The events of a key that belong to what applies."""
    if policy == "branch":
        return naive_branch.current(said)
    return [event for event in said if event.mark >= state.start]


def states(heard: Listened, *, known_at: int, as_of: int | None = None) -> dict[Key, State]:
    """State(known_at, as_of) of every key."""
    known = [event for event in heard if event.sequence <= known_at]
    keys = {part.key for event in known if event.counts for part in (event, *retirements(event))} - {None}
    found = {key: state(said_of(known, key, as_of), heard.rules.policy_at(key)) for key in keys if key is not None}
    return {key: each for key, each in found.items() if each is not None}


def _hear(record: LogRecord, generation: int) -> Heard | None:
    """The event; None if nothing says whose it is."""
    sequence = generation * 2**40 + record.offset
    try:
        data = jsontext.parse_stored(record.value or b"")
    except InvalidInput:
        return None
    if not isinstance(data, dict) or data.get("v") != 1 or "owner" not in data or "event_id" not in data:
        return None
    event = Heard(sequence, record.recorded_at, data["owner"], data["event_id"])
    try:
        event.header = Envelope.read(data).model_dump(mode="json", exclude={"body"})
    except InvalidInput:
        return event
    event.body = data["body"]
    return event


def _judge(event: Heard, kafka_key: bytes | None, heard: Sequence[Heard], rules: Rules, log: tuple[str, int]) -> None:
    same_id = [other for other in heard if (other.owner, other.event_id) == (event.owner, event.event_id)]
    if same_id:
        first = min(same_id, key=lambda other: other.sequence)
        if event.header and _content(event) == _content(first):
            event.verdict, event.related = "duplicate", (first.sequence,)
        else:
            event.verdict, event.reason = "refused", "event-id-reused"
        return
    own = [other for other in heard if other.owner == event.owner and other.reason != "event-id-reused"]
    own = [other for other in own if other.verdict != "duplicate"]
    event.reason = _problem(event, kafka_key, own, rules, log) or _named_problem(event, own, rules, heard)
    if event.reason is None and event.header["expected_sequence"] is not None and event.key is not None:
        met = state(said_of(heard, event.key), rules.policy_at(event.key))
        if (met.pointer.source_sequence if met else 0) != event.header["expected_sequence"] or (met and met.unresolved):
            event.reason = "expected-sequence"
    event.verdict = "refused" if event.reason else "recorded"
    if not event.counts:
        return
    if event.header["operation"] in DECISIONS:
        event.verdict = {"withdraw": "withdrew", "resolve": "resolved"}[event.header["operation"]]
    if event.key is None or event.verdict == "resolved":
        return
    withdrawal = naive_decisions.withdrawn_by(event, naive_decisions.withdrawing([*heard, event]))
    if withdrawal is not None:
        event.verdict, event.related = "late", (withdrawal.sequence, event.source_sequence)
        event.retired = tuple("late" for _ in retirements(event))
        return

    def met_at(key: Key) -> list[Heard]:
        """What stands of a key, once the event has withdrawn what it withdraws."""
        return [said for said in said_of([*heard, event], key) if said.sequence != event.sequence]

    before = state(met_at(event.key), rules.policy_at(event.key))
    event.retired = tuple(
        _effect(delete, met_at(delete.key), rules.policy_at(delete.key), [*heard, event])
        for delete in retirements(event)
        if delete.key
    )
    event.verdict = _effect(event, met_at(event.key), rules.policy_at(event.key), [*heard, event])
    if event.verdict == "late" and before is not None:
        event.related = (before.pointer.source_sequence, event.source_sequence)


def _problem(
    event: Heard, kafka_key: bytes | None, own: Sequence[Heard], rules: Rules, log: tuple[str, int]
) -> str | None:
    header = event.header
    if not header:
        return "malformed"
    if kafka_key != record_key(event.owner, header["scope"], header["key"]).encode():
        return "key-mismatch"
    declared = rules.declared.get(header["key"])
    retired = [other["key"] for other in header["retires"] or []]
    if header["key"] is not None and not all(map(rules.takes, [header["key"], *retired])):
        return "undeclared-key"
    schema = declared.get("schema") if declared else None
    if schema is not None and "value" in event.body and event.body["value"] not in schema["enum"]:
        return "value-schema"
    cites, role, authority = header["source_event_id"], header["actor"]["role"], header["authority"]
    if (role == "extractor") != (cites is not None) or (authority == "confirmed" and role != "person"):
        return "actor-not-allowed"
    if cites is not None and (problem := _citation_problem(event, cites, own, log)):
        event.source = None
        return problem
    return None


def _citation_problem(event: Heard, cites: str, own: Sequence[Heard], log: tuple[str, int]) -> str | None:
    if cites == event.event_id:
        return "source-later"
    source = next((other for other in own if other.event_id == cites), None)
    if event.header["source_receipt"] is not None:
        receipt = parse_receipt(event.header["source_receipt"], field="source_receipt")
        if receipt.event_id != cites or receipt.log_id != log[0]:
            return "source-missing"
        if receipt.partition != log[1]:
            return "source-of-other-owner"
        if receipt.sequence >= event.sequence:
            return "source-later"
        if source is None:
            return "source-of-other-owner"
        if receipt.sequence < source.sequence:
            return "source-missing"
    if source is None:
        return "source-missing"
    if source.header and (source.header["source_event_id"] is not None or source.header["operation"] in DECISIONS):
        return "source-is-candidate"
    if not source.counts:
        return "source-refused"
    event.source = source
    span, text = event.header["span"], source.body.get("text")
    if span is not None and (text is None or list(text)[span[0] :][: span[1] - span[0]] != list(event.body["quote"])):
        return "quote-not-at-span"
    if span is not None and span[1] - span[0] != len(event.body["quote"]):
        return "quote-not-at-span"
    if text is not None and span is None and event.rank > RANKS["inferred"]:
        return "quote-missing"
    if text is None and event.rank > source.rank:
        return "authority-above-source"
    return None


def _named_problem(event: Heard, own: Sequence[Heard], rules: Rules, heard: Sequence[Heard]) -> str | None:
    resolving = event.header["operation"] == "resolve"
    for named in event.header["names"] or event.header["withdraws"] or []:
        other = next((other for other in own if other.event_id == named), None)
        if other is None:
            return "named-missing"
        if not other.counts:
            return "named-refused"
        if event.source is not None and other.source is None:
            return "named-not-allowed"
        if resolving and (other.header["operation"] != "set" or other.key != event.key):
            return "named-not-allowed"
        if event.rank < naive_decisions.rank_among(other, heard):
            return "authority-below-named"
    if resolving and event.key is not None and rules.policy_at(event.key) != "branch":
        return "named-not-allowed"
    retired = [other["key"] for other in event.header["retires"] or []]
    for key in [event.header["key"], *retired] if event.key is not None else []:
        if event.rank < rules.least(key):
            return "authority-too-low"
    return None


def _effect(event: Heard, said: Sequence[Heard], policy: str, heard: Sequence[Heard] = ()) -> str:
    before = state(said, policy)
    if policy == "branch":
        if event.key is not None:
            event = naive_decisions.resolved([*said, event], event.key, heard)[-1]
        return naive_branch.effect(event, said)
    is_delete = event.header["operation"] == "delete"
    if before is None:
        return "deleted" if is_delete else "added"
    if event.mark < before.pointer.mark:
        return "late"
    same = event.says == before.pointer.says
    if event.mark == before.pointer.mark:
        return "restated" if same else "conflict"
    if is_delete:
        return "deleted"
    if same and not before.unresolved:
        return "restated"
    return "added" if before.pointer.header["operation"] == "delete" else "updated"


def _content(event: Heard) -> Any:
    header = event.header | {"backfill": event.header.get("backfill") is not None}
    return {name: value for name, value in header.items() if name not in NOT_CONTENT}, json.dumps(
        event.body, sort_keys=True
    )
