"""The topic of changes, read by one consumer for all streams of a process, from its end on."""

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import msgspec
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from lastword_query_api.changes import Changes, ChangesUnavailable
from lastword_query_api.subscriber import Line, Told

_log = logging.getLogger(__name__)
_CHUNK = 500
_POLL_S = 0.2
_ANSWER_S = 4.0
_PROBE_EVERY_S = 2.0
_BACK_OFF_S = 1.0
_STOP_S = 6.0


class _Head(msgspec.Struct):
    """What is looked at of a change."""

    kind: str
    log_id: str
    owner: str
    scope: str
    key: str
    sequence: int
    part: int
    parts: int


class KafkaChanges:
    """`Feed` of a topic. Whatever goes wrong ends all streams, and then it begins anew at the topic's end: who comes
    back reads what was missed from the history."""

    def __init__(self, config: Mapping[str, Any], topic: str) -> None:
        """`config` is what every Kafka client begins with."""
        self._topic = topic
        self._config = {
            **config,
            "group.id": "lastword-changes",  # the client wants a name; it never joins nor commits
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            "log_level": 2,
        }
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._in_trouble = False
        self._parts: dict[str, tuple[int, dict[int, Line]]] = {}

    def start(self, changes: Changes) -> None:
        """See `Feed`."""
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, args=(changes, loop), name="changes", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """See `Feed`."""
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _STOP_S)

    def _run(self, changes: Changes, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stop.is_set():
            try:
                self._follow(changes, loop)
            except (KafkaException, ChangesUnavailable) as error:
                reason = error.args[0].str() if isinstance(error, KafkaException) else error.message
                trouble = ChangesUnavailable(f"topic {self._topic} cannot be read: {reason}")
                if not self._in_trouble:  # told once, not with each attempt
                    _log.warning("%s", trouble, extra={"code": trouble.code})
                self._in_trouble = True
                loop.call_soon_threadsafe(changes.interrupt, trouble)
                self._stop.wait(_BACK_OFF_S)

    def _follow(self, changes: Changes, loop: asyncio.AbstractEventLoop) -> None:
        """Read on and on. Raises KafkaException, ChangesUnavailable."""
        consumer = Consumer(self._config, logger=_log)
        self._parts.clear()
        try:
            consumer.assign(self._ends(consumer))
            loop.call_soon_threadsafe(changes.open)
            _log.info("following %s", self._topic)
            self._in_trouble = False
            probe_at = time.monotonic() + _PROBE_EVERY_S
            while not self._stop.is_set():
                first = consumer.poll(_POLL_S)
                if first is not None:
                    events = self._events([first, *consumer.consume(_CHUNK - 1, 0)], changes)
                    if events:
                        self._hand_over(events, changes, loop)
                elif time.monotonic() > probe_at:  # a broker that hangs says nothing either
                    consumer.get_watermark_offsets(TopicPartition(self._topic, 0), _ANSWER_S)
                    probe_at = time.monotonic() + _PROBE_EVERY_S
        finally:
            consumer.close()

    def _ends(self, consumer: Consumer) -> list[TopicPartition]:
        """Where each partition ends now: what is told from here on is heard."""
        topic = consumer.list_topics(self._topic, _ANSWER_S).topics[self._topic]
        if topic.error is not None:
            raise ChangesUnavailable(f"{topic.error}; `lastword topics create` makes what is missing")
        places = [TopicPartition(self._topic, number) for number in topic.partitions]
        return [
            TopicPartition(self._topic, place.partition, consumer.get_watermark_offsets(place, _ANSWER_S)[1])
            for place in places
        ]

    def _events(self, messages: "list[Message[bytes, bytes]]", changes: Changes) -> list[Told]:
        found = []
        for message in messages:
            if (error := message.error()) is not None:
                raise KafkaException(error)
            key, value = message.key(), message.value()
            if key is None or value is None or _owner_in(key.partition(b"/")[0]) not in changes.of_owner:
                continue
            try:
                head = _read(value)
            except msgspec.MsgspecError:
                told = {"partition": message.partition(), "offset": message.offset()}
                _log.warning("no change: partition %(partition)d offset %(offset)d", told, extra=told)
                continue
            if head.kind == "change" and (event := self._event(head, value)) is not None:
                found.append(event)
        return found

    def _event(self, head: _Head, value: bytes) -> Told | None:
        """The event, once all of its changes are there: they follow on each other."""
        line = Line(head.scope, head.key, value)
        if head.parts == 1:
            return Told(head.log_id, head.owner, head.sequence, (line,))
        sequence, lines = self._parts.get(head.owner, (-1, {}))
        if sequence != head.sequence:
            lines = {}
        lines[head.part] = line
        self._parts[head.owner] = head.sequence, lines
        if len(lines) < head.parts:
            return None
        del self._parts[head.owner]
        return Told(head.log_id, head.owner, head.sequence, [lines[part] for part in sorted(lines)])

    def _hand_over(self, events: list[Told], changes: Changes, loop: asyncio.AbstractEventLoop) -> None:
        """And wait until it is done: a loop that has much to do is not given more."""
        done = threading.Event()

        def deliver() -> None:
            changes.deliver(events)
            done.set()

        loop.call_soon_threadsafe(deliver)
        while not done.wait(_POLL_S) and not self._stop.is_set():
            pass


class NoChanges:
    """`Feed` where changes are told nowhere."""

    def start(self, changes: Changes) -> None:
        """See `Feed`: says why there is nothing to be told."""
        changes.interrupt(ChangesUnavailable("changes are told nowhere: LASTWORD_CHANGES_TOPIC is empty"))

    async def stop(self) -> None:
        """See `Feed`."""


_read = msgspec.json.Decoder(_Head).decode


@lru_cache(maxsize=10_000)
def _owner_in(quoted: bytes) -> str:
    return unquote(quoted.decode("ascii", "replace"))
