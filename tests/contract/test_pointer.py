"""The pointer to the namespace in force, and how a partition is handed over from one namespace to the next."""

from collections.abc import Iterator

import pytest
import redis

from lastword_projector.engine.upcasting import AS_WRITTEN, MoveKey, Upcasters
from lastword_projector.projector import PartitionProjector
from lastword_projector.store import outbox, plans, pointer
from lastword_projector.store.names import Names
from lastword_projector.store.pipe import Pipe
from lastword_projector.store.pointer import Fixed, Pointer
from lastword_projector.store.ports import CommitRefused, OtherProjection
from lastword_projector.store.redis import RedisStore
from lastword_schemas.errors import InvalidInput
from lastword_schemas.positions import sequence_of
from tests.support.logs import ADA, Log, SentLetters

OLD = Names("main")
MOVED = Upcasters([MoveKey(key="tone", to="theme")])


@pytest.fixture
def pipe(redis_url: str) -> Iterator[Pipe]:
    pipe = Pipe(redis_url)
    yield pipe
    pipe.reset()


@pytest.fixture
def client(redis_url: str) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def log() -> Log:
    log = Log()
    for number in range(6):
        log.set(ADA, "tone", number)
    return log


def open_worker(url: str, log: Log, names: Names | Pointer) -> tuple[PartitionProjector, RedisStore]:
    store = RedisStore(url, names, on_outbox=lambda _: None)
    return PartitionProjector(log.genesis, store, SentLetters()), store


def test_until_something_was_rebuilt_the_namespace_of_the_settings_is_in_force(pipe: Pipe) -> None:
    found = Pointer("main")

    assert pipe.run(found.look()) == OLD
    assert found.upcasters == AS_WRITTEN


def test_what_is_in_force_says_how_the_log_is_read(pipe: Pipe) -> None:
    new, found = pipe.run(pointer.candidate("main", MOVED)), Pointer("main")
    assert pipe.run(found.look()) == OLD, "nobody reads it yet"

    pipe.run(pointer.flip("main", OLD, new))

    assert pipe.run(found.look()) == new == Names("main-r1")
    assert found.upcasters == MOVED
    assert pipe.run(pointer.candidate("main", AS_WRITTEN)) == Names("main-r2")
    assert pipe.run(pointer.left_over("main")) == [OLD, Names("main-r2")]
    pipe.run(pointer.forget("main", OLD, 1))
    assert pipe.run(pointer.left_over("main")) == [Names("main-r2")]


def test_a_namespace_of_a_newer_build_is_refused(pipe: Pipe, client: "redis.Redis") -> None:
    new = pipe.run(pointer.candidate("main", AS_WRITTEN))
    pipe.run(pointer.flip("main", OLD, new))
    client.set(new.upcasters, '[{"upcaster":"later"}]')

    with pytest.raises(OtherProjection, match="run the build that made it"):
        pipe.run(Pointer("main").look())


def test_a_namespace_whose_successor_would_have_too_long_a_name_is_not_rebuilt(pipe: Pipe) -> None:
    with pytest.raises(InvalidInput, match="too long"):
        pipe.run(pointer.candidate("n" * 30, AS_WRITTEN))


def test_nothing_is_committed_to_a_partition_that_was_handed_over(redis_url: str, pipe: Pipe, log: Log) -> None:
    worker, _ = open_worker(redis_url, log, OLD)
    worker.project(log.records[:5])
    pipe.run(pointer.hand_over(log.genesis, OLD, Names("main-r1"), 5))

    with pytest.raises(CommitRefused, match="given up for main-r1"):
        worker.project(log.records)
    stored = pipe.run(plans.checkpoint(OLD, 0))
    assert stored is not None
    assert stored.next_sequence == 5, "it can be read as it was"


