"""One row of `events.jsonl` as what is published: a statement; or a turn, and the candidate that quotes it."""

from typing import Any, NamedTuple

from lastword_schemas import jsontext
from lastword_schemas.authority import Authority, Role
from lastword_schemas.drafts import CandidateDraft, EventDraft

_NO_LONGER = "it no longer applies"
_ACTOR = {"service": "bench"}


class Said(NamedTuple):
    """One thing that a user said."""

    user: str
    seq: int
    """1.. of this user."""
    turn: int
    scope: str
    key: str
    operation: str
    value: Any
    """None on a delete."""
    description: str
    """Of the slot."""

    @classmethod
    def of(cls, row: dict[str, Any], description: str) -> "Said":
        """From a row and its slot's description."""
        return cls(
            row["user"],
            row["seq"],
            row["turn"],
            row["scope"],
            row["key"],
            row["op"],
            row.get("value"),
            description,
        )

    @property
    def words(self) -> str:
        """What is quoted."""
        if self.operation == "delete":
            return _NO_LONGER
        return self.value if isinstance(self.value, str) and self.value else jsontext.dump(self.value)

    @property
    def introduction(self) -> str:
        """What stands before it in the turn."""
        return f"{self.description}: "

    @property
    def change(self) -> dict[str, Any]:
        """Owner, scope, key, operation and value."""
        fields = {"owner": f"user:{self.user}", "scope": f"service:{self.scope}", "key": self.key}
        value = {} if self.operation == "delete" else {"value": self.value}
        return fields | {"operation": self.operation} | value

    @property
    def name(self) -> str:
        """Unique in the data."""
        return f"{self.user}/{self.seq}"


def statement(said: Said) -> EventDraft:
    """The change as the user's own statement."""
    return EventDraft.read(said.change | {"actor": _ACTOR, "event_id": f"statement {said.name}"})


def turn(said: Said) -> EventDraft:
    """The words alone."""
    return EventDraft.read(
        {
            "operation": "say",
            "owner": f"user:{said.user}",
            "scope": f"service:{said.scope}",
            "text": said.introduction + said.words,
            "thread": said.user,
            "message": str(said.turn),
            "actor": _ACTOR,
            "event_id": f"turn {said.name}",
        }
    )


def candidate(said: Said, copy: int) -> CandidateDraft:
    """The change as an extractor reads it in the turn, quoting it.

    Its copies have the same event id for even rows (a retry of the delivery), new ones for odd rows (read once more).
    """
    start = len(said.introduction)
    reading = copy if said.seq % 2 else 0
    return CandidateDraft.read(
        said.change
        | {
            "source_event_id": f"turn {said.name}",
            "span": [start, start + len(said.words)],
            "quote": said.words,
            "authority": Authority.STATED,
            "actor": _ACTOR | {"role": Role.EXTRACTOR},
            "event_id": f"candidate {said.name} {reading}",
        }
    )
