"""The walk-through, on each broker: every value as the issue says it, through the real pipeline."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from lastword.launcher import starter_text
from lastword.stories import COMPLETIONS, PARTS
from lastword.walkthrough import Check, Hooks, Walkthrough, WalkthroughStopped, store_hooks
from lastword_projector.store.names import Names
from lastword_projector.store.redis import RedisStore
from lastword_schemas.partitions import partition_for
from lastword_schemas.registry import parse_registry_file
from tests.support import services
from tests.support.running import RunningLastword
from tests.support.services import Broker
from tests.support.unguarded import make_unguarded_worker

PARTITIONS = 24
STARTER = parse_registry_file(starter_text())


@dataclass
class Walked:
    """A lastword that the walk-through went through, and what it found."""

    running: RunningLastword
    checks: dict[str, list[Check]] = field(default_factory=dict)
    """By the part's title."""
    next_sequences: list[int | None] = field(default_factory=list)
    """Of the traveller's checkpoint: before and after it was set back, before and after the replay."""

    def got(self, title: str) -> list[tuple[str, str]]:
        """Questions of a part with the answers that came."""
        return [(check.name, check.got) for check in self.checks[title]]


@pytest.fixture(scope="module")
def walked(broker: Broker, store_url: str) -> Iterator[Walked]:
    """The whole walk-through, on a fresh topic with the starter registry."""
    url = services.shared_database(store_url)
    with RunningLastword(broker.bootstrap_servers, url, partitions=PARTITIONS, registry=STARTER) as running:
        found = Walked(running)
        walkthrough = Walkthrough(running.http, running.log, watched_hooks(found))
        for part in PARTS:
            found.checks[part.title] = walkthrough.run(part)
        yield found


def watched_hooks(found: Walked) -> Hooks:
    """The product's hooks; what they do to the traveller's checkpoint is noted."""
    settings, log = found.running.worker_settings, found.running.log
    hooks = store_hooks(settings, log)
    store = RedisStore(settings.redis.get_secret_value(), Names(settings.namespace))

    def note() -> None:
        checkpoint = store.checkpoint(partition_for("main/user:traveller", PARTITIONS))
        found.next_sequences.append(None if checkpoint is None else checkpoint.next_sequence)

    def set_back(partition: int, sequence: int) -> None:
        note()
        hooks.set_back(partition, sequence)
        note()

    def replay() -> None:
        note()
        hooks.replay()
        note()

    return Hooks(set_back, replay)


def test_every_value_of_the_walk_through_holds(walked: Walked) -> None:
    checks = [check for part in walked.checks.values() for check in part]

    assert [check for check in checks if not check.ok] == []
    assert len(checks) == 37


def test_each_question_is_answered_within_its_scope_its_owner_and_its_time(walked: Walked) -> None:
    got = walked.got("Who, where, when")

    assert got[:10] == [
        ("A global answer_detail at 15", "brief@10"),
        ("A global answer_detail at 22", "detailed@20 over 10"),
        ("A global answer_detail at 30", "detailed@20 over 10"),
        ("A Comet answer_detail at 30", "brief@25"),
        ("A Orion answer_detail at 30", "detailed@20 over 10 (fallback)"),
        ("B global answer_detail at 30", "brief@30"),
        ("A global theme at 40", "dark@40"),
        ("A global answer_detail at 40", "detailed@20 over 10"),
        ("A global answer_detail at 50", "deleted@45 over 20"),
        ("A Comet answer_detail at 50", "brief@25"),
    ]
    assert got[10:17] == [
        ("A global theme at 50", "dark@40"),
        ("A Orion answer_detail at 50", "deleted@45 over 20"),
        ("A global answer_detail at 9", "absent"),
        ("A Come answer_detail at 30", "detailed@20 over 10 (fallback)"),
        ("A Comet theme at 60", "deleted@60 over 55"),
        ("A Comet units at 74", "imperial@70"),
        ("A Comet units at 75", "metric@65 (fell through)"),
    ]


def test_a_late_completion_counts_from_where_it_was_said(walked: Walked) -> None:
    assert walked.got("Four completions") == [
        ("C completed 20, then 10", "detailed@20 over 10"),
        ("verdict on completion 10", "late (20, 10)"),
        ("C deleted at 45, then 20", "deleted@45 over 20"),
        ("verdict on completion 20", "late (45, 20)"),
    ]


def test_without_the_guard_old_words_come_back(broker: Broker, store_url: str) -> None:
    with RunningLastword(
        broker.bootstrap_servers, store_url, partitions=PARTITIONS, registry=STARTER, worker=make_unguarded_worker
    ) as unguarded:
        hooks = store_hooks(unguarded.worker_settings, unguarded.log)
        checks = Walkthrough(unguarded.http, unguarded.log, hooks).run(COMPLETIONS)

    assert checks[0].got.startswith("brief@10")
    assert checks[2].got.startswith("detailed@20")


def test_nothing_brings_a_deleted_preference_back(walked: Walked) -> None:
    got = walked.got("A preference that must not come back")

    assert got[0] == ("a new thread asks", "evening@20 over 10")
    assert got[1] == ("its history", "morning@10 until set@20; evening@20")
    assert [answer for name, answer in got if name.startswith("after")] == ["deleted@30 over 20"] * 5
    assert got[-1] == ("its history", "morning@10 until set@20; evening@20 until delete@30; deleted@30")


def test_the_checkpoint_was_really_set_back_and_the_log_replayed(walked: Walked) -> None:
    assert walked.next_sequences == [41, 10, 46, 46]


def test_the_answer_names_the_words_that_it_stands_on(walked: Walked) -> None:
    record = walked.running.value("user:traveller", "travel.flight_time", as_of=25)

    words = record["source"]["source"]
    assert record["state"]["value"] == "evening"
    assert (words["thread"], words["span"], words["quote"]) == ("thread-2", [0, 15], "Evening flights")
    assert record["source"]["source_sequence"] == 20
    assert record["source"]["position"]["offset"] == 22


def test_it_says_that_it_needs_a_fresh_log(walked: Walked) -> None:
    again = Walkthrough(
        walked.running.http, walked.running.log, store_hooks(walked.running.worker_settings, walked.running.log)
    )

    with pytest.raises(WalkthroughStopped, match="needs a fresh log"):
        again.run(COMPLETIONS)
