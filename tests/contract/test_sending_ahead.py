"""Workers that send commits ahead on a real Redis: whatever becomes of those, the same records give the same bytes."""

import time
from collections.abc import Callable, Iterator

import pytest
import redis

from lastword_projector import projector as projector_module
from lastword_projector.engine.decode import LogRecord
from lastword_projector.projector import PartitionProjector
from lastword_projector.store.names import Names
from lastword_projector.store.pipe import ScriptsGone
from lastword_projector.store.ports import CommitRefused, StoreUnavailable
from lastword_projector.store.redis import RedisStore
from tests.model.logs import log_of, plan_of
from tests.support.logs import START_MS, Log, SentLetters
from tests.support.redis_keys import everything


@pytest.fixture(autouse=True)
def _short_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projector_module, "MAX_EVENTS", 10)


@pytest.fixture
def client(redis_url: str) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def opened(redis_url: str) -> Iterator[Callable[[Log, str], PartitionProjector]]:
    """Opens workers, each with a connection of its own."""
    stores: list[RedisStore] = []

    def open_worker(log: Log, namespace: str) -> PartitionProjector:
        stores.append(RedisStore(redis_url, Names(namespace)))
        return PartitionProjector(log.genesis, stores[-1], SentLetters(), now_ms=lambda: START_MS)

    yield open_worker
    for store in stores:
        store.reset()


Opened = Callable[[Log, str], PartitionProjector]


def bytes_of(client: "redis.Redis", namespace: str) -> dict[bytes, object]:
    """All that a namespace has of its partition 0, but for the key indexes: those may lag."""
    found = everything(client, Names(namespace).of(0).prefix)
    return {name: held for name, held in found.items() if name[:2] not in (b"k:", b"i:")}


def undisturbed(client: "redis.Redis", opened: Opened, log: Log) -> dict[bytes, object]:
    """What one worker makes of the log that waits for each chunk."""
    opened(log, "undisturbed").project(log.records)
    return bytes_of(client, "undisturbed")


def rest(log: Log, worker: PartitionProjector) -> list[LogRecord]:
    """What the worker has not folded yet."""
    return [record for record in log.records if record.offset >= worker.next_offset]


@pytest.mark.parametrize("seed", range(4))
def test_chunks_that_are_taken_while_commits_are_on_their_way_leave_the_same_bytes(
    client: "redis.Redis", opened: Opened, seed: int
) -> None:
    """The worker's turn: take a chunk, settle the one before, fold."""
    log = log_of(plan_of(seed, 200))
    worker = opened(log, "main")
    for first in range(0, len(log.records), 33):
        worker.take(log.records[first : first + 33])
        worker.settle()
        worker.fold()
        assert worker.unsettled
    worker.settle()
    assert bytes_of(client, "main") == undisturbed(client, opened, log)


@pytest.mark.parametrize("seed", range(4))
def test_commits_after_a_refused_one_are_refused_too_and_a_worker_that_reopens_leaves_the_same_bytes(
    client: "redis.Redis", opened: Opened, seed: int
) -> None:
    log = log_of(plan_of(100 + seed, 200))
    slow, fast = opened(log, "main"), opened(log, "main")
    slow.project(log.records[:20])
    fast.reopen()
    fast.project(log.records[20:57])
    was = bytes_of(client, "main")
    slow.take(log.records[20:90])
    slow.fold()  # seven commits; the first expects a checkpoint that is no longer there
    slow.take(log.records[90:130])
    with pytest.raises(CommitRefused, match="not the one folded from"):
        slow.settle()
    assert bytes_of(client, "main") == was
    assert slow.next_offset == fast.next_offset
    slow.fold()  # what was taken before it was refused is dropped
    slow.settle()
    assert bytes_of(client, "main") == was
    slow.project(log.records)
    assert bytes_of(client, "main") == undisturbed(client, opened, log)


def test_two_workers_that_both_send_ahead_write_one_log(client: "redis.Redis", opened: Opened) -> None:
    log = log_of(plan_of(7, 300))
    workers = opened(log, "main"), opened(log, "main")
    refused = 0
    for turn in range(200):
        worker = workers[turn % 2]
        try:
            worker.take(rest(log, worker)[: 15 + turn % 11])
            worker.settle()
            worker.fold()
        except CommitRefused:
            refused += 1
    for worker in workers:
        try:
            worker.settle()
        except CommitRefused:
            refused += 1
    workers[0].project(log.records)
    assert refused > 3
    assert bytes_of(client, "main") == undisturbed(client, opened, log)


@pytest.mark.parametrize("cut", [1, 20, 60, 133])
def test_scripts_that_are_gone_between_chunks_cost_nothing(client: "redis.Redis", opened: Opened, cut: int) -> None:
    """SCRIPT FLUSH when the commits of one chunk are done and nobody has heard; those of the next find no script."""
    log = log_of(plan_of(11, 200))
    worker = opened(log, "main")
    worker.take(log.records[:cut])
    worker.fold()
    wait_for(client, cut)
    client.script_flush()
    with pytest.raises(ScriptsGone):
        worker.project(log.records[cut:])
    assert client.hget(Names("main").of(0).checkpoint, "next") == f"{cut:016d}".encode()
    worker.reopen()
    assert worker.next_offset == cut
    worker.project(log.records)
    assert bytes_of(client, "main") == undisturbed(client, opened, log)


def test_scripts_that_are_gone_again_and_again_cost_nothing(client: "redis.Redis", opened: Opened) -> None:
    log = log_of(plan_of(12, 250))
    worker = opened(log, "main")
    told = turns = 0
    while worker.next_offset < log.next_offset or worker.unsettled:
        turns += 1
        if turns % 3 == 0:
            client.script_flush()
        try:
            worker.take(rest(log, worker)[:25])
            worker.settle()
            worker.fold()
        except StoreUnavailable:
            told += 1
            worker.reopen()
    assert told > 2
    assert bytes_of(client, "main") == undisturbed(client, opened, log)


def test_a_connection_that_breaks_with_commits_on_their_way_costs_nothing(
    client: "redis.Redis", opened: Opened
) -> None:
    log = log_of(plan_of(13, 200))
    worker = opened(log, "main")
    broken = 0
    while worker.next_offset < log.next_offset or worker.unsettled:
        try:
            worker.take(rest(log, worker)[:40])
            worker.settle()
            worker.fold()
            client.client_kill_filter(_type="normal", skipme=True)
            worker.settle()
        except StoreUnavailable:
            broken += 1
            worker.reopen()
            worker.project(rest(log, worker)[:12])
    assert broken > 1
    assert bytes_of(client, "main") == undisturbed(client, opened, log)


def wait_for(client: "redis.Redis", offset: int) -> None:
    """Until the checkpoint is there."""
    end = time.monotonic() + 5
    while client.hget(Names("main").of(0).checkpoint, "next") != f"{offset:016d}".encode():
        assert time.monotonic() < end, "the commits do not arrive"
        time.sleep(0.005)
