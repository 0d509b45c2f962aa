"""The door of the HTTP API: checks drafts, hands them to the log, waits for verdicts where asked."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
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

LINES_UNDER_WAY = 1_000
"""Items of one stream that are sent and not yet answered."""

_REGISTRY_AGE_S = 1.0
_IN_ONE_GO = 100
DraftKind = type[EventDraft] | type[CandidateDraft]
_Begun = tuple[Envelope, Future[Receipt]] | LastwordError
"""What was sent, with its receipt to come; or why it was not sent."""


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

    @property
    def trouble(self) -> str:
        """Why events wait for the log, or are refused; empty as long as they are not."""
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

    @property
    def trouble(self) -> str:
        """Why events wait for the log, or are refused; empty as long as they are not."""
        return self._writer.trouble

    async def accept(self, items: Sequence[Any], kind: DraftKind, *, wait_applied_s: float | None) -> list[Settled]:
        """Publish parsed JSON items, each settled by itself; with `wait_applied_s` wait that long for the verdicts."""
        pending: list[_Begun] = []
        full: Backpressure | None = None
        for number, item in enumerate(items):
            if number % _IN_ONE_GO == _IN_ONE_GO - 1:
                await asyncio.sleep(0)  # so that others are answered meanwhile
            begun = await self._begin(item, kind, full)
            full = begun if isinstance(begun, Backpressure) else full
            pending.append(begun)
        deadline = time.monotonic() + (wait_applied_s or 0)
        return [await self._settle(begun, None if wait_applied_s is None else deadline) for begun in pending]

    async def accept_each(
        self, items: AsyncIterator[Any], kind: DraftKind, *, wait_applied_s: float | None
    ) -> AsyncGenerator[list[Settled], None]:
        """Publish what comes, without an end perhaps; yields what is settled, in the order in which it came.

        An item that is a LastwordError is settled by it. At most `LINES_UNDER_WAY` items are taken before their turn to
        be settled. Where the log has no room, nothing is taken until what was taken is settled; if there is no room
        even then, the item is refused and everything after it. With `wait_applied_s` each verdict is waited for that
        long. Raises what `items` raises, after what came before it is settled.
        """
        begun: asyncio.Queue[_Begun | None] = asyncio.Queue(LINES_UNDER_WAY)
        taking = asyncio.create_task(self._take(items, kind, begun))
        try:
            more = True
            while more:
                group = [await begun.get()]
                while not begun.empty() and len(group) < _IN_ONE_GO:
                    group.append(begun.get_nowait())
                more = group[-1] is not None
                settled = []
                for one in group:
                    if one is not None:
                        deadline = None if wait_applied_s is None else time.monotonic() + wait_applied_s
                        settled.append(await self._settle(one, deadline))
                yield settled
            await taking
        finally:
            taking.cancel()
            await asyncio.wait([taking])

    async def _take(self, items: AsyncIterator[Any], kind: DraftKind, begun: asyncio.Queue[_Begun | None]) -> None:
        """Begin with each item and hand it on; None at the end, whatever it is."""
        under_way: deque[Future[Receipt]] = deque()
        full: Backpressure | None = None
        failure: Exception | None = None
        try:
            async for item in items:
                one = await self._begin(item, kind, full)
                while isinstance(one, Backpressure) and full is None and under_way:
                    await asyncio.wait([asyncio.wrap_future(under_way.popleft())])
                    one = await self._begin(item, kind, None)
                full = one if isinstance(one, Backpressure) else full
                if not isinstance(one, LastwordError):
                    under_way.append(one[1])
                while under_way and under_way[0].done():
                    under_way.popleft()
                await begun.put(one)
        except Exception as error:
            failure = error
        await begun.put(None)
        if failure is not None:
            raise failure

    async def _begin(self, item: Any, kind: DraftKind, full: Backpressure | None) -> _Begun:
        """Check an item and send it; or why not. After one that had no room nothing is sent: it would overtake it."""
        try:
            if isinstance(item, LastwordError):
                raise item
            envelope = await self._check(item, kind)
            if full is not None:
                raise full
            return envelope, self._writer.submit(envelope)
        except LastwordError as error:
            return error

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

    async def _settle(self, begun: _Begun, deadline: float | None) -> Settled:
        if isinstance(begun, LastwordError):
            return Settled(error=begun)
        envelope, future = begun
        try:
            receipt = future.result() if future.done() else await asyncio.wrap_future(future)
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
