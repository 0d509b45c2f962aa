"""Writes openapi.json from the routes, and adds to http-v1.txt what the contract promises anew.

`make docs` runs it; a test fails when either is not what it would write. http-v1.txt has a line for everything that a
program may rely on. Lines are only added: what is missing from the document then was taken back, and the test says so.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lastword.app import create_app
from lastword.parts import LiveParts
from lastword.settings import ApiSettings

OPENAPI = Path(__file__).parent / "openapi.json"
PROMISES = Path(__file__).parent / "http-v1.txt"


def document() -> dict[str, Any]:
    """The OpenAPI document of this build."""
    return create_app(LiveParts(ApiSettings())).openapi()


def text_of(openapi: dict[str, Any]) -> str:
    """The document as it is written."""
    return json.dumps(openapi, indent=1, ensure_ascii=False) + "\n"


def promises(openapi: dict[str, Any]) -> set[str]:
    """What a program may rely on, a line each. Limits are no part of it: they may be raised."""
    return {*_of_operations(openapi), *_of_models(openapi["components"]["schemas"], _taken(openapi))}


def _of_operations(openapi: dict[str, Any]) -> Iterator[str]:
    shared = openapi["components"]["parameters"]
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            name = f"{method.upper()} {path}"
            parameters = [
                shared[each["$ref"].rpartition("/")[2]] if "$ref" in each else each for each in operation["parameters"]
            ]
            required = sorted(parameter["name"] for parameter in parameters if parameter.get("required"))
            yield f"{name} requires {', '.join(required) or 'nothing'}"
            for parameter in parameters:
                schema = parameter["schema"]
                default = f" = {json.dumps(schema['default'])}" if "default" in schema else ""
                yield f"{name} takes {parameter['in']} {parameter['name']}: {_kind(schema)}{default}"
            for media_type, media in operation.get("requestBody", {}).get("content", {}).items():
                yield f"{name} takes {media_type}"
                yield from _of_choices(name, media["schema"])
            for status, response in operation["responses"].items():
                for media_type, media in response.get("content", {"nothing": {"schema": {}}}).items():
                    yield f"{name} answers {status} {media_type}: {_kind(media['schema'])}"
                for header in response.get("headers", {}):
                    yield f"{name} answers {status} with {header}"


def _of_choices(name: str, schema: dict[str, Any]) -> Iterator[str]:
    for choice in schema.get("anyOf", [schema]):
        if "properties" in choice:
            yield from _of_model(f"{name} {choice['title']}", choice, is_taken=True)


def _of_models(models: dict[str, Any], taken: set[str]) -> Iterator[str]:
    for name, schema in models.items():
        for value in schema.get("enum", []):
            yield f"{name} may be {value}"
        yield from _of_model(name, schema, is_taken=name in taken)


def _of_model(name: str, schema: dict[str, Any], *, is_taken: bool) -> Iterator[str]:
    """What is required of an answer may grow; what is required of a request may not."""
    if is_taken and "properties" in schema:
        yield f"{name} requires {', '.join(sorted(schema.get('required', []))) or 'nothing'}"
    for member, of in schema.get("properties", {}).items():
        yield f"{name}.{member}: {_kind(of)}"


def _taken(openapi: dict[str, Any]) -> set[str]:
    """The models that requests have."""
    found: set[str] = set()
    models = openapi["components"]["schemas"]
    waiting = [operation.get("requestBody") for path in openapi["paths"].values() for operation in path.values()]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            name = str(part.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found.add(name)
                waiting.append(models[name])
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return found


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(sorted(_kind(choice) for choice in schema["anyOf"]))
    if "const" in schema or "enum" in schema:
        return " or ".join(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"[{_kind(schema['items'])}]"
    return str(schema.get("format") or schema.get("type") or "anything")


if __name__ == "__main__":
    written = document()
    OPENAPI.write_text(text_of(written), "utf-8")
    promised = set(PROMISES.read_text("utf-8").splitlines()) if PROMISES.exists() else set()
    PROMISES.write_text("".join(f"{line}\n" for line in sorted(promised | promises(written))), "utf-8")
