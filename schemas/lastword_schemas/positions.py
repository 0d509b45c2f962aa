"""Positions, sequences, receipts and position tokens.

A record's *position* is its partition and offset. An event's *sequence* is `generation * 2**40 + offset`: an integer
below 2**53, exact in JSON and in every client. Sequences of two owners are never compared.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from lastword_schemas.errors import InvalidInput

OFFSET_BITS: Final = 40
MAX_GENERATION: Final = 8191
_GENERATION_STEP: Final = 1 << OFFSET_BITS
MAX_SEQUENCE: Final = 2**53 - 1

_RECEIPT = re.compile(r"r1\.([0-9a-f]{16})\.(\d{1,4})\.(\d{1,6})\.(\d{1,13})\.([0-9a-f-]{36})")
_TOKEN = re.compile(r"p1\.([0-9a-f]{16})\.([0-9a-f]{16})\.(\d{1,16})")

DEMAND_PATTERN: Final = f"^({_RECEIPT.pattern}|{_TOKEN.pattern})$"
"""What a receipt or a position token looks like, as a regular expression."""


def sequence_of(generation: int, offset: int) -> int:
    """The sequence of the record at `offset` of a partition of the log's `generation`."""
    if not 0 <= generation <= MAX_GENERATION or not 0 <= offset < _GENERATION_STEP:
        raise ValueError(f"no sequence for generation {generation} and offset {offset}")
    return generation * _GENERATION_STEP + offset


def offset_of(sequence: int) -> int:
    """The offset that a sequence was made from."""
    return sequence & (_GENERATION_STEP - 1)


def log_id_of(cluster_id: str, topic_id: str) -> str:
    """The id of one log: 16 hexadecimal digits of SHA-256 over cluster id and topic id."""
    return hashlib.sha256(f"{cluster_id}\n{topic_id}".encode()).hexdigest()[:16]


def owner_digest(owner: str) -> str:
    """16 hexadecimal digits of SHA-256 over an owner's canonical text: tells owners apart without naming them."""
    return hashlib.sha256(owner.encode("utf-8")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a publish returns once the log has the event.

    Text: `r1.<log>.<generation>.<partition>.<offset>.<event id>`.
    """

    log_id: str
    generation: int
    partition: int
    offset: int
    event_id: str

    @property
    def sequence(self) -> int:
        """The event's sequence."""
        return sequence_of(self.generation, self.offset)

    def __str__(self) -> str:
        return f"r1.{self.log_id}.{self.generation}.{self.partition}.{self.offset}.{self.event_id}"


@dataclass(frozen=True, slots=True)
class PositionToken:
    """What every answer carries: how far the projection was. Text: `p1.<log>.<owner digest>.<sequence>`.

    `sequence` is that of the *last* record the answer takes into account.
    """

    log_id: str
    owner: str
    sequence: int

    def __str__(self) -> str:
        return f"p1.{self.log_id}.{self.owner}.{self.sequence}"


Demand = Receipt | PositionToken
"""What a read may demand with `at_least`."""


def parse_receipt(text: str, *, field: str) -> Receipt:
    """Read the text of a receipt. Raises InvalidInput with the field given."""
    match = _RECEIPT.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{field} is not a receipt ('r1.…', from a publish)", field=field)
    log_id, generation, partition, offset, event_id = match.groups()
    if int(generation) > MAX_GENERATION or int(offset) >= _GENERATION_STEP:
        raise InvalidInput(f"{field} is a receipt with a position out of range", field=field)
    return Receipt(log_id, int(generation), int(partition), int(offset), event_id)


def parse_demand(text: str, *, field: str = "at_least") -> Demand:
    """Read the text of a receipt or a position token. Raises InvalidInput with the field given."""
    if _RECEIPT.fullmatch(text) is not None:
        return parse_receipt(text, field=field)
    match = _TOKEN.fullmatch(text)
    if match is None:
        raise InvalidInput(
            f"{field} is neither a receipt ('r1.…', from a publish) nor a position token ('p1.…', from an answer)",
            field=field,
        )
    log_id, owner, sequence = match.groups()
    if int(sequence) >= 2**53:
        raise InvalidInput(f"{field} is a position token with a sequence out of range", field=field)
    return PositionToken(log_id, owner, int(sequence))
