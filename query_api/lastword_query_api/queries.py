"""What a read can be asked for: the parameters of a query string, the members of a body."""

from collections.abc import Callable
from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from lastword_query_api.boundary import Boundary
from lastword_query_api.readings import Asked
from lastword_schemas import examples, limits
from lastword_schemas.envelope import EventId, KeyText, OwnerText, ScopeText
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import GLOBAL, check_key, check_scope, scope_chain
from lastword_schemas.model import Model
from lastword_schemas.positions import DEMAND_PATTERN, parse_demand

Fallback = Annotated[bool, Field(description="whether the global scope answers where the asked one has nothing")]
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
    fallback: Fallback = True


class ProfileQuery(Bounded):
    """Parameters of `GET /v1/profile`."""

    scope: ScopeText | None = Field(default=None, description="only this scope; default: all")
    everything: bool = Field(default=False, description="tombstones and expired values too")
    unresolved: bool = Field(default=False, description="only what is unresolved: what somebody has to decide")
    limit: Limit = 100
    page: Page = None


class HistoryQuery(Bounded):
    """Parameters of `GET /v1/history`."""

    scope: ScopeText | None = None
    key: KeyText | None = None
    view: Annotated[str | None, Field(pattern="^(versions|events)$")] = Field(
        default=None, description="`versions` (default with a key) or `events` (default without one)"
    )
    limit: Limit = 100
    page: Page = None


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
