"""The parts of the API on Kafka and Redis: the reader, and the door as soon as the log is there."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lastword.settings import ApiSettings
from lastword_producers.desk import Desk
from lastword_producers.errors import LogNotReady
from lastword_producers.kafka_log import wait_for_log
from lastword_producers.log_writer import LogWriter
from lastword_projector.store.pointer import Pointer
from lastword_projector.store.reader import Reader
from lastword_projector.store.runners import AwaitingRunner
from lastword_query_api.changes import Changes
from lastword_query_api.context.contexts import Contexts
from lastword_query_api.context.kafka_log import KafkaContextLog
from lastword_query_api.kafka_changes import KafkaChanges, NoChanges
from lastword_query_api.readings import Readings
from lastword_query_api.search.searches import Searches
from lastword_schemas.errors import LastwordError

_FOLLOW_S = 0.5
_SETTLE_S = 3.0
"""Seconds for Kafka's answers to what is in flight when the API is stopped."""

_log = logging.getLogger(__name__)


class LiveParts:
    """`Parts` on the services that the settings name. They need not be there yet: it says what it waits for."""

    def __init__(self, settings: ApiSettings) -> None:
        self.settings = settings
        runner = AwaitingRunner(settings.redis.get_secret_value())
        self.reader = Reader(runner, Pointer(settings.namespace))
        self.readings = Readings(self.reader)
        self.searches = Searches(self.readings)
        kafka, topic = settings.kafka_settings, settings.changes_topic
        self._context_log = KafkaContextLog(kafka.producer_config(), settings.contexts_topic)
        self.contexts = Contexts(self.readings, self.searches, self._context_log)
        feed = KafkaChanges(kafka.client_config(), topic) if topic else NoChanges()
        self.changes = Changes(self.reader, self.readings.partition_of, feed, most=settings.max_streams)
        self._desk: Desk | None = None
        self._waiting_for = "Kafka has not been asked yet"
        self._refusal: LastwordError | None = None
        self._writer: LogWriter | None = None
        self._stop = threading.Event()

    def get_desk(self) -> Desk:
        """The door. Raises LogNotReady while it is closed, or why it stays so."""
        if self._refusal is not None:
            raise self._refusal
        if self._desk is None:
            raise LogNotReady(f"writes wait for the log: {self._waiting_for}")
        return self._desk

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Wait for the log beside what is done in the block; then flush what is in flight and close the connections."""
        self._context_log.start()
        opening, following = asyncio.create_task(self._open_log()), asyncio.create_task(self._follow())
        try:
            yield
        finally:
            self._stop.set()
            following.cancel()
            await self.changes.stop()
            await self._context_log.stop()
            await opening
            if self._writer is not None:
                await asyncio.to_thread(self._writer.close, _SETTLE_S)
            await self.reader.close()

    async def _follow(self) -> None:
        """Notice that a rebuilt namespace is in force."""
        while True:
            try:
                await self.reader.follow()
            except LastwordError as error:  # reads say it themselves
                _log.debug("%s", error)
            await asyncio.sleep(_FOLLOW_S)

    async def _open_log(self) -> None:
        try:
            log = await asyncio.to_thread(wait_for_log, self.settings.kafka_settings, self._note, self._stop)
        except LastwordError as refusal:
            self._refusal = refusal
            _log.error("writes are refused: %s", refusal, extra={"code": refusal.code})
            return
        if log is None:
            return
        self._writer = LogWriter(
            self.settings.kafka_settings,
            log,
            max_in_flight=self.settings.max_in_flight,
            max_bytes_in_flight=self.settings.max_bytes_in_flight,
            delivery_timeout_s=10,
        )
        self._desk = Desk(self._writer, self.reader)
        _log.info("the door is open: log %s, %d partitions", log.log_id, log.partitions)

    def _note(self, message: str) -> None:
        self._waiting_for = message
        _log.warning("waiting: %s", message)
