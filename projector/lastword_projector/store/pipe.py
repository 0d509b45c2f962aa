"""One connection on which calls are sent ahead: the worker folds on while Redis works.

redis-py makes the connection (address, TLS, log-in); packing and reading are hiredis's. Replies come in the order of
the calls, so that whoever asks for a later one first reads those before it.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import redis
from hiredis import pack_command
from redis.exceptions import NoScriptError, RedisError, ResponseError

from lastword_projector.store.calls import SCRIPTS, Call, Plan, script
from lastword_projector.store.ports import StoreUnavailable

T = TypeVar("T")
_TIMEOUT_S = 5.0


class ScriptsGone(StoreUnavailable):
    """Redis has lost its scripts (SCRIPT FLUSH); they are loaded again with the next call."""


class Pipe:
    """Sends plans' calls; not for several threads. Every method raises StoreUnavailable."""

    def __init__(self, url: str) -> None:
        pool = redis.ConnectionPool.from_url(
            url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S, protocol=2
        )
        self._connection: Any = pool.make_connection()  # the one of this pool, whose count never falls
        self._connected = False
        self._sent: deque[_Step] = deque()
        self.resets = 0
        """How often what was sent was given up."""

    def send(self, plan: Plan[T]) -> "Reply[T]":
        """Send a plan's first calls; what follows is done when the reply is asked for."""
        return Reply(self, plan)

    def run(self, plan: Plan[T]) -> T:
        """Carry a plan out."""
        return Reply(self, plan).result()

    def reset(self) -> None:
        """Give up what was sent and not read; the next call connects anew."""
        self._sent.clear()
        self.resets += 1
        self._connected = False
        self._connection.disconnect()

    def send_calls(self, calls: Sequence[Call]) -> "_Step":
        """Put calls on the wire."""
        step = _Step(calls)
        try:
            if not self._connected:
                self._connect()
            packed = [pack_command(call.command) for call in calls]  # type: ignore[arg-type]
            self._connection.send_packed_command([b"".join(packed)])
        except RedisError as error:
            self.reset()
            raise _unavailable(error) from error
        self._sent.append(step)
        return step

    def read(self, step: "_Step") -> list[Any]:
        """The parsed replies to a step."""
        while len(step.replies) < len(step.calls):
            if not self._sent:
                raise StoreUnavailable("the connection to Redis was given up before this reply came")
            first = self._sent[0]
            while len(first.replies) < len(first.calls):
                first.replies.append(self._read_one())
            self._sent.popleft()
        for reply in step.replies:
            if isinstance(reply, NoScriptError):
                self.reset()
                raise ScriptsGone() from reply
            if isinstance(reply, ResponseError):
                raise _unavailable(reply) from reply
        return [call.parse(reply) for call, reply in zip(step.calls, step.replies, strict=True)]

    def _read_one(self) -> Any:
        try:
            return self._connection.read_response(disable_decoding=True)
        except ResponseError as error:
            return error
        except RedisError as error:
            self.reset()
            raise _unavailable(error) from error

    def _connect(self) -> None:
        self._connection.connect()
        for name in SCRIPTS:
            self._connection.send_command("SCRIPT", "LOAD", script(name).text)
            self._connection.read_response()
        self._connected = True


class Reply(Generic[T]):
    """The outcome of a plan that was sent."""

    def __init__(self, pipe: Pipe, plan: Plan[T]) -> None:
        self._pipe, self._plan = pipe, plan
        self._step: _Step | None = None
        self._value: T | None = None
        self._advance(None)

    def result(self) -> T:
        """Wait for it. Raises what the plan raises, and StoreUnavailable."""
        while self._step is not None:
            self._advance(self._pipe.read(self._step))
        value: Any = self._value
        return value  # type: ignore[no-any-return]

    def _advance(self, replies: list[Any] | None) -> None:
        self._step = None
        try:
            calls = next(self._plan) if replies is None else self._plan.send(replies)
        except StopIteration as done:
            self._value = done.value
        else:
            self._step = self._pipe.send_calls(calls)


class _Step:
    """Calls that were sent together, and the replies that have come."""

    __slots__ = ("calls", "replies")

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.replies: list[Any] = []


def _unavailable(error: RedisError) -> StoreUnavailable:
    return StoreUnavailable(f"Redis does not answer as it should ({type(error).__name__}: {error}); it is tried again")
