"""The outbox on a real Redis: what goes in with a commit, and what is taken off."""

import pytest
import redis

from lastword_projector import projector as projector_module
from lastword_projector.engine.changes import Changed, unpack_changes
from lastword_projector.projector import PartitionProjector
from lastword_projector.store import outbox
from lastword_projector.store.names import Names
from lastword_projector.store.pipe import Pipe
from lastword_projector.store.ports import CommitRefused, StoreUnavailable
from lastword_projector.store.redis import RedisStore
from lastword_schemas.positions import sequence_of
from tests.support.logs import ADA, START_MS, Log, SentLetters

NAMES = Names("main")
MOST = 1_000


class Worker(PartitionProjector):
    """One that puts changes into the outbox, and its store."""

    def __init__(self, url: str, log: Log) -> None:
        self.woken: list[int] = []
        self.store = RedisStore(url, NAMES, on_outbox=self.woken.append)
        super().__init__(log.genesis, self.store, SentLetters(), now_ms=lambda: START_MS)


@pytest.fixture
def pipe(redis_url: str) -> Pipe:
    return Pipe(redis_url)


@pytest.fixture
def client(redis_url: str) -> "redis.Redis":
    return redis.Redis.from_url(redis_url)


@pytest.fixture
def log() -> Log:
    log = Log()
    for number in range(5):
        log.set(ADA, "tone", number)
        log.say(ADA, "Something else.")
    return log


def waiting(pipe: Pipe) -> list[Changed]:
    items = pipe.run(outbox.waiting(NAMES, 0, MOST))
    return [changed for item in items for changed in unpack_changes(item)]


def sequences(pipe: Pipe) -> list[int]:
    return [changed.sequence for changed in waiting(pipe)]


def test_a_commit_brings_one_item_with_all_that_it_changed(redis_url: str, pipe: Pipe, log: Log) -> None:
    worker = Worker(redis_url, log)
    worker.project(log.records)
    assert pipe.run(outbox.length(NAMES, 0)) == 1
    assert sequences(pipe) == [2, 4, 6, 8, 10]
    assert worker.woken == [0]


def test_a_commit_that_changes_nothing_brings_none(redis_url: str, pipe: Pipe) -> None:
    log = Log()
    log.say(ADA, "Nothing new.")
    worker = Worker(redis_url, log)
    worker.project(log.records)
    assert (pipe.run(outbox.length(NAMES, 0)), worker.woken) == (0, [])


def test_a_refused_commit_brings_none(redis_url: str, pipe: Pipe, log: Log) -> None:
    slow, fast = Worker(redis_url, log), Worker(redis_url, log)
    fast.project(log.records)
    with pytest.raises(CommitRefused):
        slow.project(log.records[:5])
    assert (sequences(pipe), slow.woken) == ([2, 4, 6, 8, 10], [])


def test_without_a_topic_nothing_is_kept(redis_url: str, pipe: Pipe, client: "redis.Redis", log: Log) -> None:
    PartitionProjector(log.genesis, RedisStore(redis_url, NAMES), SentLetters()).project(log.records)
    assert pipe.run(outbox.length(NAMES, 0)) == 0
    assert not client.exists(NAMES.of(0).told)


def test_what_is_projected_again_because_the_checkpoint_was_set_back_is_not_told_again(
    redis_url: str, pipe: Pipe, client: "redis.Redis", log: Log
) -> None:
    Worker(redis_url, log).project(log.records[:8])
    client.hset(NAMES.of(0).checkpoint, "next", f"{3:016d}")
    Worker(redis_url, log).project(log.records)
    assert sequences(pipe) == [2, 4, 6, 8, 10]


def test_what_is_projected_again_because_all_of_redis_was_set_back_is_told_again_under_the_same_ids(
    redis_url: str, pipe: Pipe, client: "redis.Redis", log: Log
) -> None:
    Worker(redis_url, log).project(log.records[:5])
    kept = {name: client.dump(name) for name in client.scan_iter()}
    Worker(redis_url, log).project(log.records)
    first = waiting(pipe)
    client.flushdb()
    for name, data in kept.items():
        client.restore(name, 0, data)  # type: ignore[arg-type]
    Worker(redis_url, log).project(log.records)
    assert waiting(pipe) == first


def test_emptying_a_partition_spares_what_is_to_be_told_and_a_replay_adds_what_was_not(
    redis_url: str, pipe: Pipe, log: Log
) -> None:
    Worker(redis_url, log).project(log.records[:5])
    pipe.run(outbox.relayed(NAMES, 0, pipe.run(outbox.waiting(NAMES, 0, MOST))))
    Worker(redis_url, log).project(log.records[:7])
    store = RedisStore(redis_url, NAMES, on_outbox=lambda _: None)
    store.count_as_told(log.genesis, log.next_offset)
    store.clear(0)
    Worker(redis_url, log).project(log.records)
    assert sequences(pipe) == [6, 8, 10], "2 and 4 were told, 6 waited, 8 and 10 are new"


def test_where_it_is_not_known_what_was_told_a_rebuild_counts_all_as_told(redis_url: str, pipe: Pipe, log: Log) -> None:
    store = RedisStore(redis_url, NAMES, on_outbox=lambda _: None)
    store.count_as_told(log.genesis, log.next_offset)
    Worker(redis_url, log).project(log.records)
    assert sequences(pipe) == []
    said = log.set(ADA, "tone", "news")
    Worker(redis_url, log).project(log.records)
    assert sequences(pipe) == [said.sequence]


def test_what_was_told_of_another_log_says_nothing_about_this_one(redis_url: str, pipe: Pipe, log: Log) -> None:
    Worker(redis_url, log).project(log.records)
    RedisStore(redis_url, NAMES).clear(0)
    other = Log(topic_id="another")
    said = other.set(ADA, "tone", "brief")
    Worker(redis_url, other).project(other.records)
    assert sequences(pipe)[-1] == said.sequence == sequence_of(0, 2)


def test_only_what_was_sent_is_taken_off(redis_url: str, pipe: Pipe, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projector_module, "MAX_EVENTS", 2)
    Worker(redis_url, log).project(log.records)
    zombie = pipe.run(outbox.waiting(NAMES, 0, 2))
    sent = pipe.run(outbox.waiting(NAMES, 0, 3))
    assert pipe.run(outbox.relayed(NAMES, 0, sent)) == 3
    left = sequences(pipe)
    assert pipe.run(outbox.relayed(NAMES, 0, zombie)) == 0
    assert sequences(pipe) == left == [8, 10]


def test_a_commit_that_cannot_write_the_outbox_writes_nothing(
    redis_url: str, pipe: Pipe, client: "redis.Redis", log: Log
) -> None:
    client.set(NAMES.of(0).outbox, "somebody else's")
    worker = Worker(redis_url, log)
    with pytest.raises(StoreUnavailable):
        worker.project(log.records)
    assert worker.store.checkpoint(0) is None
    client.delete(NAMES.of(0).outbox)
    worker.reopen()
    worker.project(log.records)
    assert sequences(pipe) == [2, 4, 6, 8, 10]
