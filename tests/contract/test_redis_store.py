"""The store on a real Redis (or Valkey) keeps the contract, and what is particular to it."""

import random
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
import redis

from lastword_projector.engine.known import EventRef, KeyRef, Needs, SourceRef
from lastword_projector.engine.projection import Changes
from lastword_projector.engine.records import Record, pack_record
from lastword_projector.projector import PartitionProjector
from lastword_projector.store import commits, plans
from lastword_projector.store.calls import SCRIPTS, Plan, script
from lastword_projector.store.event_ids import event_digest
from lastword_projector.store.memory import Settled
from lastword_projector.store.names import Names, bucket_of
from lastword_projector.store.packing import pack_head
from lastword_projector.store.pipe import Pipe, ScriptsGone
from lastword_projector.store.ports import Checkpoint, CommitRefused, Loaded, Place, Store, StoreUnavailable
from lastword_projector.store.redis import RedisStore
from lastword_schemas.control import Genesis
from tests.contract.store import (
    OPERATIONS,
    THEME,
    TONE,
    Operation,
    StoreContract,
    Write,
    append,
    changes,
    checkpoint,
    commit,
    entries,
    entry,
    event,
    events,
    genesis,
    of_key,
    record,
)
from tests.model.deciding_logs import deciding_log
from tests.model.logs import log_of, plan_of
from tests.support.logs import ADA, BEN, START_MS, SentLetters, owners_of, project

T = TypeVar("T")


class ForgetfulStore:
    """Before each call somebody has emptied Redis' cache of scripts: told once, and then the call goes through."""

    def __init__(self, url: str) -> None:
        self._store = RedisStore(url, Names("main"))
        self._client = redis.Redis.from_url(url)
        self.told = 0

    def checkpoint(self, partition: int) -> Checkpoint | None:
        return self._again(lambda: self._store.checkpoint(partition))

    def place(self, partition: int) -> Place:
        return self._store.place(partition)

    def load(self, partition: int, needs: Needs) -> Settled[Loaded]:
        return Settled(self._again(lambda: self._store.load(partition, needs).result()))

    def commit(
        self, partition: int, genesis: Genesis, before: Checkpoint | None, changes: Changes, now_ms: int
    ) -> Settled[None]:
        try:
            self._again(lambda: self._store.commit(partition, genesis, before, changes, now_ms).result())
        except CommitRefused as refused:
            return Settled(None, refused)
        return Settled(None)

    def key_history(self, partition: int, ref: KeyRef, *, below: int) -> list[Record]:
        return self._again(lambda: self._store.key_history(partition, ref, below=below))

    def citing(self, partition: int, source: SourceRef, *, below: int) -> list[Record]:
        return self._again(lambda: self._store.citing(partition, source, below=below))

    def reset(self) -> None:
        self._store.reset()

    def close(self) -> None:
        self._store.reset()
        self._client.close()

    def _again(self, call: Callable[[], T]) -> T:
        self._store.checkpoint(0)  # so that there is a connection, which believes that the scripts are loaded
        self._client.script_flush()
        try:
            return call()
        except ScriptsGone:
            self.told += 1
            return call()


@pytest.fixture
def client(redis_url: str) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def in_redis(redis_url: str) -> Iterator[RedisStore]:
    store = RedisStore(redis_url, Names("main"))
    yield store
    store.reset()


@pytest.fixture
def pipe(redis_url: str) -> Iterator[Pipe]:
    pipe = Pipe(redis_url)
    yield pipe
    pipe.reset()


