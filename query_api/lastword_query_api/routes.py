"""The read routes. Identities travel in the query or the body, never in the path."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from lastword_query_api.boundary import Boundary
from lastword_query_api.readings import Asked, Readings
from lastword_schemas import limits
from lastword_schemas.answers import HistoryAnswer, InspectionRecord, OutcomeAnswer, ProfileAnswer, ValuesAnswer
from lastword_schemas.bodies import body_docs, read_json
from lastword_schemas.envelope import EventId, KeyText, OwnerText, ScopeText
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import GLOBAL, check_key, check_scope, scope_chain
from lastword_schemas.model import Model
from lastword_schemas.positions import parse_demand

Limit = Annotated[int, Field(ge=1, le=limits.MAX_PAGE, description="items of one page")]
WaitMs = Annotated[
    int, Field(ge=0, le=limits.MAX_WAIT_MS, description="how long `at_least` may be waited for, in milliseconds")
]


class Demanding(Model):
    """What every read takes."""

    model_config = ConfigDict(strict=False)

    owner: OwnerText
    at_least: str | None = Field(default=None, description="a receipt or position token: answer nothing older")
    wait_ms: WaitMs = 1_000

    def asked(self, boundary: Boundary | None = None) -> Asked:
        """The demand, read. Raises InvalidInput."""
        demand = None if self.at_least is None else parse_demand(self.at_least)
        return Asked(self.owner, boundary or Boundary(), demand, self.wait_ms)


class Bounded(Demanding):
    """What every read of state or history takes."""

    as_of: str | None = Field(
        default=None, description="what had been said by then: a sequence or an RFC 3339 instant, inclusive"
    )
    known_at: str | None = Field(default=None, description="what the log held by then: a sequence, inclusive")

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
    page: str | None = None


class HistoryQuery(Bounded):
    """Parameters of `GET /v1/history`."""

    scope: ScopeText | None = None
    key: KeyText | None = None
    view: Annotated[str | None, Field(pattern="^(versions|events)$")] = Field(
        default=None, description="`versions` (default with a key) or `events` (default without one)"
    )
    limit: Limit = 100
    page: str | None = None


class OutcomeQuery(Demanding):
    """Parameters of `GET /v1/outcomes`."""

    id: EventId


def _each(field: str, check: Callable[[str], str]) -> Callable[[list[str]], list[str]]:
    """Check every item of a list; a complaint names its place."""

    def run(items: list[str]) -> list[str]:
        for number, item in enumerate(items):
            try:
                check(item)
            except InvalidInput as error:
                raise InvalidInput(error.message, field=f"{field}.{number}") from error
        return items

    return run


class ValuesRequest(Bounded):
    """Body of `POST /v1/values/read`."""

    model_config = ConfigDict(strict=True)

    scopes: Annotated[list[str], AfterValidator(_each("scopes", check_scope))] | None = Field(
        default=None, min_length=1, max_length=limits.MAX_SCOPES_PER_READ
    )
    """The chain, first scope first; default: `scope`, then global."""
    scope: ScopeText = GLOBAL
    keys: Annotated[list[str], AfterValidator(_each("keys", check_key))] = Field(
        min_length=1, max_length=limits.MAX_KEYS_PER_READ
    )
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
    def _one_chain(self) -> "ValuesRequest":
        if self.scopes is not None and "scope" in self.model_fields_set:
            raise InvalidInput("scope and scopes: say one of them", field="scopes")
        return self

    def asked(self, boundary: Boundary | None = None) -> Asked:
        """The demand and the boundary, read. Raises InvalidInput."""
        texts = [None if value is None else str(value) for value in (self.as_of, self.known_at)]
        return super().asked(boundary or Boundary.parse(*texts))


def read_router(readings: Callable[[Request], Readings]) -> APIRouter:
    """The routes; `readings` finds the service of the application that a request is for."""
    router = APIRouter(tags=["read"])

    @router.get("/v1/value", response_model=InspectionRecord, summary="What applies for one key, and why")
    async def value(request: Request, query: Annotated[ValueQuery, Query()]) -> Response:
        chain = scope_chain(query.scope) if query.fallback else (query.scope,)
        answer = await readings(request).values(query.asked(), chain, [query.key])
        return _json(answer.values[0])

    @router.post(
        "/v1/values/read",
        response_model=ValuesAnswer,
        summary="What applies for many keys along one scope chain, in one round trip",
        openapi_extra=body_docs(ValuesRequest),
    )
    async def values(request: Request) -> Response:
        for name in request.query_params:
            raise InvalidInput(f"{name} belongs into the body: this route takes nothing in its query", field=name)
        body = ValuesRequest.read(await read_json(request.stream()))
        chain = list(dict.fromkeys(body.scopes or scope_chain(body.scope)))
        return _json(await readings(request).values(body.asked(), chain, body.keys))

    @router.get("/v1/profile", response_model=ProfileAnswer, summary="An owner's entries")
    async def profile(request: Request, query: Annotated[ProfileQuery, Query()]) -> Response:
        answer = await readings(request).profile(
            query.asked(), scope=query.scope, everything=query.everything, limit=query.limit, page=query.page
        )
        return _json(answer)

    @router.get(
        "/v1/history",
        response_model=HistoryAnswer,
        summary="A key's versions, or an owner's events with their verdicts",
    )
    async def history(request: Request, query: Annotated[HistoryQuery, Query()]) -> Response:
        service = readings(request)
        view = query.view or ("events" if query.key is None else "versions")
        if view == "events":
            answer = await service.events(query.asked(), query.scope, query.key, limit=query.limit, page=query.page)
        elif query.key is None:
            raise InvalidInput("versions are of one key: say which, or ask for view=events", field="key")
        else:
            scope = query.scope or GLOBAL
            answer = await service.versions(query.asked(), scope, query.key, limit=query.limit, page=query.page)
        return _json(answer)

    @router.get("/v1/outcomes", response_model=OutcomeAnswer, summary="What the log's reader made of an event")
    async def outcome(request: Request, query: Annotated[OutcomeQuery, Query()]) -> Response:
        return _json(await readings(request).outcome(query.asked(), query.id))

    return router


def _json(answer: Model) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")
