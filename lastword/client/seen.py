"""How far a client has seen each owner's log, so that it never reads something older than it wrote or read before."""

import threading
from collections import OrderedDict
from typing import Final
from weakref import WeakValueDictionary

from lastword_schemas.errors import InvalidInput
from lastword_schemas.positions import Demand, PositionToken, owner_digest, parse_demand

MAX_OWNERS: Final = 10_000
"""Owners whose positions a client keeps; of the others it forgets them, unless a handle is still held."""


class Seen:
    """The newest position of one owner. Safe for threads."""

    __slots__ = ("__weakref__", "_digest", "_lock", "_newest")

    def __init__(self, owner: str) -> None:
        self._digest = owner_digest(owner)
        self._lock = threading.Lock()
        self._newest: Demand | None = None

    @property
    def newest(self) -> Demand | None:
        """A receipt or position token; None if nothing was seen yet."""
        return self._newest

    def note(self, position: Demand) -> None:
        """Take in the position of an answer. One of another log replaces what was seen: that log is gone."""
        with self._lock:
            self._newest = newer(self._newest, position)

    def forget(self, position: Demand) -> None:
        """Drop a position that the server says is of another log, unless a newer one has come."""
        with self._lock:
            if self._newest == position:
                self._newest = None

    def read(self, position: object, *, field: str = "at_least") -> Demand:
        """A position that the caller got elsewhere: a receipt, a token, or the text of one.

        Raises InvalidInput where it is none, or the token of another owner.
        """
        demand = parse_demand(str(position), field=field)
        if isinstance(demand, PositionToken) and demand.owner != self._digest:
            raise InvalidInput(f"{field} is a position of another owner", field=field)
        return demand


class SeenOwners:
    """The `Seen` of each owner. Those used last are kept; one that somebody holds is never forgotten."""

    def __init__(self, limit: int = MAX_OWNERS) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._held: WeakValueDictionary[str, Seen] = WeakValueDictionary()
        self._recent: OrderedDict[str, Seen] = OrderedDict()

    def of(self, owner: str) -> Seen:
        """The one `Seen` of an owner's canonical text."""
        with self._lock:
            seen = self._held.get(owner)
            if seen is None:
                seen = self._held[owner] = Seen(owner)
            self._recent[owner] = seen
            self._recent.move_to_end(owner)
            if len(self._recent) > self._limit:
                self._recent.popitem(last=False)
            return seen


def newer(known: Demand | None, position: Demand) -> Demand:
    """The newer of two positions of one owner; the second where they are of two logs."""
    if known is None or known.log_id != position.log_id or position.sequence > known.sequence:
        return position
    return known
