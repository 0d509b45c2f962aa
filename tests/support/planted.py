"""Bugs planted into the projector, in the tests' own build: never a mode of the product.

Each is a context manager: within it the product's code has that bug. `tests/model/test_planted_bugs.py` has the checks
that hold for the product and fail with the bug.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

from lastword_projector.engine import projection, records
from lastword_projector.engine.fold import Step, step
from lastword_projector.engine.projection import Changes, DeadLetter, KeyRef
from lastword_projector.engine.records import Entry, Mark, Record, pack_entry
from lastword_projector.projector import PartitionProjector
from lastword_projector.store import calls, runners
from lastword_projector.store.calls import Script, script
from lastword_projector.store.memory import MemoryHistoryStore, MemoryProfileStore
from lastword_projector.store.ports import Checkpoint
from lastword_schemas.control import Genesis
from lastword_schemas.verdicts import Effect
from tests.support import logs

Bug = Callable[[], AbstractContextManager[object]]

CHECKS_OF_THE_ENTRY = (
    "if mark ~= ARGV[a + 2] then",
    "if not (ARGV[a + 4] > mark) then",
    "elseif ARGV[a + 4] ~= mark then",
)
"""What `commit.lua` compares before it sets."""


class Crash(Exception):
    """The worker dies here."""


# --- the compare


def commit_without_compare() -> Script:
    """The product's commit script with the comparison of entries taken out."""
    text = script("commit").text
    for check in CHECKS_OF_THE_ENTRY:
        assert text.count(check) == 1, f"commit.lua has no longer the check {check!r}"
        text = text.replace(check, check.split("if")[0] + "if false then")
    assert "ARGV[a + 4]" not in text, "a comparison of marks is left"
    return Script("commit", text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), read_only=False)


@contextmanager
def script_without_compare() -> Iterator[None]:
    """Redis sets what it is given."""
    naive = commit_without_compare()

    def instead(name: str) -> Script:
        return naive if name == "commit" else script(name)

    with mock.patch.object(calls, "script", instead), mock.patch.object(runners, "script", instead):
        yield


def last_write_wins() -> AbstractContextManager[object]:
    """The worker of a naive system: whatever arrives replaces what is there."""

    def instead(entry: Entry | None, record: Record) -> Step:
        effect = Effect.DELETED if record.is_delete else Effect.ADDED if entry is None else Effect.UPDATED
        return Step(effect, Entry(record, record.mark, record.source_recorded_at))

    return mock.patch.object(projection, "step", instead)


@contextmanager
def compare_removed() -> Iterator[None]:
    """Neither the fold nor the script compares."""
    with script_without_compare(), last_write_wins():
        yield


# --- the order


def sequences_as_plain_strings() -> AbstractContextManager[object]:
    """Marks of different length compared as strings: 9 is above 10."""

    def instead(source_sequence: int, authority: int, ordinal: int) -> Mark:
        return Mark(f"{source_sequence}.{authority}.{ordinal}")

    return mock.patch.object(records, "mark_of", instead)


def completion_as_order() -> AbstractContextManager[object]:
    """A candidate takes the place where it arrived, not that of what it read."""

    def instead(record: Record) -> Mark:
        return records.mark_of(record.sequence, record.authority, 0)

    return mock.patch.object(Record, "mark", property(instead))


# --- the entry


def tombstone_dropped_with_its_mark() -> AbstractContextManager[object]:
    """A delete removes the entry, and with it the knowledge of when it was deleted."""

    class Dropping(MemoryProfileStore):
        def commit(
            self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
        ) -> None:
            super().commit(partition, genesis, before, changes, now_ms)
            for ref, change in changes.entries.items():
                if change.entry.record.is_delete:
                    del self._entries[partition, ref]

    return mock.patch.object(logs, "MemoryProfileStore", Dropping)


def latest_set_ignoring_deletes() -> AbstractContextManager[object]:
    """The newest value that was ever set, whatever was deleted since."""

    def instead(entry: Entry | None, record: Record) -> Step:
        return Step(Effect.DELETED, entry) if entry is not None and record.is_delete else step(entry, record)

    return mock.patch.object(projection, "step", instead)


def newest_across_keys() -> AbstractContextManager[object]:
    """One entry for all keys of a scope."""
    return mock.patch.object(projection, "KeyRef", lambda owner, scope, key: KeyRef(owner, scope, "any"))


def newest_across_owners() -> AbstractContextManager[object]:
    """One entry for all owners."""
    return mock.patch.object(projection, "KeyRef", lambda owner, scope, key: KeyRef("anybody", scope, key))


def whole_profile_replacement() -> AbstractContextManager[object]:
    """A commit replaces the owner's whole profile by what it changed."""

    class Replacing(MemoryProfileStore):
        def commit(
            self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
        ) -> None:
            super().commit(partition, genesis, before, changes, now_ms)
            owners = {ref.owner for ref in changes.entries}
            self._entries = {
                (number, ref): data
                for (number, ref), data in self._entries.items()
                if ref.owner not in owners or ref in changes.entries
            }

    return mock.patch.object(logs, "MemoryProfileStore", Replacing)


# --- the checkpoint


class DyingHistory(MemoryHistoryStore):
    """The worker dies once, before its first batch with an event is written."""

    died = False

    def append(self, partition: int, records: Sequence[tuple[str, Record]], dead: Sequence[DeadLetter]) -> None:
        if records and not self.died:
            self.died = True
            raise Crash
        super().append(partition, records, dead)


def offset_committed_before_the_state() -> AbstractContextManager[object]:
    """The checkpoint is moved first, then history and state are written."""

    def instead(self: PartitionProjector) -> None:
        partition, changes, profile = self.genesis.partition, self._projection.changes, self._profile
        assert isinstance(profile, MemoryProfileStore)
        moved = Changes(changes.next_offset, registry=changes.registry)
        profile.commit(partition, self.genesis, self._checkpoint, moved, 0)
        self._history.append(partition, changes.records, changes.dead)
        for ref, change in changes.entries.items():
            profile._entries[partition, ref] = pack_entry(change.entry)
        for event, sequence in changes.events:
            profile._events[partition, event] = sequence
        self._checkpoint = profile.checkpoint(partition)
        self._projection.committed()

    return mock.patch.object(PartitionProjector, "_commit", instead)
