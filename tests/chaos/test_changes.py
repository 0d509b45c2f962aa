"""Changes, while workers die and the broker goes away: all are told, in order, and streams go on where they ended.

That every fault of the other files loses no change either is looked at by `Scene.check`.
"""

from contextlib import ExitStack

import pytest

from lastword_schemas import jsontext
from tests.support.kafka import LocalKafka
from tests.support.load import Load
from tests.support.scene import Scene, until
from tests.support.streams import Follower
from tests.support.watcher import Watcher

pytestmark = pytest.mark.real


def test_changes_that_a_worker_had_no_time_to_tell_are_told_by_the_next_one(scene: Scene) -> None:
    with Load(scene) as load, Watcher(scene, load) as watcher:
        load.goes_on()
        scene.workers[0].die_in_a_commit()
        until(lambda: scene.untold > 0, "changes to wait")
        scene.start_worker()
        load.goes_on()
        watcher.goes_on()
    scene.check(load, watcher)


def test_changes_wait_while_there_is_no_broker_and_are_told_when_it_is_back(scene: Scene, kafka: LocalKafka) -> None:
    scene.stop_worker()
    with Load(scene) as load:
        load.pile_up(2_000)
    scene.start_worker()
    until(lambda: scene.untold > 0, "changes to wait")
    kafka.kill()
    untold = scene.untold
    kafka.start()
    scene.projected(load.receipts)
    scene.check_changes(load)
    assert untold > 0


def test_a_follower_misses_nothing_and_hears_nothing_twice_whatever_breaks(scene: Scene, kafka: LocalKafka) -> None:
    with ExitStack() as stack:
        with Load(scene, owners=1) as load, Watcher(scene, load) as watcher:
            owner, begin = load.said[0]
            follower = stack.enter_context(Follower(scene, owner, str(begin)))
            until(lambda: len(follower.told) > 5, "changes to come")
            kafka.kill()
            kafka.start()
            load.goes_on()
            scene.workers[0].die_in_a_commit()
            scene.start_worker()
            load.goes_on(300)
            watcher.goes_on()
        scene.check(load, watcher)
        documents = [jsontext.parse(one) for some in scene.changes_of([owner]) for one in some]
        expected = [one["sequence"] for one in documents if one["sequence"] > begin.sequence]
        until(lambda: len(follower.told) >= len(expected), "all changes to come")
    assert follower.told == expected
