"""Bugs planted into the projector, in the tests' own build: never a mode of the product.

Each is a context manager: within it the product's code has that bug. `tests/model/test_planted_bugs.py` has the checks
that hold for the product and fail with the bug.
"""

import copy
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

from msgspec.structs import replace

from lastword_projector.engine import deciding, decisions, projection, records
from lastword_projector.engine.decisions import Standing
from lastword_projector.engine.decode import Event
from lastword_projector.engine.known import KeyRef
from lastword_projector.engine.latest import step
from lastword_projector.engine.policies import POLICIES
from lastword_projector.engine.projection import Changes, Projection
from lastword_projector.engine.records import Decided, Entry, Mark, Record
from lastword_projector.engine.steps import Step
from lastword_projector.engine.verdict import Refusal, judge_expected
from lastword_projector.projector import PartitionProjector
from lastword_projector.store import calls, pipe, runners
from lastword_projector.store.calls import Script, script
from lastword_projector.store.memory import MemoryStore, Settled
from lastword_projector.store.ports import Checkpoint
from lastword_schemas.control import Genesis
from lastword_schemas.verdicts import Effect, Reason
from tests.support import logs

Bug = Callable[[], AbstractContextManager[object]]

CHECK_OF_THE_ENTRY = "if mark ~= ARGV[a + 1] or entry <= rising and sub(ARGV[a + 2], 1, MARK_LENGTH) < mark then"
"""What `commit.lua` compares before it sets."""


class Crash(Exception):
    """The worker dies here."""


# --- the compare


def commit_without_compare() -> Script:
    """The product's commit script with the comparison of entries taken out."""
    text = script("commit").text
    assert text.count(CHECK_OF_THE_ENTRY) == 1, "commit.lua has no longer this check: say anew what it compares"
    text = text.replace(CHECK_OF_THE_ENTRY, "if false then")
    assert "< mark" not in text, "a comparison of marks is left"
    return _commit_script(text)


def script_without_compare() -> AbstractContextManager[object]:
    """Redis sets what it is given."""
    return instead_of_commit(commit_without_compare())


def changed_commit(old: str, new: str) -> AbstractContextManager[object]:
    """The product's commit script with one piece of its text changed."""
    text = script("commit").text
    assert text.count(old) == 1, f"commit.lua has no longer {old!r}: say anew what is to be changed"
    return instead_of_commit(_commit_script(text.replace(old, new)))


@contextmanager
def instead_of_commit(planted: Script) -> Iterator[None]:
    """Another script takes the place of the product's commit."""

    def instead(name: str) -> Script:
        return planted if name == "commit" else script(name)

    with (
        mock.patch.object(calls, "script", instead),
        mock.patch.object(pipe, "script", instead),
        mock.patch.object(runners, "script", instead),
    ):
        yield


def _commit_script(text: str) -> Script:
    return Script("commit", text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), read_only=False)


def latest_steps(instead: Callable[[Entry | None, Record], Step]) -> AbstractContextManager[object]:
    """Policy `latest` with another step."""
    return mock.patch.dict(POLICIES, latest=POLICIES["latest"]._replace(step=instead))


def last_write_wins() -> AbstractContextManager[object]:
    """The worker of a naive system: whatever arrives replaces what is there."""

    def instead(entry: Entry | None, record: Record) -> Step:
        effect = Effect.DELETED if record.is_delete else Effect.ADDED if entry is None else Effect.UPDATED
        return Step(effect, Entry(record, record.mark, record.mark, record.source_recorded_at))

    return latest_steps(instead)


@contextmanager
def compare_removed() -> Iterator[None]:
    """Neither the fold nor the script compares."""
    with script_without_compare(), last_write_wins():
        yield


# --- the order


def sequences_as_plain_strings() -> AbstractContextManager[object]:
    """Numbers that are not padded with zeros compared as strings: 9 is above 10."""

    def instead(source_sequence: int, authority: int, ordinal: int) -> Mark:
        return Mark(f"{source_sequence:<16d}{authority:d}{ordinal:<6d}")

    return mock.patch.object(records, "mark_of", instead)


def completion_as_order() -> AbstractContextManager[object]:
    """A candidate takes the place where it arrived, not that of what it read."""

    def instead(record: Record) -> Mark:
        return records.mark_of(record.sequence, record.authority, 0)

    return mock.patch.object(Record, "mark", property(instead))


# --- the entry


def tombstone_dropped_with_its_mark() -> AbstractContextManager[object]:
    """A delete removes the entry, and with it the knowledge of when it was deleted."""

    class Dropping(MemoryStore):
        def commit(
            self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
        ) -> Settled[None]:
            settled = super().commit(partition, genesis, before, changes, now_ms)
            for ref, (_, entry) in changes.entries.items():
                if entry.record.is_delete:
                    del self.stored_entries[partition, KeyRef(*ref)]
            return settled

    return mock.patch.object(logs, "MemoryStore", Dropping)


def latest_set_ignoring_deletes() -> AbstractContextManager[object]:
    """The newest value that was ever set, whatever was deleted since."""

    def instead(entry: Entry | None, record: Record) -> Step:
        return Step(Effect.DELETED, entry) if entry is not None and record.is_delete else step(entry, record)

    return latest_steps(instead)


