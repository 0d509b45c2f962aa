"""The one HTTP application: write routes of the producers, read routes of the query API, health, problem documents."""

from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Literal, Protocol

from fastapi import FastAPI, Response
from fastapi_offline import FastAPIOffline
from starlette.middleware.gzip import GZipMiddleware

from lastword.openapi import ANY_PROBLEM, DESCRIPTION, complete_openapi
from lastword.problems import answer_with_problems
from lastword.request_log import RequestLog
from lastword_producers.desk import Desk
from lastword_producers.log_identity import LogIdentity
from lastword_producers.routes import write_router
from lastword_query_api.change_routes import changes_router
from lastword_query_api.changes import Changes
from lastword_query_api.context.contexts import Contexts
from lastword_query_api.context.routes import context_router
from lastword_query_api.readings import ReaderPort, Readings
from lastword_query_api.routes import read_router
from lastword_query_api.search.routes import search_router
from lastword_query_api.search.searches import Searches
from lastword_schemas.errors import LastwordError
from lastword_schemas.model import Answer

_WORTH_PACKING = 1_500
"""Bytes from which on an answer is compressed: more than the answer on one key has, which fits into one packet."""
_PACKING = 5
"""zlib's level."""


class Alive(Answer):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str


class Readiness(Answer):
    """Whether reads and writes can be answered."""

    status: Literal["ok", "failing"]
    problems: dict[str, str]
    """What keeps `reads` or `writes` from being answered."""
    log_id: str | None
    """The log that is written to; None as long as it is not found."""


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

    @property
    def searches(self) -> Searches:
        """Answers searches."""
        ...

    @property
    def contexts(self) -> Contexts:
        """Makes and checks contexts."""
        ...

    @property
    def changes(self) -> Changes:
        """Streams changes."""
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
        description=DESCRIPTION,
        responses=ANY_PROBLEM,
        separate_input_output_schemas=False,
    )
    app.include_router(write_router(lambda _: parts.get_desk()))
    app.include_router(read_router(lambda _: parts.readings))
    app.include_router(search_router(lambda _: parts.searches))
    app.include_router(context_router(lambda _: parts.contexts))
    app.include_router(changes_router(lambda _: parts.changes))
    _add_health(app, parts)
    answer_with_problems(app)
    complete_openapi(app)
    app.add_middleware(GZipMiddleware, minimum_size=_WORTH_PACKING, compresslevel=_PACKING)
    app.add_middleware(RequestLog)
    return app


def _add_health(app: FastAPI, parts: Parts) -> None:
    @app.get("/healthz", tags=["health"], operation_id="is_alive", summary="Whether this process is alive")
    async def healthz() -> Alive:
        return Alive(version=app.version)

    @app.get(
        "/readyz",
        response_model=Readiness,
        responses={503: {"model": Readiness, "description": "What cannot be answered, and why"}},
        tags=["health"],
        operation_id="is_ready",
        summary="Whether reads and writes can be answered; if not, why",
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
        found = Readiness(
            status="failing" if problems else "ok", problems=problems, log_id=None if log is None else log.log_id
        )
        return Response(found.model_dump_json(), 503 if problems else 200, media_type="application/json")
