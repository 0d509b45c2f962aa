"""For each bug that a system like this is known to have, a check that holds for the product and fails with the bug.

The bugs are in `tests/support/planted.py`. A check sees only what a user can see: values, and what was heard.
"""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from lastword_projector.engine.known import EventRef, KeyRef, Needs
from lastword_projector.projector import PartitionProjector
from lastword_projector.store.names import Names
from lastword_projector.store.ports import CommitRefused
from lastword_projector.store.redis import RedisStore
from lastword_schemas import jsontext
from lastword_schemas.positions import Receipt
from tests.support import planted
from tests.support.logs import ADA, BEN, UNSET, Log, SentLetters, Stores, project
from tests.support.planted import Bug, Crash

Check = Callable[[], None]
THEME = {"scope": "global", "key": "theme"}


def assert_caught(check: Check, bug: Bug) -> None:
    """The check holds for the product and fails with the bug."""
    check()
    with bug(), pytest.raises(AssertionError):
        check()
    check()


# --- the checks


def a_longer_sequence_is_the_newer_one() -> None:
    log = Log()
    log.set(ADA, "answer_detail", "brief", at=9)
    log.set(ADA, "answer_detail", "detailed", at=10)
    assert project(log).value(ADA, "answer_detail") == "detailed"


def older_words_after_a_delete_stay_deleted() -> None:
    log, stores = Log(), Stores()
    turn = log.say(ADA, "detailed, please", at=20)
    log.delete(ADA, "answer_detail", at=45)
    stores.project(log)
    log.candidate(ADA, "answer_detail", "detailed", source=turn, quote="detailed")
    stores.project(log)
    entry = stores.entry(ADA, "answer_detail")
    assert entry is not None
    assert entry.record.is_delete


def the_later_source_wins_whichever_reading_completes_last() -> None:
    log = Log()
    brief, detailed = log.say(ADA, "brief", at=10), log.say(ADA, "detailed", at=20)
    for turn, value in ((detailed, "detailed"), (brief, "brief")):
        log.candidate(ADA, "answer_detail", value, source=turn, quote=value)
    assert project(log).value(ADA, "answer_detail") == "detailed"


def keys_do_not_meet() -> None:
    log = Log()
    log.set(ADA, "answer_detail", "detailed", at=20)
    log.set(ADA, "theme", "dark", at=40)
    assert project(log).value(ADA, "answer_detail") == "detailed"


def owners_do_not_meet() -> None:
    log = Log()
    log.set(ADA, "answer_detail", "detailed", at=20)
    log.set(BEN, "answer_detail", "brief", at=30)
    assert project(log).value(ADA, "answer_detail") == "detailed"


def a_deleted_value_is_deleted() -> None:
    log = Log()
    log.set(ADA, "answer_detail", "detailed", at=20)
    log.delete(ADA, "answer_detail", at=45)
    assert project(log).value(ADA, "answer_detail") is UNSET


def a_change_of_one_key_leaves_the_others() -> None:
    log, stores = Log(), Stores()
    log.set(ADA, "theme", "dark", at=20)
    log.set(ADA, "answer_detail", "brief", scope="project:Comet")
    stores.project(log)
    log.set(ADA, "answer_detail", "detailed", at=45)
    stores.project(log)
    assert stores.entry(ADA, "theme") is not None
    assert stores.entry(ADA, "answer_detail", "project:Comet") is not None


def a_crash_within_a_commit_loses_nothing() -> None:
    log, stores = Log(), Stores(planted.DyingStore())
    receipt = log.set(ADA, "answer_detail", "detailed")
    with pytest.raises(Crash):
        stores.project(log)
    stores.project(log)
    assert stores.entry(ADA, "answer_detail") is not None
    assert stores.verdict(receipt) == "added"


def a_refused_set_retires_nothing() -> None:
    log, stores = Log(), Stores()
    log.set(ADA, "theme", "dark", at=20)
    stores.project(log)
    log.set(ADA, "answer_detail", "brief", retires=[THEME], expected_sequence=20)
    stores.project(log)
    assert stores.value(ADA, "theme") == "dark"


