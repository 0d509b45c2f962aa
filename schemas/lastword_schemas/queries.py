"""Query strings: read strictly, and described for OpenAPI from the model that takes them."""

from typing import Any
from urllib.parse import unquote_to_bytes

from lastword_schemas.errors import InvalidInput
from lastword_schemas.model import Model


def read_query(query_string: bytes) -> dict[str, str]:
    """The parameters of a query string.

    Raises InvalidInput where one would silently become something else: bytes that are not UTF-8, a name that stands
    twice.
    """
    found: dict[str, str] = {}
    for part in query_string.split(b"&"):
        if not part:
            continue
        name, value = (unquote_to_bytes(half.replace(b"+", b" ")) for half in part.partition(b"=")[::2])
        field = name.decode("utf-8", "backslashreplace")
        if field in found:
            raise InvalidInput(f"{field} stands twice in the query", field=field)
        try:
            found[field] = value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{field} is not percent-encoded UTF-8", field=field) from error
    return found


def query_docs(model: type[Model], *headers: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI part of a route that reads its query itself, and those request headers."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    definitions = schema.get("$defs", {})
    parameters = [
        _parameter(name, {**field}, name in schema.get("required", ()))
        for name, field in schema.get("properties", {}).items()
    ]
    if parameters and definitions:
        parameters[0]["schema"]["$defs"] = definitions
    return {"parameters": [*parameters, *headers]}


def header_docs(name: str, description: str, example: str | None = None) -> dict[str, Any]:
    """The OpenAPI part on one request header."""
    described = {"name": name, "in": "header", "description": description, "schema": {"type": "string"}}
    return described if example is None else described | {"example": example}


def _parameter(name: str, schema: dict[str, Any], required: bool) -> dict[str, Any]:
    """A parameter that may be left out is never null: there is no null in a query."""
    choices = [choice for choice in schema.pop("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        schema = choices[0] | schema
    schema.pop("title", None)
    if schema.get("default", "") is None:
        del schema["default"]
    described: dict[str, Any] = {"name": name, "in": "query", "required": required}
    if "description" in schema:
        described["description"] = schema.pop("description")
    if examples := schema.pop("examples", None):
        described["example"] = examples[0]
    return described | {"schema": schema}
