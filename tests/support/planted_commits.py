"""Bugs planted into what is written when, on a real Redis: never a mode of the product.

`tests/model/test_planted_commits.py` has the checks that hold for the product and fail with the bug.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

from lastword_projector.engine.projection import FOLD_VERSION, Changes, DeadLetter
from lastword_projector.engine.records import pack_record
from lastword_projector.store.calls import Call, Plan
from lastword_projector.store.names import Names
from lastword_projector.store.outbox import Outgoing
from lastword_projector.store.plans import EntriesRead
from lastword_projector.store.ports import Checkpoint, Pending
from lastword_projector.store.reader import Reader
from lastword_projector.store.redis import RedisStore
from lastword_schemas.control import Genesis
from lastword_schemas.positions import sequence_of
from lastword_schemas.registry import Registry
from tests.support.logs import SentLetters
from tests.support.planted import Crash, changed_commit


class Writer(RedisStore):
    """A worker's store and dead letter topic, as the product has them; the worker dies in its `dies_at`-th commit.

    Where a commit is more than one step, it dies after the first one.
    """

    def __init__(self, url: str, names: Names, *, dies_at: int | None = None) -> None:
        super().__init__(url, names, on_outbox=lambda _: None)
        self.dead_letters = SentLetters()
        """What the dead letter topic has."""
        self._dies_at, self._commits = dies_at, 0

    def send(self, genesis: Genesis, letters: Sequence[DeadLetter]) -> None:
        """See `DeadLetters`."""
        self.dead_letters.send(genesis, letters)

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> Pending[None]:
        """See `Store`."""
        self._commits += 1
        pending = self.first_step(partition, genesis, before, changes, now_ms)
        if self._commits == self._dies_at:
            pending.result()
            raise Crash
        self.second_step(partition, genesis, changes)
        return pending

    def first_step(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> Pending[None]:
        """The commit of the product."""
        return super().commit(partition, genesis, before, changes, now_ms)

    def second_step(self, partition: int, genesis: Genesis, changes: Changes) -> None:
        """Nothing is left to do."""

    def _push(self, command: tuple[str | bytes | int, ...]) -> None:
        def plan() -> Plan[None]:
            yield [Call(command, lambda _: None)]

        self._pipe.send(plan())


MakeWriter = Callable[..., Writer]


class HistoryAfterTheCheckpoint(Writer):
    """Entries, event ids and checkpoint first; then the histories."""

    def first_step(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> Pending[None]:
        without = Changes(
            changes.next_offset,
            entries=changes.entries,
            events=changes.events,
            dead=changes.dead,
            registry=changes.registry,
            stamped=changes.stamped,
        )
        return super().first_step(partition, genesis, before, without, now_ms)

    def second_step(self, partition: int, genesis: Genesis, changes: Changes) -> None:
        for owner, record in changes.records:
            item = f"{record.sequence:016d}".encode() + pack_record(record)
            self._push(("RPUSH", self._names_of(partition).of(partition).history(owner), item))


class CheckpointApart(Writer):
    """Histories, entries and event ids first; then the checkpoint. To be used within `commit_without_checkpoint`."""

    def second_step(self, partition: int, genesis: Genesis, changes: Changes) -> None:
        target = sequence_of(genesis.generation, changes.next_offset)
        self._push(("HSET", self._names_of(partition).of(partition).checkpoint, "next", f"{target:016d}"))


class OutboxAfterTheState(Writer):
    """History, entries, event ids and checkpoint first; then the outbox."""

    def _outgoing(self, partition: int, genesis: Genesis, changes: Changes) -> Outgoing:
        return Outgoing()

    def second_step(self, partition: int, genesis: Genesis, changes: Changes) -> None:
        outgoing, names = super()._outgoing(partition, genesis, changes), self._names_of(partition).of(partition)
        if outgoing.item:
            self._push(("RPUSH", names.outbox, outgoing.item))
        if outgoing.told:
            self._push(("HSET", names.told, "log", genesis.log_id, "next", outgoing.told))


def commit_without_checkpoint() -> AbstractContextManager[object]:
    """The script that `CheckpointApart` needs."""
    return changed_commit("call('HSET', KEYS[1], 'next', ARGV[2], ", "call('HSET', KEYS[1], ")


class DeadLettersAfterTheCheckpoint(Writer):
    """The commit first; then the dead letters."""

    def __init__(self, url: str, names: Names, *, dies_at: int | None = None) -> None:
        super().__init__(url, names, dies_at=dies_at)
        self._later: list[tuple[Genesis, Sequence[DeadLetter]]] = []

    def send(self, genesis: Genesis, letters: Sequence[DeadLetter]) -> None:
        self._later.append((genesis, letters))

    def second_step(self, partition: int, genesis: Genesis, changes: Changes) -> None:
        for later in self._later:
            self.dead_letters.send(*later)
        self._later.clear()


def checkpoint_at_most() -> AbstractContextManager[object]:
    """The stored checkpoint may be below the expected one."""
    return changed_commit("(stored[1] or '') ~= ARGV[1]", "(stored[1] or '') > ARGV[1]")


@contextmanager
def missing_checkpoint_read_as_absent() -> Iterator[None]:
    """Where nothing is projected, the reader takes it that nothing was ever said."""
    entries, checkpoint = Reader.entries, Reader.checkpoint

    def nothing(partition: int) -> Checkpoint:
        genesis = Genesis(generation=0, partition=partition, partitions=1, cluster_id="cluster", topic_id="topic")
        return Checkpoint(1, genesis, FOLD_VERSION, Registry())

    async def any_checkpoint(self: Reader, partition: int) -> Checkpoint:
        return await checkpoint(self, partition) or nothing(partition)

    async def any_entries(
        self: Reader, partition: int, owner: str, wanted: Sequence[tuple[str, str]] | None = None
    ) -> EntriesRead:
        found = await entries(self, partition, owner, wanted)
        return found if found.checkpoint is not None else EntriesRead(nothing(partition), {})

    with mock.patch.object(Reader, "checkpoint", any_checkpoint), mock.patch.object(Reader, "entries", any_entries):
        yield
