"""How an HTTP client reaches an application in the same process, whether it awaits or blocks."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import httpx

T = TypeVar("T")
Check = Callable[[httpx.Request], None]
"""Called in the caller's own thread and task; what it raises ends the request."""


class AwaitingTransport(httpx.ASGITransport):
    """For `httpx.AsyncClient`. Requests run in the event loop of the caller."""

    def __init__(self, app: Any, check: Check) -> None:
        super().__init__(app)
        self._check = check

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask the application."""
        self._check(request)
        return await super().handle_async_request(request)


class BlockingTransport(httpx.BaseTransport):
    """For `httpx.Client`. The requests of all threads run in one event loop, in a thread of its own."""

    def __init__(self, app: Any, check: Check, loop: "LoopThread") -> None:
        self._asgi = httpx.ASGITransport(app)
        self._check, self._loop = check, loop

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Ask the application."""
        self._check(request)
        request.read()
        return self._loop.run(self._ask(request))

    async def _ask(self, request: httpx.Request) -> httpx.Response:
        answer = await self._asgi.handle_async_request(request)
        content = b"".join([chunk async for chunk in answer.aiter_raw()])
        return httpx.Response(answer.status_code, headers=answer.headers, stream=httpx.ByteStream(content))


class LoopThread:
    """An event loop in a thread, which begins when it is first needed and ends with `close`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, which runs in the loop. Raises what it raises."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="lastword-memory", daemon=True)
                self._thread.start()
            loop = self._loop
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    def close(self) -> None:
        """End the loop and its thread. May be called again."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
