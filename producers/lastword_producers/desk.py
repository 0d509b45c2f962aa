"""The door of the HTTP API: checks drafts, hands them to the log, waits for verdicts where asked."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from lastword_producers.door import check_declared
from lastword_producers.errors import AuthorityTooLow, Backpressure, UndeclaredKey, ValueSchema
from lastword_producers.log_identity import LogIdentity
from lastword_producers.stamps import new_event_id, utc_now
from lastword_projector.engine.keys import Keys, compile_registry
from lastword_projector.engine.outcome import verdict_of
from lastword_projector.engine.records import Record
from lastword_projector.store.ports import Checkpoint, StoreUnavailable
from lastword_schemas import limits
from lastword_schemas.drafts import CandidateDraft, Draft, EventDraft, read_draft, to_envelope
from lastword_schemas.envelope import Envelope
from lastword_schemas.errors import InvalidInput, LastwordError, TooLarge
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import Receipt
from lastword_schemas.verdicts import Outcome, Verdict

_REGISTRY_AGE_S = 1.0
DraftKind = type[EventDraft] | type[CandidateDraft]


class NotProjected(LastwordError):
    """No key registry is known yet: nothing of this partition is projected."""

    code = "not-projected"
    retryable = True


class WriterPort(Protocol):
    """What the door needs of the log."""

    @property
    def log(self) -> LogIdentity:
        """The log that is written to."""
        ...

    def submit(self, envelope: Envelope) -> Future[Receipt]:
        """Send an event, without waiting for room; what one thread submits is in the log in that order.

        The future has the receipt once the log has the event. It raises PublishFailed (certainly not in the log),
        UnknownOutcome (may be in the log, and is still under way) or LogMismatch.

        Raises TooLarge where the event is over the limit, Backpressure where there is no room, PublisherClosed after
        the writer was closed, LogMismatch where the log was found to be another one. Then the event was not sent.
        """
        ...


class ProjectionPort(Protocol):
    """What the door needs to know of the projection."""

    async def checkpoint(self, partition: int) -> Checkpoint | None:
        """How far the partition is projected, and the registry in force."""
        ...

    async def record(self, partition: int, owner: str, sequence: int) -> Record | None:
        """The owner's record of exactly that sequence."""
        ...

    async def wait_past(self, partition: int, sequence: int, wait_s: float) -> bool:
        """Whether the checkpoint takes `sequence` into account, within `wait_s` seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of one item of a write request: a receipt, perhaps a verdict, or an error."""

    receipt: Receipt | None = None
    verdict: Verdict | None = None
    """The verdict on the event; of a copy that on its first."""
    error: LastwordError | None = None


class Desk:
    """Accepts what can be accepted. Events of one request are in the log in the order given, owner by owner."""

    def __init__(
        self, writer: WriterPort, projection: ProjectionPort, *, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._writer, self._projection, self._now = writer, projection, now
        self._keys: dict[int, tuple[float, Keys]] = {}

    @property
    def log(self) -> LogIdentity:
        """The log that is written to."""
        return self._writer.log

    async def accept(self, items: Sequence[Any], kind: DraftKind, *, wait_applied_s: float | None) -> list[Settled]:
        """Publish parsed JSON items, each settled by itself; with `wait_applied_s` wait that long for the verdicts."""
        pending: list[tuple[Envelope, Future[Receipt]] | LastwordError] = []
        full: Backpressure | None = None
        for item in items:
            try:
                envelope = await self._check(item, kind)
                if full is not None:  # what follows must not come before what is to be sent again
                    raise full
                pending.append((envelope, self._writer.submit(envelope)))
            except LastwordError as error:
                full = error if isinstance(error, Backpressure) else full
                pending.append(error)
        deadline = time.monotonic() + (wait_applied_s or 0)
        return [await self._settle(item, None if wait_applied_s is None else deadline) for item in pending]

    async def _check(self, item: Any, kind: DraftKind) -> Envelope:
        envelope = to_envelope(_draft(item, kind), event_id=new_event_id(), published_at=self._now())
        if envelope.key is not None:
            partition = partition_for(envelope.owner, self.log.partitions)
            try:
                check_declared(envelope, await self._keys_of(partition, _REGISTRY_AGE_S))
            except (UndeclaredKey, ValueSchema, AuthorityTooLow):
                check_declared(envelope, await self._keys_of(partition, 0))  # it may have been declared just now
        return envelope

    async def _keys_of(self, partition: int, age_s: float) -> Keys:
        """The registry in force, at most `age_s` old; older only while the store does not answer."""
        known = self._keys.get(partition)
        now = time.monotonic()
        if known is not None and now - known[0] < age_s:
            return known[1]
        try:
            checkpoint = await self._projection.checkpoint(partition)
        except StoreUnavailable:
            if known is None:
                raise
            return known[1]
        if checkpoint is None:
            raise NotProjected(
                f"partition {partition} has no checkpoint, so its key registry is not known: is a worker running "
                "(`lastword worker`)?"
            )
        keys = compile_registry(checkpoint.registry.to_canonical())
        self._keys[partition] = (now, keys)
        return keys

    async def _settle(self, item: tuple[Envelope, Future[Receipt]] | LastwordError, deadline: float | None) -> Settled:
        if isinstance(item, LastwordError):
            return Settled(error=item)
        envelope, future = item
        try:
            receipt = await asyncio.wrap_future(future)
        except LastwordError as error:
            return Settled(error=error)
        if deadline is None:
            return Settled(receipt)
        try:
            return Settled(receipt, await self._verdict(envelope.owner, receipt, deadline))
        except StoreUnavailable:
            return Settled(receipt)

    async def _verdict(self, owner: str, receipt: Receipt, deadline: float) -> Verdict | None:
        """The verdict at the receipt's position, None if it is not there in time; of a copy the first one's."""
        record = await self._projection.record(receipt.partition, owner, receipt.sequence)
        if record is None:  # of a batch only the first events are waited for: the others come with them
            left = max(0.0, deadline - time.monotonic())
            if not await self._projection.wait_past(receipt.partition, receipt.sequence, left):
                return None
            record = await self._projection.record(receipt.partition, owner, receipt.sequence)
        if record is None:
            return None
        verdict = verdict_of(record, receipt.partition)
        if verdict.outcome is not Outcome.DUPLICATE or not record.related:
            return verdict
        first = await self._projection.record(receipt.partition, owner, record.related[0])
        return verdict if first is None else verdict_of(first, receipt.partition)


def _draft(item: Any, kind: DraftKind) -> Draft:
    try:
        return read_draft(item, kind)
    except InvalidInput as error:
        if (error.field or "").startswith("value."):  # any JSON is a value, but the reader gives up far inside
            message = f"value is nested deeper than {limits.MAX_VALUE_DEPTH} levels"
            raise TooLarge(message, field="value") from error
        raise
