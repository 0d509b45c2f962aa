"""The read routes. Identities travel in the query or the body, never in the path."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from fastapi import APIRouter, Request, Response

from lastword_query_api.etags import etag_of_profile, etag_of_record, has_it
from lastword_query_api.queries import Demanding, HistoryQuery, OutcomeQuery, ProfileQuery, ValueQuery, ValuesRequest
from lastword_query_api.readings import Readings
from lastword_schemas import examples
from lastword_schemas.answers import HistoryAnswer, InspectionRecord, OutcomeAnswer, ProfileAnswer, ValuesAnswer
from lastword_schemas.bodies import body_docs, read_json
from lastword_schemas.errors import InvalidInput
from lastword_schemas.headers import AT_LEAST, POSITION
from lastword_schemas.identity import GLOBAL, scope_chain
from lastword_schemas.model import Answer
from lastword_schemas.problems import problem_docs
from lastword_schemas.queries import header_docs, query_docs, read_query
from lastword_schemas.search import SearchAnswer

AskedT = TypeVar("AskedT", bound=Demanding)
DEMAND = header_docs(AT_LEAST, "the same as `at_least`; both are only allowed if they are equal")
_NONE_MATCH = header_docs("If-None-Match", "ETags of answers that the caller has; 304 if one of them says it all")
CODES = (
    "malformed",
    "too-large",
    "wrong-log",
    "before-horizon",
    "not-projected",
    "not-projected-yet",
    "store-unavailable",
)
_UNCHANGED: Final[dict[int | str, dict[str, Any]]] = {304: {"description": "The answer says what it said before"}}


def read_router(readings: Callable[[Request], Readings]) -> APIRouter:
    """The routes; `readings` finds the service of the application that a request is for."""
    router = APIRouter(tags=["read"])

    @router.get(
        "/v1/value",
        **answer_docs(InspectionRecord, responses=_UNCHANGED),
        operation_id="read_value",
        summary="What applies for one key, and why",
        openapi_extra=query_docs(ValueQuery, DEMAND, _NONE_MATCH),
    )
    async def value(request: Request) -> Response:
        query = in_query(request, ValueQuery)
        chain = scope_chain(query.scope, fallback=query.fallback)
        answer = await readings(request).values(query.asked(), chain, [query.key])
        (record,) = answer.values
        text = record.model_dump_json()
        return _unless_known(request, etag_of_record(record, text), answer.position_token, text)

    @router.post(
        "/v1/values/read",
        **answer_docs(ValuesAnswer, "request-too-large"),
        operation_id="read_values",
        summary="What applies for many keys along one scope chain, in one round trip",
        openapi_extra=body_docs(ValuesRequest, examples=examples.VALUES) | {"parameters": [DEMAND]},
    )
    async def values(request: Request) -> Response:
        body = ValuesRequest.read(await read_body(request))
        return answered(await readings(request).values(body.asked(), body.chain, body.keys))

    @router.get(
        "/v1/profile",
        **answer_docs(ProfileAnswer, responses=_UNCHANGED),
        operation_id="read_profile",
        summary="An owner's entries",
        openapi_extra=query_docs(ProfileQuery, DEMAND, _NONE_MATCH),
    )
    async def profile(request: Request) -> Response:
        query = in_query(request, ProfileQuery)
        answer = await readings(request).profile(
            query.asked(),
            scope=query.scope,
            everything=query.everything,
            unresolved=query.unresolved,
            limit=query.limit,
            page=query.page,
        )
        return _unless_known(request, etag_of_profile(answer), answer.position_token, answer.model_dump_json())

    @router.get(
        "/v1/history",
        **answer_docs(HistoryAnswer),
        operation_id="read_history",
        summary="A key's versions, or an owner's events with their verdicts",
        openapi_extra=query_docs(HistoryQuery, DEMAND),
    )
    async def history(request: Request) -> Response:
        query = in_query(request, HistoryQuery)
        service = readings(request)
        view = query.view or ("events" if query.key is None else "versions")
        if view == "events":
            answer = await service.events(query.asked(), query.scope, query.key, limit=query.limit, page=query.page)
        elif query.key is None:
            raise InvalidInput("versions are of one key: say which, or ask for view=events", field="key")
        else:
            scope = query.scope or GLOBAL
            answer = await service.versions(query.asked(), scope, query.key, limit=query.limit, page=query.page)
        return answered(answer)

    @router.get(
        "/v1/outcomes",
        **answer_docs(OutcomeAnswer, "unknown-event"),
        operation_id="read_outcome",
        summary="What the log's reader made of an event",
        openapi_extra=query_docs(OutcomeQuery, DEMAND),
    )
    async def outcome(request: Request) -> Response:
        query = in_query(request, OutcomeQuery)
        return answered(await readings(request).outcome(query.asked(), query.id))

    return router


def answer_docs(
    answer: type[Answer], *more_codes: str, responses: dict[int | str, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """What the contract says of every read: its answer, its problems and those of `more_codes`, other responses."""
    told = (responses or {}) | problem_docs(*CODES, *more_codes)
    return {"response_model": answer, "responses": told, "response_description": "The answer"}


def in_query(request: Request, kind: type[AskedT]) -> AskedT:
    """What the query string asks, with the demand of the header. Raises InvalidInput."""
    return kind.read(demanding(request, read_query(request.scope["query_string"])))


async def read_body(request: Request) -> Any:
    """The JSON document of a read that has a body and nothing in its query."""
    for name in read_query(request.scope["query_string"]):
        raise InvalidInput(f"{name} belongs into the body: this route takes nothing in its query", field=name)
    return demanding(request, await read_json(request.stream()))


def demanding(request: Request, asked: Any) -> Any:
    """What is asked, with the demand that stands in the header."""
    demand = request.headers.get(AT_LEAST)
    if demand is None or not isinstance(asked, dict):
        return asked
    if asked.get("at_least", demand) != demand:
        raise InvalidInput(f"at_least and {AT_LEAST} demand different positions: say one of them", field=AT_LEAST)
    return asked | {"at_least": demand}


def answered(answer: ValuesAnswer | HistoryAnswer | OutcomeAnswer | SearchAnswer) -> Response:
    """The answer, with how far it goes in a header."""
    return Response(answer.model_dump_json(), headers={POSITION: answer.position_token}, media_type="application/json")


def _unless_known(request: Request, etag: str, position_token: str, text: str) -> Response:
    """The answer, or a 304 where the caller has one that says the same."""
    headers = {POSITION: position_token, "ETag": etag, "Cache-Control": "private, no-cache"}
    if has_it(request.headers.getlist("If-None-Match"), etag):
        return Response(status_code=304, headers=headers)
    return Response(text, headers=headers, media_type="application/json")
