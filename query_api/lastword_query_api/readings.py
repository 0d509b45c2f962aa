"""The reads of the API, over the reader: one moment each, demands honoured, pages that stay valid under writes."""

import base64
import binascii
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol, TypeVar

from lastword_projector.engine.decisions import standing_of
from lastword_projector.engine.outcome import verdict_of
from lastword_projector.engine.records import Record
from lastword_projector.store.plans import EntriesRead, HistoryRead, StateRead
from lastword_projector.store.ports import Checkpoint
from lastword_query_api import answering, versions
from lastword_query_api.boundary import (
    Boundary,
    NotProjected,
    NotProjectedYet,
    Resolved,
    check_demand,
    resolve,
)
from lastword_schemas import jsontext
from lastword_schemas.answers import (
    HistoryAnswer,
    InspectionRecord,
    OutcomeAnswer,
    ProfileAnswer,
    Reading,
    Status,
    ValuesAnswer,
)
from lastword_schemas.errors import InvalidInput, LastwordError
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import Demand

R = TypeVar("R", EntriesRead, StateRead, HistoryRead)


class UnknownEvent(LastwordError):
    """The owner has no such event, as far as the log is projected."""

    code = "unknown-event"
    retryable = True


class ReaderPort(Protocol):
    """What the reads need of a store. Every method raises StoreUnavailable."""

    @property
    def namespace(self) -> str:
        """The projection that a method that is called now reads."""
        ...

    async def checkpoint(self, partition: int) -> Checkpoint | None:
        """How far the partition is projected."""
        ...

    async def checkpoints(self, partitions: int) -> list[Checkpoint | None]:
        """How far every partition is projected."""
        ...

    async def entries(self, partition: int, owner: str, wanted: Sequence[tuple[str, str]] | None = None) -> EntriesRead:
        """Entries of an owner by scope and key: those wanted that are there, or all."""
        ...

    async def state_at(
        self,
        partition: int,
        owner: str,
        wanted: Sequence[tuple[str, str]],
        *,
        as_of: int | None,
        known_at: int | None,
    ) -> StateRead:
        """Entries of an owner within a boundary of sequences: those wanted that are there."""
        ...

    async def history(self, partition: int, owner: str) -> HistoryRead:
        """All of an owner's records up to the checkpoint."""
        ...

    async def last_record(self, partition: int, owner: str) -> HistoryRead:
        """The last of an owner's records; above the checkpoint where that was set back."""
        ...

    async def event(self, partition: int, owner: str, event_id: bytes) -> Record | None:
        """The owner's first event with this id, if it is projected."""
        ...

    async def wait_past(self, partition: int, sequence: int, wait_s: float) -> bool:
        """Whether the checkpoint takes `sequence` into account, within `wait_s` seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What every read has in common."""

    owner: str
    boundary: Boundary = field(default_factory=Boundary)
    at_least: Demand | None = None
    wait_ms: int = 0
    """How long a demand may be waited for."""


