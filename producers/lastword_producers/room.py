"""Room for what is under way: a bound in events and in bytes, with a queue before it."""

import threading
from concurrent.futures import Future
from typing import Final


class Room:
    """Whoever finds no room waits in the order of asking; nobody who asks later goes first.

    An event that is larger than all of the room has it to itself.
    """

    def __init__(self, events: int, size: int) -> None:
        self.events: Final = events
        """Events that fit."""
        self.size: Final = size
        """Bytes that fit."""
        self._taken_events = self._taken_size = 0
        self._queue: dict[Future[None], int] = {}
        self._lock = threading.Lock()

    def take(self, size: int) -> Future[None] | None:
        """Take room for an event of `size` bytes: None if it was there, else a place in the queue.

        The place is done once the room is taken. Who wants it no longer must `leave`.
        """
        with self._lock:
            if not self._queue and self._fits(size):
                self._take(size)
                return None
            place: Future[None] = Future()
            self._queue[place] = size
            return place

    def leave(self, place: Future[None]) -> bool:
        """Leave the queue; False if it is too late for that, because the room is taken already."""
        with self._lock:
            has_left = self._queue.pop(place, None) is not None
        if has_left:
            self._admit()
        return has_left or place.cancelled()

    def give_back(self, size: int) -> None:
        """The room of an event of `size` bytes is free again."""
        with self._lock:
            self._taken_events -= 1
            self._taken_size -= size
        self._admit()

    def _admit(self) -> None:
        """Give their room to those first in the queue, as far as it goes."""
        admitted: list[Future[None]] = []
        with self._lock:
            while self._queue and self._fits(self._queue[place := next(iter(self._queue))]):
                size = self._queue.pop(place)
                if place.set_running_or_notify_cancel():
                    self._take(size)
                    admitted.append(place)
        for place in admitted:
            place.set_result(None)

    def _fits(self, size: int) -> bool:
        if self._taken_events == 0:
            return True
        return self._taken_events < self.events and self._taken_size + size <= self.size

    def _take(self, size: int) -> None:
        self._taken_events += 1
        self._taken_size += size
