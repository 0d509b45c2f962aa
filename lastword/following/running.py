"""Run a service that follows a topic until it is told to stop."""

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Final, NoReturn, Protocol

from lastword.settings import ConnectionSettings
from lastword_producers.kafka_log import LogIdentity, wait_for_log
from lastword_schemas.errors import InvalidInput, LastwordError

_BACK_OFF_S: Final = 5.0
_THEIR_LOGGERS: Final = ("faust", "mode", "aiokafka")

_log = logging.getLogger(__name__)

Following = Callable[[LogIdentity, asyncio.Event], Awaitable[None]]
"""Follows a log until the event is set."""


class Waiting(Protocol):
    """Who is told what the service waits for."""

    def waits_for(self, problem: str | None) -> None:
        """What keeps it from going on; None: nothing any more."""
        ...


def run_following(settings: ConnectionSettings, status: Waiting, follow: Following) -> NoReturn:
    """Follow until SIGTERM or Ctrl-C, then end the process. Raises InvalidInput where faust is missing."""
    if find_spec("faust") is None:
        raise InvalidInput("faust is not installed: pip install 'lastword[extractor]'")
    for name in _THEIR_LOGGERS:  # what they say below that is their own affair, and may hold records
        logging.getLogger(name).setLevel(logging.WARNING)
    asyncio.run(_run_and_exit(settings, status, follow))
    raise AssertionError


async def _run_and_exit(settings: ConnectionSettings, status: Waiting, follow: Following) -> NoReturn:
    """Run, and leave faust behind: its tasks and its thread would wait for a broker that is away, for ever."""
    code = 0
    try:
        await _run(settings, status, follow)
        _log.info("stopped")
    except LastwordError as refusal:
        _log.error("ended: %s", refusal, extra={"code": refusal.code})
        code = 1
    logging.shutdown()
    os._exit(code)


async def _run(settings: ConnectionSettings, status: Waiting, follow: Following) -> None:
    stop, stopped = asyncio.Event(), threading.Event()

    def end() -> None:
        stop.set()
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)

    def wait(message: str) -> None:
        status.waits_for(message)
        _log.warning("%s", message)

    log = await asyncio.to_thread(wait_for_log, settings.kafka_settings, wait, stopped)
    while log is not None and not stop.is_set():
        _log.info("following log %s", log.log_id)
        try:
            await follow(log, stop)
        except LastwordError:
            raise
        except Exception as error:  # faust's: it ends where a plain consumer would wait for Kafka
            wait(f"waiting: faust ended with {type(error).__name__}, and begins again")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _BACK_OFF_S)