def a_late_set_retires_what_is_older() -> None:
    log, stores = Log(), Stores()
    log.set(ADA, "theme", "dark", at=10)
    turn = log.say(ADA, "brief", at=20)
    log.set(ADA, "answer_detail", "detailed", at=30)
    stores.project(log)
    log.candidate(ADA, "answer_detail", "brief", source=turn, quote="brief", retires=[THEME])
    stores.project(log)
    assert stores.value(ADA, "answer_detail") == "detailed"
    assert stores.value(ADA, "theme") is UNSET


def a_condition_looks_at_its_own_entry_alone() -> None:
    log, stores = Log(), Stores()
    log.set(ADA, "answer_detail", "brief", at=20)
    log.set(ADA, "theme", "dark", at=30)
    stores.project(log)
    unaware = log.set(ADA, "answer_detail", "other", expected_sequence=30)
    aware = log.set(ADA, "answer_detail", "detailed", expected_sequence=20)
    stores.project(log)
    assert (stores.verdict(unaware), stores.verdict(aware)) == ("expected-sequence", "updated")


def a_condition_expects_the_source_of_a_reading() -> None:
    log, stores = Log(), Stores()
    turn = log.say(ADA, "brief", at=20)
    log.candidate(ADA, "answer_detail", "brief", source=turn, quote="brief", at=30)
    aware = log.set(ADA, "answer_detail", "detailed", expected_sequence=20)
    stores.project(log)
    assert stores.verdict(aware) == "updated"


def with_a_turn_goes_what_is_read_of_it() -> None:
    log = Log()
    turn = log.say(ADA, "brief")
    log.candidate(ADA, "answer_detail", "brief", source=turn, quote="brief")
    log.withdraw(ADA, turn)
    log.candidate(ADA, "theme", "dark", source=turn, quote="brief")
    stores = project(log)
    detail = stores.entry(ADA, "answer_detail")
    assert detail is None or detail.is_void
    assert stores.entry(ADA, "theme") is None


def a_withdrawal_that_is_withdrawn_restores() -> None:
    log = Log()
    withdrawal = log.withdraw(ADA, log.set(ADA, "theme", "dark"))
    log.withdraw(ADA, withdrawal)
    theme = project(log).entry(ADA, "theme")
    assert theme is not None
    assert not theme.is_void


def a_withdrawal_brings_back_what_was_before() -> None:
    log, stores = Log(), Stores()
    log.set(ADA, "theme", "dark")
    wrong = log.set(ADA, "theme", "pink")
    stores.project(log)
    log.withdraw(ADA, wrong)
    stores.project(log)
    assert stores.value(ADA, "theme") == "dark"


# --- the bugs


def test_sequences_compared_as_plain_strings_are_caught() -> None:
    assert_caught(a_longer_sequence_is_the_newer_one, planted.sequences_as_plain_strings)


def test_a_tombstone_dropped_with_its_mark_is_caught() -> None:
    assert_caught(older_words_after_a_delete_stay_deleted, planted.tombstone_dropped_with_its_mark)


def test_completion_time_as_order_is_caught() -> None:
    assert_caught(the_later_source_wins_whichever_reading_completes_last, planted.completion_as_order)


def test_newest_across_keys_is_caught() -> None:
    assert_caught(keys_do_not_meet, planted.newest_across_keys)


def test_newest_across_owners_is_caught() -> None:
    assert_caught(owners_do_not_meet, planted.newest_across_owners)


def test_latest_set_ignoring_deletes_is_caught() -> None:
    assert_caught(a_deleted_value_is_deleted, planted.latest_set_ignoring_deletes)


def test_whole_profile_replacement_is_caught() -> None:
    assert_caught(a_change_of_one_key_leaves_the_others, planted.whole_profile_replacement)


def test_retired_though_refused_is_caught() -> None:
    assert_caught(a_refused_set_retires_nothing, planted.retired_though_refused)


def test_late_sets_that_retire_nothing_are_caught() -> None:
    assert_caught(a_late_set_retires_what_is_older, planted.late_sets_retire_nothing)


def test_an_expected_sequence_of_the_log_is_caught() -> None:
    assert_caught(a_condition_looks_at_its_own_entry_alone, planted.expected_sequence_of_the_log)


def test_an_expected_sequence_of_the_completion_is_caught() -> None:
    assert_caught(a_condition_expects_the_source_of_a_reading, planted.expected_sequence_of_the_completion)


