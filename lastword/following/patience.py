"""Calls that are made again for as long as they may succeed later."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from lastword_schemas.errors import LastwordError

_ATTEMPTS: Final = 3
"""At what breaks in a way that nobody accounts for."""
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 30.0

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Patience:
    """Makes calls, several at once."""

    def __init__(self, waits_for: Callable[[str | None], object]) -> None:
        """`waits_for` is told what a call waits for, and None once none does any more."""
        self._waits_for, self._waiting = waits_for, 0

    async def __call__(self, call: Callable[[], Awaitable[T]]) -> T:
        """The answer of a call. Raises its LastwordError that is not retryable at once, another exception when it has
        been raised three times."""
        pause_s, broken, waits = _FIRST_PAUSE_S, 0, False
        try:
            while True:
                try:
                    return await call()
                except LastwordError as error:
                    if not error.retryable:
                        raise
                    if not waits:
                        _log.warning("waiting: %s", error.message, extra={"code": error.code})
                        waits, self._waiting = True, self._waiting + 1
                    self._waits_for(error.message)
                except Exception:
                    broken += 1
                    if broken == _ATTEMPTS:
                        raise
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        finally:
            self._waiting -= waits
            if self._waiting == 0:
                self._waits_for(None)
