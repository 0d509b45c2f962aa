"""What a delivery report says about an event: delivered, certainly not in the log, or unknown."""

from typing import Final

from confluent_kafka import KafkaError, Message

from lastword_producers.errors import PublishFailed, UnknownOutcome
from lastword_producers.kafka_log import LogIdentity
from lastword_schemas.positions import Receipt

CERTAINLY_NOT_WRITTEN: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._QUEUE_FULL,
    }
)
"""The reports that leave no doubt. A purged queue is not among them: an event that waits for a *re*try waits there too,
and its first try may have been written."""


def receipt_of(message: Message, log: LogIdentity, event_id: str) -> Receipt | None:
    """The receipt of a delivered event; None where the broker did not tell its offset."""
    partition, offset = message.partition(), message.offset()
    if partition is None or offset is None:
        return None
    return Receipt(log.log_id, log.generation, partition, offset, event_id)


def delivery_error(error: KafkaError, event_id: str) -> PublishFailed | UnknownOutcome:
    """The error of an event that was not reported as delivered."""
    reason = f"{error.str()}, {error.name()}"
    if error.code() in CERTAINLY_NOT_WRITTEN:
        return PublishFailed(
            f"event {event_id} is not in the log: Kafka refused it ({reason}). Mend that, then publish it again",
            event_id=event_id,
        )
    return UnknownOutcome(event_id, reason)
