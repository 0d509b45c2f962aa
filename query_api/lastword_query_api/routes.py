"""The read routes. Identities travel in the query or the body, never in the path."""

from collections.abc import Callable
from typing import Annotated, Any, Final, Self

from fastapi import APIRouter, Request, Response
from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from lastword_query_api.boundary import Boundary
from lastword_query_api.etags import etag_of_profile, etag_of_record, has_it
from lastword_query_api.readings import Asked, Readings
from lastword_schemas import examples, limits
from lastword_schemas.answers import HistoryAnswer, InspectionRecord, OutcomeAnswer, ProfileAnswer, ValuesAnswer
from lastword_schemas.bodies import body_docs, read_json
from lastword_schemas.envelope import EventId, KeyText, OwnerText, ScopeText
from lastword_schemas.errors import InvalidInput
from lastword_schemas.headers import AT_LEAST, POSITION
from lastword_schemas.identity import GLOBAL, check_key, check_scope, scope_chain
from lastword_schemas.model import Model
from lastword_schemas.positions import DEMAND_PATTERN, parse_demand
from lastword_schemas.problems import problem_docs
from lastword_schemas.queries import header_docs, query_docs, read_query
from lastword_schemas.search import SearchAnswer

Limit = Annotated[int, Field(ge=1, le=limits.MAX_PAGE, description="items of one page")]
Page = Annotated[str | None, Field(description="`next_page` of the answer before", json_schema_extra={"minLength": 1})]
WaitMs = Annotated[
    int, Field(ge=0, le=limits.MAX_WAIT_MS, description="how long `at_least` may be waited for, in milliseconds")
]


class Demanding(Model):
    """What every read takes."""

    model_config = ConfigDict(strict=False)

    owner: OwnerText
    at_least: str | None = Field(
        default=None,
        description="a receipt or position token: answer nothing older",
        json_schema_extra={"pattern": DEMAND_PATTERN},
    )
    wait_ms: WaitMs = 1_000

    def asked(self, boundary: Boundary | None = None) -> Asked:
        """The demand, read. Raises InvalidInput."""
        demand = None if self.at_least is None else parse_demand(self.at_least)
        return Asked(self.owner, boundary or Boundary(), demand, self.wait_ms)


class Bounded(Demanding):
    """What every read of state or history takes."""

    as_of: str | None = Field(
        default=None,
        description="what had been said by then: a sequence or an RFC 3339 instant, inclusive",
        json_schema_extra={"minLength": 1},
    )
    known_at: str | None = Field(
        default=None,
        description="what the log held by then: a sequence, inclusive",
        json_schema_extra={"pattern": "^[0-9]{1,16}$"},
    )

    def asked(self, boundary: Boundary | None = None) -> Asked:
        """The demand and the boundary, read. Raises InvalidInput."""
        return super().asked(boundary or Boundary.parse(self.as_of, self.known_at))


class ValueQuery(Bounded):
    """Parameters of `GET /v1/value`."""

    scope: ScopeText = GLOBAL
    key: KeyText
    fallback: bool = Field(default=True, description="whether the global scope answers where the asked one has nothing")


class ProfileQuery(Bounded):
    """Parameters of `GET /v1/profile`."""

    scope: ScopeText | None = Field(default=None, description="only this scope; default: all")
    everything: bool = Field(default=False, description="tombstones and expired values too")
    limit: Limit = 100
    page: str | None = Field(
        default=None, description="`next_page` of the answer before", json_schema_extra={"minLength": 1}
    )


class HistoryQuery(Bounded):
    """Parameters of `GET /v1/history`."""

    scope: ScopeText | None = None
    key: KeyText | None = None
    view: Annotated[str | None, Field(pattern="^(versions|events)$")] = Field(
        default=None, description="`versions` (default with a key) or `events` (default without one)"
    )
    limit: Limit = 100
    page: str | None = Field(
        default=None, description="`next_page` of the answer before", json_schema_extra={"minLength": 1}
    )


class OutcomeQuery(Demanding):
    """Parameters of `GET /v1/outcomes`."""

    id: EventId = Field(examples=[examples.EVENT_ID])


def each(field: str, check: Callable[[str], str]) -> Callable[[list[str]], list[str]]:
    """Check every item of a list; a complaint names its place."""

    def run(items: list[str]) -> list[str]:
        for number, item in enumerate(items):
            try:
                check(item)
            except InvalidInput as error:
                raise InvalidInput(error.message, field=f"{field}.{number}") from error
        return items

    return run


