"""Candidates that are kept back: an extractor whose answers come late, or in another order than it was asked in."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from lastword.testing.writer import MemoryWriter, UnderWay
from lastword_producers.errors import UnknownOutcome
from lastword_schemas import jsontext
from lastword_schemas.positions import Receipt

P = ParamSpec("P")
T = TypeVar("T")
_MOST_CALLS = 1_000


class HeldCandidates:
    """The candidates that wait to be delivered. Whoever published one waits for its receipt, as on a slow network.

    So they are published by another thread or task than the one that delivers: by the assistant's own background work,
    or by `start`.
    """

    def __init__(self, writer: MemoryWriter) -> None:
        self._writer = writer
        self._waiting: list[UnderWay] = []
        self._arrived = threading.Condition()
        self._arrivals = 0
        self._keeper = (threading.get_ident(), _task())
        self._started: list[Future[object]] = []
        self._pool = ThreadPoolExecutor(_MOST_CALLS, "lastword-candidates")
        writer.hold = self._hold

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The envelopes of what waits, in the order of arrival, as `LoggedEvent.envelope`."""
        return [jsontext.parse(event.value) for event in self._waiting]

    def start(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Call `function` in a thread; return when it waits with a candidate here, or has ended."""
        with self._arrived:
            before = self._arrivals
        future = self._pool.submit(function, *args, **kwargs)
        future.add_done_callback(self._wake)
        self._started.append(future)  # type: ignore[arg-type]
        with self._arrived:
            self._arrived.wait_for(lambda: future.done() or self._arrivals > before)
        return future

    def wait_for(self, count: int, timeout_s: float = 5.0) -> None:
        """Return when at least `count` candidates wait here. Raises TimeoutError. In a coroutine: `await
        asyncio.to_thread(held.wait_for, 2)`."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self._waiting) >= count, timeout_s):
                raise TimeoutError(f"{len(self._waiting)} candidates wait after {timeout_s:g} s, not {count}")

    def deliver(self, order: Iterable[int] | None = None) -> list[Receipt]:
        """Let candidates go on, by their places in `events` in the order given; all in the order of arrival if none is.

        Their receipts. What is not named goes on waiting. Raises UnknownOutcome while the log is down.
        """
        with self._arrived:
            places = list(range(len(self._waiting)) if order is None else order)
            chosen = [self._waiting[place] for place in places]
            self._waiting = [event for place, event in enumerate(self._waiting) if place not in set(places)]
        for event in chosen:
            self._writer.send(event)
        return [event.receipt.result() for event in chosen]

    def check_caller(self) -> None:
        """Raise RuntimeError where who publishes is who delivers, and would wait for ever."""
        if self._keeper == (threading.get_ident(), _task()):
            raise RuntimeError(
                "hold_candidates() keeps this candidate until you deliver it, and you would wait here for its receipt: "
                "publish it in another thread or task, such as by held.start(function, ...)"
            )

    def release(self) -> None:
        """Deliver what still waits, hold nothing any more, and wait for the calls that `start` began.

        Raises what one of those raised.
        """
        self._writer.hold = lambda _: False
        try:
            self.deliver()
        finally:
            self._pool.shutdown()
        for future in self._started:
            future.result()

    def abandon(self) -> None:
        """As `release`, where nobody wants to know any more: what still waits is lost."""
        self._writer.hold = lambda _: False
        for event in self._waiting:
            reason = "the test that held it back has ended"
            event.receipt.set_exception(UnknownOutcome(event.envelope.event_id, reason))
        self._waiting.clear()
        self._pool.shutdown()

    def _hold(self, event: UnderWay) -> bool:
        if not event.envelope.is_candidate:
            return False
        with self._arrived:
            self._waiting.append(event)
            self._arrivals += 1
            self._arrived.notify_all()
        return True

    def _wake(self, _: object) -> None:
        with self._arrived:
            self._arrived.notify_all()


def _task() -> "asyncio.Task[object] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
