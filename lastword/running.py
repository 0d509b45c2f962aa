"""Run one part of lastword until it is told to stop: the worker, the auditor, the API."""

import asyncio
import contextlib
import gc
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from lastword.auditing import AuditorStatus, audit_for_ever
from lastword.settings import ApiSettings, AuditorSettings, ConnectionSettings, WorkerSettings
from lastword_producers.kafka_log import LogIdentity, wait_for_log
from lastword_projector.audit.auditor import Auditor
from lastword_projector.audit.pace import Pace
from lastword_projector.audit.passing import OnEntry
from lastword_projector.audit.recompute import MOST_RECORDS
from lastword_projector.audit.report import Report
from lastword_projector.engine.upcasting import AS_WRITTEN, Upcasters
from lastword_projector.migration import Check
from lastword_projector.projector import DeadLetters
from lastword_projector.rebuild import OnProgress, rebuild
from lastword_projector.replacement import GRACE_S, Replaced, Replacement
from lastword_projector.store.pointer import Pointer
from lastword_projector.store.redis import RedisStore
from lastword_projector.worker.dead_letters import KafkaDeadLetters
from lastword_projector.worker.group_protocol import probe
from lastword_projector.worker.health import HealthServer
from lastword_projector.worker.relay import Relay
from lastword_projector.worker.status import WorkerStatus
from lastword_projector.worker.worker import Worker

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_REQUESTS_END_S = 4
"""Seconds for requests under way when the API is stopped; with what its parts then take, the end comes within ten."""

COLLECT_AFTER = 50_000
"""Objects that a worker makes between two looks for garbage in cycles. It makes hundreds of thousands a second that go
by themselves, and keeps many in its caches, which Python would look through again and again."""

_log = logging.getLogger(__name__)


def run_api(settings: ApiSettings) -> None:
    """Serve the API until SIGTERM or Ctrl-C."""
    import uvicorn  # here, because the workers and most commands need none of these

    from lastword.app import create_app
    from lastword.parts import LiveParts
    from lastword.server import ApiServer

    parts = LiveParts(settings)
    config = uvicorn.Config(
        _ended_quietly(create_app(parts)),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_REQUESTS_END_S,
    )
    server = ApiServer(config, parts)

    def stop() -> None:
        server.should_exit = True

    with _told_by_signals(stop):  # uvicorn hands on the signal that ended it, which else would kill this process
        server.run()


def _ended_quietly(app: "ASGIApp") -> "ASGIApp":
    """The application, whose requests have answered when they are cancelled.

    uvicorn cancels what is still under way when its time is up, and would call that an error of the application.
    """

    async def quiet(scope: "Scope", receive: "Receive", send: "Send") -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await app(scope, receive, send)

    return quiet


def run_worker(settings: WorkerSettings) -> None:
    """Project until SIGTERM or Ctrl-C. Raises LastwordError where log and checkpoint disagree.

    `/healthz` answers from the beginning, so that it can say what the worker waits for.
    """
    status = WorkerStatus(problem="the log has not been asked for yet")

    def wait(message: str) -> None:
        status.problem = message
        _log.warning("%s", message)

    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    stop = threading.Event()
    with _told_by_signals(stop.set), HealthServer(status, settings.worker_host, settings.worker_port) as health:
        _log.info("/healthz on port %d", health.port)
        log = wait_for_log(settings.kafka_settings, wait, stop)
        if log is not None:
            status.problem = None
            _log.info("worker of log %s", log.log_id)
            make_worker(settings, log, status=status).run(stop)
        _log.info("stopped")


def run_auditor(settings: AuditorSettings) -> None:
    """Audit, round after round, until SIGTERM or Ctrl-C. `/healthz` and `/metrics` answer from the beginning."""
    status, stop = AuditorStatus(), threading.Event()
    host, port = settings.auditor_host, settings.auditor_port

    def wait(message: str) -> None:
        status.problem = message
        _log.warning("%s", message)

    with _told_by_signals(stop.set), HealthServer(status, host, port, metrics=status.metrics) as health:
        _log.info("/healthz and /metrics on port %d", health.port)
        log = wait_for_log(settings.kafka_settings, wait, stop)
        if log is not None:
            _log.info("auditor of log %s", log.log_id)
            audit_for_ever(settings, log, status, stop)
        _log.info("stopped")


