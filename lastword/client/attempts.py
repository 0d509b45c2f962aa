"""When a call is made again: what has failed, how long to pause, when to give up. No I/O."""

import logging
import random
import time
from collections.abc import Callable
from typing import Final

import httpx

from lastword.client import situations
from lastword.client.calls import Call
from lastword.client.errors import NotProjectedYet, Refused, UnknownOutcome
from lastword_schemas import limits
from lastword_schemas.errors import LastwordError

_log = logging.getLogger(__name__)
_CONNECT_S: Final = 3.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
_MARGIN_S: Final = 1.0
"""Seconds before the deadline by which the API is to have answered, at most."""


class Deadline:
    """When an operation must be over, with all its attempts."""

    __slots__ = ("_clock", "_end")

    def __init__(self, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._end = clock, clock() + timeout_s

    @property
    def left_s(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self._end - self._clock())


class Attempts:
    """The attempts of one call: at most 1 + `retries`, before the deadline, with growing pauses of random length."""

    def __init__(
        self, call: Call, deadline: Deadline, *, url: str, retries: int, chance: Callable[[], float] = random.random
    ) -> None:
        self._call, self._deadline, self._url, self._retries, self._chance = call, deadline, url, retries, chance
        self._made = 0
        self._perhaps_written = False
        self._left_s = self._wait_s = 0.0

    def request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """The next attempt's request, with what is left of the time."""
        self._left_s = left_s = self._deadline.left_s
        self._wait_s = min(left_s - min(_MARGIN_S, left_s / 4), limits.MAX_WAIT_MS / 1000)
        url, content = self._call.request(int(self._wait_s * 1000))
        # a call whose time is over is made all the same, once: it says best what is wrong
        timeout_s = max(left_s, 0.001)
        timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_S))
        request = http.build_request(self._call.method, url, content=content, timeout=timeout)
        request.url = _Unlogged(request.url)
        return request

    def lost(self, error: httpx.TransportError) -> float:
        """The connection broke: seconds to pause before the next attempt. Raises Unreachable or UnknownOutcome."""
        self._made += 1
        self._perhaps_written |= situations.perhaps_written(error)
        return self._pause(situations.of_transport(error, self._url), error, 0.0)

    def answered(self, response: httpx.Response) -> float | None:
        """None if the answer is what was asked for, else as `lost`. Raises the error that the answer tells of."""
        self._made += 1
        call = self._call
        error = situations.of_answer(response, self._url, event_id=call.event_id, is_write=call.is_write)
        if error is None:
            return None
        if isinstance(error, NotProjectedYet) and self._has_waited:
            return 0.0
        self._perhaps_written |= situations.perhaps_written(response)
        return self._pause(error, None, _retry_after(response))

    @property
    def _has_waited(self) -> bool:
        """Whether the API waited as long as it may, and there is time to let it wait again."""
        left_s = self._deadline.left_s
        return self._left_s - left_s >= self._wait_s * 0.9 and left_s > _MARGIN_S

    def _pause(self, error: LastwordError, cause: Exception | None, at_least_s: float) -> float:
        pause_s = at_least_s + self._chance() * longest_pause_s(self._made)
        if situations.is_retryable(error) and self._made <= self._retries and pause_s < self._deadline.left_s:
            told = (self._call.method, self._call.path, self._made, error.code, pause_s)
            _log.info("%s %s: attempt %d came to %r; again in %.2f s", *told)
            return pause_s
        if self._call.is_write and self._perhaps_written and not isinstance(error, Refused | UnknownOutcome):
            why = f"attempt {self._made}: {error.message}"
            raise UnknownOutcome(self._call.event_id, why) from (cause or error)
        raise error from cause


class _Unlogged(httpx.URL):
    """httpx logs the URL of every request; the query stays out of it, for it names people."""

    def __str__(self) -> str:
        return str(httpx.URL(self).copy_with(query=None))


def longest_pause_s(made: int) -> float:
    """The longest pause after that many attempts; the real one is a random part of it, so that clients spread out."""
    return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0**made)


def _retry_after(response: httpx.Response) -> float:
    """Seconds that the answer asks to wait; 0 if it does not, or names a date."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0