def test_the_new_one_goes_on_with_what_is_to_be_told(redis_url: str, pipe: Pipe, log: Log) -> None:
    worker, _ = open_worker(redis_url, log, OLD)
    worker.project(log.records[:5])
    untold = pipe.run(outbox.waiting(OLD, 0, 100))
    new = Names("main-r1")
    PartitionProjector(log.genesis, RedisStore(redis_url, new), SentLetters()).project(log.records[:4])

    pipe.run(pointer.hand_over(log.genesis, OLD, new, 8))

    assert pipe.run(outbox.waiting(new, 0, 100)) == untold
    assert pipe.run(outbox.waiting(OLD, 0, 100)) == []
    follower, _ = open_worker(redis_url, log, new)
    follower.project(log.records)
    assert len(pipe.run(outbox.waiting(new, 0, 100))) == len(untold) + 1
    assert pipe.run(outbox.told_below(new, 0, log.genesis.log_id)) == sequence_of(0, log.next_offset)


@pytest.mark.parametrize("told", [True, False])
def test_where_nothing_is_known_of_this_log_all_of_it_counts_as_told(
    redis_url: str, pipe: Pipe, log: Log, told: bool
) -> None:
    if told:
        other = Log(topic_id="another")
        open_worker(redis_url, other, OLD)[0].project(other.records)

    assert pipe.run(pointer.reached(log.genesis, OLD)) is None
    pipe.run(pointer.hand_over(log.genesis, OLD, Names("main-r1"), 8))

    assert pipe.run(outbox.told_below(Names("main-r1"), 0, log.genesis.log_id)) == 8


def test_a_new_one_may_come_as_far_as_the_old_one_or_as_what_that_has_told(
    redis_url: str, pipe: Pipe, client: "redis.Redis", log: Log
) -> None:
    open_worker(redis_url, log, OLD)[0].project(log.records[:5])
    assert pipe.run(pointer.reached(log.genesis, OLD)) == 5

    client.hset(OLD.of(0).checkpoint, "next", plans.BEING_EMPTIED)
    assert pipe.run(pointer.reached(log.genesis, OLD)) == 5
    client.delete(OLD.of(0).checkpoint)
    assert pipe.run(pointer.reached(log.genesis, OLD)) == 5


def test_a_hand_over_that_was_broken_off_is_undone(redis_url: str, pipe: Pipe, log: Log) -> None:
    worker, _ = open_worker(redis_url, log, OLD)
    worker.project(log.records[:5])
    untold = pipe.run(outbox.waiting(OLD, 0, 100))
    pipe.run(pointer.hand_over(log.genesis, OLD, Names("main-r1"), 8))

    pipe.run(pointer.take_back(0, OLD, Names("main-r1")))

    assert pipe.run(outbox.waiting(OLD, 0, 100)) == untold
    worker.reopen()
    worker.project(log.records)
    assert worker.next_offset == log.next_offset


def test_a_store_stays_where_a_partition_was_opened_until_it_is_opened_again(
    redis_url: str, pipe: Pipe, log: Log
) -> None:
    worker, store = open_worker(redis_url, log, Pointer("main"))
    worker.project(log.records[:5])
    new = pipe.run(pointer.candidate("main", MOVED))
    open_worker(redis_url, log, Fixed(new, MOVED))[0].project(log.records)
    pipe.run(pointer.flip("main", OLD, new))

    worker.project(log.records)
    before = pipe.run(plans.checkpoint(OLD, 0))
    assert not worker.is_at(store.checkpoint(0)), "it is another one, at the same place"
    worker.reopen()

    assert before is not None
    assert before.next_sequence == log.next_offset
    assert store.place(0) == (new.namespace, MOVED)
    assert worker.is_at(store.checkpoint(0))


def test_one_rebuild_at_a_time(pipe: Pipe, client: "redis.Redis") -> None:
    assert pipe.run(pointer.begin("main", "one"))
    assert not pipe.run(pointer.begin("main", "two"))
    assert pipe.run(pointer.go_on("main", "one"))
    assert not pipe.run(pointer.go_on("main", "two"))
    assert 0 < client.pttl("lw:main:rebuilding") <= 60_000
    pipe.run(pointer.end("main"))
    assert pipe.run(pointer.begin("main", "two"))
