"""What is written when, on a real Redis: for each known bug a check that holds for the product and fails with the bug.

The bugs are in `tests/support/planted_commits.py`.
"""

import asyncio
import uuid
from collections.abc import Callable

import pytest
import redis

from lastword_projector import projector as projector_module
from lastword_projector.engine.changes import unpack_changes
from lastword_projector.projector import PartitionProjector
from lastword_projector.store.names import Names
from lastword_projector.store.ports import CommitRefused
from lastword_projector.store.reader import Reader
from lastword_projector.store.runners import AwaitingRunner
from lastword_query_api.boundary import NotProjected
from lastword_query_api.readings import Asked, Readings
from lastword_schemas.answers import ValuesAnswer
from tests.support.logs import ADA, START_MS, Log
from tests.support.planted import Crash
from tests.support.planted_commits import (
    CheckpointApart,
    DeadLettersAfterTheCheckpoint,
    HistoryAfterTheCheckpoint,
    MakeWriter,
    OutboxAfterTheState,
    Writer,
    checkpoint_at_most,
    commit_without_checkpoint,
    missing_checkpoint_read_as_absent,
)
from tests.support.redis_keys import everything

Check = Callable[[str, MakeWriter], None]
COMMIT = 10
"""Events in a commit here."""


@pytest.fixture(autouse=True)
def _short_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projector_module, "MAX_EVENTS", COMMIT)


def log_of_many() -> Log:
    """100 owners who each say something, and again."""
    log = Log()
    for word in ("brief", "detailed"):
        for number in range(100):
            log.set(f"main/user:{number}", "answer_detail", word)
    return log


def opened(log: Log, store: Writer) -> PartitionProjector:
    """A worker."""
    return PartitionProjector(log.genesis, store, store, now_ms=lambda: START_MS)


def bytes_of(redis_url: str, names: Names) -> dict[bytes, object]:
    """All that is stored; of the outbox the changes, however they were cut into commits."""
    with redis.Redis.from_url(redis_url) as client:
        found = everything(client, names.of(0).prefix)
    return found | {b"outbox": [change for item in found.get(b"outbox", ()) for change in unpack_changes(item)]}


def new_names() -> Names:
    return Names(uuid.uuid4().hex)


def undisturbed(redis_url: str, log: Log) -> dict[bytes, object]:
    """What one worker makes of the log."""
    names = new_names()
    opened(log, Writer(redis_url, names)).project(log.records)
    return bytes_of(redis_url, names)


# --- the checks


def commits_after_a_refused_one_lose_nothing(redis_url: str, make: MakeWriter) -> None:
    """A worker sent six commits ahead when another one had been there: the last begins above the other's checkpoint."""
    log, names = log_of_many(), new_names()
    slow, fast = opened(log, make(redis_url, names)), opened(log, make(redis_url, names))
    slow.project(log.records[:20])
    fast.reopen()
    fast.project(log.records[20:57])
    slow.take(log.records[20:80])
    slow.fold()
    with pytest.raises(CommitRefused):
        slow.settle()
    slow.project(log.records)
    assert bytes_of(redis_url, names) == undisturbed(redis_url, log)


def a_worker_that_dies_in_a_commit_loses_nothing(redis_url: str, make: MakeWriter) -> None:
    log, names = log_of_many(), new_names()
    with pytest.raises(Crash):
        opened(log, make(redis_url, names, dies_at=3)).project(log.records)
    opened(log, make(redis_url, names)).project(log.records)
    assert bytes_of(redis_url, names) == undisturbed(redis_url, log)


def a_worker_that_dies_in_a_commit_loses_no_dead_letter(redis_url: str, make: MakeWriter) -> None:
    log, names = Log(), new_names()
    garbage = log.append(b"somebody's", b"no envelope")
    first, second = make(redis_url, names, dies_at=1), make(redis_url, names)
    with pytest.raises(Crash):
        opened(log, first).project(log.records)
    opened(log, second).project(log.records)
    assert garbage in {letter.record.offset for letter in (*first.dead_letters.letters, *second.dead_letters.letters)}


def an_answer_never_shows_what_is_beyond_its_checkpoint(redis_url: str, make: MakeWriter) -> None:
    log, names = Log(), new_names()
    opened(log, make(redis_url, names)).project(log.records)
    log.set(ADA, "answer_detail", "brief")
    with pytest.raises(Crash):
        opened(log, make(redis_url, names, dies_at=1)).project(log.records)
    answer = read(redis_url, names)
    source = answer.values[0].source
    assert source is None or source.source_sequence <= answer.known_at


def what_is_not_projected_is_not_absent(redis_url: str, make: MakeWriter) -> None:
    try:
        answer = read(redis_url, new_names())
    except NotProjected:
        return
    raise AssertionError(f"answered: {answer.values[0].state.status}")


def read(redis_url: str, names: Names) -> ValuesAnswer:
    """What applies for Ada, as the API reads it."""

    async def ask() -> ValuesAnswer:
        reader = Reader(AwaitingRunner(redis_url), names)
        try:
            return await Readings(reader).values(Asked(ADA), ["global"], ["answer_detail"])
        finally:
            await reader.close()

    return asyncio.run(ask())


# --- the bugs


def assert_caught(check: Check, redis_url: str, bug: MakeWriter) -> None:
    """The check holds for the product and fails with the bug."""
    check(redis_url, Writer)
    with pytest.raises(AssertionError):
        check(redis_url, bug)


def test_a_checkpoint_compared_with_at_most_is_caught(redis_url: str) -> None:
    commits_after_a_refused_one_lose_nothing(redis_url, Writer)
    with checkpoint_at_most(), pytest.raises(AssertionError):
        commits_after_a_refused_one_lose_nothing(redis_url, Writer)


def test_a_checkpoint_written_apart_from_the_state_is_caught(redis_url: str) -> None:
    an_answer_never_shows_what_is_beyond_its_checkpoint(redis_url, Writer)
    with commit_without_checkpoint(), pytest.raises(AssertionError):
        an_answer_never_shows_what_is_beyond_its_checkpoint(redis_url, CheckpointApart)


def test_a_history_written_after_the_checkpoint_is_caught(redis_url: str) -> None:
    assert_caught(a_worker_that_dies_in_a_commit_loses_nothing, redis_url, HistoryAfterTheCheckpoint)


def test_a_dead_letter_sent_after_the_checkpoint_is_caught(redis_url: str) -> None:
    assert_caught(a_worker_that_dies_in_a_commit_loses_no_dead_letter, redis_url, DeadLettersAfterTheCheckpoint)


def test_an_outbox_written_apart_from_the_state_is_caught(redis_url: str) -> None:
    assert_caught(a_worker_that_dies_in_a_commit_loses_nothing, redis_url, OutboxAfterTheState)


def test_a_missing_checkpoint_read_as_absent_is_caught(redis_url: str) -> None:
    what_is_not_projected_is_not_absent(redis_url, Writer)
    with missing_checkpoint_read_as_absent(), pytest.raises(AssertionError):
        what_is_not_projected_is_not_absent(redis_url, Writer)
