"""A rebuild takes the place of the projection in force while people go on talking and workers die."""

import threading

import pytest

from lastword.running import run_replacement
from lastword_projector.replacement import Replaced
from tests.support.load import Load
from tests.support.scene import Scene, until
from tests.support.watcher import Watcher

pytestmark = pytest.mark.real


class Rebuild:
    """A rebuild in a thread of its own."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.done: Replaced | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="rebuild")
        self._thread.start()

    def _run(self) -> None:
        try:
            self.done = run_replacement(self._scene.worker_settings, self._scene.log, grace_s=3.0)
        except BaseException as error:
            self.error = error

    def join(self) -> Replaced:
        self._thread.join()
        assert self.error is None, repr(self.error)
        assert self.done is not None
        return self.done


def test_a_rebuild_beside_workers_that_are_killed_costs_nothing(scene: Scene) -> None:
    with Load(scene) as load, Watcher(scene, load) as watcher:
        load.goes_on()
        before = scene.names
        rebuild = Rebuild(scene)
        scene.workers[-1].die_in_a_commit()
        scene.start_worker()
        until(lambda: scene.names != before, "the new namespace to be in force")
        scene.workers[-1].die_in_a_commit()
        scene.start_worker()
        watcher.goes_on()
        replaced = rebuild.join()
        load.goes_on()
        watcher.goes_on()
    assert scene.names.namespace == replaced.new
    scene.check(load, watcher)


def test_a_worker_that_slept_through_a_rebuild_wakes_up_where_it_is_in_force(scene: Scene) -> None:
    sleeper = scene.workers[0]
    with Load(scene) as load, Watcher(scene, load) as watcher:
        load.goes_on()
        sleeper.pause_in_a_commit()
        scene.start_rival()
        load.goes_on()
        Rebuild(scene).join()
        sleeper.resume()
        load.goes_on()
        scene.workers[1].stop()
        load.goes_on()
        watcher.goes_on()
    scene.check(load, watcher)
