"""The walk-through: three stories through the real pipeline, each answer checked value by value.

A part (see `stories`) is data: events that stand at given offsets of their owner's partition, and questions with the
answers that must come. Turns of other owners fill the offsets between. The owners of the parts live in partitions of
their own, which must be empty but for the genesis and the key registry; offsets are then sequences (generation 0).
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import redis

from lastword.settings import ConnectionSettings
from lastword_producers.kafka_log import LogIdentity
from lastword_projector.store.names import Names
from lastword_schemas.answers import HistoryAnswer, InspectionRecord, Rule, Status, Version
from lastword_schemas.errors import LastwordError
from lastword_schemas.identity import Owner
from lastword_schemas.ids import event_id_from
from lastword_schemas.partitions import partition_for

_FIRST_FREE: Final = 2
"""Offset 0 holds the genesis, offset 1 the key registry."""
_WAIT_MS: Final = 20_000


class WalkthroughStopped(LastwordError):
    """The walk-through could not go on."""

    code = "walkthrough-stopped"


@dataclass(frozen=True, slots=True)
class Event:
    """Publish `draft` at offset `at` of its owner's partition."""

    at: int
    draft: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Until:
    """Let the log of an owner's partition go on to offset `at`, with turns of others."""

    owner: str
    at: int


@dataclass(frozen=True, slots=True)
class SetBack:
    """Set the checkpoint of an owner's partition back, so that `at` is the next offset to be folded."""

    owner: str
    at: int


@dataclass(frozen=True, slots=True)
class Replay:
    """Empty the projection and fold the whole log again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a keyed read must say; as text for example `detailed@20 over 10 (fallback)`."""

    status: Status
    rule: Rule
    value: Any = None
    sequence: int | None = None
    """The source sequence."""
    supersedes: tuple[int, ...] = ()

    def __str__(self) -> str:
        text = self.value if self.status is Status.SET else self.status.value
        text = f"{text}@{self.sequence}" if self.sequence is not None else str(text)
        if self.supersedes:
            text += f" over {', '.join(map(str, self.supersedes))}"
        how = {Rule.FALLBACK: "fallback", Rule.FELL_THROUGH: "fell through"}.get(self.rule)
        return text if how is None else f"{text} ({how})"


@dataclass(frozen=True, slots=True)
class Look:
    """Ask what applies; now, or as of a sequence."""

    name: str
    owner: str
    key: str
    expected: Answer
    scope: str = "global"
    as_of: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Ask what the log's reader made of the event at an offset: `effect (sequences)`."""

    name: str
    owner: str
    at: int
    expected: str


@dataclass(frozen=True, slots=True)
class Versions:
    """Ask for the versions of a key, and what ended each."""

    name: str
    owner: str
    key: str
    expected: tuple[str, ...]


Step = Event | Until | SetBack | Replay | Look | Verdict | Versions


