"""Redis loses its scripts, dies, comes back with what it had, or with less."""

import shutil
from pathlib import Path
from typing import Literal

import pytest
import redis

from tests.support.kafka import LocalKafka
from tests.support.load import Load
from tests.support.scene import DurableStore, Scene
from tests.support.watcher import Watcher

pytestmark = pytest.mark.real


def test_scripts_that_are_flushed_between_batches_cost_nothing(scene: Scene, store: DurableStore) -> None:
    with Load(scene) as load, Watcher(scene, load) as watcher, redis.Redis.from_url(store.url) as client:
        for _ in range(10):
            client.script_flush()
            load.goes_on(30)
        watcher.goes_on()
    scene.check(load, watcher)
    assert "Redis has lost its scripts" in scene.workers[0].said


@pytest.mark.parametrize("appendfsync", ["everysec", "always"])
def test_a_killed_redis_that_comes_back_with_its_file_costs_nothing(
    kafka: LocalKafka, tmp_path: Path, appendfsync: Literal["everysec", "always"]
) -> None:
    with (
        DurableStore(tmp_path / "store", appendfsync) as store,
        Scene(kafka.bootstrap_servers, store.url, tmp_path) as scene,
    ):
        with Load(scene) as load, Watcher(scene, load) as watcher:
            for _ in range(2):
                load.goes_on()
                store.kill()
                watcher.is_refused("store-unavailable")
                store.start()
                watcher.goes_on()
            load.goes_on()
        scene.check(load, watcher)


def test_a_redis_restored_from_an_older_copy_is_healed_by_replay(
    scene: Scene, store: DurableStore, tmp_path: Path
) -> None:
    with Load(scene) as load, Watcher(scene, load) as watcher:
        load.goes_on()
        store.stop()
        shutil.copytree(store.data, tmp_path / "copy")
        store.start()
        watcher.goes_on()
        load.goes_on(300)
        scene.projected(load.receipts)
        watcher.goes_on()

        scene.workers[0].pause()  # so that there is time to read from the older copy
        store.stop()
        shutil.rmtree(store.data)
        shutil.copytree(tmp_path / "copy", store.data)
        store.start()
        watcher.is_refused("not-projected-yet")
        owner = next(iter(watcher.seen))
        older = scene.value(owner, "any")  # who demands nothing gets what is there, and where that is
        assert older["state"]["value"] < watcher.seen[owner].number
        assert older["selection"]["known_at"] < watcher.seen[owner].sequence
        scene.workers[0].resume()
        watcher.goes_on(len(watcher.seen))
    scene.check(load, watcher)


def test_a_checkpoint_set_back_or_removed_by_hand_is_made_good_by_replay(scene: Scene, store: DurableStore) -> None:
    with Load(scene) as load, Watcher(scene, load) as watcher, redis.Redis.from_url(store.url) as client:
        load.goes_on(200)
        for back_to in (2, 10):
            for partition in range(scene.partitions):
                client.hset(scene.checkpoint_name(partition), "next", f"{back_to:016d}")
            load.goes_on()
        client.delete(*map(scene.checkpoint_name, range(scene.partitions)))
        load.goes_on()
        watcher.goes_on()
    scene.check(load, watcher)
