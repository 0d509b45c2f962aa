"""Workers that are killed, paused, added and taken away while people go on talking."""

from pathlib import Path

import pytest

from tests.support.kafka import LocalKafka
from tests.support.load import Load
from tests.support.obedient_worker import REJOIN_VARIABLE
from tests.support.scene import DurableStore, Scene, until
from tests.support.watcher import Watcher

pytestmark = pytest.mark.real


def test_a_worker_killed_in_the_middle_of_a_commit_costs_nothing(scene: Scene) -> None:
    with Load(scene) as load, Watcher(scene, load) as watcher:
        for _ in range(3):
            load.goes_on()
            scene.workers[-1].die_in_a_commit()
            scene.start_worker()
            watcher.goes_on()
        load.goes_on()
    scene.check(load, watcher)


def test_a_worker_killed_while_it_catches_up_with_commits_sent_ahead_costs_nothing(scene: Scene) -> None:
    scene.stop_worker()
    with Load(scene) as load, Watcher(scene, load) as watcher:
        load.pile_up(6_000)
        for number in (3, 12):
            scene.start_worker()
            scene.workers[-1].die_in_a_commit(number)
        scene.start_worker()
        scene.projected(load.receipts)
        watcher.goes_on()
    scene.check(load, watcher)


def test_a_worker_that_wakes_up_with_a_stale_cache_is_refused_and_goes_on(scene: Scene) -> None:
    zombie = scene.workers[0]
    with Load(scene) as load, Watcher(scene, load) as watcher:
        zombie.pause_in_a_commit()
        scene.start_rival()
        load.goes_on()  # beyond what the zombie had folded
        scene.projected(load.receipts)
        zombie.resume()
        until(lambda: "woken, the commit was refused" in zombie.said, "the zombie to be refused")
        scene.workers[1].stop()
        load.goes_on()
        watcher.goes_on()
    scene.check(load, watcher)


def test_a_worker_that_wakes_up_when_its_group_has_given_its_partitions_away_changes_nothing(scene: Scene) -> None:
    zombie = scene.workers[0]
    with Load(scene) as load, Watcher(scene, load) as watcher:
        zombie.pause_in_a_commit()
        scene.start_worker()
        until(lambda: len(scene.workers[1].partitions) == scene.partitions, "the other one to take over")
        scene.projected(load.receipts)
        zombie.resume()
        until(lambda: "woken, the commit was refused" in zombie.said, "the zombie to be refused")
        until(lambda: len(zombie.partitions) == scene.partitions // 2, "the zombie to be in the group again")
        scene.workers[1].stop()
        load.goes_on()
        watcher.goes_on()
    scene.check(load, watcher)


def test_a_worker_that_its_group_took_for_dead_joins_anew_if_it_is_given_nothing(
    kafka: LocalKafka, store: DurableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client joins again by itself, but not always. Here nothing is left that it could be given."""
    monkeypatch.setenv(REJOIN_VARIABLE, "0.5")
    with Scene(kafka.bootstrap_servers, store.url, tmp_path, partitions=1) as scene:
        first = scene.workers[0]
        with Load(scene) as load, Watcher(scene, load) as watcher:
            until(lambda: first.partitions == {0}, "the first one to have the partition")
            first.pause()
            scene.start_worker()
            until(lambda: scene.workers[1].partitions == {0}, "the other one to take over")
            first.resume()
            until(lambda: "joining it anew" in first.said, "the first one to join anew")
            assert not first.partitions
            scene.workers[1].stop()
            until(lambda: first.partitions == {0}, "the first one to have the partition again")
            load.goes_on()
            watcher.goes_on()
        scene.check(load, watcher)


def test_two_workers_that_fight_over_every_partition_cost_nothing(scene: Scene) -> None:
    with Load(scene) as load, Watcher(scene, load) as watcher:
        scene.start_rival()
        until(lambda: len(scene.workers[1].partitions) == scene.partitions, "both to have all partitions")
        load.goes_on(500)
        watcher.goes_on()
    scene.check(load, watcher)
    assert any("drop the cache and continue from the stored checkpoint" in worker.said for worker in scene.workers)


def test_workers_that_join_leave_and_die_while_batches_are_in_flight_cost_nothing(scene: Scene) -> None:
    with Load(scene) as load, Watcher(scene, load) as watcher:
        scene.start_worker()
        scene.start_worker()
        until(lambda: all(worker.partitions for worker in scene.workers), "all three to have partitions")
        load.pile_up(3_000)
        scene.workers[0].stop()
        scene.start_worker()
        until(lambda: bool(scene.workers[3].partitions), "the newest one to have partitions")
        load.pile_up(3_000)
        scene.workers[1].kill()
        scene.workers[2].stop()
        until(lambda: len(scene.workers[3].partitions) == scene.partitions, "one to have all partitions")
        load.goes_on()
        watcher.goes_on()
    scene.check(load, watcher)