class BoundedBody(Bounded):
    """What every read takes that has a body."""

    model_config = ConfigDict(strict=True)

    scopes: Annotated[list[str], AfterValidator(each("scopes", check_scope))] | None = Field(
        default=None, min_length=1, max_length=limits.MAX_SCOPES_PER_READ
    )
    """The chain, first scope first; default: `scope`, then global."""
    scope: ScopeText = GLOBAL
    as_of: str | int | None = None  # type: ignore[assignment]
    """A sequence (a number or its digits) or an RFC 3339 instant, inclusive."""
    known_at: str | int | None = None  # type: ignore[assignment]
    """A sequence, inclusive."""

    @field_validator("as_of", "known_at", mode="before")
    @classmethod
    def _number_or_text(cls, value: object, info: ValidationInfo) -> object:
        if value is None or (isinstance(value, str | int) and not isinstance(value, bool)):
            return value
        raise InvalidInput(f"{info.field_name} is neither a whole number nor a text", field=info.field_name)

    @model_validator(mode="after")
    def _one_chain(self) -> Self:
        if self.scopes is not None and "scope" in self.model_fields_set:
            raise InvalidInput("scope and scopes: say one of them", field="scopes")
        return self

    @property
    def chain(self) -> tuple[str, ...]:
        """The scope chain."""
        return tuple(dict.fromkeys(self.scopes or scope_chain(self.scope)))

    def asked(self, boundary: Boundary | None = None) -> Asked:
        """The demand and the boundary, read. Raises InvalidInput."""
        texts = [None if value is None else str(value) for value in (self.as_of, self.known_at)]
        return super().asked(boundary or Boundary.parse(*texts))


class ValuesRequest(BoundedBody):
    """Body of `POST /v1/values/read`."""

    keys: Annotated[list[str], AfterValidator(each("keys", check_key))] = Field(
        min_length=1, max_length=limits.MAX_KEYS_PER_READ
    )


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
        response_model=InspectionRecord,
        responses=_UNCHANGED | problem_docs(*CODES),
        response_description="The answer",
        operation_id="read_value",
        summary="What applies for one key, and why",
        openapi_extra=query_docs(ValueQuery, DEMAND, _NONE_MATCH),
    )
    async def value(request: Request) -> Response:
        query = ValueQuery.read(demanding(request, read_query(request.scope["query_string"])))
        chain = scope_chain(query.scope) if query.fallback else (query.scope,)
        answer = await readings(request).values(query.asked(), chain, [query.key])
        (record,) = answer.values
        text = record.model_dump_json()
        return _unless_known(request, etag_of_record(record, text), answer.position_token, text)

    @router.post(
        "/v1/values/read",
        response_model=ValuesAnswer,
        responses=problem_docs(*CODES, "request-too-large"),
        response_description="The answer",
        operation_id="read_values",
        summary="What applies for many keys along one scope chain, in one round trip",
        openapi_extra=body_docs(ValuesRequest, examples=examples.VALUES) | {"parameters": [DEMAND]},
    )
    async def values(request: Request) -> Response:
        body = ValuesRequest.read(await read_body(request))
        return answered(await readings(request).values(body.asked(), body.chain, body.keys))

    @router.get(
        "/v1/profile",
        response_model=ProfileAnswer,
        responses=_UNCHANGED | problem_docs(*CODES),
        response_description="The answer",
        operation_id="read_profile",
        summary="An owner's entries",
        openapi_extra=query_docs(ProfileQuery, DEMAND, _NONE_MATCH),
    )
    async def profile(request: Request) -> Response:
        query = ProfileQuery.read(demanding(request, read_query(request.scope["query_string"])))
        answer = await readings(request).profile(
            query.asked(), scope=query.scope, everything=query.everything, limit=query.limit, page=query.page
        )
        return _unless_known(request, etag_of_profile(answer), answer.position_token, answer.model_dump_json())

    @router.get(
        "/v1/history",
        response_model=HistoryAnswer,
        responses=problem_docs(*CODES),
        response_description="The answer",
        operation_id="read_history",
        summary="A key's versions, or an owner's events with their verdicts",
        openapi_extra=query_docs(HistoryQuery, DEMAND),
    )
    async def history(request: Request) -> Response:
        query = HistoryQuery.read(demanding(request, read_query(request.scope["query_string"])))
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
        response_model=OutcomeAnswer,
        responses=problem_docs(*CODES, "unknown-event"),
        response_description="The answer",
        operation_id="read_outcome",
        summary="What the log's reader made of an event",
        openapi_extra=query_docs(OutcomeQuery, DEMAND),
    )
    async def outcome(request: Request) -> Response:
        query = OutcomeQuery.read(demanding(request, read_query(request.scope["query_string"])))
        return answered(await readings(request).outcome(query.asked(), query.id))

    return router


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
