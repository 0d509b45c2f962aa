"""How the parts log: one line an event on standard error, as text or as JSON, with positions and never with values."""

import logging
import sys
from typing import Any, Final, Literal

from pythonjsonlogger.json import JsonFormatter

from lastword.correlation import OfRequest

LogFormat = Literal["text", "json"]
_TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s%(of_request)s"
_ALWAYS: Final = ("time", "level", "logger", "message")
_WHERE_KNOWN: Final = ("request_id", "partition", "offset", "code", "method", "route", "status", "took_ms", "exc_info")


class _FixedFields(JsonFormatter):
    """Whatever else a library hangs on its records is left out."""

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        return {name: log_data[name] for name in (*_ALWAYS, *_WHERE_KNOWN) if name in log_data}


def set_up_logging(level: str, log_format: LogFormat = "text") -> None:
    """Log to standard error.

    A JSON line has `time` (RFC 3339, UTC), `level`, `logger` and `message`; where the event has them also `request_id`,
    `partition`, `offset` (of the record), `code` (of the error), `method`, `route`, `status`, `took_ms` and
    `exc_info` (a traceback); no others.
    """
    handler = logging.StreamHandler(sys.stderr)
    if log_format == "json":
        names = {"levelname": "level", "name": "logger"}
        fields = ["levelname", "name", "message"]
        handler.setFormatter(_FixedFields(fields, rename_fields=names, timestamp="time"))
    else:
        handler.setFormatter(logging.Formatter(_TEXT, defaults={"of_request": ""}))
    handler.addFilter(OfRequest())
    logging.basicConfig(level=level, handlers=[handler], force=True)
