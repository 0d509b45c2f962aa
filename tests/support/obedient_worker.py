"""A projector worker that dies or stands still in the middle of a commit, when it is told to.

It is told by a file, whose path is in `LASTWORD_TEST_ORDER`: `stop 1` before the next commit is sent (what became of
it, once the worker was woken, is logged), `die 3` after the third one was sent and before anybody heard of its outcome.
The file is removed when the order is obeyed. `LASTWORD_TEST_REJOIN_S`: how long it waits for its group to give it
partitions when that has taken it for dead. Other settings: `LASTWORD_`...
"""

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from lastword import running
from lastword.logs import set_up_logging
from lastword.settings import ConnectionSettings, WorkerSettings
from lastword_projector.store.pointer import Pointer
from lastword_projector.store.ports import CommitRefused, Pending
from lastword_projector.store.redis import RedisStore
from lastword_projector.worker import worker

ORDER_VARIABLE = "LASTWORD_TEST_ORDER"
REJOIN_VARIABLE = "LASTWORD_TEST_REJOIN_S"
STOP, DIE = "stop", "die"
_log = logging.getLogger(__name__)


class Outcome:
    """What became of a commit."""

    def __init__(self, pending: Pending[None]) -> None:
        self._error: CommitRefused | None = None
        try:
            pending.result()
        except CommitRefused as error:
            self._error = error
        _log.warning("woken, the commit was %s", "refused" if self._error else "accepted")

    def result(self) -> None:
        """See `Pending`."""
        if self._error is not None:
            raise self._error


class ObedientStore(RedisStore):
    """The store of the product, with that."""

    def commit(self, *arguments: Any, **named: Any) -> Pending[None]:
        """See `Store`."""
        order = self._take_order()
        if order == STOP:
            os.kill(os.getpid(), signal.SIGSTOP)
        pending = super().commit(*arguments, **named)
        if order == DIE:
            os.kill(os.getpid(), signal.SIGKILL)
        return Outcome(pending) if order == STOP else pending

    @staticmethod
    def _take_order() -> str | None:
        path = Path(os.environ[ORDER_VARIABLE])
        try:
            order, commits = path.read_text().split()
        except FileNotFoundError:
            return None
        if int(commits) > 1:
            path.write_text(f"{order} {int(commits) - 1}")
            return None
        path.unlink()
        return order


def _open_store(
    settings: ConnectionSettings, pointer: Pointer, *, on_outbox: Callable[[int], object] | None = None
) -> RedisStore:
    return ObedientStore(settings.redis.get_secret_value(), pointer, on_outbox=on_outbox)


if __name__ == "__main__":
    settings = WorkerSettings()
    set_up_logging(settings.log_level)
    rejoin_s = float(os.environ.get(REJOIN_VARIABLE, worker._REJOIN_S))
    with mock.patch.object(running, "open_store", _open_store), mock.patch.object(worker, "_REJOIN_S", rejoin_s):
        running.run_worker(settings)
