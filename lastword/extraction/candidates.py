"""Candidates as events. The same reading is the same event, whoever publishes it and however often."""

import uuid
from typing import Any, Final

from lastword.extraction.protocol import Candidate, Message
from lastword_schemas import jsontext
from lastword_schemas.authority import Role
from lastword_schemas.ids import event_id_from
from lastword_schemas.positions import parse_receipt

_NAMESPACE: Final = uuid.UUID("6f5a0a0e-6f0b-5c3c-9a55-63616e646964")


def event_of(candidate: Candidate, message: Message, extractor: str) -> dict[str, Any]:
    """The event as `POST /v1/candidates` takes it, by the extractor of that name."""
    event: dict[str, Any] = {
        "event_id": _event_id(candidate, message, extractor),
        "operation": candidate.operation,
        "owner": message.owner,
        "scope": candidate.scope,
        "key": candidate.key,
        "actor": {"service": extractor, "role": Role.EXTRACTOR.value},
        "source_event_id": message.source,
        "authority": candidate.authority.value,
        "confidence": candidate.confidence,
    }
    if candidate.operation == "set":
        event["value"] = candidate.value
    if candidate.span is not None:
        event |= {"span": list(candidate.span), "quote": candidate.quote}
    return event


def _event_id(candidate: Candidate, message: Message, extractor: str) -> str:
    """A UUID of version 5, of what was read where by whom: reading it again makes no second event."""
    source = message.source
    if source.startswith("r1."):
        source = parse_receipt(source, field="source").event_id
    read = [event_id_from(source), candidate.span, candidate.operation, candidate.scope, candidate.key, extractor]
    return str(uuid.uuid5(_NAMESPACE, jsontext.canonical(read)))
