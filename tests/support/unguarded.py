"""lastword with the ordering taken out: what comes last counts, whenever it was said.

For showing what the guard is for. The fold takes every event for the newest, and `commit.lua` no longer compares; the
rest, worker, stores and API, is the product's own.
"""

import threading
from unittest import mock

from lastword.settings import WorkerSettings
from lastword_producers.kafka_log import LogIdentity
from lastword_projector.engine.policies import POLICIES
from lastword_projector.engine.projection import Changes
from lastword_projector.engine.records import NO_MARK, Entry, Record
from lastword_projector.engine.steps import Step
from lastword_projector.store import commits
from lastword_projector.store.calls import Call, Plan, script
from lastword_projector.store.names import Names
from lastword_projector.store.ports import Checkpoint, Pending
from lastword_projector.store.redis import RedisStore
from lastword_projector.worker.dead_letters import KafkaDeadLetters
from lastword_projector.worker.group_protocol import probe
from lastword_projector.worker.worker import Worker
from lastword_schemas.control import Genesis
from lastword_schemas.verdicts import Effect

_COMPARE = (
    "    if mark ~= ARGV[a + 1] or entry <= rising and sub(ARGV[a + 2], 1, MARK_LENGTH) < mark then "
    "return {'mark', ARGV[a]} end\n"
)


def unguarded_script() -> str:
    """`commit.lua` without the comparison of marks."""
    guarded = script("commit").text
    assert guarded.count(_COMPARE) == 1, "commit.lua has changed: say anew what its comparison of marks is"
    return guarded.replace(_COMPARE, "")


class UnguardedStore(RedisStore):
    """The store of the product, on the script without the comparison."""

    def __init__(self, url: str, names: Names) -> None:
        super().__init__(url, names)
        self._script = unguarded_script()

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> Pending[None]:
        names, ids = self._names_of(partition), self._ids_of(partition)
        plan = commits.commit(names, partition, ids, genesis, before, changes, now_ms)
        return self._pipe.send(self._following(partition, self._unguarded(plan)))

    def _unguarded(self, plan: Plan[None]) -> Plan[None]:
        (call,) = next(plan)
        command, sha, *rest = call.command
        assert (command, sha) == ("EVALSHA", script("commit").sha)
        calls = [Call(("EVAL", self._script, *rest), call.parse)]
        try:
            while True:
                calls = list(plan.send((yield calls)))
        except StopIteration:
            return


def _last_write_wins(entry: Entry | None, record: Record) -> Step:
    """`latest.step` without an order: the event that arrives replaces what is there."""
    effect = Effect.DELETED if record.is_delete else Effect.ADDED if entry is None else Effect.UPDATED
    previous = NO_MARK if entry is None else entry.mark
    return Step(effect, Entry(record, record.mark, record.mark, record.source_recorded_at, previous))


class _UnguardedWorker(Worker):
    """The worker of the product, with that fold: for the whole process while it runs, so let no other worker fold."""

    def run(self, stop: threading.Event) -> None:
        with mock.patch.dict(POLICIES, latest=POLICIES["latest"]._replace(step=_last_write_wins)):
            super().run(stop)


def make_unguarded_worker(settings: WorkerSettings, log: LogIdentity) -> Worker:
    """As `lastword.running.make_worker`, without the ordering."""
    config = settings.kafka_settings.client_config()
    return _UnguardedWorker(
        config,
        settings.topic,
        settings.group,
        log.genesis,
        UnguardedStore(settings.redis.get_secret_value(), Names(settings.namespace)),
        KafkaDeadLetters(config, settings.dead_letter_topic),
        protocol=probe(settings.kafka),
    )
