"""The route that streams changes, as server-sent events."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import ConfigDict, Field
from starlette.types import Receive, Scope, Send

from lastword_query_api.changes import Changes
from lastword_query_api.subscriber import Subscriber
from lastword_schemas.envelope import KeyText, OwnerText, ScopeText
from lastword_schemas.headers import POSITION
from lastword_schemas.model import Model
from lastword_schemas.positions import DEMAND_PATTERN, parse_demand
from lastword_schemas.problems import problem_docs
from lastword_schemas.queries import header_docs, query_docs, read_query

MEDIA_TYPE: Final = "text/event-stream"
LAST_EVENT_ID: Final = "Last-Event-ID"
_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Events `change` (data: one change, see docs/changes.md), `position`, `dropped`, `closing`",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
    }
}
_CODES = (
    "malformed",
    "wrong-log",
    "not-projected",
    "store-unavailable",
    "changes-unavailable",
    "too-many-streams",
)


class ChangesQuery(Model):
    """Parameters of `GET /v1/changes`."""

    model_config = ConfigDict(strict=False)

    owner: OwnerText
    scope: ScopeText | None = Field(default=None, description="only this scope; default: all")
    key: KeyText | None = Field(default=None, description="only this key; default: all")
    after: str | None = Field(
        default=None,
        description="a receipt or position token: what came after it first; default: from now on",
        json_schema_extra={"pattern": DEMAND_PATTERN},
    )


def changes_router(changes: Callable[[Request], Changes]) -> APIRouter:
    """The route; `changes` finds the streams of the application that a request is for."""
    router = APIRouter(tags=["read"])

    @router.get(
        "/v1/changes",
        response_class=Response,
        responses=_STREAM | problem_docs(*_CODES),
        operation_id="follow_changes",
        summary="Changes of an owner, as they come",
        openapi_extra=query_docs(
            ChangesQuery, header_docs(LAST_EVENT_ID, "as `after`, and before it: a browser sends it when it comes back")
        ),
    )
    async def follow(request: Request) -> Response:
        query = ChangesQuery.read(read_query(request.scope["query_string"]))
        text, field = query.after, "after"
        if last := request.headers.get(LAST_EVENT_ID):
            text, field = last, LAST_EVENT_ID
        after = None if text is None else parse_demand(text, field=field)
        return EventStream(await changes(request).subscribe(query.owner, scope=query.scope, key=query.key, after=after))

    return router


class EventStream(Response):
    """Sends what a subscriber has to say, until it has said its last word or the reader has gone."""

    media_type = MEDIA_TYPE

    def __init__(self, subscriber: Subscriber) -> None:
        position = {POSITION: subscriber.position_token}
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"} | position)
        del self.headers["content-length"]
        self._subscriber = subscriber

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        listening = asyncio.create_task(self._until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for text in self._subscriber.texts():
                await send({"type": "http.response.body", "body": text, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            listening.cancel()
            self._subscriber.leave()

    async def _until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._subscriber.leave()
