"""What an audit finds: where something in Redis is not what the log makes of it."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from lastword_schemas.errors import LastwordError
from lastword_schemas.positions import offset_of

_NAMED: Final = 5


class What(StrEnum):
    """The sort of a violation."""

    ENTRY_MISSING = "entry-missing"
    """The log's events make an entry (a tombstone is one) that the profile does not have."""
    ENTRY_DIFFERS = "entry-differs"
    """The profile's entry is not the one that the log's events make."""
    ENTRY_UNEXPLAINED = "entry-unexplained"
    """The profile has an entry that no event explains."""
    HISTORY_MISSING = "history-missing"
    """The log has an event of the owner that the history does not have."""
    HISTORY_DIFFERS = "history-differs"
    """The history's item says another thing than the log's event."""
    HISTORY_UNEXPLAINED = "history-unexplained"
    """The history has an item that is no event of the owner in the log."""
    VERDICT_DIFFERS = "verdict-differs"
    """The history's item has another verdict than the log's event gets."""
    EVENT_ID_MISSING = "event-id-missing"
    """The index of event ids lacks the first copy of an event: a late retry of it would count again."""
    EVENT_ID_DIFFERS = "event-id-differs"
    """The index of event ids points to another event than the first copy."""
    EVENT_IDS_BEHIND = "event-ids-behind"
    """An event id is taken for new without a look that is in the log already."""
    KEY_INDEX_DIFFERS = "key-index-differs"
    """The index of a key's events in a long history is not that of the log's events: past states would be wrong."""
    REGISTRY_DIFFERS = "registry-differs"
    """The registry in force at the checkpoint is not the log's."""
    CLOCK_DIFFERS = "clock-differs"
    """The checkpoint says that times are of another clock than the log's."""
    DEAD_LETTER_MISSING = "dead-letter-missing"
    """The log has a record that nobody could be given, and nothing in Redis says so."""
    CHECKPOINT_AHEAD = "checkpoint-ahead"
    """The checkpoint is beyond the end of the log."""
    LOG_CUT = "log-cut"
    """The log lacks records from its beginning, and nothing records why: what they explained cannot be derived."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that the log does not explain. It names entry and event, and never a value."""

    what: What
    partition: int
    owner: str | None = None
    scope: str | None = None
    key: str | None = None
    sequence: int | None = None
    """Of the event that it is about: of the log's where there is one, else of the stored one."""
    event_id: bytes | None = None
    """16 bytes."""
    detail: str = ""
    """Which parts differ, by their names."""

    @property
    def event(self) -> str | None:
        """The event id as text."""
        return None if self.event_id is None else str(uuid.UUID(bytes=self.event_id))

    def members(self) -> dict[str, Any]:
        """For machines."""
        return {
            "what": self.what.value,
            "partition": self.partition,
            "offset": None if self.sequence is None else offset_of(self.sequence),
            "owner": self.owner,
            "scope": self.scope,
            "key": self.key,
            "sequence": self.sequence,
            "event_id": self.event,
            "detail": self.detail,
        }

    def __str__(self) -> str:
        entry = " ".join(part for part in (self.owner, self.scope, self.key) if part is not None)
        at = "" if self.sequence is None else f" at sequence {self.sequence}"
        event = "" if self.event_id is None else f", event {self.event}"
        return f"{self.what.value}: {entry or f'partition {self.partition}'}{at}{event}" + (
            f" ({self.detail})" if self.detail else ""
        )


class GroundingInvariantViolation(LastwordError):
    """Redis holds what the log does not explain."""

    code = "grounding-invariant-violation"

    def __init__(self, violations: Sequence[Violation], count: int, *, then: str) -> None:
        """The first of `count` violations; `then` says what to do next."""
        named = "; ".join(map(str, violations[:_NAMED]))
        more = f"; and {count - _NAMED:,} more" if count > _NAMED else ""
        super().__init__(f"{count:,} violations of the grounding invariant: {named}{more}. {then}")
        self.violations = tuple(violations)

    def members(self) -> dict[str, Any]:
        """The violations."""
        return {"violations": [violation.members() for violation in self.violations]}
