"""The projector's store on Redis (or Valkey). The logic is in `plans`, the atomic steps are in `lua/`."""

from collections.abc import Callable, Iterator

from lastword_projector.engine.known import KeyRef, Needs, SourceRef
from lastword_projector.engine.projection import Changes
from lastword_projector.engine.records import Record
from lastword_projector.engine.upcasting import Upcasters
from lastword_projector.store import commits, outbox, plans
from lastword_projector.store.calls import Plan
from lastword_projector.store.event_ids import EventIds
from lastword_projector.store.names import Names
from lastword_projector.store.pipe import Pipe
from lastword_projector.store.pointer import Fixed, Pointer
from lastword_projector.store.ports import Checkpoint, CommitRefused, Loaded, Pending, Place
from lastword_schemas.control import Genesis


class RedisStore:
    """`Store` on Redis, on one connection.

    A partition that is opened (`checkpoint`) stays in the namespace that is in force then until it is opened again.
    """

    def __init__(self, url: str, names: Names | Pointer, *, on_outbox: Callable[[int], object] | None = None) -> None:
        """With `on_outbox` commits put their changes into the outbox, and it is told the partition afterwards."""
        self._pipe, self._on_outbox = Pipe(url), on_outbox
        self._pointer = names if isinstance(names, Pointer) else Fixed(names)
        self._opened: dict[int, tuple[Names, Upcasters]] = {}
        self._ids: dict[int, EventIds] = {}
        self._told_below: dict[int, int] = {}
        self._resets = 0

    def follow(self) -> None:
        """Go where the pointer points to, with partitions that are not opened yet."""
        self._pipe.run(self._pointer.look())

    def checkpoint(self, partition: int) -> Checkpoint | None:
        """See `Store`."""
        names = self._pipe.run(self._pointer.look())
        checkpoint, self._ids[partition] = self._pipe.run(plans.opened(names, partition))
        self._opened[partition] = (names, self._pointer.upcasters)
        self._told_below.pop(partition, None)
        return checkpoint

    def place(self, partition: int) -> Place:
        """See `Store`."""
        names, upcasters = self._opened.get(partition, (self._pointer.names, self._pointer.upcasters))
        return Place(names.namespace, upcasters)

    def load(self, partition: int, needs: Needs) -> Pending[Loaded]:
        """See `Store`."""
        ids = self._ids_of(partition)
        new = [ref for ref in needs.events if ids.is_new(ref[1])]
        known = set(new)
        sought = [ref for ref in needs.events if ref not in known]
        return self._pipe.send(plans.load(self._names_of(partition), partition, Needs(sought, needs.entries), new))

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> Pending[None]:
        """See `Store`."""
        ids = self._ids_of(partition)
        outgoing = self._outgoing(partition, genesis, changes)
        plan = commits.commit(self._names_of(partition), partition, ids, genesis, before, changes, now_ms, outgoing)
        return self._pipe.send(self._following(partition, plan, has_item=bool(outgoing.item)))

    def key_history(self, partition: int, ref: KeyRef, *, below: int) -> list[Record]:
        """See `Store`."""
        return self._pipe.run(plans.of_key(self._names_of(partition), partition, ref, below))

    def citing(self, partition: int, source: SourceRef, *, below: int) -> list[Record]:
        """See `Store`."""
        return self._pipe.run(plans.citing(self._names_of(partition), partition, source, below))

    def owners(self, *, with_history: bool = False) -> Iterator[str]:
        """Everybody who has an entry, or with history an event. See `plans.owners`."""
        self.follow()
        pattern = self._pointer.names.histories if with_history else self._pointer.names.profiles
        cursor = 0
        while True:
            cursor, found = self._pipe.run(plans.owners(pattern, cursor))
            yield from found
            if cursor == 0:
                return

    def reset(self) -> None:
        """See `Store`."""
        self._pipe.reset()

    def clear(self, partition: int) -> int:
        """Remove everything of the partition in this namespace, history too; how many keys there were.

        Nobody can commit meanwhile. What waits in the outbox stays, and so does how far changes were put into it.
        """
        self._ids.pop(partition, None)
        return self._pipe.run(commits.clear(self._names_of(partition), partition))

    def count_as_told(self, genesis: Genesis, next_offset: int) -> None:
        """Where it is not known which changes were told, count those below the *next* offset as told."""
        if self._on_outbox is not None:
            self._pipe.run(outbox.count_as_told(self._names_of(genesis.partition), genesis, next_offset))

    def _outgoing(self, partition: int, genesis: Genesis, changes: Changes) -> outbox.Outgoing:
        if self._on_outbox is None:
            return outbox.Outgoing()
        if partition not in self._told_below:
            plan = outbox.told_below(self._names_of(partition), partition, genesis.log_id)
            self._told_below[partition] = self._pipe.run(plan)
        return outbox.outgoing(genesis, changes, self._told_below[partition])

    def _following(self, partition: int, commit: Plan[None], *, has_item: bool = False) -> Plan[None]:
        """The commit; if it is refused, the event ids that it was to bring are not there."""
        try:
            yield from commit
        except CommitRefused:
            self._ids.pop(partition, None)
            raise
        if has_item and self._on_outbox is not None:
            self._on_outbox(partition)

    def _names_of(self, partition: int) -> Names:
        return self._opened[partition][0] if partition in self._opened else self._pointer.names

    def _ids_of(self, partition: int) -> EventIds:
        if self._resets != self._pipe.resets:  # what was on its way then may not have come
            self._ids.clear()
            self._resets = self._pipe.resets
        if partition not in self._ids:
            self._ids[partition] = self._pipe.run(plans.event_ids(self._names_of(partition), partition))
        return self._ids[partition]
