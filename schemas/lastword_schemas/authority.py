"""Who may say what, with which weight."""

from enum import IntEnum, StrEnum


class Authority(StrEnum):
    """The weight of an event: `confirmed` (a person decided in a control) > `stated` (the person's own words or act)
    > `inferred` (somebody's reading)."""

    INFERRED = "inferred"
    STATED = "stated"
    CONFIRMED = "confirmed"

    rank: "AuthorityRank"
    """The authority as a number, greater for more weight."""


class AuthorityRank(IntEnum):
    """Authorities as they are ordered in a mark."""

    INFERRED = 1
    STATED = 2
    CONFIRMED = 3

    @property
    def authority(self) -> Authority:
        """The authority of this rank."""
        return Authority[self.name]


for _rank in AuthorityRank:
    _rank.authority.rank = _rank


class Role(StrEnum):
    """In what capacity a service acts: for a `person` in a control, as a `service`, as an `extractor`."""

    PERSON = "person"
    SERVICE = "service"
    EXTRACTOR = "extractor"


class Operation(StrEnum):
    """What an event does."""

    SET = "set"
    DELETE = "delete"
    SAY = "say"
    WITHDRAW = "withdraw"
    """A decision: the named events were wrong and no longer count."""
    RESOLVE = "resolve"
    """A decision: of the named assertions of a key the first stands; the others ended."""


DECISIONS = frozenset({Operation.WITHDRAW, Operation.RESOLVE})
"""What is said about earlier events, by name."""


PLANNED_OPERATIONS = frozenset({"add", "remove", "erase"})
"""Operations of envelope version 1 that this build does not support yet: refused at the door, waited at in the log."""


def refusal(operation: Operation, role: Role, authority: Authority, *, candidate: bool) -> str | None:
    """Why this actor may not say this with this authority; None if it may. The one rule of door and log.

    Extractors write candidates, nobody else does and they write nothing else; `confirmed` is for a person's act in a
    control.
    """
    if role is Role.EXTRACTOR and not candidate:
        return f"an extractor writes candidates only; a {operation} without source_event_id is for services and people"
    if candidate and role is not Role.EXTRACTOR:
        return "a candidate (an event with source_event_id) is written by an extractor: actor.role must be 'extractor'"
    if authority is Authority.CONFIRMED and (role is not Role.PERSON or candidate):
        return "authority 'confirmed' is for a person's act in a control (actor.role 'person', no source_event_id)"
    return None