class TestRedisStore(StoreContract):
    fold_version_at = "lastword_projector.store.commits.FOLD_VERSION"

    @pytest.fixture
    def kept(self, in_redis: RedisStore) -> Store:
        return in_redis

    @pytest.fixture(autouse=True)
    def _client(self, client: "redis.Redis") -> None:
        self.client = client

    def set_back(self, store: Store, partition: int) -> None:
        self.client.hset(Names("main").of(partition).checkpoint, "next", f"{0:016d}")

    def stubs(self, store: Store, partition: int) -> list[tuple[int, str]]:
        items = self.client.lrange(Names("main").of(partition).dead, 0, -1)
        assert isinstance(items, list)
        return [(int(item[:16]), item[16:].decode()) for item in items if isinstance(item, bytes)]

    def test_namespaces_know_nothing_of_each_other(self, redis_url: str, begun: Store) -> None:
        other = RedisStore(redis_url, Names("main-2"))
        assert other.checkpoint(0) is None
        assert entries(other, [TONE]) == {TONE: None}
        assert events(other, [event(5)]) == {event(5): None}
        assert of_key(other) == []
        other.reset()

    def test_every_key_of_a_partition_has_its_hash_tag(self, client: "redis.Redis", begun: Store) -> None:
        keys = client.keys("*")
        assert isinstance(keys, list)
        assert len(keys) == 5  # checkpoint, what was written, profile, event ids, history
        assert all(str(key).startswith("b'lw:main:{p0}:") for key in keys)

    def test_clearing_removes_one_partition_of_one_namespace(
        self, redis_url: str, client: "redis.Redis", begun: Store
    ) -> None:
        stores = [RedisStore(redis_url, Names(name)) for name in ("main", "main-2")]
        commit(stores[1], None, changes(3))
        commit(stores[0], None, changes(3), genesis(1))
        commit(stores[0], None, changes(3), Genesis.model_validate(genesis(2).model_dump() | {"partition": 10}))
        assert stores[0].clear(0) == 5
        assert stores[0].checkpoint(0) is None
        assert of_key(begun) == []
        assert events(begun, [event(5)]) == {event(5): None}
        assert client.dbsize() == 6
        assert stores[0].clear(0) == 0
        for store in stores:
            store.reset()


class TestRedisStoreWithoutItsScripts(TestRedisStore):
    @pytest.fixture
    def kept(self, redis_url: str) -> Iterator[Store]:
        store = ForgetfulStore(redis_url)
        yield store
        store.close()

    def test_that_the_scripts_are_gone_is_told_each_time(self, redis_url: str) -> None:
        store = ForgetfulStore(redis_url)
        commit(store, None, changes(10, Write(TONE, 5)))
        entries(store, [TONE])
        of_key(store)
        assert store.told == 3
        store.close()


