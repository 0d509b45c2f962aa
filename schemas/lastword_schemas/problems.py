"""Errors over HTTP: problem documents (RFC 9457) with `code`, `retryable` and the offending field."""

from typing import Any, Final

from pydantic import ConfigDict

from lastword_schemas.errors import LastwordError
from lastword_schemas.model import Model

MEDIA_TYPE: Final = "application/problem+json"

STATUS_OF_CODE: Final = {
    "not-found": 404,
    "unknown-event": 404,
    "unknown-context": 404,
    "method-not-allowed": 405,
    "wrong-log": 409,
    "before-horizon": 410,
    "request-too-large": 413,
    "malformed": 422,
    "not-yet": 422,
    "unknown-operation": 422,
    "position-not-allowed": 422,
    "too-large": 422,
    "actor-not-allowed": 422,
    "undeclared-key": 422,
    "value-schema": 422,
    "authority-too-low": 422,
    "refused": 422,
    "error": 500,
    "publish-failed": 502,
    "backpressure": 503,
    "publisher-closed": 503,
    "broker-refused": 503,
    "changes-unavailable": 503,
    "contexts-unavailable": 503,
    "too-many-streams": 503,
    "broker-unavailable": 503,
    "log-not-ready": 503,
    "log-mismatch": 503,
    "not-projected": 503,
    "not-projected-yet": 503,
    "other-projection": 503,
    "stopping": 503,
    "store-unavailable": 503,
    "unknown-outcome": 504,
}
"""HTTP status by code; a code that is not here is about the input: 422."""


class Problem(Model):
    """A problem document. `detail` is for people, `code` for programs; both stay free of values."""

    model_config = ConfigDict(extra="allow")

    type: str
    """`urn:lastword:problem:<code>`."""
    title: str
    """What kind of problem, the same for every occurrence."""
    status: int
    """The HTTP status."""
    detail: str
    """What is wrong here and what to do next."""
    code: str
    """The stable name of the situation."""
    retryable: bool
    """Whether the same call may succeed later without being changed."""
    field: str | None = None
    """The offending field, dotted."""


def problem_docs(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI part on a route's problems, by status."""
    by_status: dict[int | str, list[str]] = {}
    for code in (*codes, "stopping", "error"):
        by_status.setdefault(STATUS_OF_CODE[code], []).append(code)
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": "Problem: " + ", ".join(f"`{code}`" for code in found), "content": content}
        for status, found in by_status.items()
    }


def problem_of(error: LastwordError, **extra: Any) -> Problem:
    """The problem document of an error; `extra` are members of its own."""
    title = (type(error).__doc__ or "").strip().splitlines()[0].rstrip(".")
    return Problem.model_validate(
        {
            "type": f"urn:lastword:problem:{error.code}",
            "title": title,
            "status": STATUS_OF_CODE.get(error.code, 422),
            "detail": error.message,
            "code": error.code,
            "retryable": error.retryable,
            "field": error.field,
        }
        | error.members()
        | extra
    )
