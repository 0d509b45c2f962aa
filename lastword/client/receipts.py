"""What a write returns."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lastword.client.errors import UnexpectedAnswer
from lastword_schemas import positions

if TYPE_CHECKING:
    from lastword_schemas.answers import ItemAnswer
    from lastword_schemas.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Receipt(positions.Receipt):
    """Where the log has an event. `str()` of it is what a candidate cites and what `at_least` takes."""

    verdict: "Verdict | None" = field(default=None, compare=False)
    """What the log's reader made of the event, if it was waited for (`applied=True`)."""


def receipt_of(item: "ItemAnswer") -> Receipt:
    """The receipt of an event that was accepted. Raises UnexpectedAnswer where there is none."""
    if item.receipt is None:
        raise UnexpectedAnswer(f"lastword answers '{item.outcome}' without a receipt; is this client as new as it is?")
    return read_receipt(item.receipt.receipt, item.verdict)


def read_receipt(text: str, verdict: "Verdict | None" = None) -> Receipt:
    """The receipt of its text. Raises InvalidInput."""
    parsed = positions.parse_receipt(text, field="receipt")
    return Receipt(parsed.log_id, parsed.generation, parsed.partition, parsed.offset, parsed.event_id, verdict)
