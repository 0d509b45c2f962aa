"""The stores on a real Redis (or Valkey) keep the contracts, and what is particular to them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import redis

from lastword_projector.engine.projection import EventRef, KeyRef
from lastword_projector.engine.records import pack_entry
from lastword_projector.projector import PartitionProjector
from lastword_projector.store.calls import SCRIPTS, Call, script
from lastword_projector.store.names import Names
from lastword_projector.store.ports import HistoryStore, ProfileStore, StoreUnavailable
from lastword_projector.store.redis import RedisHistoryStore, RedisProfileStore
from lastword_projector.store.runners import BlockingRunner
from tests.contract.history_store import HistoryStoreContract
from tests.contract.profile_store import TONE, ProfileStoreContract, Write, changes, entry, event, genesis, record
from tests.model.logs import log_of, plan_of
from tests.support.logs import ADA, START_MS, SentLetters, owners_of, project


class ForgetfulRunner(BlockingRunner):
    """Before each round trip somebody has emptied Redis' cache of scripts."""

    def _send(self, calls: Sequence[Call]) -> list[Any]:
        self._redis.script_flush()
        return super()._send(calls)


@pytest.fixture
def runner(redis_url: str) -> Iterator[BlockingRunner]:
    runner = BlockingRunner(redis_url)
    yield runner
    runner.close()


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


class TestRedisProfileStore(ProfileStoreContract):
    fold_version_at = "lastword_projector.store.plans.FOLD_VERSION"

    @pytest.fixture
    def profile(self, runner: BlockingRunner) -> ProfileStore:
        return RedisProfileStore(runner, Names("main"))

    def test_namespaces_know_nothing_of_each_other(self, runner: BlockingRunner, begun: ProfileStore) -> None:
        other = RedisProfileStore(runner, Names("main-2"))
        assert other.checkpoint(0) is None
        assert other.entries(0, [TONE]) == {TONE: None}

    def test_every_key_of_a_partition_has_its_hash_tag(self, client: redis.Redis, begun: ProfileStore) -> None:
        keys = client.keys("*")
        assert isinstance(keys, list)
        assert len(keys) == 3
        assert all(str(key).startswith("b'lw:main:{p0}:") for key in keys)

    def test_clearing_removes_one_partition_of_one_namespace(
        self, runner: BlockingRunner, client: redis.Redis, begun: ProfileStore
    ) -> None:
        stores = [RedisProfileStore(runner, Names(name)) for name in ("main", "main-2")]
        history = RedisHistoryStore(runner, Names("main"), 0)
        stores[1].commit(0, genesis(), None, changes(3), START_MS)
        stores[0].commit(1, genesis(1), None, changes(3), START_MS)
        stores[0].commit(10, genesis(2), None, changes(3), START_MS)
        history.append(0, [(ADA, record(5))], [])
        assert stores[0].clear(0) == 4
        assert stores[0].checkpoint(0) is None
        assert history.find(0, ADA, 5) is None
        assert client.dbsize() == 3
        assert stores[0].clear(0) == 0


class TestRedisProfileStoreWithoutItsScripts(TestRedisProfileStore):
    @pytest.fixture
    def runner(self, redis_url: str) -> Iterator[BlockingRunner]:
        runner = ForgetfulRunner(redis_url)
        yield runner
        runner.close()


class TestRedisHistoryStore(HistoryStoreContract):
    @pytest.fixture
    def history(self, runner: BlockingRunner) -> HistoryStore:
        return RedisHistoryStore(runner, Names("main"), 0)

    @pytest.fixture(autouse=True)
    def _client(self, client: redis.Redis) -> None:
        self.client = client

    def stubs(self, history: HistoryStore, partition: int) -> list[tuple[int, str]]:
        items = self.client.lrange(Names("main").dead(partition), 0, -1)
        assert isinstance(items, list)
        return [(int(item[:16]), item[16:].decode()) for item in items if isinstance(item, bytes)]


class TestRedisHistoryStoreWithoutItsScripts(TestRedisHistoryStore):
    @pytest.fixture
    def runner(self, redis_url: str) -> Iterator[BlockingRunner]:
        runner = ForgetfulRunner(redis_url)
        yield runner
        runner.close()


def test_the_stores_in_redis_hold_what_those_in_memory_hold(runner: BlockingRunner) -> None:
    """Random logs in many batches: the same checkpoint, entries, event ids and histories, byte for byte."""
    for seed in range(6):
        log = log_of(plan_of(seed, 120))
        memory = project(log)
        names = Names(f"seed-{seed}")
        profile, history = RedisProfileStore(runner, names), RedisHistoryStore(runner, names, 0)
        worker = PartitionProjector(log.genesis, profile, history, SentLetters(), now_ms=lambda: START_MS)
        for first in range(0, len(log.records), 17):
            worker.project(log.records[first : first + 17])
        assert profile.checkpoint(0) == memory.profile.checkpoint(0)
        for owner in owners_of(log):
            records = memory.records(owner)
            assert [history.find(0, owner, each.sequence) for each in records] == records
            refs = [KeyRef(owner, each.scope, each.key) for each in records if each.key is not None]
            assert profile.entries(0, refs) == memory.profile.entries(0, refs)
            events = [EventRef(owner, each.event_id) for each in records]
            assert profile.event_sequences(0, events) == memory.profile.event_sequences(0, events)


def test_an_entry_is_stored_behind_its_mark_and_the_time_of_projection(
    runner: BlockingRunner, client: redis.Redis
) -> None:
    store = RedisProfileStore(runner, Names("main"))
    store.commit(0, genesis(), None, changes(10, Write(TONE, 5)), START_MS)
    stored = client.hget("lw:main:{p0}:p:main/user:ada", "global\0tone")
    head = f"{entry(5).mark}{START_MS:013d}".encode()
    assert stored == head + pack_entry(entry(5))


def test_scripts_are_checked_before_their_first_write() -> None:
    """Redis keeps what a script wrote before an error: every check of `commit` stands before its first HSET."""
    text = script("commit").text
    assert text.index("HSET") > text.rindex("return {'order'")
    for found in map(script, SCRIPTS):
        assert found.read_only is not any(write in found.text for write in ("HSET", "RPUSH"))


@pytest.mark.parametrize("operation", ["checkpoint", "commit", "append"])
def test_a_redis_that_is_not_there_is_an_error_that_may_be_tried_again(operation: str) -> None:
    runner = BlockingRunner("redis://127.0.0.1:1")
    profile, history = RedisProfileStore(runner, Names("main")), RedisHistoryStore(runner, Names("main"), 0)
    calls: dict[str, Callable[[], object]] = {
        "checkpoint": lambda: profile.checkpoint(0),
        "commit": lambda: profile.commit(0, genesis(), None, changes(1), START_MS),
        "append": lambda: history.append(0, [(ADA, record(1))], []),
    }
    with pytest.raises(StoreUnavailable, match="Redis does not answer") as caught:
        calls[operation]()
    assert caught.value.retryable
    runner.close()


def test_a_key_of_another_type_changes_nothing(runner: BlockingRunner, client: redis.Redis) -> None:
    client.set("lw:main:{p0}:e:main/user:ada", "somebody wrote here")
    store = RedisProfileStore(runner, Names("main"))
    with pytest.raises(StoreUnavailable):
        store.commit(0, genesis(), None, changes(10, events=((event(5), 5),)), START_MS)
    assert store.checkpoint(0) is None
