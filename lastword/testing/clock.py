"""The clock of an in-memory lastword: it goes on as this machine's does, and can be put forward."""

import threading
import time
from datetime import UTC, datetime, timedelta


class Clock:
    """What the log stamps its records with, what expiry is compared with, and when it was projected.

    It follows `time.time()`, so that tools which freeze or move that (freezegun, time-machine) move this clock too.
    """

    def __init__(self) -> None:
        self._ahead_ms = 0
        self._last_stamp = 0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """The time, in UTC."""
        return datetime.fromtimestamp(self.ms() / 1000, UTC)

    def ms(self) -> int:
        """The time, in ms since 1970."""
        return int(time.time() * 1000) + self._ahead_ms

    def micros(self) -> int:
        """The time, in microseconds since 1970."""
        return self.ms() * 1000

    def advance(self, by: timedelta | None = None, **parts: float) -> datetime:
        """Put the clock forward, by a `timedelta` or its parts: `advance(hours=1, minutes=30)`. The time then, in UTC.

        Raises ValueError where that is back.
        """
        step = timedelta(**parts) if by is None else by
        if step < timedelta(0):
            raise ValueError("a clock goes forward only: the log's append times never go back")
        with self._lock:
            self._ahead_ms += round(step / timedelta(milliseconds=1))
        return self.now()

    def stamp(self) -> int:
        """An append time, ms since 1970. No two are equal: the clock goes on by a millisecond where it has to."""
        with self._lock:
            now = self.ms()
            self._ahead_ms += max(0, self._last_stamp + 1 - now)
            self._last_stamp = max(now, self._last_stamp + 1)
            return self._last_stamp
