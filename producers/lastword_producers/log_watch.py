"""Whether the topic that is written to still is the log that was opened."""

import time
from typing import Final

from lastword_producers.broker import Broker, KafkaSettings
from lastword_producers.errors import BrokerUnavailable, LogMismatch, LogNotReady
from lastword_producers.kafka_log import LogIdentity

FRESH_S: Final = 0.25
"""Seconds that an answer holds. To delete a topic, to make it anew with a genesis record in every partition and to
write more events to it than it had takes longer."""


class LogWatch:
    """Asks Kafka for the topic's id. Kafka takes events by the topic's name, whatever has become of the topic."""

    def __init__(self, settings: KafkaSettings, log: LogIdentity) -> None:
        self._settings, self._log = settings, log
        self._broker = Broker(settings, 0)
        self._fresh_until = 0.0

    def doubt(self) -> None:
        """Let no earlier answer hold."""
        self._fresh_until = 0.0

    def confirm(self, timeout_s: float) -> None:
        """Return if it is the same log, by an answer that is not older than `FRESH_S` seconds.

        Raises LogMismatch where it is another one, LogNotReady where the topic is missing, and BrokerUnavailable where
        Kafka does not answer within `timeout_s` seconds: neither says that it is another log.
        """
        asked_at = time.monotonic()
        if asked_at < self._fresh_until:
            return
        self._broker.begin_again(timeout_s)
        try:
            topic = self._broker.topic(self._log.topic)
        except BrokerUnavailable:
            # The client may have been told by a broker that came back that there is none, and not ask again by itself.
            self._broker = Broker(self._settings, 0)
            raise
        if topic is None:
            raise LogNotReady(f"topic '{self._log.topic}' does not exist: was it deleted?")
        if topic.topic_id != self._log.topic_id:
            raise replaced(self._log)
        self._fresh_until = asked_at + FRESH_S


def replaced(log: LogIdentity) -> LogMismatch:
    """The error of a topic that no longer is the log that was opened."""
    return LogMismatch(
        f"topic '{log.topic}' is no longer the log {log.log_id} that this publisher opened: it was deleted and made "
        "anew. Restart this service, so that it opens the new log, and publish the event again"
    )
