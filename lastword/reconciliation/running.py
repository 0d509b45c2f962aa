"""Run a reconciler until it is told to stop."""

import asyncio
import contextlib
import logging
from typing import Final, NoReturn

from lastword.following.checkpoints import Checkpoints
from lastword.following.running import run_following
from lastword.reconciliation.contradiction import Checker
from lastword.reconciliation.decisions import SERVICE
from lastword.reconciliation.reconciler import Reconciler
from lastword.reconciliation.status import ReconcilerStatus
from lastword.settings import ReconcilerSettings
from lastword_producers.kafka_log import LogIdentity
from lastword_producers.publisher import AsyncPublisher
from lastword_projector.store.pointer import Pointer
from lastword_projector.store.ports import StoreUnavailable
from lastword_projector.store.reader import Reader
from lastword_projector.store.runners import AwaitingRunner
from lastword_projector.worker.health import HealthServer
from lastword_query_api.readings import Readings

_POINTER_S: Final = 1.0
_log = logging.getLogger(__name__)


def run_reconciler(settings: ReconcilerSettings, checker: Checker | None = None) -> NoReturn:
    """Reconcile until SIGTERM or Ctrl-C, then end the process. `/healthz` answers from the beginning.

    `checker` takes the place of that of `contradiction_pass`. Raises InvalidInput where packages are missing.
    """
    status = ReconcilerStatus()
    with HealthServer(status, settings.reconciler_host, settings.reconciler_port) as health:
        _log.info("/healthz on port %d", health.port)
        run_following(settings, status, lambda log, stop: reconcile(settings, log, status, stop, checker))


async def reconcile(
    settings: ReconcilerSettings,
    log: LogIdentity,
    status: ReconcilerStatus,
    stop: asyncio.Event,
    checker: Checker | None = None,
) -> None:
    """Answer the conflicts of a log until `stop` is set. Raises what `follow` raises."""
    from lastword.following.agent import follow  # here, because only this needs faust

    kafka = settings.kafka_settings
    reader = Reader(AwaitingRunner(settings.redis.get_secret_value()), Pointer(settings.namespace))
    async with AsyncPublisher(kafka, log, service=SERVICE) as publisher:
        checkpoints = Checkpoints(settings.redis.get_secret_value(), log.log_id, SERVICE)
        reconciler = Reconciler(Readings(reader), publisher, checkpoints, status, checker=checker)
        pointing = asyncio.create_task(_stay_at(reader))
        status.waits_for(None)
        group, session_s = settings.reconciler_group, settings.reconciler_session_s
        try:
            await follow(kafka, settings.changes_topic, group, session_s, reconciler, stop)
        finally:
            pointing.cancel()
            with contextlib.suppress(StoreUnavailable):
                await reconciler.close()
            await reader.close()


async def _stay_at(reader: Reader) -> None:
    """Read in the projection that is in force."""
    while True:
        with contextlib.suppress(StoreUnavailable):
            await reader.follow()
        await asyncio.sleep(_POINTER_S)
