"""Request bodies: read within the limit, parsed strictly."""

from collections.abc import AsyncIterator
from typing import Any

from lastword_schemas import jsontext, limits
from lastword_schemas.errors import TooLarge
from lastword_schemas.model import Model


class RequestTooLarge(TooLarge):
    """The request's body is larger than the limit."""

    code = "request-too-large"


async def read_json(stream: AsyncIterator[bytes]) -> Any:
    """The JSON document that a request's body streams. Raises RequestTooLarge, or InvalidInput where it is not JSON."""
    body = bytearray()
    async for part in stream:
        body += part
        if len(body) > limits.MAX_BODY_BYTES:
            raise RequestTooLarge(f"the body has more than {limits.MAX_BODY_BYTES} bytes; send several requests")
    return jsontext.parse(bytes(body))


def body_docs(*models: type[Model], examples: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI part of a route that reads its body itself: any one of the models, with examples by their names."""
    schemas = [model.model_json_schema(ref_template="#/components/schemas/{model}") for model in models]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    shown = {name: {"value": value} for name, value in examples.items()}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema, "examples": shown}}}}
