"""What the log makes of some of a partition's owners: histories, entries, event ids. No I/O."""

from collections.abc import Sequence
from typing import Final

from lastword_projector.audit.choice import Choice, Range
from lastword_projector.engine.decode import LogRecord, Malformed
from lastword_projector.engine.known import KeyRef, Needs, NotLoaded
from lastword_projector.engine.projection import Changes, Projection
from lastword_projector.engine.reading import Read
from lastword_projector.engine.records import Entry, Record, pack_record, unpack_record
from lastword_projector.engine.upcasting import AS_WRITTEN, Upcasters
from lastword_projector.store.event_ids import is_time_ordered
from lastword_schemas.control import Genesis
from lastword_schemas.registry import Registry

_BATCH: Final = 256
MOST_RECORDS: Final = 250_000
"""Events that one pass holds at most, unless one owner alone has more; about a kilobyte each."""


class OwnerState:
    """What the log says of one owner."""

    __slots__ = ("entries", "first_copies", "records")

    def __init__(self) -> None:
        self.records: dict[int, bytes] = {}
        """Packed records by sequence, in accepted order."""
        self.entries: dict[tuple[str, str], Entry] = {}
        """By scope and key."""
        self.first_copies: dict[bytes, int] = {}
        """By event id: the sequence of the first copy."""

    def record(self, sequence: int) -> Record:
        """One of the owner's records."""
        return unpack_record(self.records[sequence])

    def of_key(self, scope: str, key: str) -> list[Record]:
        """What the owner's counting events do to a key, in accepted order."""
        parts = (unpack_record(packed).part_of(scope, key) for packed in self.records.values())
        return [part for part in parts if part is not None]

    def citing(self, event_id: bytes) -> list[Record]:
        """The owner's counting candidates that cite an event, in accepted order."""
        records = (unpack_record(packed) for packed in self.records.values())
        return [record for record in records if record.counts and record.source_event_id == event_id]

    def places_of_keys(self, sequences: Sequence[int]) -> dict[tuple[str, str], dict[int, Record]]:
        """By scope and key the places, in a history of these sequences, of counting events; with those events."""
        found: dict[tuple[str, str], dict[int, Record]] = {}
        for place, sequence in enumerate(sequences):
            if sequence in self.records:
                for part in self.record(sequence).parts():
                    found.setdefault((part.scope, part.key or ""), {})[place] = part
        return found


class Recomputed:
    """The fold of a partition's log as far as it was given, of the owners that are chosen.

    It folds with the engine's own `Projection`, which is given nothing but what was folded here before.
    """

    def __init__(
        self,
        genesis: Genesis,
        choice: Choice,
        upcasters: Upcasters = AS_WRITTEN,
        *,
        most_records: int = MOST_RECORDS,
        most_owners: int | None = None,
    ) -> None:
        """With a `Range` as choice, its end is drawn in while more than `most_records` or `most_owners` are held, until
        `settle` is called."""
        self.genesis = genesis
        self.next_offset = 0
        """The *next* offset to be given."""
        self.owners: dict[str, OwnerState] = {}
        self.dead: list[int] = []
        """Offsets of records that nobody could be given."""
        self.greatest_id: tuple[bytes, str, int] | None = None
        """The greatest time-ordered id of all first copies seen: with its owner and sequence."""
        self.stamped = True
        """Whether the broker stamps the records."""
        self.held = 0
        """Records that are held."""
        self._choice, self._is_settled = choice, False
        self._most_records, self._most_owners = most_records, most_owners
        self._projection = Projection(genesis.partition, genesis, upcasters=upcasters)

    @property
    def registry(self) -> Registry:
        """In force at `next_offset`."""
        return self._projection.keys.registry

    def take(self, records: Sequence[LogRecord]) -> None:
        """Fold records that follow on those before. Raises PartitionWaits, WrongGenesis."""
        for first in range(0, len(records), _BATCH):
            self._take(records[first : first + _BATCH])

    def settle(self) -> None:
        """From here on everybody who is chosen stays so."""
        self._is_settled = True

    def of(self, owner: str) -> OwnerState:
        """What the log says of an owner: nothing, if it has no event of it."""
        return self.owners.get(owner) or OwnerState()

    def _take(self, records: Sequence[LogRecord]) -> None:
        projection = self._projection
        reads = [read for read in map(projection.read, records) if self._is_chosen(read)]
        self._load(projection.needs(reads))
        for read in reads:
            while True:
                try:
                    projection.apply(read)
                except NotLoaded as missing:
                    self._load(missing.needs)
                else:
                    break
        self._keep(projection.take_changes())
        projection.forget_events()
        if records:
            self.next_offset = records[-1].offset + 1
        self._draw_in()

    def _is_chosen(self, read: Read) -> bool:
        """What is of no owner is always looked at."""
        if read.made is not None:
            owner = read.place[0]
        elif isinstance(read.item, Malformed):
            owner = read.item.owner
        else:
            return True
        return owner in self.owners or self._choice.wants(owner)

    def _load(self, needs: Needs) -> None:
        """Give what was folded before."""
        owners = self.owners
        events: dict[tuple[str, bytes], Record | None] = dict.fromkeys(needs.events)
        for ref in needs.events:
            if (state := owners.get(ref[0])) is not None and (sequence := state.first_copies.get(ref[1])) is not None:
                events[ref] = state.record(sequence)
        entries: dict[tuple[str, str, str], Entry | None] = dict.fromkeys(needs.entries)
        for owner, scope, key in needs.entries:
            if (state := owners.get(owner)) is not None:
                entries[owner, scope, key] = state.entries.get((scope, key))
        histories = {KeyRef(*ref): self.of(ref.owner).of_key(ref.scope, ref.key) for ref in needs.histories}
        citing = {ref: self.of(ref.owner).citing(ref.event_id) for ref in needs.citing}
        self._projection.load(events, entries, histories, citing)

    def _keep(self, changes: Changes) -> None:
        owners = self.owners
        for owner, record in changes.records:
            state = owners.get(owner)
            if state is None:
                state = owners[owner] = OwnerState()
            state.records[record.sequence] = pack_record(record)
        for (owner, scope, key), (_, entry) in changes.entries.items():
            owners[owner].entries[scope, key] = entry
        greatest = self.greatest_id[0] if self.greatest_id else b""
        for (owner, event_id), sequence in changes.events:
            owners[owner].first_copies[event_id] = sequence
            if event_id > greatest and is_time_ordered(event_id):
                greatest = event_id
                self.greatest_id = (event_id, owner, sequence)
        self.dead += [letter.record.offset for letter in changes.dead]
        self.stamped = self.stamped and changes.stamped
        self.held += len(changes.records)

    def _draw_in(self) -> None:
        choice = self._choice
        if self._is_settled or not isinstance(choice, Range):
            return
        if self._most_owners is not None and len(self.owners) > self._most_owners:
            numbers = sorted(map(choice.number, self.owners))
            self._drop_from(choice, numbers[self._most_owners])
        while self.held > self._most_records and len(self.owners) > 1:
            numbers = sorted(map(choice.number, self.owners))
            self._drop_from(choice, numbers[len(numbers) // 2])

    def _drop_from(self, choice: Range, high: int) -> None:
        choice.high = high
        self.owners = {owner: state for owner, state in self.owners.items() if choice.wants(owner)}
        self.held = sum(len(state.records) for state in self.owners.values())
