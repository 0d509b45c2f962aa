"""JSON lines: a request of any length read line by line, an answer with a line for each, both within bounded memory."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lastword_schemas import jsontext, limits
from lastword_schemas.errors import LastwordError, TooLarge

MEDIA_TYPE: Final = "application/x-ndjson"
READ_WITHIN_S: Final = 30.0
"""Seconds for a client to take what it is sent; one that only sends, and reads nothing, would wait for ever."""


async def documents(stream: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    """The JSON document of each line; a LastwordError for a line that has none, or is too long.

    Empty lines are passed over. At most one line and one part of the stream are in memory.
    """
    rest = bytearray()
    is_long = False
    async for part in stream:
        rest += part
        *lines, rest = rest.split(b"\n")
        for line in lines:
            if is_long:
                is_long = False
            elif line.strip():
                yield _document(line)
        if len(rest) > limits.MAX_LINE_BYTES:
            if not is_long:
                yield _document(rest)
            rest.clear()
            is_long = True
    if rest.strip() and not is_long:
        yield _document(rest)


def _document(line: bytearray) -> Any:
    if len(line) > limits.MAX_LINE_BYTES:
        return TooLarge(f"the line has more than {limits.MAX_LINE_BYTES} bytes")
    try:
        return jsontext.parse(bytes(line))
    except LastwordError as error:
        return error


class JsonLines(Response):
    """A 200 whose body is sent as it comes; `parts` are whole lines.

    Raises ClientDisconnect where the client takes none of it for `READ_WITHIN_S` seconds.
    """

    media_type = MEDIA_TYPE

    def __init__(self, parts: AsyncGenerator[bytes, None]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._parts) as parts:
            async for part in parts:
                try:
                    message = {"type": "http.response.body", "body": part, "more_body": True}
                    await asyncio.wait_for(send(message), READ_WITHIN_S)
                except TimeoutError as error:
                    raise ClientDisconnect from error
        await send({"type": "http.response.body", "body": b""})
