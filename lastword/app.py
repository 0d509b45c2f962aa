"""The one HTTP application: write routes of the producers, read routes of the query API, health, problem documents."""

import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from lastword_producers.desk import Desk
from lastword_producers.log_identity import LogIdentity
from lastword_producers.routes import write_router
from lastword_query_api.readings import ReaderPort, Readings
from lastword_query_api.routes import read_router
from lastword_schemas import jsontext
from lastword_schemas.errors import InvalidInput, LastwordError
from lastword_schemas.model import invalid_input
from lastword_schemas.problems import MEDIA_TYPE, Problem, problem_of

_PROBES = frozenset({"/healthz", "/readyz"})
_OK = 200

_log = logging.getLogger(__name__)
_PROBLEM = {"schema": {"$ref": "#/components/schemas/Problem"}}


class NotFound(LastwordError):
    """There is no such route."""

    code = "not-found"


class MethodNotAllowed(LastwordError):
    """The route does not take this method."""

    code = "method-not-allowed"


class Parts(Protocol):
    """What the routes of one application share. The product's are `LiveParts`."""

    @property
    def reader(self) -> ReaderPort:
        """What is read from."""
        ...

    @property
    def readings(self) -> Readings:
        """Answers reads."""
        ...

    def get_desk(self) -> Desk:
        """The door. Raises the LastwordError that says why it is closed."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """In the block the parts do their work; it is entered when the application starts and left when it stops."""
        ...


def create_app(parts: Parts) -> FastAPI:
    """The application over its parts."""
    app = FastAPIOffline(
        title="lastword",
        version=version("lastword"),
        summary="The memory service for assistants that must not bring back an old preference.",
        lifespan=lambda _: parts.running(),
        dependencies=[Depends(_check_query)],
        responses={"default": {"description": "A problem document", "content": {MEDIA_TYPE: _PROBLEM}}},
    )
    app.include_router(write_router(lambda _: parts.get_desk()))
    app.include_router(read_router(lambda _: parts.readings))
    _add_health(app, parts)
    _add_problems(app)
    _add_openapi(app)
    app.middleware("http")(_log_request)
    return app


async def _check_query(request: Request) -> None:
    """Refuse what would silently become something else: bytes that are not UTF-8, a parameter that stands twice."""
    seen: set[str] = set()
    for part in request.scope["query_string"].split(b"&"):
        name, value = (unquote_to_bytes(half.replace(b"+", b" ")) for half in part.partition(b"=")[::2])
        field = name.decode("utf-8", "backslashreplace")
        try:
            value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{field} is not percent-encoded UTF-8", field=field) from error
        if part and field in seen:
            raise InvalidInput(f"{field} stands twice in the query", field=field)
        seen.add(field)


def _add_openapi(app: FastAPI) -> None:
    """Bodies that routes read themselves bring their definitions along: put them where the references look."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generate()
            components = document["components"]["schemas"]
            for operation in (operation for path in document["paths"].values() for operation in path.values()):
                for media in operation.get("requestBody", {}).get("content", {}).values():
                    schema = media["schema"]
                    for model in schema.get("anyOf", [schema]):
                        for name, definition in model.pop("$defs", {}).items():
                            components.setdefault(name, definition)
        return generate()

    app.openapi = openapi  # type: ignore[method-assign]


def _add_health(app: FastAPI, parts: Parts) -> None:
    @app.get("/healthz", tags=["health"], summary="Whether this process is alive")
    async def healthz() -> dict[str, str]:
        return {"status": "ok", "version": app.version}

    not_ready: dict[int | str, dict[str, Any]] = {503: {"description": "What cannot be answered, and why"}}

    @app.get(
        "/readyz", responses=not_ready, tags=["health"], summary="Whether reads and writes can be answered; if not, why"
    )
    async def readyz() -> Response:
        problems: dict[str, str] = {}
        log: LogIdentity | None = None
        try:
            log = parts.get_desk().log
        except LastwordError as error:
            problems["writes"] = error.message
        try:
            first = await parts.reader.checkpoint(0)
            partitions = log.partitions if log else first.genesis.partitions if first else 1
            checkpoints = await parts.reader.checkpoints(partitions)
            if missing := [number for number, checkpoint in enumerate(checkpoints) if checkpoint is None]:
                problems["reads"] = f"no checkpoint in partitions {missing}: is a worker running?"
            elif log is not None and first is not None and first.genesis.log_id != log.log_id:
                problems["reads"] = f"the projection is of log {first.genesis.log_id}, the live log is {log.log_id}"
        except LastwordError as error:
            problems["reads"] = error.message
        body = {"status": "failing" if problems else "ok", "problems": problems, "log_id": log and log.log_id}
        return Response(jsontext.dump(body), 503 if problems else 200, media_type="application/json")


def _add_problems(app: FastAPI) -> None:
    @app.exception_handler(LastwordError)
    async def lastword_error(_: Request, error: LastwordError) -> Response:
        return _problem(problem_of(error))

    @app.exception_handler(RequestValidationError)
    async def invalid_parameters(_: Request, error: RequestValidationError) -> Response:
        return _problem(problem_of(_invalid_parameter(error)))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:
            refusal = MethodNotAllowed(f"{request.method} is not a method of this route")
            return _problem(problem_of(refusal), error.headers)
        return _problem(problem_of(NotFound("there is no such route; the page of the API is /docs")))


def _invalid_parameter(error: RequestValidationError) -> LastwordError:
    first = dict(error.errors()[0])
    first["loc"] = tuple(part for part in first["loc"] if part not in ("query", "body", "header"))
    return invalid_input(first)


def _problem(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    if problem.status == 503:
        headers = {"Retry-After": "1"}
    return Response(problem.model_dump_json(exclude_none=True), problem.status, headers, MEDIA_TYPE)


async def _log_request(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """One line a request: method, route template, status, milliseconds. Never the query: it names people.

    That a probe found everything well, every few seconds, is said at level DEBUG alone.
    """
    began = time.perf_counter()
    try:
        response = await call_next(request)
    except ClientDisconnect:
        response = Response(status_code=400)  # nobody reads it
    except Exception as error:
        response = _unexpected(error)
    route = request.scope.get("route")
    template = getattr(route, "path", "-")
    level = logging.DEBUG if template in _PROBES and response.status_code == _OK else logging.INFO
    took_ms = round((time.perf_counter() - began) * 1000, 1)
    told = {"method": request.method, "route": template, "status": response.status_code, "took_ms": took_ms}
    _log.log(level, "%(method)s %(route)s %(status)d %(took_ms).1f ms", told, extra=told)
    return response


def _unexpected(error: Exception) -> Response:
    """A bug: its place goes to the log, its message does not, for it may quote what a person said."""
    _log.error("unexpected %s\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)).rstrip())
    return _problem(problem_of(LastwordError("something went wrong here; the log of the API says more")))
