"""What every `WriterPort` does. A test class of an implementation subclasses `WriterContract`."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import pytest

from lastword_producers.desk import WriterPort
from lastword_producers.errors import Backpressure, PublisherClosed, UnknownOutcome
from lastword_projector.engine.decode import LogRecord
from lastword_schemas import jsontext, limits
from lastword_schemas.control import GENESIS_KEY, Genesis, parse_control
from lastword_schemas.drafts import EventDraft, to_envelope
from lastword_schemas.envelope import Envelope
from lastword_schemas.errors import TooLarge
from lastword_schemas.identity import record_key
from lastword_schemas.partitions import partition_for

SECONDS = 20.0


class Closable(WriterPort, Protocol):
    """A writer that can be closed."""

    def close(self) -> None:
        """Take no more events."""
        ...


def new_owner() -> str:
    return f"main/user:{uuid.uuid4()}"


def envelope(owner: str, value: Any, scope: str = "project:a/b") -> Envelope:
    """A statement that sets `tone`."""
    data = {"operation": "set", "owner": owner, "scope": scope, "key": "tone", "value": value}
    draft = EventDraft.read(data | {"actor": {"service": "tests"}})
    return to_envelope(draft, event_id=str(uuid.uuid4()), published_at=datetime.now(UTC))


class WriterContract:
    """Subclass it with the fixtures and `read`."""

    @pytest.fixture
    def writer(self) -> Closable:
        """A writer of a log with four partitions."""
        raise NotImplementedError

    @pytest.fixture
    def stalled(self) -> WriterPort:
        """A writer of a log that does not answer, with room for two events under way."""
        raise NotImplementedError

    def read(self, writer: WriterPort) -> Sequence[Sequence[LogRecord]]:
        """All records of each partition."""
        raise NotImplementedError

    def test_a_receipt_says_where_the_event_stands_and_its_bytes_are_there(self, writer: Closable) -> None:
        events = [envelope(new_owner(), {"é": [None, 1.5, "🙂"]}) for _ in range(8)]
        receipts = [writer.submit(event).result(SECONDS) for event in events]
        records = self.read(writer)
        for event, receipt in zip(events, receipts, strict=True):
            assert (receipt.log_id, receipt.generation) == (writer.log.log_id, writer.log.generation)
            assert receipt.partition == partition_for(event.owner, 4)
            assert receipt.event_id == event.event_id
            (record,) = (each for each in records[receipt.partition] if each.offset == receipt.offset)
            assert record.key == record_key(event.owner, event.scope, event.key).encode()
            assert record.value == event.to_bytes()
        assert writer.trouble == ""

    def test_every_partition_begins_with_its_genesis(self, writer: Closable) -> None:
        for genesis, records in zip(writer.log.genesis, self.read(writer), strict=True):
            assert (records[0].offset, records[0].key) == (0, GENESIS_KEY.encode())
            found = parse_control(records[0].value or b"")
            assert isinstance(found, Genesis)
            assert found == genesis

    def test_what_one_thread_submits_is_in_the_log_in_that_order_owner_by_owner(self, writer: Closable) -> None:
        owners = [new_owner() for _ in range(5)]
        futures = [writer.submit(envelope(owner, number)) for number in range(40) for owner in owners]
        receipts = [future.result(SECONDS) for future in futures]
        assert len({(receipt.partition, receipt.offset) for receipt in receipts}) == len(receipts)
        events = [
            jsontext.parse(record.value or b"")
            for records in self.read(writer)
            for record in sorted(records, key=lambda each: each.offset)
        ]
        for owner in owners:
            assert [each["body"]["value"] for each in events if each.get("owner") == owner] == list(range(40))

    def test_append_times_are_the_logs_own_and_never_go_back(self, writer: Closable) -> None:
        began = datetime.now(UTC).timestamp() - 1
        owner = new_owner()
        receipts = [writer.submit(envelope(owner, number)).result(SECONDS) for number in range(3)]
        records = [record for record in self.read(writer)[receipts[0].partition] if record.offset >= receipts[0].offset]
        times = [record.recorded_at for record in records]
        assert all(record.stamped for record in records)
        assert times == sorted(times)
        assert began < times[0] / 1000 < began + 60

    def test_an_event_over_the_limit_is_not_sent(self, writer: Closable) -> None:
        owner = new_owner()
        too_large = envelope(owner, 1).model_copy(update={"scope": "project:" + "x" * limits.MAX_EVENT_BYTES})
        with pytest.raises(TooLarge):
            writer.submit(too_large)
        after = writer.submit(envelope(owner, 2)).result(SECONDS)
        sizes = [len(record.value or b"") for record in self.read(writer)[after.partition]]
        assert max(sizes) <= limits.MAX_EVENT_BYTES

    def test_a_closed_writer_takes_nothing(self, writer: Closable) -> None:
        last = writer.submit(envelope(new_owner(), 1)).result(SECONDS)
        writer.close()
        writer.close()
        with pytest.raises(PublisherClosed):
            writer.submit(envelope(new_owner(), 2))
        assert self.read(writer)[last.partition][-1].offset == last.offset

    def test_what_is_not_acknowledged_is_unknown_keeps_its_room_and_is_told(self, stalled: WriterPort) -> None:
        owner = new_owner()
        futures = [stalled.submit(envelope(owner, number)) for number in range(2)]
        refused = envelope(owner, 2)
        for _ in range(2):
            with pytest.raises(Backpressure) as caught:
                stalled.submit(refused)
            assert caught.value.event_id == refused.event_id
            assert caught.value.retryable
            for future in futures:  # the second time around all of them are called unknown
                with pytest.raises(UnknownOutcome):
                    future.result(SECONDS)
        assert stalled.trouble
