"""A service that writes to Kafka itself: no client of lastword, only what docs/topics.md says.

    python examples/kafka_direct.py

LASTWORD_KAFKA, LASTWORD_TOPIC and LASTWORD_URL say where lastword is; without them it is where `make demo` puts it.
"""

import hashlib
import json
import os
import secrets
import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import httpx
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

KAFKA = os.environ.get("LASTWORD_KAFKA", "127.0.0.1:7412")
TOPIC = os.environ.get("LASTWORD_TOPIC", "lastword.events")
URL = os.environ.get("LASTWORD_URL", "http://127.0.0.1:7411")
SERVICE = "kafka-direct"


def murmur2(data: bytes) -> int:
    """Kafka's murmur2, unsigned."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    hashed = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        hashed = (hashed * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if whole < len(data):
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * m & mask
    hashed = (hashed ^ hashed >> 13) * m & mask
    return hashed ^ hashed >> 15


def partition_of(owner: str, partitions: int) -> int:
    """The owner's partition; its canonical text is `<tenant>/<kind>:<id>`."""
    return (murmur2(owner.encode()) & 0x7FFFFFFF) % partitions


def record_key(owner: str, scope: str, key: str | None = None) -> str:
    """The record key: owner, scope and key, each percent-encoded; nothing follows the last "/" of a turn's."""
    return "/".join(quote(part, safe="") for part in (owner, scope, key or ""))


def uuid7() -> str:
    """A UUID of version 7: what rises with time takes less room in lastword."""
    number = time.time_ns() // 1_000_000 << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
    return str(uuid.UUID(int=number))


def envelope(owner: str, operation: str, **members: Any) -> dict[str, Any]:
    """An event of this service. A retry is the same envelope, with the same id."""
    return {
        "v": 1,
        "event_id": uuid7(),
        "owner": owner,
        "scope": "global",
        "operation": operation,
        "actor": {"service": SERVICE, "role": "service"},
        "published_at": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
    } | members


def read_genesis() -> dict[str, Any]:
    """The first record of partition 0: how many partitions the log has, and which log it is."""
    consumer = Consumer({"bootstrap.servers": KAFKA, "group.id": SERVICE, "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    message = consumer.poll(10)
    consumer.close()
    if message is None or message.error() is not None or message.key() != b"lastword/genesis":
        raise SystemExit(f"{TOPIC} at {KAFKA} is no log of lastword, or does not answer")
    genesis: dict[str, Any] = json.loads(message.value() or b"")
    return genesis


class Events:
    """Writes events, and gives the receipt of each."""

    def __init__(self) -> None:
        self._genesis = read_genesis()
        self._producer = Producer(
            {
                "bootstrap.servers": KAFKA,
                "acks": "all",
                "enable.idempotence": True,  # a retry inside the client neither doubles nor overtakes
                "linger.ms": 5,
            }
        )

    def write(self, event: dict[str, Any]) -> str:
        """Wait until the log has the event; its receipt."""
        owner, key = event["owner"], record_key(event["owner"], event["scope"], event.get("key"))
        reports: list[tuple[KafkaError | None, Message]] = []
        self._producer.produce(
            TOPIC,
            json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode(),
            key.encode(),
            partition_of(owner, self._genesis["partitions"]),  # of the owner alone: no partitioner does this
            on_delivery=lambda error, message: reports.append((error, message)),
        )
        self._producer.flush(30)
        if not reports or reports[0][0] is not None:  # write the same envelope again before the owner's next one
            raise SystemExit(f"unknown whether the log has {event['event_id']}: {reports and reports[0][0]}")
        message = reports[0][1]
        log = hashlib.sha256(f"{self._genesis['cluster_id']}\n{self._genesis['topic_id']}".encode()).hexdigest()[:16]
        place = f"{self._genesis['generation']}.{message.partition()}.{message.offset()}"
        return f"r1.{log}.{place}.{event['event_id']}"


def ask(path: str, **parameters: str) -> Any:
    """What lastword answers, once it is as far as is demanded."""
    answer = httpx.get(f"{URL}{path}", params=parameters | {"wait_ms": "20000"}, timeout=30)
    answer.raise_for_status()
    return answer.json()


def main() -> None:
    """Ada says something and sets her tone; what lastword made of it; whether it was written right."""
    ada = f"main/user:ada-{uuid.uuid4().hex[:8]}"
    events = Events()
    events.write(envelope(ada, "say", thread="t1", body={"text": "Keep my mails brief, please."}))
    tone = envelope(ada, "set", key="mail.tone", body={"value": "brief"})
    receipt = events.write(tone)

    verdict = ask("/v1/outcomes", owner=ada, id=tone["event_id"], at_least=receipt)
    print("verdict:", verdict["outcome"], verdict["effect"] or verdict["reason"])
    answer = ask("/v1/value", owner=ada, key="mail.tone", at_least=receipt)
    print("value:", answer["state"]["value"], "said by", answer["source"]["actor"]["service"])

    check = ["-m", "lastword.cli", "topics", "check-producer", "--service", SERVICE]
    subprocess.run([sys.executable, *check], check=True)


if __name__ == "__main__":
    main()
