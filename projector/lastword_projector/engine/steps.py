"""What one event does to an entry, whatever the policy."""

from enum import Enum
from typing import Final, NamedTuple

from lastword_projector.engine.records import Entry
from lastword_schemas.verdicts import Effect


class NeedsHistory(Enum):
    NEEDS_HISTORY = "needs-history"


NEEDS_HISTORY: Final = NeedsHistory.NEEDS_HISTORY
"""The entry alone does not tell; fold the key's events anew."""


class Step(NamedTuple):
    """What one event does to an entry."""

    effect: Effect
    entry: Entry | NeedsHistory
    """The entry after it."""
    related: tuple[int, ...] | None = None
    """Of `late`: the entry's source sequence, which stands, and the event's."""
