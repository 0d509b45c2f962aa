"""From a record of one partition to what the fold judges: decoded, in its owner's partition, with its place."""

import msgspec

from lastword_projector.engine.decode import Decoded, Event, LogRecord, Malformed, Newer, Undecodable, decode, salvage
from lastword_projector.engine.identities import Identities
from lastword_projector.engine.records import Record
from lastword_projector.engine.upcasting import AS_WRITTEN, Upcasters
from lastword_schemas.authority import AuthorityRank
from lastword_schemas.control import Genesis, RegistryRecord
from lastword_schemas.errors import InvalidInput
from lastword_schemas.model import parse_instant, to_micros
from lastword_schemas.positions import sequence_of

_MOST_PLACES = 20_000
"""Kafka keys of one partition that are held in memory."""

MISPLACED = "the record is not in its owner's partition"
"""The problem of such a dead letter."""

Place = tuple[str, str, str | None]
"""Owner, scope and key of an event; a turn has no key."""


class Read(msgspec.Struct, gc=False):
    """A record that was read; whether it counts is not said yet."""

    record: LogRecord
    item: Decoded
    """Malformed and events are in their owner's partition; their owner, scope and key are valid."""
    made: Record | None = None
    """Of an event: the item of its owner's history, still without a verdict."""
    place: Place = ("", "", None)
    """Of an event."""
    key_matches: bool = False
    """Whether the record's Kafka key is the event's owner, scope and key."""


class RecordReader:
    """Reads the records of one partition. The same owners, scopes and keys come again and again."""

    def __init__(self, genesis: Genesis, upcasters: Upcasters = AS_WRITTEN) -> None:
        self._partition = genesis.partition
        self._upcasters = upcasters or None
        self._first_sequence = sequence_of(genesis.generation, 0)
        self._identities = Identities(genesis.partitions)
        self._places: dict[bytes, Place] = {}

    def sequence(self, offset: int) -> int:
        """The sequence at an offset."""
        return self._first_sequence + offset

    def read(self, record: LogRecord) -> Read:
        """Read a record. Never raises on any bytes."""
        item = decode(record)
        if type(item) is Event:
            return self._event(record, item)
        if isinstance(item, Malformed) and self._identities.owner(item.owner).partition != self._partition:
            return _misplaced(record)
        if isinstance(item, RegistryRecord) and self._upcasters is not None:
            item = self._upcasters.registry(item)
        return Read(record, item)

    def _event(self, record: LogRecord, event: Event) -> Read:
        kafka_key = record.key
        place = None if kafka_key is None else self._places.get(kafka_key)
        matches = True
        if place is None or place != (event.owner, event.scope, event.key):
            try:
                owner = self._identities.owner(event.owner)
                matches = kafka_key == self._identities.record_key(owner, event.scope, event.key)
            except InvalidInput as error:
                return self._invalid(record, salvage(record.value or b"", error.message))
            if owner.partition != self._partition:
                return _misplaced(record)
            place = (event.owner, event.scope, event.key)
            if matches and kafka_key is not None:
                if len(self._places) >= _MOST_PLACES:
                    self._places.clear()
                self._places[kafka_key] = place
        if self._upcasters is not None:
            event = self._upcasters.event(event)
            place = (event.owner, event.scope, event.key)
        return Read(record, event, self._made(record, event, place), place, matches)

    def _invalid(self, record: LogRecord, item: Malformed | Undecodable | Newer) -> Read:
        if isinstance(item, Malformed) and self._identities.owner(item.owner).partition != self._partition:
            return _misplaced(record)
        return Read(record, item)

    def _made(self, record: LogRecord, event: Event, place: Place) -> Record:
        body, actor = event.body, event.actor
        before_the_log = None if event.backfill is None else 0
        return Record(
            self._first_sequence + record.offset,
            record.recorded_at,
            event.id,
            event.operation._value_,
            place[1],
            place[2],
            _RANK[event.authority._value_],
            actor.service,
            actor.role._value_,
            "",
            event.value,
            before_the_log,
            before_the_log,
            event.source_id,
            event.span,
            body.quote,
            body.text,
            event.thread,
            event.message,
            event.confidence,
            None if event.occurred_at is None else to_micros(parse_instant(event.occurred_at)),
            None if event.expires_at is None else to_micros(parse_instant(event.expires_at)),
            None,
            None,
            None,
            event.expected_sequence,
            event.retired_keys,
            None,
            None,
            event.backfill,
            event.decision,
        )


def _misplaced(record: LogRecord) -> Read:
    return Read(record, Undecodable(MISPLACED))


_RANK = {rank.authority.value: rank.value for rank in AuthorityRank}
