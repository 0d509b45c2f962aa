"""Answers what is unresolved, by the rule that each key declares.

It follows the topic of changes. For every change that left an entry unresolved it reads what stands, asks the rule, and
publishes what that proposes. It is handed the records of each partition in order and finishes each before the next, and
its checkpoint is the next one. What it does once too often is the same event again.
"""

import asyncio
import logging
from typing import Final, Protocol

from pydantic import ValidationError

from lastword.following.checkpoints import Checkpoints
from lastword.following.patience import Patience
from lastword.reconciliation.assertions import LeaveOpen
from lastword.reconciliation.contradiction import Checker
from lastword.reconciliation.decisions import decision, proposed
from lastword.reconciliation.rules import rules
from lastword.reconciliation.standing import standing_assertions
from lastword.reconciliation.status import ReconcilerStatus
from lastword_producers.errors import BrokerRefused, LogMismatch, PublisherClosed, PublishFailed, UnknownOutcome
from lastword_projector.engine.decode import LogRecord
from lastword_query_api.readings import Asked, Readings
from lastword_schemas.changes import Change
from lastword_schemas.drafts import EventDraft
from lastword_schemas.positions import Receipt, parse_demand

_WAIT_MS: Final = 5_000
_CHECKPOINT_S: Final = 0.5
_ENDS: Final = (LogMismatch, BrokerRefused, PublisherClosed)
"""What does not mend itself while this process runs."""

_log = logging.getLogger(__name__)


class Publishes(Protocol):
    """What of `AsyncPublisher` is needed."""

    async def publish(self, draft: EventDraft) -> Receipt:
        """Publish a decision and wait for its receipt."""
        ...


class Reconciler:
    """Reads the changes of the partitions that this process is given."""

    def __init__(
        self,
        readings: Readings,
        publisher: Publishes,
        checkpoints: Checkpoints,
        status: ReconcilerStatus,
        *,
        checker: Checker | None = None,
    ) -> None:
        """`checker` is that of `contradiction_pass`, instead of the one that comes with lastword."""
        self._readings, self._publisher, self._checkpoints = readings, publisher, checkpoints
        self._status, self._rules = status, rules(checker)
        self._patiently = Patience(status.waits_for)
        self._next: dict[int, int] = {}
        self._stored: dict[int, int] = {}
        self._ended: list[Exception] = []

    async def starts(self, partitions: set[int]) -> dict[int, int]:
        """The *next* offset to be handed in of partitions that are assigned; waits for Redis."""
        stored = await self._patiently(self._checkpoints.load)
        for partition in partitions:
            self._next[partition] = max(self._next.get(partition, 0), stored.get(partition, 0))
        self._status.assigned = partitions
        return {partition: self._next[partition] for partition in partitions}

    async def take(self, partition: int, record: LogRecord) -> None:
        """Finish a record. Raises nothing but CancelledError."""
        if record.offset < self._next.get(partition, 0) or self._ended:
            return
        try:
            change = _unresolved(record)
            if change is not None:
                self._status.conflicts += 1
                await self._answer(change)
        except _ENDS as error:
            self._ended.append(error)
            return
        except Exception as error:
            self._status.given_up += 1
            place = {"partition": partition, "offset": record.offset}
            _log.exception("a conflict was given up: %s", type(error).__name__, extra=place)
        self._next[partition] = record.offset + 1

    async def keep_checkpoints(self) -> None:
        """Store how far it is, twice a second, until cancelled. Raises what ends it (LogMismatch, BrokerRefused,
        PublisherClosed)."""
        while not self._ended:
            await asyncio.sleep(_CHECKPOINT_S)
            await self._patiently(self._store_checkpoints)
        raise self._ended[0]

    async def close(self) -> None:
        """Store how far it is."""
        try:
            await self._store_checkpoints()
        finally:
            await self._checkpoints.close()

    async def _answer(self, change: Change) -> None:
        owner, scope, key = change.owner, change.scope, change.key
        asked = Asked(owner, at_least=parse_demand(change.position_token), wait_ms=_WAIT_MS)
        _, checkpoint, records, resolved = await self._patiently(lambda: self._readings.records(asked))
        declared = checkpoint.registry.keys.get(key)
        name = "human" if declared is None else declared.reconcile
        if name == "human":
            self._status.left_open[name] += 1
            return
        assertions = standing_assertions(records, scope, key, resolved.moment)
        proposal = proposed(self._rules[name], assertions)
        made = decision(owner, scope, key, proposal, assertions)
        if made is None or isinstance(proposal, LeaveOpen):
            self._status.left_open[name] += 1
            return
        await self._publish(EventDraft.read(dict(made)))
        self._status.decided[name] += 1

    async def _publish(self, draft: EventDraft) -> None:
        async def publish() -> Receipt:
            try:
                return await self._publisher.publish(draft)
            except PublisherClosed:
                raise
            except PublishFailed as error:  # not in the log, so that it is published again
                raise UnknownOutcome(draft.event_id or "", error.message) from error

        await self._patiently(publish)

    async def _store_checkpoints(self) -> None:
        new = {number: offset for number, offset in self._next.items() if offset > self._stored.get(number, 0)}
        await self._checkpoints.advance(new)
        self._stored |= new
        self._status.next_offsets = dict(self._stored)


def _unresolved(record: LogRecord) -> Change | None:
    """The change that a record tells, if it left an entry unresolved."""
    try:
        change = Change.model_validate_json(record.value or b"")
    except ValidationError:  # of another kind
        return None
    return change if change.status == "unresolved" else None
