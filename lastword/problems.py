"""Answers that say what went wrong: problem documents for every error of a route, and for routes that are not there."""

from collections.abc import Mapping

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from lastword_schemas.errors import LastwordError
from lastword_schemas.model import invalid_input
from lastword_schemas.problems import MEDIA_TYPE, problem_of


class NotFound(LastwordError):
    """There is no such route."""

    code = "not-found"


class MethodNotAllowed(LastwordError):
    """The route does not take this method."""

    code = "method-not-allowed"


def problem_answer(error: LastwordError, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request that failed with this error."""
    problem = problem_of(error)
    if problem.status == 503:
        headers = {"Retry-After": "1"}
    return Response(problem.model_dump_json(exclude_none=True), problem.status, headers, MEDIA_TYPE)


def answer_with_problems(app: FastAPI) -> None:
    """Let the application answer its errors with problem documents."""

    @app.exception_handler(LastwordError)
    async def lastword_error(_: Request, error: LastwordError) -> Response:
        return problem_answer(error)

    @app.exception_handler(RequestValidationError)
    async def invalid_parameters(_: Request, error: RequestValidationError) -> Response:
        return problem_answer(_invalid_parameter(error))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:
            refusal = MethodNotAllowed(f"{request.method} is not a method of this route")
            return problem_answer(refusal, {"Allow": ", ".join(_methods(app, request.url.path))})
        return problem_answer(NotFound("there is no such route; the page of the API is /docs"))


def _methods(app: FastAPI, path: str) -> list[str]:
    """What can be asked of a path. Several routes may have it; its own answer to a wrong method would name one's."""
    return sorted({method.upper() for method in app.openapi()["paths"].get(path, {"get": None})})


def _invalid_parameter(error: RequestValidationError) -> LastwordError:
    first = dict(error.errors()[0])
    first["loc"] = tuple(part for part in first["loc"] if part not in ("query", "body", "header"))
    return invalid_input(first)
