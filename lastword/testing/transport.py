"""How an HTTP client, awaiting or blocking, reaches an application in the same process. Answers may be streams."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, MutableMapping
from typing import Any, TypeVar

import httpx

T = TypeVar("T")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
"""An ASGI application."""
Check = Callable[[httpx.Request], None]
"""Called in the caller's own thread and task; what it raises ends the request."""


class AwaitingTransport(httpx.AsyncBaseTransport):
    """For `httpx.AsyncClient`. Requests run in the event loop of the caller."""

    def __init__(self, app: Application, check: Check) -> None:
        self._app, self._check = app, check

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask the application."""
        self._check(request)
        return await _ask(self._app, request)


class BlockingTransport(httpx.BaseTransport):
    """For `httpx.Client`. The requests of all threads run in one event loop, in a thread of its own."""

    def __init__(self, app: Application, check: Check, loop: "LoopThread") -> None:
        self._app, self._check, self._loop = app, check, loop

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Ask the application."""
        self._check(request)
        request.read()
        return self._loop.run(self._answer(request))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        answer = await _ask(self._app, request)
        assert isinstance(answer.stream, _Body)  # noqa: S101
        body: httpx.SyncByteStream = _BlockingBody(answer.stream, self._loop)
        if "content-length" in answer.headers:  # it is all there: no further turns between the threads
            body = httpx.ByteStream(b"".join([chunk async for chunk in answer.aiter_raw()]))
        return httpx.Response(answer.status_code, headers=answer.headers, stream=body)


class LoopThread:
    """An event loop in a thread, which begins when it is first needed and ends with `close`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, which runs in the loop. Raises what it raises; RuntimeError after `close`."""
        with self._lock:
            if self._closed:
                work.close()
                raise RuntimeError("nobody answers: this lastword in memory is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="lastword-memory", daemon=True)
                self._thread.start()
            loop = self._loop
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    def close(self) -> None:
        """Cancel what runs, end the loop and its thread. May be called again."""
        with self._lock:
            self._closed = True
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class _Body(httpx.AsyncByteStream):
    """What an application sends, message by message; it is told when nobody reads on."""

    def __init__(self, messages: "asyncio.Queue[Message | None]", working: "asyncio.Task[None]", left: asyncio.Event):
        self._messages, self._working, self._left = messages, working, left

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await self._messages.get()) is not None:
            yield message.get("body", b"")
            if not message.get("more_body", False):
                return
        await self._working  # it ended in the midst of its answer: raises why

    async def aclose(self) -> None:
        self._left.set()
        with contextlib.suppress(asyncio.CancelledError):
            await self._working


class _BlockingBody(httpx.SyncByteStream):
    """The same for a thread."""

    def __init__(self, body: _Body, loop: LoopThread) -> None:
        self._body, self._chunks, self._loop = body, aiter(body), loop

    def __iter__(self) -> Iterator[bytes]:
        while (chunk := self._loop.run(self._next())) is not None:
            yield chunk

    def close(self) -> None:
        self._loop.run(self._body.aclose())

    async def _next(self) -> bytes | None:
        return await anext(self._chunks, None)


async def _ask(app: Application, request: httpx.Request) -> httpx.Response:
    """The application's answer as soon as it begins. Raises what the application raises before."""
    messages: asyncio.Queue[Message | None] = asyncio.Queue()
    left = asyncio.Event()
    assert isinstance(request.stream, httpx.AsyncByteStream)  # noqa: S101
    chunks = aiter(request.stream)
    is_told_all = False

    async def receive() -> Message:
        nonlocal is_told_all
        if is_told_all:
            await left.wait()
            return {"type": "http.disconnect"}
        chunk = await anext(chunks, None)
        is_told_all = chunk is None
        return {"type": "http.request", "body": chunk or b"", "more_body": chunk is not None}

    async def work() -> None:
        try:
            await app(_scope(request), receive, messages.put)
        finally:
            messages.put_nowait(None)

    working = asyncio.create_task(work())
    try:
        start = await messages.get()
        if start is None:
            await working
            raise RuntimeError("the application ended without an answer")
    except BaseException:
        working.cancel()
        raise
    return httpx.Response(start["status"], headers=start["headers"], stream=_Body(messages, working, left))


def _scope(request: httpx.Request) -> Message:
    url = request.url
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": url.scheme,
        "path": url.path,
        "raw_path": url.raw_path.partition(b"?")[0],
        "query_string": url.query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "server": (url.host, url.port),
        "client": ("127.0.0.1", 123),
    }
