"""Schemathesis loads this: how a generated value becomes a body of JSON lines."""

import json
from typing import Any

import schemathesis

from lastword_producers.json_lines import MEDIA_TYPE


@schemathesis.serializer(MEDIA_TYPE)
def as_line(_: Any, value: Any) -> bytes:
    """One line, or the lines of an example."""
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()
