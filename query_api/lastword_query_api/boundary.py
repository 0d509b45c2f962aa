"""Boundaries of a reading: `as_of` (what had been said), `known_at` (what the log held), `at_least` (a demand)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lastword_projector.engine.records import Record
from lastword_projector.store.ports import Checkpoint
from lastword_schemas.errors import InvalidInput, LastwordError
from lastword_schemas.model import parse_instant, to_micros
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import Demand, PositionToken, Receipt, owner_digest, sequence_of


class NotProjected(LastwordError):
    """The projection has not begun: nothing can be said, not even that something is absent."""

    code = "not-projected"
    retryable = True


class NotProjectedYet(LastwordError):
    """The projection has not reached the position that `at_least` demands."""

    code = "not-projected-yet"
    retryable = True

    def __init__(self, projected: int, demanded: int) -> None:
        super().__init__(
            f"the projection is at sequence {projected}, the demand is {demanded}; ask again, or with a longer wait_ms"
        )
        self.projected, self.demanded = projected, demanded

    def members(self) -> dict[str, int]:
        """How far the projection is, and how far it should be."""
        return {"projected": self.projected, "demanded": self.demanded}


class WrongLog(LastwordError):
    """The receipt or position token is of another log."""

    code = "wrong-log"


class BeforeHorizon(LastwordError):
    """The boundary lies before the first sequence that the history has."""

    code = "before-horizon"

    def __init__(self, asked: int, history_from: int, *, field: str) -> None:
        super().__init__(
            f"{field} is sequence {asked}, the history begins at {history_from}: the log of that time is gone, and "
            "nothing can be said about it",
            field=field,
        )
        self.history_from = history_from

    def members(self) -> dict[str, int]:
        """Where the history begins."""
        return {"history_from": self.history_from}


@dataclass(frozen=True, slots=True)
class Boundary:
    """What a reading was asked to be limited to."""

    as_of: int | datetime | None = None
    """A sequence or an instant, inclusive; None = everything."""
    known_at: int | None = None
    """A sequence, inclusive; None = all that is projected."""

    @classmethod
    def parse(cls, as_of: str | None, known_at: str | None) -> "Boundary":
        """Read the parameters of a request. Raises InvalidInput naming the field."""
        instant: int | datetime | None = None
        if as_of is not None:
            instant = _sequence(as_of, "as_of") if as_of.isascii() and as_of.isdigit() else _instant(as_of)
        return cls(instant, None if known_at is None else _sequence(known_at, "known_at"))

    @property
    def is_open(self) -> bool:
        """Whether it limits nothing: what applies now, from the profile."""
        return self.as_of is None and self.known_at is None


@dataclass(frozen=True, slots=True)
class Resolved:
    """A boundary against what an owner's history holds."""

    as_of: int | None
    known_at: int
    moment: int
    """What expiry is compared with, microseconds since 1970."""
    provisional: bool


def resolve(boundary: Boundary, records: Sequence[Record], checkpoint: Checkpoint, now: int) -> Resolved:
    """Sequences for a boundary. `now` in microseconds since 1970.

    An instant is the last position whose `recorded_at` is not after it. Without an instant, expiry is compared with the
    `recorded_at` of the boundary's last record; beyond what is projected, with now.

    Raises BeforeHorizon where a sequence is one of an earlier generation.
    """
    history_from = sequence_of(checkpoint.genesis.generation, 0)
    for field, asked in (("as_of", boundary.as_of), ("known_at", boundary.known_at)):
        if isinstance(asked, int) and asked < history_from:
            raise BeforeHorizon(asked, history_from, field=field)
    last = checkpoint.last_sequence
    known_at = last if boundary.known_at is None else min(boundary.known_at, last)
    provisional = boundary.known_at is not None and boundary.known_at > last
    if isinstance(boundary.as_of, datetime):
        moment = to_micros(boundary.as_of)
        within = [r.sequence for r in records if r.recorded_at * 1000 <= moment and r.sequence <= known_at]
        return Resolved(max(within, default=0), known_at, moment, provisional or moment > now)
    as_of = boundary.as_of
    provisional = provisional or (as_of is not None and as_of > last)
    limit = known_at if as_of is None else min(as_of, known_at)
    if provisional or limit >= last:
        return Resolved(as_of, known_at, now, provisional)
    times = [record.recorded_at for record in records if record.sequence <= limit]
    return Resolved(as_of, known_at, times[-1] * 1000 if times else now, provisional)


def check_demand(demand: Demand, owner: str, checkpoint: Checkpoint, *, field: str = "at_least") -> int:
    """The sequence that a demand asks for. Raises WrongLog, or InvalidInput where it is of another owner."""
    genesis = checkpoint.genesis
    if demand.log_id != genesis.log_id:
        raise WrongLog(
            f"{field} is of log {demand.log_id}, this is log {genesis.log_id}; read once without it for a new token",
            field=field,
        )
    match demand:
        case PositionToken():
            theirs = demand.owner != owner_digest(owner)
        case Receipt():
            theirs = demand.partition != partition_for(owner, genesis.partitions)
    if theirs:
        raise InvalidInput(f"{field} is a position of another owner", field=field)
    return demand.sequence


def _sequence(text: str, field: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 16 or int(text) >= 2**53:
        raise InvalidInput(f"{field} is not a sequence (a whole number below 2**53)", field=field)
    return int(text)


def _instant(text: str) -> datetime:
    try:
        return parse_instant(text, field="as_of")
    except InvalidInput as error:
        raise InvalidInput(
            "as_of is neither a sequence nor an RFC 3339 instant, such as 2026-03-01T12:00:00Z", field="as_of"
        ) from error
