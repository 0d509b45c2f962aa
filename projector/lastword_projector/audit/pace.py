"""How fast an audit may go."""

import time
from collections.abc import Callable
from typing import Final

_CREDIT_S: Final = 1.0
"""Seconds of slowness that may be made up for."""


class Pace:
    """Keeps work at so many items a second, on the average; None: as fast as it goes."""

    def __init__(
        self,
        rate: float | None = None,
        *,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate, self._sleep, self._now = rate, sleep, now
        self._free_at = now()

    def spend(self, items: int) -> None:
        """Say that so many items are done; sleeps until the next ones may be."""
        if self._rate is None:
            return
        now = self._now()
        self._free_at = max(self._free_at, now - _CREDIT_S) + items / self._rate
        if (rest := self._free_at - now) > 0:
            self._sleep(rest)