@dataclass(frozen=True, slots=True)
class Part:
    """One story."""

    title: str
    story: str
    steps: tuple[Step, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Check:
    """One answer beside the one that must come."""

    name: str
    expected: str
    got: str

    @property
    def ok(self) -> bool:
        """Whether they are the same."""
        return self.expected == self.got


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the walk-through cannot do through the API."""

    set_back: Callable[[int, int], None]
    """Set the checkpoint of a partition (first) back to a *next* sequence (second)."""
    replay: Callable[[], None]
    """Empty the projection and fold the whole log again."""


class Walkthrough:
    """Carries parts out over HTTP. Raises WalkthroughStopped where a publish or a read is refused."""

    def __init__(self, http: httpx.Client, log: LogIdentity, hooks: Hooks) -> None:
        self._http, self._log, self._hooks = http, log, hooks
        self._next: dict[int, int] = {}
        self._receipts: dict[int, str] = {}
        self._ids: dict[tuple[int, int], str] = {}

    def run(self, part: Part) -> list[Check]:
        """Carry one part out: its questions with the answers that came, in order."""
        checks = []
        for step in part.steps:
            match step:
                case Event():
                    self._publish(step)
                case Until():
                    self._fill(step.owner, step.at + 1)
                case SetBack():
                    self._hooks.set_back(self._partition(step.owner), step.at)
                case Replay():
                    self._hooks.replay()
                case Look():
                    checks.append(Check(step.name, str(step.expected), str(self._look(step))))
                case Verdict():
                    checks.append(Check(step.name, step.expected, self._verdict(step)))
                case Versions():
                    checks.append(Check(step.name, "; ".join(step.expected), "; ".join(self._versions(step))))
        return checks

    def _look(self, look: Look) -> Answer:
        boundary = {} if look.as_of is None else {"as_of": look.as_of}
        record = InspectionRecord.model_validate_json(
            self._get("/v1/value", look.owner, scope=look.scope, key=look.key, **boundary)
        )
        state, source, selection = record.state, record.source, record.selection
        if selection.provisional or selection.as_of != look.as_of:
            raise WalkthroughStopped(f"'{look.name}' was answered as of {selection.as_of}, provisionally")
        sequence = None if source is None else source.source_sequence
        return Answer(state.status, selection.rule, state.value, sequence, tuple(state.supersedes))

    def _verdict(self, asked: Verdict) -> str:
        partition = self._partition(asked.owner)
        answer = HistoryAnswer.model_validate_json(self._get("/v1/history", asked.owner, limit=1000))
        found = [event for event in answer.events or () if event.position.offset == asked.at]
        if not found or found[0].event_id != event_id_from(self._ids[partition, asked.at]):
            return "no such event"
        event = found[0]
        if event.effect == "late" and event.sequences is not None:
            winner, mine = event.sequences
            return f"late ({winner}, {mine})"
        return event.effect or event.outcome.value

    def _versions(self, asked: Versions) -> list[str]:
        answer = HistoryAnswer.model_validate_json(self._get("/v1/history", asked.owner, key=asked.key))
        versions = answer.versions or []
        return [_version_text(version, versions[at + 1 : at + 2]) for at, version in enumerate(versions)]

    def _get(self, path: str, owner: str, **parameters: Any) -> bytes:
        demand: dict[str, Any] = {
            "owner": owner,
            "at_least": self._receipts[self._partition(owner)],
            "wait_ms": _WAIT_MS,
        }
        response = self._http.get(path, params=demand | parameters)
        if response.status_code != httpx.codes.OK:
            raise WalkthroughStopped(f"GET {path} was answered with {response.status_code}: {response.text}")
        return response.content

    def _publish(self, event: Event) -> None:
        owner = event.draft["owner"]
        self._fill(owner, event.at)
        self._send(
            "candidates" if "source_event_id" in event.draft else "events", self._partition(owner), [event.draft]
        )

    def _fill(self, owner: str, upto: int) -> None:
        """Turns of others in the owner's partition, so that `upto` is the next offset."""
        partition = self._partition(owner)
        count = upto - self._next.setdefault(partition, _FIRST_FREE)
        if count < 0:
            raise WalkthroughStopped(f"offset {upto} of partition {partition} is taken by an earlier step")
        if count:
            other = self._other_owner(partition)
            turns = [
                turn(other, f"filler-{uuid.uuid4()}", "small-talk", "Good to hear from you.") for _ in range(count)
            ]
            self._send("events", partition, turns)

    def _send(self, kind: str, partition: int, drafts: Sequence[Mapping[str, Any]]) -> None:
        response = self._http.post(f"/v1/{kind}", json={kind: [dict(draft) for draft in drafts]})
        if not response.is_success:
            raise WalkthroughStopped(f"POST /v1/{kind} was answered with {response.status_code}: {response.text}")
        for draft, result in zip(drafts, response.json()["results"], strict=True):
            receipt = result.get("receipt")
            if receipt is None:
                raise WalkthroughStopped(f"an event was not accepted: {result}")
            at = self._next[partition]
            if (receipt["partition"], receipt["offset"], receipt["sequence"]) != (partition, at, at):
                raise WalkthroughStopped(
                    f"an event stands at {receipt['partition']}/{receipt['offset']}, not at {partition}/{at}: somebody "
                    "else has written there. The walk-through needs a fresh log: stop lastword and start it again"
                )
            self._next[partition] = at + 1
            self._receipts[partition] = receipt["receipt"]
            self._ids[partition, at] = draft["event_id"]

    def _partition(self, owner: str) -> int:
        return partition_for(str(Owner.parse(owner)), self._log.partitions)

    def _other_owner(self, partition: int) -> str:
        return next(other for n in range(100_000) if self._partition(other := f"user:other-{n}") == partition)


def turn(owner: str, event_id: str, thread: str, text: str) -> dict[str, Any]:
    """A turn, as `POST /v1/events` takes it."""
    actor = {"service": "chat"}
    return {
        "operation": "say",
        "owner": owner,
        "scope": "global",
        "event_id": event_id,
        "thread": thread,
        "text": text,
        "actor": actor,
    }


def store_hooks(settings: ConnectionSettings, log: LogIdentity) -> Hooks:
    """The hooks on a running lastword's own Redis."""

    def set_back(partition: int, sequence: int) -> None:
        with redis.Redis.from_url(settings.redis.get_secret_value()) as client:
            client.hset(Names(settings.namespace).of(partition).checkpoint, "next", f"{sequence:016d}")

    def replay() -> None:
        from lastword.running import run_rebuild  # with the whole API behind it

        run_rebuild(settings, log, lambda partition, next_offset: None)

    return Hooks(set_back, replay)


def _version_text(version: Version, following: list[Version]) -> str:
    text = f"{version.value if version.operation == 'set' else 'deleted'}@{version.start}"
    if version.ended is None:
        return text
    in_time = bool(following) and version.ended.at == following[0].started_at
    return f"{text} until {version.ended.by}@{version.ended.sequence}" + ("" if in_time else ", at another time")
