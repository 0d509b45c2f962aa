"""The index of event ids, whatever order they come in: what was written is found, and nothing else is."""

import random
import uuid
from collections.abc import Iterator

import pytest
import redis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lastword_projector.engine.known import EventRef, Needs
from lastword_projector.engine.projection import Changes
from lastword_projector.store import event_ids
from lastword_projector.store.event_ids import RUN_LENGTH, EventIds, is_time_ordered
from lastword_projector.store.names import Names
from lastword_projector.store.ports import CommitRefused
from lastword_projector.store.redis import RedisStore
from lastword_schemas.ids import uuid7
from tests.contract.store import append, changes, commit, record
from tests.support.logs import ADA, BEN

START_MS = 1_796_000_000_000


def timed(ms: int, tail: int = 0) -> bytes:
    """A time-ordered id."""
    return uuid.UUID(uuid7(START_MS + ms, tail.to_bytes(10, "big"))).bytes


def other(number: int) -> bytes:
    """An id that is not."""
    return uuid.uuid5(uuid.NAMESPACE_URL, str(number)).bytes


IDS = st.one_of(
    st.builds(timed, st.integers(0, 40), st.integers(0, 3)),
    st.builds(other, st.integers(0, 20)),
    st.just(b"\xff" * 6 + b"\x7f" + b"\xff" * 9),  # somebody's clock is far ahead
)
OWNED = st.tuples(st.sampled_from([ADA, BEN]), IDS)


@pytest.fixture
def in_redis(redis_url: str) -> Iterator[RedisStore]:
    store = RedisStore(redis_url, Names("main"))
    yield store
    store.reset()


def write(store: RedisStore, firsts: list[tuple[EventRef, int]]) -> None:
    """Commit events with these ids and sequences."""
    before = store.checkpoint(0)
    made = changes(firsts[-1][1] + 1, events=firsts)
    commit(store, before, made)


def found(store: RedisStore, refs: list[EventRef]) -> dict[EventRef, int | None]:
    events = store.load(0, Needs(events=refs)).result().events
    return {EventRef(*ref): None if first is None else first.sequence for ref, first in events.items()}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    written=st.lists(OWNED, unique=True, min_size=1, max_size=40),
    cuts=st.sets(st.integers(1, 39), max_size=4),
    sought=st.lists(OWNED, max_size=20),
    run_length=st.integers(1, 6),
)
@example(written=[(ADA, timed(5)), (ADA, timed(9)), (ADA, timed(7))], cuts={1, 2}, sought=[], run_length=1)
def test_what_was_written_is_found_and_nothing_else(
    redis_url: str,
    written: list[tuple[str, bytes]],
    cuts: set[int],
    sought: list[tuple[str, bytes]],
    run_length: int,
) -> None:
    firsts = [(EventRef(*ref), sequence) for sequence, ref in enumerate(written, start=1)]
    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()
    writer, reader = RedisStore(redis_url, Names("main")), RedisStore(redis_url, Names("main"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_ids, "RUN_LENGTH", run_length)
        done = 0
        for end in sorted({cut for cut in cuts if cut < len(firsts)} | {len(firsts)}):
            write(writer, firsts[done:end])
            done = end
            expected = dict(firsts[:done])
            asked = [ref for ref, _ in firsts] + [EventRef(*ref) for ref in sought]
            assert found(writer, asked) == {ref: expected.get(ref) for ref in asked}
            reader.checkpoint(0)
            assert found(reader, asked) == {ref: expected.get(ref) for ref in asked}
    writer.reset()
    reader.reset()


@given(st.lists(IDS, unique=True, max_size=60), st.integers(1, 8))
def test_an_id_that_is_new_without_a_look_was_never_there(ids: list[bytes], run_length: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_ids, "RUN_LENGTH", run_length)
        index, seen = EventIds(), set[bytes]()
        for event_id in ids:
            assert not any(index.is_new(each) for each in seen)
            index.place(event_id)
            seen.add(event_id)


def test_ids_in_the_order_of_their_time_fill_one_run_after_another() -> None:
    index = EventIds()
    runs = [index.place(timed(number)) for number in range(3 * RUN_LENGTH)]
    assert runs == [timed(number // RUN_LENGTH * RUN_LENGTH) for number in range(3 * RUN_LENGTH)]


def test_ids_that_are_a_little_late_stay_in_the_run() -> None:
    index = EventIds()
    order = random.Random(1)
    ids = [timed(number + order.randrange(20)) for number in range(RUN_LENGTH)]
    placed = [index.place(event_id) for event_id in dict.fromkeys(ids)]
    assert sum(run is None for run in placed) < RUN_LENGTH / 10


def test_an_id_of_the_far_future_costs_looks_and_no_more() -> None:
    index = EventIds()
    index.place(timed(10**12))
    assert not index.is_new(timed(1))
    for number in range(10 * RUN_LENGTH):
        index.place(timed(number))
    assert index.count <= RUN_LENGTH


def test_ids_of_other_versions_are_always_looked_up() -> None:
    assert is_time_ordered(timed(1))
    assert not any(is_time_ordered(other(number)) for number in range(100))
    assert not any(EventIds().is_new(other(number)) for number in range(100))


def test_after_a_refused_commit_its_ids_are_not_taken_for_written(in_redis: RedisStore) -> None:
    append(in_redis, [(ADA, record(1))])
    before = in_redis.checkpoint(0)
    refused = Changes(9)
    refused.events = [((ADA, timed(50)), 2)]
    with pytest.raises(CommitRefused):
        commit(in_redis, None, refused)
    commit(in_redis, before, changes(5, events=[(EventRef(ADA, timed(40)), 3), (EventRef(ADA, timed(60)), 4)]))
    assert found(in_redis, [EventRef(ADA, timed(ms)) for ms in (40, 50, 60)]) == {
        EventRef(ADA, timed(40)): 3,
        EventRef(ADA, timed(50)): None,
        EventRef(ADA, timed(60)): 4,
    }


def test_an_index_whose_state_was_lost_is_looked_through(in_redis: RedisStore, redis_url: str) -> None:
    write(in_redis, [(EventRef(ADA, timed(ms)), ms) for ms in range(1, 4)])
    with redis.Redis.from_url(redis_url) as client:
        client.delete(Names("main").of(0).written)
    write(in_redis, [(EventRef(ADA, timed(ms)), ms) for ms in range(4, 6)])
    assert found(in_redis, [EventRef(ADA, timed(ms)) for ms in range(1, 7)]) == {
        EventRef(ADA, timed(ms)): ms if ms < 6 else None for ms in range(1, 7)
    }