def newest_across_keys() -> AbstractContextManager[object]:
    """One entry for all keys of a scope."""
    return _folded_as(lambda owner, scope, _: (owner, scope, "any"))


def newest_across_owners() -> AbstractContextManager[object]:
    """One entry for all owners."""
    return _folded_as(lambda _, scope, key: ("anybody", scope, key))


def _folded_as(place: Callable[[str, str, str], tuple[str, str, str]]) -> AbstractContextManager[object]:
    """The product's fold into the entry of another place."""
    folds = Projection._fold

    def instead(self: Projection, owner: str, scope: str, key: str, made: Record) -> None:
        folds(self, *place(owner, scope, key), made)

    return mock.patch.object(Projection, "_fold", instead)


def whole_profile_replacement() -> AbstractContextManager[object]:
    """A commit replaces the owner's whole profile by what it changed."""

    class Replacing(MemoryStore):
        def commit(
            self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
        ) -> Settled[None]:
            settled = super().commit(partition, genesis, before, changes, now_ms)
            owners = {owner for owner, _, _ in changes.entries}
            self.stored_entries = {
                (number, ref): data
                for (number, ref), data in self.stored_entries.items()
                if ref.owner not in owners or ref in changes.entries
            }
            return settled

    return mock.patch.object(logs, "MemoryStore", Replacing)


# --- decisions


def withdrawals_forget_readings() -> AbstractContextManager[object]:
    """What was read from a withdrawn event goes on to count."""

    def instead(self: Standing, record: Record) -> Decided | None:
        return self.withdrawn.get(record.event_id)

    return mock.patch.object(Standing, "withdrawal_of", instead)


def withdrawals_for_ever() -> AbstractContextManager[object]:
    """Whatever was withdrawn once stays so, also where the withdrawal itself was withdrawn."""

    def instead(given: Sequence[Decided]) -> dict[bytes, Decided]:
        return {named: each for each in given for named in each.withdraws}

    return mock.patch.object(decisions, "_withdrawn", instead)


def withdrawals_in_the_history_alone() -> AbstractContextManager[object]:
    """The entry stays as it was."""
    return mock.patch.object(deciding, "_touched", return_value=[])


# --- conditions and retired keys


def retired_though_refused() -> AbstractContextManager[object]:
    """The keys that a set retires are deleted before the set is judged."""
    keep = Projection._keep

    def instead(self: Projection, ref: tuple[str, bytes], made: Record) -> Record:
        if not made.counts:
            for delete in made.deletes():
                at = (ref[0], delete.scope, delete.key or "")
                self._put(at, delete, self._step(at, delete)[1])
        return keep(self, ref, made)

    return mock.patch.object(Projection, "_keep", instead)


def late_sets_retire_nothing() -> AbstractContextManager[object]:
    """The deletes that a set brings are left out where the set itself is late."""
    folds = Projection._fold

    def instead(self: Projection, owner: str, scope: str, key: str, made: Record) -> None:
        entry = self._known.entry((owner, scope, key))
        if entry is not None and made.mark < entry.mark:
            made.retires = None
        folds(self, owner, scope, key, made)

    return mock.patch.object(Projection, "_fold", instead)


def expected_sequence_of_the_log() -> AbstractContextManager[object]:
    """A condition is compared with the last sequence of the log, not with the entry's source sequence."""

    def instead(self: Projection, event: Event, expected_sequence: int) -> Refusal | None:
        if expected_sequence == self._reader.sequence(self.next_offset) - 1:
            return None
        return Refusal(Reason.EXPECTED_SEQUENCE, "something was written since")

    return mock.patch.object(Projection, "_expect", instead)


def expected_sequence_of_the_completion() -> AbstractContextManager[object]:
    """A condition is compared with where the entry's event stands, not with what it counts from."""

    def instead(expected_sequence: int, entry: Entry | None) -> Refusal | None:
        moved = None if entry is None else replace(entry, record=replace(entry.record, cited_sequence=None))
        return judge_expected(expected_sequence, moved)

    return mock.patch.object(projection, "judge_expected", instead)


# --- the checkpoint


class DyingStore(MemoryStore):
    """The worker dies once, before its first batch with an event is written."""

    died = False

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> Settled[None]:
        if changes.records and not self.died:
            self.died = True
            raise Crash
        return super().commit(partition, genesis, before, changes, now_ms)


def offset_committed_before_the_state() -> AbstractContextManager[object]:
    """The checkpoint is moved first, then history and state are written."""

    def instead(self: PartitionProjector) -> None:
        partition, before, store = self.genesis.partition, self._checkpoint, self._store
        assert isinstance(store, MemoryStore)
        changes = self._projection.take_changes()
        moved = Changes(changes.next_offset, registry=changes.registry, stamped=changes.stamped)
        store.commit(partition, self.genesis, before, moved, 0)
        self._checkpoint = store.checkpoint(partition)
        state = copy.copy(store)  # all but the checkpoints is the store's own
        state._checkpoints = {} if before is None else {partition: before}
        state.commit(partition, self.genesis, before, changes, 0)

    return mock.patch.object(PartitionProjector, "_commit", instead)