def make_worker(
    settings: WorkerSettings,
    log: LogIdentity,
    *,
    dead_letters: DeadLetters | None = None,
    status: WorkerStatus | None = None,
) -> Worker:
    """A worker with its stores; it keeps `status` up to date."""
    config, status = settings.kafka_settings.client_config(), status or WorkerStatus()
    protocol = probe(settings.kafka) if settings.group_protocol == "auto" else settings.group_protocol
    relay: Relay | None = None
    pointer = Pointer(settings.namespace)
    if topic := settings.changes_topic:
        relay = Relay(config, topic, log.log_id, settings.redis.get_secret_value(), pointer, status)
    return Worker(
        config,
        settings.topic,
        settings.group,
        log.genesis,
        open_store(settings, pointer, on_outbox=relay.wake if relay else None),
        dead_letters or KafkaDeadLetters(config, settings.dead_letter_topic),
        protocol=protocol,
        status=status,
        relay=relay,
    )


def run_rebuild(settings: ConnectionSettings, log: LogIdentity, on_progress: Callable[[int, int], None]) -> int:
    """Empty the namespace and project the whole log again; how many records were folded."""
    config = settings.kafka_settings.client_config()
    store = open_store(settings, on_outbox=_left_to_the_workers if settings.changes_topic else None)
    return rebuild(config, settings.topic, log.genesis, store, on_progress=on_progress)


def run_replacement(
    settings: ConnectionSettings,
    log: LogIdentity,
    more: Upcasters | None = None,
    *,
    on_progress: OnProgress = lambda partition, next_offset: None,
    on_audit: Callable[[Report], object] = lambda report: None,
    grace_s: float = GRACE_S,
) -> Replaced:
    """Rebuild beside the projection in force, under `more` upcasters than that; audit it and put it in force."""
    replacement = Replacement(
        settings.kafka_settings.client_config(),
        settings.topic,
        log.genesis,
        settings.redis.get_secret_value(),
        settings.namespace,
        on_progress=on_progress,
        on_audit=on_audit,
        grace_s=grace_s,
    )
    return replacement.run(more or AS_WRITTEN)


def check_migration(
    settings: ConnectionSettings,
    log: LogIdentity,
    upcasters: Upcasters,
    *,
    on_progress: Callable[[Report], object] = lambda report: None,
) -> None:
    """Raise MigrationHalted where something that a migration would touch is not settled, or anything not grounded."""
    check = Check(upcasters)
    auditor = make_auditor(settings, log, on_progress=on_progress, on_entry=check.note)
    check.end(auditor.audit())


def make_auditor(
    settings: ConnectionSettings,
    log: LogIdentity,
    *,
    rate: float | None = None,
    seed: int | None = None,
    most_records: int = MOST_RECORDS,
    on_progress: Callable[[Report], object] = lambda report: None,
    on_entry: OnEntry | None = None,
) -> Auditor:
    """An auditor of the settings' namespace; `rate` is in records, entries and events a second."""
    return Auditor(
        settings.kafka_settings.client_config(),
        settings.topic,
        log.genesis,
        settings.redis.get_secret_value(),
        Pointer(settings.namespace),
        pace=Pace(rate),
        seed=seed,
        most_records=most_records,
        on_progress=on_progress,
        on_entry=on_entry,
    )


def open_store(
    settings: ConnectionSettings, pointer: Pointer | None = None, *, on_outbox: Callable[[int], object] | None = None
) -> RedisStore:
    """The projector's store on Redis, in the namespace that is in force."""
    pointer = pointer or Pointer(settings.namespace)
    return RedisStore(settings.redis.get_secret_value(), pointer, on_outbox=on_outbox)


def _left_to_the_workers(partition: int) -> None:
    """Their relays look into the outboxes by themselves."""


@contextlib.contextmanager
def _told_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """In the block, SIGTERM and SIGINT call `stop`."""
    before = {number: signal.signal(number, lambda *_: stop()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