class Readings:
    """Answers reads. Raises NotProjected, NotProjectedYet, WrongLog, BeforeHorizon, InvalidInput, StoreUnavailable."""

    def __init__(
        self,
        reader: ReaderPort,
        *,
        now_micros: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self.reader, self.now = reader, now_micros
        self._partitions: int | None = None

    async def partition_of(self, owner: str) -> int:
        """The owner's partition. Raises NotProjected before the first projection of this log."""
        if self._partitions is None:
            checkpoint = await self.reader.checkpoint(0)
            if checkpoint is None:
                raise _nothing(0)
            self._partitions = checkpoint.genesis.partitions
        return partition_for(owner, self._partitions)

    async def values(self, asked: Asked, scopes: Sequence[str], keys: Sequence[str]) -> ValuesAnswer:
        """What applies for several keys along one scope chain, at one moment."""
        reading, records = await self._inspect(asked, [(scope, key) for key in keys for scope in scopes], scopes, keys)
        return ValuesAnswer(**dict(reading), scopes=list(scopes), values=records)

    async def profile(
        self,
        asked: Asked,
        *,
        scope: str | None,
        everything: bool,
        limit: int,
        page: str | None,
        unresolved: bool = False,
    ) -> ProfileAnswer:
        """A page of an owner's entries: those that apply, or also tombstones and expired ones; or only those that are
        unresolved."""
        listing = ("profile", asked, scope, everything, *(("unresolved",) if unresolved else ()))
        place = Page.parse(page, listing)
        reading, checkpoint, entries, moment = await self._state(asked, None, place)
        after = None if place is None else tuple(place.after)
        wanted = sorted(
            at
            for at, found in entries.items()
            if (scope is None or at[0] == scope)
            and (not unresolved or answering.read_at(found.entry, moment).unresolved)
            and (everything or unresolved or answering.status_at(found.entry, moment) is Status.SET)
            and (after is None or at > after)
        )
        shown = [
            answering.inspection(reading, checkpoint, {at: entries[at]}, [at[0]], at[1], moment)
            for at in wanted[:limit]
        ]
        more = None
        if len(wanted) > limit:
            last = wanted[limit - 1]
            more = Page(reading.known_at, moment, list(last)).text(listing)
        return ProfileAnswer(**dict(reading), entries=shown, next_page=more)

    async def versions(self, asked: Asked, scope: str, key: str, *, limit: int, page: str | None) -> HistoryAnswer:
        """A page of a key's versions, in source order."""
        place = Page.parse(page, ("versions", asked, scope, key))
        reading, checkpoint, records, resolved = await self.records(asked, place)
        counting = [
            part
            for record in records
            if answering.counts_within(record, as_of=resolved.as_of, known_at=resolved.known_at)
            and (part := record.part_of(scope, key)) is not None
        ]
        policies = await self.policies(asked.owner, checkpoint, [(scope, key)])
        standing = standing_of(records, known_at=resolved.known_at)
        found = versions.versions((scope, key), counting, policies(scope, key), resolved.moment, standing)
        first = 0 if place is None else place.number
        more = None
        if len(found) > first + limit:
            place = Page(reading.known_at, resolved.moment, [str(first + limit)])
            more = place.text(("versions", asked, scope, key))
        page_of = found[first : first + limit]
        return HistoryAnswer(**dict(reading), scope=scope, key=key, versions=page_of, next_page=more)

    async def events(
        self, asked: Asked, scope: str | None, key: str | None, *, limit: int, page: str | None
    ) -> HistoryAnswer:
        """A page of an owner's events, in accepted order, refused ones and duplicates too.

        Of one scope or key: its events, and the deletes of it that events of other keys brought.
        """
        place = Page.parse(page, ("events", asked, scope, key))
        reading, checkpoint, records, resolved = await self.records(asked, place)
        within = [
            record
            for record in records
            if record.sequence <= resolved.known_at
            and (resolved.as_of is None or record.source_sequence <= resolved.as_of)
        ]
        policies = await self.policies(asked.owner, checkpoint)
        standing = standing_of(records, known_at=resolved.known_at)
        status_of = versions.statuses(within, policies, resolved.moment, standing)
        wanted = [
            part
            for record in within
            for part in ((record,) if scope is key is None else (record, *record.parts()[1:]))
            if (scope is None or part.scope == scope) and (key is None or part.key == key)
        ]
        first = 0 if place is None else place.number
        partition = checkpoint.genesis.partition
        shown = [
            versions.event_answer(part, status_of[versions.place_of(part)], partition, standing)
            for part in wanted[first : first + limit]
        ]
        more = None
        if len(wanted) > first + limit:
            place = Page(reading.known_at, resolved.moment, [str(first + limit)])
            more = place.text(("events", asked, scope, key))
        return HistoryAnswer(**dict(reading), scope=scope, key=key, events=shown, next_page=more)

    async def outcome(self, asked: Asked, event_id: str) -> OutcomeAnswer:
        """The verdict on the owner's first event with this id. Raises UnknownEvent if none is projected."""
        partition = await self.partition_of(asked.owner)

        async def look() -> EntriesRead:
            return EntriesRead(await self.reader.checkpoint(partition), {})

        _, checkpoint = await self.await_demand(asked, partition, look)
        record = await self.reader.event(partition, asked.owner, uuid.UUID(event_id).bytes)
        if record is None:
            raise UnknownEvent(
                f"no event with this id is projected for this owner (the projection is at sequence "
                f"{checkpoint.last_sequence}); if it was just published, ask with at_least=<receipt>"
            )
        verdict = verdict_of(record, partition)
        return OutcomeAnswer(**dict(verdict), position_token=answering.position_token_of(asked.owner, checkpoint))

    async def _inspect(
        self, asked: Asked, wanted: Sequence[tuple[str, str]], scopes: Sequence[str], keys: Sequence[str]
    ) -> tuple[Reading, list[InspectionRecord]]:
        reading, checkpoint, entries, moment = await self._state(asked, wanted)
        return reading, [answering.inspection(reading, checkpoint, entries, scopes, key, moment) for key in keys]

    async def _state(
        self, asked: Asked, wanted: Sequence[tuple[str, str]] | None, place: "Page | None" = None
    ) -> tuple[Reading, Checkpoint, answering.Entries, int]:
        """Entries within the boundary: from the profile if it is open, else folded from history."""
        if asked.boundary.is_open and place is None:
            partition = await self.partition_of(asked.owner)
            found, checkpoint = await self.await_demand(
                asked, partition, lambda: self.reader.entries(partition, asked.owner, wanted)
            )
            reading = answering.reading_of(
                asked.owner, checkpoint, known_at=checkpoint.last_sequence, from_profile=True
            )
            return reading, checkpoint, answering.from_profile(found.entries), self.now()
        if wanted is not None and place is None and not isinstance(asked.boundary.as_of, datetime):
            return await self._state_at(asked, asked.boundary.as_of, wanted)
        reading, checkpoint, records, resolved = await self.records(asked, place)
        policies = await self.policies(asked.owner, checkpoint, wanted)
        chosen = None if wanted is None else frozenset(wanted)
        entries = answering.from_history(
            records, policies, as_of=resolved.as_of, known_at=resolved.known_at, wanted=chosen
        )
        return reading, checkpoint, entries, resolved.moment

    async def _state_at(
        self, asked: Asked, as_of: int | None, wanted: Sequence[tuple[str, str]]
    ) -> tuple[Reading, Checkpoint, answering.Entries, int]:
        """Entries within a boundary of sequences, without reading through a long history."""
        partition = await self.partition_of(asked.owner)
        known_at = asked.boundary.known_at
        found, checkpoint = await self.await_demand(
            asked,
            partition,
            lambda: self.reader.state_at(partition, asked.owner, wanted, as_of=as_of, known_at=known_at),
        )
        resolved = resolve(asked.boundary, [found.last] if found.last else [], checkpoint, self.now())
        reading = _bounded_reading(asked.owner, checkpoint, resolved)
        entries = {at: answering.Found(entry, None) for at, entry in found.entries.items()}
        return reading, checkpoint, entries, resolved.moment

    async def policies(
        self, owner: str, checkpoint: Checkpoint, wanted: Sequence[tuple[str, str]] | None = None
    ) -> answering.PolicyOf:
        """By what policies an owner's keys fold, those wanted or all: an entry never changes its own."""
        now = await self.reader.entries(checkpoint.genesis.partition, owner, wanted)
        return answering.policies_of(now.entries, checkpoint.registry)

    async def records(
        self, asked: Asked, place: "Page | None" = None
    ) -> tuple[Reading, Checkpoint, list[Record], Resolved]:
        """All of an owner's records and the boundary; of a later page the first page's boundary and moment."""
        partition = await self.partition_of(asked.owner)
        found, checkpoint = await self.await_demand(
            asked, partition, lambda: self.reader.history(partition, asked.owner)
        )
        boundary = asked.boundary if place is None else replace(asked.boundary, known_at=place.known_at)
        resolved = resolve(boundary, found.records, checkpoint, self.now())
        if place is not None:
            resolved = replace(resolved, moment=place.moment)
        return _bounded_reading(asked.owner, checkpoint, resolved), checkpoint, found.records, resolved

    async def await_demand(
        self, asked: Asked, partition: int, look: Callable[[], Awaitable[R]]
    ) -> tuple[R, Checkpoint]:
        """Look until the checkpoint of the same look meets the demand."""
        waited = False
        while True:
            found = await look()
            checkpoint = found.checkpoint
            if checkpoint is None:
                raise _nothing(partition)
            self._partitions = checkpoint.genesis.partitions
            if asked.at_least is None:
                return found, checkpoint
            demanded = check_demand(asked.at_least, asked.owner, checkpoint)
            if checkpoint.last_sequence >= demanded:
                return found, checkpoint
            if waited or not await self.reader.wait_past(partition, demanded, asked.wait_ms / 1000):
                raise NotProjectedYet(checkpoint.last_sequence, demanded)
            waited = True


@dataclass(frozen=True, slots=True)
class Page:
    """Where a page begins, and of which moment all pages of the reading are."""

    known_at: int
    """Up to where the log counts, as a sequence."""
    moment: int
    """What expiry is compared with, microseconds since 1970."""
    after: list[str]
    """Scope and key of the last entry shown; or one number: the place of the next version or event."""

    @property
    def number(self) -> int:
        """The one number in `after`."""
        try:
            (text,) = self.after
            return int(text)
        except ValueError as error:
            raise _no_page() from error

    def text(self, question: tuple[Any, ...]) -> str:
        data = [self.known_at, self.moment, self.after, _digest(question)]
        return base64.urlsafe_b64encode(jsontext.dump(data).encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str | None, question: tuple[Any, ...]) -> "Page | None":
        """The page that a `next_page` names; None for None. Raises InvalidInput."""
        if text is None:
            return None
        try:
            data = jsontext.parse(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            known_at, moment, after, digest = data
            page = cls(int(known_at), int(moment), [str(part) for part in after])
        except (binascii.Error, ValueError, TypeError, OverflowError) as error:
            raise _no_page() from error
        if digest != _digest(question):
            raise InvalidInput("page belongs to a question with other parameters", field="page")
        return page


def _no_page() -> InvalidInput:
    return InvalidInput("page is not one that an answer gave as next_page", field="page")


def _digest(question: tuple[Any, ...]) -> str:
    kind, asked, *rest = question
    as_of = asked.boundary.as_of
    return uuid.uuid5(uuid.NAMESPACE_OID, repr((kind, asked.owner, str(as_of), rest))).hex[:16]


def _bounded_reading(owner: str, checkpoint: Checkpoint, resolved: Resolved) -> Reading:
    return answering.reading_of(
        owner,
        checkpoint,
        known_at=resolved.known_at,
        as_of=resolved.as_of,
        provisional=resolved.provisional,
    )


def _nothing(partition: int) -> NotProjected:
    return NotProjected(
        f"partition {partition} has no checkpoint: no projector has begun with it, or the namespace is being rebuilt. "
        "Is a worker running (`lastword worker`), on the same Redis and LASTWORD_NAMESPACE?"
    )