class TestScriptsGone:
    """SCRIPT FLUSH while calls are on their way."""

    @pytest.mark.parametrize("name", ["load", "commit", "key_history"])
    def test_it_may_be_tried_again_and_then_goes_through(
        self, in_redis: RedisStore, client: "redis.Redis", name: str
    ) -> None:
        commit(in_redis, None, changes(10, Write(TONE, 5)))
        client.script_flush()
        with pytest.raises(ScriptsGone) as caught:
            OPERATIONS[name](in_redis)
        assert isinstance(caught.value, StoreUnavailable)
        assert caught.value.retryable
        assert in_redis.checkpoint(0) == checkpoint(10)
        OPERATIONS[name](in_redis)

    def test_after_a_reset_the_next_call_goes_through(self, in_redis: RedisStore, client: "redis.Redis") -> None:
        commit(in_redis, None, changes(10, Write(TONE, 5)))
        client.script_flush()
        in_redis.reset()
        commit(in_redis, checkpoint(10), changes(11, Write(THEME, 10)))
        assert entries(in_redis, [TONE, THEME]) == {TONE: entry(5), THEME: entry(10, ref=THEME)}

    def test_nothing_that_was_sent_with_the_first_call_without_its_script_is_told_as_done(
        self, in_redis: RedisStore, client: "redis.Redis"
    ) -> None:
        commit(in_redis, None, changes(10, Write(TONE, 5)))
        done = in_redis.commit(0, genesis(), checkpoint(10), changes(11, Write(THEME, 10)), START_MS)
        done.result()
        client.script_flush()
        sent = [in_redis.commit(0, genesis(), checkpoint(at), changes(at + 1), START_MS) for at in (11, 12, 13)]
        with pytest.raises(ScriptsGone):
            sent[0].result()
        for pending in sent[1:]:
            with pytest.raises(StoreUnavailable):
                pending.result()
        assert in_redis.checkpoint(0) == checkpoint(11)
        done.result()  # what was told stays told

    def test_a_call_of_many_steps_is_tried_again_as_a_whole(
        self, redis_url: str, client: "redis.Redis", monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The scripts go between the windows of a long history."""
        monkeypatch.setattr(plans, "SLICE", 8)
        store = RedisStore(redis_url, Names("main"))
        made = [record(sequence) for sequence in range(1, 129)]
        for first in range(0, len(made), 32):
            append(store, [(ADA, each) for each in made[first : first + 32]])
        send, sent = Pipe.send_calls, []

        def flushed_at_the_fourth(self: Pipe, calls: object) -> object:
            sent.append(calls)
            if len(sent) == 4:
                client.script_flush()
            return send(self, calls)  # type: ignore[arg-type]

        monkeypatch.setattr(Pipe, "send_calls", flushed_at_the_fourth)
        with pytest.raises(ScriptsGone):
            of_key(store)
        assert len(sent) == 4
        assert of_key(store) == made
        store.reset()


class TestBeingEmptied:
    """What a worker meets while `clear` is at work, or was broken off: as after its first step."""

    @pytest.fixture
    def being_emptied(self, in_redis: RedisStore) -> RedisStore:
        commit(in_redis, None, changes(10, Write(TONE, 5), events=[(event(5), 5)]))
        clearing = commits.clear(Names("main"), 0)
        in_redis._pipe.read(in_redis._pipe.send_calls(next(clearing)))
        clearing.close()
        return in_redis

    @pytest.mark.parametrize("before", [None, checkpoint(10), checkpoint(11)])
    def test_no_worker_can_commit(
        self, being_emptied: RedisStore, client: "redis.Redis", before: Checkpoint | None
    ) -> None:
        was = client.dbsize()
        for target in (10, 11, 12):
            with pytest.raises(CommitRefused, match="being-emptied"):
                commit(being_emptied, before, changes(target, Write(THEME, 9)))
        assert client.dbsize() == was
        assert of_key(being_emptied, THEME) == []

    def test_it_is_told(self, being_emptied: RedisStore, redis_url: str) -> None:
        for store in (being_emptied, RedisStore(redis_url, Names("main"))):
            with pytest.raises(StoreUnavailable, match=r"is being emptied.*run `lastword rebuild` again") as caught:
                store.checkpoint(0)
            assert caught.value.retryable
            store.reset()

    def test_a_worker_that_is_refused_waits_until_the_rebuild_is_done(self, redis_url: str) -> None:
        log = log_of(plan_of(1, 60))
        store = RedisStore(redis_url, Names("main"))
        worker = PartitionProjector(log.genesis, store, SentLetters(), now_ms=lambda: START_MS)
        worker.project(log.records[:30])
        clearing = commits.clear(Names("main"), 0)
        other = Pipe(redis_url)
        other.read(other.send_calls(next(clearing)))
        with pytest.raises(StoreUnavailable, match="being emptied"):
            worker.project(log.records)
        with pytest.raises(StoreUnavailable, match="being emptied"):
            worker.reopen()
        RedisStore(redis_url, Names("main")).clear(0)
        worker.reopen()
        assert worker.next_offset == 0
        worker.project(log.records)
        assert store.checkpoint(0) == project(log).store.checkpoint(0)
        other.reset()
        store.reset()

    def test_clearing_that_was_broken_off_can_be_done_again(
        self, being_emptied: RedisStore, client: "redis.Redis"
    ) -> None:
        assert being_emptied.clear(0) == 5
        assert client.dbsize() == 0
        assert being_emptied.checkpoint(0) is None
        commit(being_emptied, None, changes(10, Write(TONE, 5)))
        assert entries(being_emptied, [TONE]) == {TONE: entry(5)}

    def test_clearing_many_keys_is_many_steps_and_the_checkpoint_goes_last(
        self, in_redis: RedisStore, client: "redis.Redis", pipe: Pipe
    ) -> None:
        names = Names("main")
        writes = [Write(KeyRef(f"main/user:u{number}", "global", "tone"), number) for number in range(1, 2001)]
        commit(in_redis, None, changes(2001, *writes))
        seen = []

        def watched() -> Plan[int]:
            clearing = commits.clear(names, 0)
            calls = next(clearing)
            while True:
                replies = yield calls
                seen.append(client.hget(names.of(0).checkpoint, "next"))
                try:
                    calls = clearing.send(replies)
                except StopIteration as done:
                    return int(done.value)

        there = client.dbsize()
        assert pipe.run(watched()) == there == 4002
        assert len(seen) > 5
        assert seen == [b"being-emptied"] * (len(seen) - 1) + [None]
        assert client.dbsize() == 0


def test_the_store_in_redis_holds_what_that_in_memory_holds(redis_url: str) -> None:
    """Random logs in many batches: the same checkpoint, entries, event ids and histories, byte for byte."""
    for seed in range(9):
        log = log_of(plan_of(seed, 120)) if seed % 3 else deciding_log(seed, 150)
        memory = project(log)
        store = RedisStore(redis_url, Names(f"seed-{seed}"))
        worker = PartitionProjector(log.genesis, store, SentLetters(), now_ms=lambda: START_MS)
        for first in range(0, len(log.records), 17):
            worker.project(log.records[first : first + 17])
        assert store.checkpoint(0) == memory.store.checkpoint(0)
        with redis.Redis.from_url(redis_url) as client:
            own = Names(f"seed-{seed}").of(0)
            for owner in owners_of(log):
                records = memory.records(owner)
                assert client.lrange(own.history(owner), 0, -1) == [
                    f"{each.sequence:016d}".encode() + pack_record(each) for each in records
                ]
                stored = client.hgetall(own.profile(owner))
                assert isinstance(stored, dict)
                assert stored == {
                    f"{ref.scope}\0{ref.key}".encode(): data
                    for (_, ref), data in memory.store.stored_entries.items()
                    if ref.owner == owner
                }
                needs = Needs(events=[EventRef(owner, each.event_id) for each in records])
                assert store.load(0, needs).result() == memory.store.load(0, needs).result()
        store.reset()


def test_records_are_found_by_exactly_their_sequence(in_redis: RedisStore, pipe: Pipe) -> None:
    made = [record(sequence) for sequence in (2, 3, 7, 11, 10_000_000_000)]
    append(in_redis, [(ADA, each) for each in made])
    names = Names("main")

    def find(sequence: int) -> Record | None:
        return pipe.run(plans.find(names, 0, ADA, sequence))

    assert [find(each.sequence) for each in made] == made
    assert [find(sequence) for sequence in (0, 1, 4, 8, 12, 10**15)] == [None] * 6
    assert pipe.run(plans.find(names, 0, BEN, 3)) is None


@pytest.mark.parametrize("count", range(1, 6))
def test_the_last_record_that_is_not_above_a_sequence_is_found(in_redis: RedisStore, pipe: Pipe, count: int) -> None:
    made = [record(10 * number) for number in range(1, count + 1)]
    append(in_redis, [(ADA, each) for each in made])
    for sequence in range(10 * count + 12):
        found = pipe.run(plans.floor(Names("main"), 0, ADA, sequence))
        below = [each for each in made if each.sequence <= sequence]
        assert found == (below[-1] if below else None)


@pytest.mark.parametrize("seed", range(8))
def test_records_are_found_however_unevenly_their_sequences_grow(in_redis: RedisStore, pipe: Pipe, seed: int) -> None:
    order = random.Random(seed)
    made = [record(sequence) for sequence in sorted({int(2 ** order.uniform(1, 53)) for _ in range(60)})]
    append(in_redis, [(ADA, each) for each in made])
    found = in_redis.load(0, Needs(events=[EventRef(ADA, each.event_id) for each in made])).result().events
    assert list(found.values()) == made
    near = {each.sequence + step for each in made for step in (-1, 0, 1)}
    for sequence in near:
        below = [each for each in made if each.sequence <= sequence]
        assert pipe.run(plans.floor(Names("main"), 0, ADA, sequence)) == (below[-1] if below else None)


def test_an_entry_is_stored_behind_its_mark_and_the_time_of_projection(
    in_redis: RedisStore, client: "redis.Redis"
) -> None:
    commit(in_redis, None, changes(10, Write(TONE, 5)))
    stored = client.hget("lw:main:{p0}:p:main/user:ada", "global\0tone")
    head = pack_head(entry(5), f"{START_MS:013d}")
    assert head.startswith(f"{entry(5).mark}{START_MS:013d}".encode())
    assert stored == head + pack_record(record(5))


def test_scripts_are_checked_before_their_first_write() -> None:
    """Redis keeps what a script wrote before an error: every check of `commit` stands before its first write."""
    text = script("commit").text
    writes = ("HSET", "RPUSH", "ZADD", "'SET'", "UNLINK", "DEL", "LPOP")
    assert min(text.index(write) for write in ("HSET", "RPUSH")) > text.rindex("return {'mark'")
    for found in map(script, SCRIPTS):
        assert found.read_only is not any(write in found.text for write in writes)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_redis_that_is_not_there_is_an_error_that_may_be_tried_again(operation: Operation) -> None:
    with pytest.raises(StoreUnavailable, match="Redis does not answer") as caught:
        operation(RedisStore("redis://127.0.0.1:1", Names("main")))
    assert caught.value.retryable


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_connection_that_broke_is_told_once_and_then_made_anew(
    in_redis: RedisStore, client: "redis.Redis", operation: Operation
) -> None:
    commit(in_redis, None, changes(10, Write(TONE, 5)))
    client.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(StoreUnavailable):
        operation(in_redis)
    operation(in_redis)


def test_it_comes_back_however_often_redis_was_away(in_redis: RedisStore) -> None:
    """A pool counts the connections that it has made, and stops at some number."""
    for _ in range(300):
        in_redis.reset()
        assert in_redis.checkpoint(0) is None


def test_it_comes_back_however_often_it_was_tried_in_vain(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RedisStore(redis_url, Names("main"))
    with monkeypatch.context() as away:
        away.setattr(redis.connection.AbstractConnection, "connect", _unreachable)
        for _ in range(300):
            with pytest.raises(StoreUnavailable):
                store.checkpoint(0)
    assert store.checkpoint(0) is None
    store.reset()


def _unreachable(self: object) -> None:
    raise redis.ConnectionError("nobody is there")


def test_a_key_of_another_type_moves_no_checkpoint(in_redis: RedisStore, client: "redis.Redis") -> None:
    """The history comes first and Redis takes nothing back; so it may be ahead, and is taken up once that is mended."""
    bucket = Names("main").of(0).buckets[bucket_of(event_digest(*event(5)))]
    client.set(bucket, "somebody wrote here")
    made = changes(10, events=[(event(5), 5)])
    with pytest.raises(StoreUnavailable):
        commit(in_redis, None, made)
    assert in_redis.checkpoint(0) is None
    client.delete(bucket)
    commit(in_redis, None, made)
    assert in_redis.checkpoint(0) == checkpoint(10)
    assert events(in_redis, [event(5)]) == {event(5): record(5)}
    assert of_key(in_redis) == [record(5)]