def test_a_withdrawal_that_forgets_what_was_read_is_caught() -> None:
    assert_caught(with_a_turn_goes_what_is_read_of_it, planted.withdrawals_forget_readings)


def test_a_withdrawal_for_ever_is_caught() -> None:
    assert_caught(a_withdrawal_that_is_withdrawn_restores, planted.withdrawals_for_ever)


def test_a_withdrawal_that_does_not_reach_the_profile_is_caught() -> None:
    assert_caught(a_withdrawal_brings_back_what_was_before, planted.withdrawals_in_the_history_alone)


def test_an_offset_committed_before_the_state_is_caught() -> None:
    assert_caught(a_crash_within_a_commit_loses_nothing, planted.offset_committed_before_the_state)


# --- the compare, on a real Redis


class OnRedis:
    """A log that is projected into Redis as it grows."""

    def __init__(self, redis_url: str, namespace: str) -> None:
        self.log = Log()
        self.store = RedisStore(redis_url, Names(namespace))

    def project(self) -> None:
        """By a new worker."""
        PartitionProjector(self.log.genesis, self.store, SentLetters()).project(self.log.records)

    def complete(self, turn: Receipt, value: str) -> str:
        """A reading of a turn arrives; its verdict."""
        receipt = self.log.candidate(ADA, "answer_detail", value, source=turn, quote=value)
        self.project()
        ref = EventRef(ADA, uuid.UUID(receipt.event_id).bytes)
        record = self.store.load(0, Needs(events=[ref])).result().events[ref]
        assert record is not None
        return record.verdict

    def current(self) -> Any:
        """What applies now: value and source sequence."""
        ref = KeyRef(ADA, "global", "answer_detail")
        entry = self.store.load(0, Needs(entries=[ref])).result().entries[ref]
        assert entry is not None
        self.store.reset()
        value = "deleted" if entry.record.value is None else jsontext.parse(entry.record.value)
        return value, entry.record.source_sequence


def two_completions(redis_url: str, namespace: str) -> Any:
    """Turns at 10 and 20; the reading of 20 completes before that of 10."""
    on_redis = OnRedis(redis_url, namespace)
    brief, detailed = (on_redis.log.say(ADA, words, at=at) for words, at in (("brief", 10), ("detailed", 20)))
    return on_redis.complete(detailed, "detailed"), on_redis.complete(brief, "brief"), on_redis.current()


def a_completion_after_a_delete(redis_url: str, namespace: str) -> Any:
    """A turn at 20, a delete at 45; then the reading of 20 completes."""
    on_redis = OnRedis(redis_url, namespace)
    detailed = on_redis.log.say(ADA, "detailed", at=20)
    on_redis.log.delete(ADA, "answer_detail", at=45)
    on_redis.project()
    return on_redis.complete(detailed, "detailed"), on_redis.current()


def test_a_compare_that_is_removed_is_caught(redis_url: str) -> None:
    """The four completions of the walk-through; without the compare brief@10 stands and detailed comes back."""
    assert two_completions(redis_url, "a") == ("added", "late", ("detailed", 20))
    assert a_completion_after_a_delete(redis_url, "b") == ("late", ("deleted", 45))
    with planted.compare_removed():
        assert two_completions(redis_url, "c") == ("added", "updated", ("brief", 10))
        assert a_completion_after_a_delete(redis_url, "d") == ("updated", ("detailed", 20))
    assert two_completions(redis_url, "e") == ("added", "late", ("detailed", 20))


@pytest.mark.parametrize("scenario", [two_completions, a_completion_after_a_delete])
def test_the_script_alone_refuses_what_a_worker_without_order_would_write(
    redis_url: str, scenario: Callable[[str, str], Any]
) -> None:
    with planted.last_write_wins(), pytest.raises(CommitRefused):
        scenario(redis_url, "main")


@pytest.mark.parametrize("scenario", [two_completions, a_completion_after_a_delete])
def test_the_fold_alone_keeps_the_order_where_the_script_does_not_compare(
    redis_url: str, scenario: Callable[[str, str], Any]
) -> None:
    expected = scenario(redis_url, "with")
    with planted.script_without_compare():
        assert scenario(redis_url, "without") == expected
