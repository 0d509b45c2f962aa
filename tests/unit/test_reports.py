"""What a delivery report that is no success means."""

import pytest
from confluent_kafka import KafkaError, Message

from lastword_producers.errors import PublishFailed, UnknownOutcome
from lastword_producers.kafka_log import LogIdentity
from lastword_producers.reports import delivery_error, receipt_of
from lastword_schemas.positions import Receipt

LOG = LogIdentity("cluster", "topic-id", "topic", 24, 2, ())


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._QUEUE_FULL,
    ],
)
def test_a_definite_refusal_is_a_failure(code: int) -> None:
    error = delivery_error(KafkaError(code), "e1")

    assert isinstance(error, PublishFailed)
    assert error.event_id == "e1"
    assert KafkaError(code).name() in error.message


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._PURGE_INFLIGHT,
        KafkaError._PURGE_QUEUE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.PRODUCER_FENCED,
        KafkaError._FATAL,
        KafkaError.UNKNOWN,
    ],
)
def test_everything_else_is_unknown_and_says_to_publish_the_same_event_again(code: int) -> None:
    error = delivery_error(KafkaError(code), "e1")

    assert isinstance(error, UnknownOutcome)
    assert (error.event_id, error.retryable) == ("e1", True)
    assert "again with the same event_id" in error.message


def test_a_delivered_event_gets_its_receipt() -> None:
    delivered = Message("topic", 3, 17, b"", b"")

    assert receipt_of(delivered, LOG, "e1") == Receipt(LOG.log_id, 2, 3, 17, "e1")


@pytest.mark.parametrize("offset", [-1, -1001])
def test_a_delivered_event_without_an_offset_has_no_receipt(offset: int) -> None:
    assert receipt_of(Message("topic", 3, offset, b"", b""), LOG, "e1") is None
