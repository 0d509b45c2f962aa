"""The agent of faust that hands a topic's records to a follower. What faust acknowledges and commits is never read.

faust 0.15.3 acknowledges an event when an exception leaves its agent, and with a concurrency above 1 it commits past
events in flight. So there is one agent without concurrency of its own, which begins records in order and raises
nothing; and where faust would seek to committed offsets, it seeks to our checkpoints.
"""

import asyncio
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the libraries that it imports
    import faust
    from faust.transport.drivers import aiokafka as driver

from lastword_producers.kafka_log import KafkaSettings
from lastword_projector.engine.decode import LogRecord
from lastword_schemas.errors import NotYet

_APPEND_TIME: Final = 1
_STOP_S: Final = 3.0


class Follower(Protocol):
    """What is done with the records."""

    async def starts(self, partitions: set[int]) -> dict[int, int]:
        """The *next* offset to be handed in of partitions that are assigned."""
        ...

    async def take(self, partition: int, record: LogRecord) -> None:
        """Begin with a record. Raises nothing but CancelledError."""
        ...

    async def keep_checkpoints(self) -> None:
        """Store how far it is, now and then, until cancelled. Raises what ends the following."""
        ...


class _Consumer(driver.Consumer):
    """Begins where the follower says."""

    async def seek_to_committed(self) -> Mapping[Any, int]:
        assigned = {place.partition: place for place in self.assignment()}
        follower: Follower = self.transport.follower  # type: ignore[attr-defined]
        starts = await follower.starts(set(assigned))
        places = {assigned[partition]: offset for partition, offset in starts.items()}
        await self.seek_wait(places)
        return places


class _Transport(driver.Transport):
    Consumer: ClassVar[Any] = _Consumer
    follower: Follower


async def follow(
    kafka: KafkaSettings, topic: str, group: str, session_s: float, follower: Follower, stop: asyncio.Event
) -> None:
    """Hand on the records of the partitions of a topic that the group gives this process, until `stop` is set.

    Raises NotYet where Kafka is to be reached with settings that faust's client does not know; what the follower
    ends with; and what faust crashes with.
    """
    with tempfile.TemporaryDirectory(prefix="lastword-following-") as folder:
        app = _app(kafka, topic, group, session_s, follower, Path(folder))
        keeping = asyncio.create_task(follower.keep_checkpoints())
        stopping = asyncio.create_task(stop.wait())
        crashed = asyncio.create_task(app._crashed.wait())
        try:
            await app.start()
            await asyncio.wait({keeping, stopping, crashed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (stopping, crashed):
                task.cancel()
            keeping.cancel()
            await asyncio.wait({asyncio.create_task(app.stop())}, timeout=_STOP_S)  # it waits for a broker that is away
        if app.crash_reason is not None:
            raise app.crash_reason
        if keeping.done() and not keeping.cancelled():
            keeping.result()


def _app(kafka: KafkaSettings, topic: str, group: str, session_s: float, follower: Follower, folder: Path) -> faust.App:
    if kafka.extra:
        raise NotYet("what follows a topic with faust does not take LASTWORD_KAFKA_EXTRA yet", field="kafka_extra")
    app = faust.App(
        group,
        broker=[f"kafka://{server}" for server in kafka.bootstrap_servers.split(",")],
        store="memory://",
        key_serializer="raw",
        value_serializer="raw",
        consumer_auto_offset_reset="earliest",
        topic_disable_leader=True,
        topic_allow_declare=False,
        web_enabled=False,
        broker_session_timeout=session_s,
        broker_rebalance_timeout=session_s,
        broker_heartbeat_interval=session_s / 4,
        datadir=folder,
    )
    transport = _Transport(app.conf.broker_consumer, app)
    transport.follower = follower
    app.transport = transport

    async def hand_on(stream: faust.StreamT[bytes]) -> None:
        async for event in stream.events():
            message = event.message
            record = LogRecord(
                message.offset,
                int(message.timestamp * 1_000),
                message.key,
                message.value,
                stamped=message.timestamp_type == _APPEND_TIME,
            )
            await follower.take(message.partition, record)

    app.agent(app.topic(topic), name="lastword.following")(hand_on)
    return app
