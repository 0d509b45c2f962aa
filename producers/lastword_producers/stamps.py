"""What an event gets where its publisher gives none: an id and a time, both by this machine's clock."""

import os
import time
from datetime import UTC, datetime

from lastword_schemas.ids import uuid7


def new_event_id() -> str:
    """A fresh event id: a UUID of version 7 by this machine's clock."""
    return uuid7(time.time_ns() // 1_000_000, os.urandom(10))


def utc_now() -> datetime:
    """This machine's clock in UTC."""
    return datetime.now(UTC)
