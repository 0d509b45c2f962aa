"""The OpenAPI document: what FastAPI gathers from the routes, and what all of them have in common."""

from collections.abc import Iterator
from typing import Any, Final

from fastapi import FastAPI

from lastword.correlation import HEADER
from lastword_schemas.headers import POSITION
from lastword_schemas.problems import MEDIA_TYPE

DESCRIPTION: Final = """\
Identities travel in the query or the body, never in the path. Errors are problem documents (RFC 9457); their `code` is
for programs. Every answer has the `X-Request-ID` of its request. What stays as it is within version 1, and what may be
added to it, is said in docs/http.md.
"""
ANY_PROBLEM: Final[dict[int | str, dict[str, Any]]] = {
    "default": {
        "description": "Any other problem; a later build may have further ones",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}
_REQUEST_ID: Final[dict[str, Any]] = {
    "name": HEADER,
    "in": "header",
    "description": "1 to 128 of `A-Z a-z 0-9 . _ : + / = @ -`, for the logs; anything else is replaced. Name nobody.",
    "schema": {"type": "string"},
    "example": "01J9Z3-settings",
}
_HEADERS: Final[dict[str, Any]] = {
    HEADER: {"description": "The id of the request: the caller's or a new one", "schema": {"type": "string"}},
    POSITION: {
        "description": "Of a read its position token, of one published event its receipt: demand it of a read to see "
        "nothing older",
        "schema": {"type": "string"},
    },
    "ETag": {
        "description": "Weak: stays as it is as long as the answer says the same, wherever the projection is",
        "schema": {"type": "string"},
    },
    "Retry-After": {"description": "Seconds", "schema": {"type": "integer"}},
}
_READ_OR_WRITTEN: Final = frozenset({"200", "202", "304"})


def complete_openapi(app: FastAPI) -> None:
    """Let the application's document say what is true of every route, and where every definition is."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generate()
            components = document["components"]
            components["headers"] = _HEADERS
            components["parameters"] = {HEADER: _REQUEST_ID}
            for path in document["paths"].values():
                for operation in path.values():
                    _complete(operation)
            for name, definition in _definitions(document["paths"]):
                components["schemas"].setdefault(name, definition)
        return generate()

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(operation: dict[str, Any]) -> None:
    operation.setdefault("parameters", []).append({"$ref": f"#/components/parameters/{HEADER}"})
    is_conditional = "304" in operation["responses"]
    for status, response in operation["responses"].items():
        names = [HEADER]
        if status in _READ_OR_WRITTEN and operation["tags"] != ["health"]:
            names.append(POSITION)
            names += ["ETag"] if is_conditional else []
        if status == "503" and operation["tags"] != ["health"]:
            names.append("Retry-After")
        response["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _definitions(part: Any) -> Iterator[tuple[str, Any]]:
    """What schemas of bodies and parameters brought along, taken out of them: references look elsewhere."""
    if isinstance(part, dict):
        yield from part.pop("$defs", {}).items()
        part = list(part.values())
    for inner in part if isinstance(part, list) else []:
        yield from _definitions(inner)
