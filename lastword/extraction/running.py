"""Run an extractor in the background until it is told to stop."""

import asyncio
import logging
from typing import NoReturn

from lastword.extraction.background import Background, MakeExtractor
from lastword.extraction.endpoint import Endpoint, EndpointExtractor
from lastword.extraction.rules.extractor import RuleExtractor
from lastword.extraction.status import ExtractorStatus
from lastword.following.checkpoints import Checkpoints
from lastword.following.running import run_following
from lastword.settings import ExtractorSettings
from lastword_producers.kafka_log import LogIdentity
from lastword_producers.publisher import AsyncCandidateClient
from lastword_projector.worker.health import HealthServer
from lastword_schemas.registry import Registry

_log = logging.getLogger(__name__)


def run_extractor(settings: ExtractorSettings, make: MakeExtractor | None = None) -> NoReturn:
    """Extract until SIGTERM or Ctrl-C, then end the process. `/healthz` answers from the beginning.

    `make` makes another extractor than the settings name, for a registry. Raises InvalidInput where settings or
    packages are missing.
    """
    status, made = ExtractorStatus(), make or made_as(settings)
    with HealthServer(status, settings.extractor_host, settings.extractor_port) as health:
        _log.info("/healthz on port %d", health.port)
        run_following(settings, status, lambda log, stop: extract(settings, log, made, status, stop))


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
    from lastword.following.agent import follow  # here, because only this needs faust

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
            group, session_s = settings.extractor_group, settings.extractor_session_s
            await follow(kafka, kafka.topic, group, session_s, background, stop)
        finally:
            await background.close()


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
