"""The one HTTP application: write routes of the producers, read routes of the query API, health, problem documents."""

from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any, Protocol

from fastapi import FastAPI, Response
from fastapi_offline import FastAPIOffline
from starlette.middleware.gzip import GZipMiddleware

from lastword.problems import answer_with_problems
from lastword.request_log import RequestLog
from lastword_producers.desk import Desk
from lastword_producers.log_identity import LogIdentity
from lastword_producers.routes import write_router
from lastword_query_api.readings import ReaderPort, Readings
from lastword_query_api.routes import read_router
from lastword_schemas import jsontext
from lastword_schemas.errors import LastwordError
from lastword_schemas.problems import MEDIA_TYPE

_WORTH_PACKING = 1_500
"""Bytes from which on an answer is compressed: more than the answer on one key has, which fits into one packet."""
_PACKING = 5
"""zlib's level."""
_PROBLEM = {"schema": {"$ref": "#/components/schemas/Problem"}}


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
        responses={"default": {"description": "A problem document", "content": {MEDIA_TYPE: _PROBLEM}}},
    )
    app.include_router(write_router(lambda _: parts.get_desk()))
    app.include_router(read_router(lambda _: parts.readings))
    _add_health(app, parts)
    answer_with_problems(app)
    _add_openapi(app)
    app.add_middleware(GZipMiddleware, minimum_size=_WORTH_PACKING, compresslevel=_PACKING)
    app.add_middleware(RequestLog)
    return app


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
            desk = parts.get_desk()
            log = desk.log
            if desk.trouble:
                problems["writes"] = f"writes wait: {desk.trouble}"
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
