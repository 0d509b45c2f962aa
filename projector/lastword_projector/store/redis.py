"""The projector's stores on Redis (or Valkey). The logic is in `plans`, the atomic steps are in `lua/`."""

from collections.abc import Sequence

from lastword_projector.engine.projection import Changes, DeadLetter, EventRef, KeyRef
from lastword_projector.engine.records import Entry, Record
from lastword_projector.store import plans
from lastword_projector.store.names import Names
from lastword_projector.store.ports import Checkpoint
from lastword_projector.store.runners import BlockingRunner
from lastword_schemas.control import Genesis


class RedisProfileStore:
    """`ProfileStore` on Redis."""

    def __init__(self, runner: BlockingRunner, names: Names) -> None:
        self._runner, self._names = runner, names

    def checkpoint(self, partition: int) -> Checkpoint | None:
        """See `ProfileStore`."""
        return self._runner.run(plans.checkpoint(self._names, partition))

    def entries(self, partition: int, refs: Sequence[KeyRef]) -> dict[KeyRef, Entry | None]:
        """See `ProfileStore`."""
        return self._runner.run(plans.entries(self._names, partition, refs)) if refs else {}

    def event_sequences(self, partition: int, refs: Sequence[EventRef]) -> dict[EventRef, int | None]:
        """See `ProfileStore`."""
        return self._runner.run(plans.event_sequences(self._names, partition, refs)) if refs else {}

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> None:
        """See `ProfileStore`."""
        self._runner.run(plans.commit(self._names, partition, genesis, before, changes, now_ms))

    def clear(self, partition: int) -> int:
        """Remove everything of the partition in this namespace, history too; how many keys there were."""
        removed, cursor = 0, 0
        while True:
            cursor, keys = self._runner.run(plans.names_below(self._names, partition, cursor))
            self._runner.run(plans.remove(keys))
            removed += len(keys)
            if cursor == 0:
                return removed


class RedisHistoryStore:
    """`HistoryStore` on Redis."""

    def __init__(self, runner: BlockingRunner, names: Names, generation: int) -> None:
        self._runner, self._names, self._generation = runner, names, generation

    def append(self, partition: int, records: Sequence[tuple[str, Record]], dead: Sequence[DeadLetter]) -> None:
        """See `HistoryStore`."""
        self._runner.run(plans.append(self._names, partition, self._generation, records, dead))

    def of_key(self, partition: int, ref: KeyRef, *, below: int) -> list[Record]:
        """See `HistoryStore`."""
        return self._runner.run(plans.of_key(self._names, partition, ref, below))

    def find(self, partition: int, owner: str, sequence: int) -> Record | None:
        """See `HistoryStore`."""
        return self._runner.run(plans.find(self._names, partition, owner, sequence))
