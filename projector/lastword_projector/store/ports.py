"""The two stores of the projector, as ports. Every implementation passes the contract suites in `tests/contract`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from lastword_projector.engine.projection import Changes, DeadLetter, EventRef, KeyRef
from lastword_projector.engine.records import Entry, Record
from lastword_schemas.control import Genesis
from lastword_schemas.errors import LastwordError
from lastword_schemas.registry import Registry

Clock = Literal["broker", "publisher"]


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


class ProfileStore(Protocol):
    """Current state, event-id index and checkpoint of every partition; written together or not at all."""

    def checkpoint(self, partition: int) -> Checkpoint | None:
        """How far the partition is projected; None if it never was."""
        ...

    def entries(self, partition: int, refs: Sequence[KeyRef]) -> Mapping[KeyRef, Entry | None]:
        """The stored entries; None where there is none."""
        ...

    def event_sequences(self, partition: int, refs: Sequence[EventRef]) -> Mapping[EventRef, int | None]:
        """The sequences of the first copies; None where the owner has no event with that id."""
        ...

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> None:
        """Write entries, event ids and checkpoint in one step, if the stored state is the one that was folded from.

        `now_ms` becomes the entries' `projected_at` (ms since 1970). A repeated call whose target is already stored
        succeeds. Raises CommitRefused, OtherProjection (nothing was written) or StoreUnavailable (nothing is known).
        """
        ...


class HistoryStore(Protocol):
    """Every event with its verdict, by owner and in accepted order. Immutable; written before the checkpoint."""

    def append(self, partition: int, records: Sequence[tuple[str, Record]], dead: Sequence[DeadLetter]) -> None:
        """Add records; those that are already there stay as they are. `dead` leaves a stub each."""
        ...

    def of_key(self, partition: int, ref: KeyRef, *, below: int) -> list[Record]:
        """The counting events of a key with a sequence below the one given, in accepted order."""
        ...

    def find(self, partition: int, owner: str, sequence: int) -> Record | None:
        """The owner's record of exactly that sequence."""
        ...
