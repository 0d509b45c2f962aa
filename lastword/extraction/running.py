"""Run an extractor in the background until it is told to stop."""

import asyncio
import contextlib
import logging
import os
import signal
import threading
from importlib.util import find_spec
from typing import Final, NoReturn

from lastword.extraction.background import Background, MakeExtractor
from lastword.extraction.checkpoints import Checkpoints
from lastword.extraction.endpoint import Endpoint, EndpointExtractor
from lastword.extraction.rules.extractor import RuleExtractor
from lastword.extraction.status import ExtractorStatus
from lastword.settings import ExtractorSettings
from lastword_producers.kafka_log import LogIdentity, wait_for_log
from lastword_producers.publisher import AsyncCandidateClient
from lastword_projector.worker.health import HealthServer
from lastword_schemas.errors import InvalidInput, LastwordError
from lastword_schemas.registry import Registry

_BACK_OFF_S: Final = 5.0
_THEIR_LOGGERS: Final = ("faust", "mode", "aiokafka")

_log = logging.getLogger(__name__)


def run_extractor(settings: ExtractorSettings, make: MakeExtractor | None = None) -> NoReturn:
    """Extract until SIGTERM or Ctrl-C, then end the process. `/healthz` answers from the beginning.

    `make` makes another extractor than the settings name, for a registry. Raises InvalidInput where settings or
    packages are missing.
    """
    if find_spec("faust") is None:
        raise InvalidInput("faust is not installed: pip install 'lastword[extractor]'")
    for name in _THEIR_LOGGERS:  # what they say below that is their own affair, and may hold records
        logging.getLogger(name).setLevel(logging.WARNING)
    status = ExtractorStatus()
    with HealthServer(status, settings.extractor_host, settings.extractor_port) as health:
        _log.info("/healthz on port %d", health.port)
        asyncio.run(_run_and_exit(settings, make or made_as(settings), status))
    raise AssertionError


def made_as(settings: ExtractorSettings) -> MakeExtractor:
    """What makes the extractor that the settings name, for a registry."""
    namespaces = _names(settings.extractor_namespaces)
    if settings.extractor == "rules":
        return RuleExtractor
    endpoint = Endpoint(
        settings.extractor_url,
        settings.extractor_model,
        settings.extractor_api_key.get_secret_value(),
        timeout_s=settings.extractor_timeout_s,
        retries=settings.extractor_retries,
        hourly_tokens=settings.extractor_hourly_tokens,
    )

    def make(registry: Registry) -> EndpointExtractor:
        return EndpointExtractor(registry, endpoint, namespaces=namespaces)

    return make


async def extract(
    settings: ExtractorSettings, log: LogIdentity, make: MakeExtractor, status: ExtractorStatus, stop: asyncio.Event
) -> None:
    """Read the turns of a log until `stop` is set. Raises what `follow` raises."""
    from lastword.extraction.agent import follow  # here, because only this needs faust

    kafka, name = settings.kafka_settings, make(Registry()).name
    async with AsyncCandidateClient(kafka, log, service=name) as publisher:
        background = Background(
            make,
            publisher,
            Checkpoints(settings.redis.get_secret_value(), log.log_id, name),
            status,
            concurrency=settings.extractor_concurrency,
            services=frozenset(_names(settings.extractor_services)),
        )
        status.extractor, status.problem = name, None
        try:
            await follow(kafka, settings.extractor_group, settings.extractor_session_s, background, stop)
        finally:
            await background.close()


async def _run_and_exit(settings: ExtractorSettings, make: MakeExtractor, status: ExtractorStatus) -> NoReturn:
    """Run, and leave faust behind: its tasks and its thread would wait for a broker that is away, for ever."""
    code = 0
    try:
        await _run(settings, make, status)
        _log.info("stopped")
    except LastwordError as refusal:
        _log.error("ended: %s", refusal, extra={"code": refusal.code})
        code = 1
    logging.shutdown()
    os._exit(code)


async def _run(settings: ExtractorSettings, make: MakeExtractor, status: ExtractorStatus) -> None:
    stop, stopped = asyncio.Event(), threading.Event()

    def end() -> None:
        stop.set()
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)

    def wait(message: str) -> None:
        status.problem = message
        _log.warning("%s", message)

    log = await asyncio.to_thread(wait_for_log, settings.kafka_settings, wait, stopped)
    while log is not None and not stop.is_set():
        _log.info("extractor of log %s", log.log_id)
        try:
            await extract(settings, log, make, status, stop)
        except LastwordError:
            raise
        except Exception as error:  # faust's: it ends where a plain consumer would wait for Kafka
            wait(f"waiting: faust ended with {type(error).__name__}, and begins again")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _BACK_OFF_S)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
