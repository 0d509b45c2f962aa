"""The id of a request: the caller's or one made here; in the answer, and on every log line of the request."""

import logging
import re
import secrets
from contextvars import ContextVar
from typing import Final

HEADER: Final = "X-Request-ID"

current_request: ContextVar[str | None] = ContextVar("current_request", default=None)
"""The id of the request that is being answered; None where there is none."""

_SANE = re.compile(r"[A-Za-z0-9._:+/=@-]{1,128}")


def request_id(given: str | None) -> str:
    """The id that the caller gave, if it has 1 to 128 characters of a kind that breaks no log; else a fresh one."""
    return given if given is not None and _SANE.fullmatch(given) else secrets.token_hex(8)


class OfRequest(logging.Filter):
    """Lets every record through; those of a request get its id as `request_id`, and for people as `of_request`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always True."""
        if (current := current_request.get()) is not None:
            record.request_id = current
            record.of_request = f" [{current}]"
        return True
