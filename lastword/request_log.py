"""Around every request: its id, one log line, and an answer even where the route ends with none."""

import asyncio
import logging
import time
import traceback

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lastword.correlation import HEADER, current_request, request_id
from lastword.problems import problem_answer
from lastword_schemas.errors import LastwordError

_PROBES = frozenset({"/healthz", "/readyz"})
_OK = 200

_log = logging.getLogger(__name__)


class Stopping(LastwordError):
    """This process is being stopped and waits for the request no longer."""

    code = "stopping"
    retryable = True

    def __init__(self) -> None:
        super().__init__(
            "this process is being stopped and waits no longer; ask again. What the request was to publish may be in "
            "the log or not: publish it again with the same event_id"
        )


class RequestLog:
    """ASGI middleware. One line a request: method, route template, status, milliseconds. Never the query: it names
    people. That a probe found everything well, every few seconds, is said at level DEBUG alone.

    It hands on each part of an answer as it comes.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        given = request_id(Headers(scope=scope).get(HEADER))
        before = current_request.set(given)
        status: int | None = None

        async def tell(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = given
            await send(message)

        async def answer(response: Response) -> None:
            if status is None:
                await response(scope, receive, tell)

        try:
            await self._app(scope, receive, tell)
        except ClientDisconnect:
            await answer(Response(status_code=400))  # nobody reads it
        except asyncio.CancelledError:
            await answer(problem_answer(Stopping()))
            raise
        except Exception as error:
            await answer(_unexpected(error))
        finally:
            _tell(scope, status or 0, (time.perf_counter() - began) * 1000)
            current_request.reset(before)


def _tell(scope: Scope, status: int, took_ms: float) -> None:
    template = getattr(scope.get("route"), "path", "-")
    level = logging.DEBUG if template in _PROBES and status == _OK else logging.INFO
    if _log.isEnabledFor(level):
        told = {"method": scope["method"], "route": template, "status": status, "took_ms": round(took_ms, 1)}
        _log.log(level, "%(method)s %(route)s %(status)d %(took_ms).1f ms", told, extra=told)


def _unexpected(error: Exception) -> Response:
    """A bug: its place goes to the log, its message does not, for it may quote what a person said."""
    _log.error("unexpected %s\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)).rstrip())
    return problem_answer(LastwordError("something went wrong here; the log of the API says more"))
