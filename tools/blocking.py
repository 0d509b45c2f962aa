"""Writes lastword/client/blocking.py from asynchronous.py: the same client for code that is not asynchronous.

`make client` runs it; a test fails when the file is not what it would write.
"""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "lastword" / "client"
SOURCE, RESULT = FOLDER / "asynchronous.py", FOLDER / "blocking.py"

_REPLACED = (
    (
        r'^"""The asynchronous client\..*?"""',
        '"""The blocking client. `make client` writes this file from `asynchronous.py`."""',
    ),
    (r"for services that are asynchronous\. Made once, shared by all tasks", "Made once, shared by all threads"),
    (r"lastword, Made once", "lastword. Made once"),
    (r"import asyncio", "import time"),
    (r"await asyncio\.sleep", "time.sleep"),
    (r"\basync (def|for) ", r"\1 "),
    (r"\bawait ", ""),
    (r"\bhttpx\.AsyncBaseTransport\b", "httpx.BaseTransport"),
    (r"\bAsync(Client|Memory|Generator)\b", r"\1"),
    (r"\baclose\b", "close"),
    (r"__a(enter|exit)__", r"__\1__"),
)


def blocking(source: str) -> str:
    """The text of the blocking client."""
    for pattern, replacement in _REPLACED:
        source = re.sub(pattern, replacement, source, flags=re.DOTALL if pattern.startswith("^") else 0)
    return source


if __name__ == "__main__":
    RESULT.write_text(blocking(SOURCE.read_text("utf-8")), "utf-8")
