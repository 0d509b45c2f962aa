"""Values as they are typed."""

from typing import Any

from lastword_schemas import jsontext
from lastword_schemas.errors import InvalidInput


def json_value(text: str) -> Any:
    """What was typed, as JSON if it is JSON, else as a string."""
    try:
        return jsontext.parse(text)
    except InvalidInput:
        return text
