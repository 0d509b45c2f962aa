"""Many events in few requests: what becomes of each, and which are sent again. No I/O."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from lastword.client import calls, situations
from lastword.client.attempts import longest_pause_s
from lastword.client.calls import Call
from lastword.client.drafts import Event, new_event_id
from lastword.client.errors import NotSent, UnknownOutcome
from lastword.client.receipts import Receipt, receipt_of
from lastword_schemas import limits
from lastword_schemas.answers import BatchAnswer, ItemAnswer
from lastword_schemas.errors import InvalidInput, LastwordError

_BATCH_BYTES: Final = limits.MAX_BODY_BYTES // 2


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one event of many."""

    event_id: str
    """The event's id, given or made: writing the event again with it adds nothing twice."""
    outcome: Literal["accepted", "applied", "refused", "failed", "unknown"]
    """`accepted`: in the log. `applied`: in the log, and it counts. `refused`: it does not count. `failed`: not in the
    log, by no fault of the event. `unknown`: perhaps in the log."""
    receipt: Receipt | None = None
    """Where the log has it, with the verdict if that was waited for."""
    error: LastwordError | None = None
    """Of a refused, failed or unknown event: what a write of it alone would have raised."""

    @property
    def ok(self) -> bool:
        """Whether the event is in the log and nothing says that it does not count."""
        return self.error is None


class Batch:
    """Events on their way to the log, in their order: what follows an event that is sent again waits for it."""

    def __init__(
        self, events: Iterable[Event], *, applied: bool, retries: int, chance: Callable[[], float] = random.random
    ) -> None:
        self._applied, self._retries, self._chance = applied, retries, chance
        self.events = [{"event_id": new_event_id(), **event} for event in events]
        """The events, each with its id."""
        self._texts = [_encode(place, event) for place, event in enumerate(self.events)]
        self._waiting = list(range(len(self.events)))
        self._results: dict[int, Result] = {}
        self._made = 0

    @property
    def results(self) -> list[Result]:
        """What became of each, once `next_call` has no more."""
        return [self._results[place] for place in range(len(self.events))]

    def next_call(self) -> Call | None:
        """The next request; None if all is settled."""
        if not self._waiting:
            return None
        run = self._run()
        return calls.publish_many(
            calls.route_of(self.events[run[0]]), [self._texts[place] for place in run], applied=self._applied
        )

    def take(self, answer: BatchAnswer) -> float:
        """Note the answer to the last request: seconds to pause before the next one."""
        run = self._run()
        results = {place: self._result(place, item) for place, item in zip(run, answer.results, strict=True)}
        again = [place for place, result in results.items() if _may_succeed(result)]
        self._results |= results
        got_on = len(again) < len(run)
        self._made = 0 if not again else 1 if got_on else self._made + 1
        if self._made <= self._retries:
            self._waiting = again + self._waiting[len(run) :]
            return self._chance() * longest_pause_s(self._made) if again else 0.0
        self._waiting = self._waiting[len(run) :]
        self._not_sent(f"not sent, for the events before it did not get through: {results[again[0]].error}")
        return 0.0

    def give_up(self, error: LastwordError) -> None:
        """Note that the last request failed as a whole. What comes after it is not sent."""
        run = self._run()
        for place in run:
            event_id = str(self.events[place]["event_id"])
            if isinstance(error, UnknownOutcome):
                unknown = UnknownOutcome(event_id, error.reason, problem=error.problem)
                self._results[place] = Result(event_id, "unknown", error=unknown)
            else:
                self._results[place] = Result(event_id, "failed", error=error)
        self._waiting = self._waiting[len(run) :]
        self._not_sent(f"not sent, for the events before it did not get through: {error}")

    def _run(self) -> list[int]:
        """The next places that fit into one request: of one route, within the limits."""
        route, size = calls.route_of(self.events[self._waiting[0]]), 0
        run: list[int] = []
        for place in self._waiting[: limits.MAX_EVENTS_PER_CALL]:
            size += len(self._texts[place])
            if run and (size > _BATCH_BYTES or calls.route_of(self.events[place]) != route):
                break
            run.append(place)
        return run

    def _result(self, place: int, item: ItemAnswer) -> Result:
        event_id = str(self.events[place]["event_id"])
        if item.problem is not None:
            error = situations.of_problem(item.problem, event_id=event_id, is_write=True)
            return Result(event_id, item.outcome, error=error)
        receipt = receipt_of(item)
        refused = situations.refused(item.verdict, receipt) if item.outcome == "refused" and item.verdict else None
        return Result(event_id, item.outcome, receipt, refused)

    def _not_sent(self, why: str) -> None:
        for place in self._waiting:
            event_id = str(self.events[place]["event_id"])
            self._results[place] = Result(event_id, "failed", error=NotSent(why))
        self._waiting = []


def _may_succeed(result: Result) -> bool:
    failed = result.outcome in ("failed", "unknown")
    return failed and result.error is not None and situations.is_retryable(result.error)


def _encode(place: int, event: Event) -> bytes:
    try:
        return calls.encode(event)
    except InvalidInput as error:
        raise InvalidInput(f"events.{place}: {error.message}", field=f"events.{place}.{error.field}") from None
