"""The HTTP server of the API."""

import socket

import uvicorn

from lastword.parts import LiveParts


class ApiServer(uvicorn.Server):
    """Ends the streams of changes when it is told to stop: uvicorn waits for every answer that is under way."""

    def __init__(self, config: uvicorn.Config, parts: LiveParts) -> None:
        super().__init__(config)
        self._parts = parts

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then what uvicorn does."""
        self._parts.changes.close()
        await super().shutdown(sockets)
