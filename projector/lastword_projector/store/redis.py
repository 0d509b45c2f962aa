"""The projector's store on Redis (or Valkey). The logic is in `plans`, the atomic steps are in `lua/`."""

from lastword_projector.engine.projection import Changes, KeyRef, Needs
from lastword_projector.engine.records import Record
from lastword_projector.store import commits, plans
from lastword_projector.store.names import Names
from lastword_projector.store.pipe import Pipe
from lastword_projector.store.ports import Checkpoint, Loaded, Pending
from lastword_schemas.control import Genesis


class RedisStore:
    """`Store` on Redis, on one connection."""

    def __init__(self, url: str, names: Names) -> None:
        self._pipe, self._names = Pipe(url), names

    def checkpoint(self, partition: int) -> Checkpoint | None:
        """See `Store`."""
        return self._pipe.run(plans.checkpoint(self._names, partition))

    def load(self, partition: int, needs: Needs) -> Pending[Loaded]:
        """See `Store`."""
        return self._pipe.send(plans.load(self._names, partition, needs))

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> Pending[None]:
        """See `Store`."""
        return self._pipe.send(commits.commit(self._names, partition, genesis, before, changes, now_ms))

    def key_history(self, partition: int, ref: KeyRef, *, below: int) -> list[Record]:
        """See `Store`."""
        return self._pipe.run(plans.of_key(self._names, partition, ref, below))

    def reset(self) -> None:
        """See `Store`."""
        self._pipe.reset()

    def clear(self, partition: int) -> int:
        """Remove everything of the partition in this namespace, history too; how many keys there were.

        Nobody can commit meanwhile.
        """
        return self._pipe.run(commits.clear(self._names, partition))
