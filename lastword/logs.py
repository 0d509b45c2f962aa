"""How the parts log: one line an event on standard error, as text or as JSON, with positions and never with values."""

import logging
import sys
from typing import Literal

from pythonjsonlogger.json import JsonFormatter

LogFormat = Literal["text", "json"]
_TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def set_up_logging(level: str, log_format: LogFormat = "text") -> None:
    """Log to standard error.

    A JSON line has `time` (RFC 3339, UTC), `level`, `logger` and `message`; where the event has them also `partition`,
    `offset` (of the record), `code` (of the error), `method`, `route`, `status` and `took_ms`.
    """
    handler = logging.StreamHandler(sys.stderr)
    if log_format == "json":
        names = {"levelname": "level", "name": "logger"}
        fields = ["levelname", "name", "message"]
        handler.setFormatter(JsonFormatter(fields, rename_fields=names, timestamp="time"))
    else:
        handler.setFormatter(logging.Formatter(_TEXT))
    logging.basicConfig(level=level, handlers=[handler], force=True)
