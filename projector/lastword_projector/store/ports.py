"""The projector's store, as a port. Every implementation passes the contract suites in `tests/contract`."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeVar

from lastword_projector.engine.known import KeyRef, Needs, SourceRef
from lastword_projector.engine.projection import Changes
from lastword_projector.engine.records import Entry, Record
from lastword_projector.engine.upcasting import AS_WRITTEN, Upcasters
from lastword_schemas.control import Genesis
from lastword_schemas.errors import LastwordError
from lastword_schemas.registry import Registry

Clock = Literal["broker", "publisher"]
T_co = TypeVar("T_co", covariant=True)


class StoreUnavailable(LastwordError):
    """Redis does not answer; nothing is known to have been written."""

    code = "store-unavailable"
    retryable = True


class CommitRefused(LastwordError):
    """The stored state is not the one that the fold started from: another worker was here, or it was set back."""

    code = "commit-refused"
    retryable = True

    def __init__(self, partition: int, problem: str) -> None:
        super().__init__(f"partition {partition}: {problem}; drop the cache and continue from the stored checkpoint")
        self.partition = partition


class OtherProjection(LastwordError):
    """The namespace holds the projection of another log, or of another fold version."""

    code = "other-projection"


def history_lost(partition: int, sequence: int) -> OtherProjection:
    """The error where the index has an event that the history does not."""
    return OtherProjection(
        f"partition {partition}: the history has lost the event at sequence {sequence}; run `lastword rebuild`"
    )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far one partition is projected, of which log, under which fold."""

    next_sequence: int
    """The *next* sequence to be folded; everything below it is in the profile."""
    genesis: Genesis
    fold_version: int
    registry: Registry
    """In force from here on, until the log says otherwise."""
    clock: Clock = "broker"
    """Whose clock `recorded_at` is."""

    @property
    def last_sequence(self) -> int:
        """The last sequence that the profile takes into account."""
        return self.next_sequence - 1


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a store has of what was asked for."""

    entries: dict[tuple[str, str, str], Entry | None] = field(default_factory=dict)
    """None where there is none."""
    events: dict[tuple[str, bytes], Record | None] = field(default_factory=dict)
    """The record of the first copy; None where the owner has no event with that id."""


class Place(NamedTuple):
    """Where a partition is projected, and how the log is read there."""

    namespace: str = ""
    """Empty where there is but one."""
    upcasters: Upcasters = AS_WRITTEN


class Pending(Protocol[T_co]):
    """The outcome of a call that was sent; others may be sent before it is asked for."""

    def result(self) -> T_co:
        """Wait for it. Raises what the call raises."""
        ...


class Store(Protocol):
    """State, history, event-id index and checkpoint of every partition.

    What one commit brings is written together or not at all. Calls take effect in the order in which they were made.
    """

    def checkpoint(self, partition: int) -> Checkpoint | None:
        """How far the partition is projected; None if it never was."""
        ...

    def place(self, partition: int) -> Place:
        """Where the partition stands, as of its last `checkpoint`."""
        ...

    def load(self, partition: int, needs: Needs) -> Pending[Loaded]:
        """Entries and events. Raises OtherProjection where the index has an event that the history lost."""
        ...

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> Pending[None]:
        """Write history, entries, event ids and checkpoint, if the stored state is the one that was folded from.

        `now_ms` becomes the entries' `projected_at` (ms since 1970). Records that the history has already stay as they
        are. A repeated call whose target is stored already succeeds. Raises CommitRefused, OtherProjection (nothing was
        written) or StoreUnavailable (nothing is known).
        """
        ...

    def key_history(self, partition: int, ref: KeyRef, *, below: int) -> list[Record]:
        """The counting events of a key with a sequence below the one given, in accepted order."""
        ...

    def citing(self, partition: int, source: SourceRef, *, below: int) -> list[Record]:
        """The counting candidates that cite an event, with a sequence below the one given, in accepted order."""
        ...

    def reset(self) -> None:
        """Forget what was sent and not asked for; the next call begins on a fresh connection."""
        ...
