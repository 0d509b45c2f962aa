"""Identifiers: event ids (always UUIDs) and record ids."""

import uuid
from typing import Final

from lastword_schemas import limits
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import record_key

_EVENT_NAMESPACE: Final = uuid.UUID("6f5a0a0e-6f0b-5c3c-9a55-6c6173747764")
_RECORD_NAMESPACE: Final = uuid.UUID("6f5a0a0e-6f0b-5c3c-9a55-7265636f7264")


def event_id_from(text: str) -> str:
    """The event id for what a publisher calls its event: a UUID as it is, any other string as its UUIDv5.

    Raises InvalidInput with field `event_id` where the string is empty, too long or not Unicode text.
    """
    if not text or len(text) > limits.MAX_EVENT_ID_LENGTH:
        raise InvalidInput(f"event_id must have 1 to {limits.MAX_EVENT_ID_LENGTH} characters", field="event_id")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput("event_id holds a lone surrogate, which is not Unicode text", field="event_id") from error
    if len(text) == 36:
        try:
            return str(uuid.UUID(text))
        except ValueError:
            pass
    return str(uuid.uuid5(_EVENT_NAMESPACE, text))


def uuid7(unix_ms: int, random: bytes) -> str:
    """A version 7 UUID of a time in milliseconds and ten random bytes.

    Source: RFC 9562, section 5.7.
    """
    tail = int.from_bytes(random[:10], "big")
    number = (unix_ms & (2**48 - 1)) << 80 | tail
    number = number & ~(0xF << 76) | 7 << 76
    number = number & ~(0x3 << 62) | 2 << 62
    return str(uuid.UUID(int=number))


def record_id(owner: str, scope: str, key: str) -> str:
    """The stable name of the entry of one owner, scope and key: it survives every update, delete and rebuild."""
    return str(uuid.uuid5(_RECORD_NAMESPACE, record_key(owner, scope, key)))
