"""The search routes. Owner and query travel in the query string or the body, never in the path."""

from collections.abc import Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from pydantic import AfterValidator, ConfigDict, Field

from lastword_query_api.queries import Bounded, BoundedBody, Fallback, Limit, Page, each
from lastword_query_api.routes import DEMAND, answer_docs, answered, in_query, read_body
from lastword_query_api.search.searches import Searches, Wanted
from lastword_query_api.search.words import terms
from lastword_schemas import examples, limits
from lastword_schemas.authority import Authority
from lastword_schemas.bodies import body_docs
from lastword_schemas.envelope import ScopeText
from lastword_schemas.errors import InvalidInput, TooLarge
from lastword_schemas.identity import GLOBAL, scope_chain
from lastword_schemas.model import Instant, Model
from lastword_schemas.queries import query_docs
from lastword_schemas.registry import check_group
from lastword_schemas.search import SearchAnswer

DEFAULT_LIMIT = 3


def _check_query(text: str) -> str:
    """`text` if there is something to look for in it. Raises InvalidInput."""
    if len(text) > limits.MAX_QUERY_LENGTH:
        raise TooLarge(
            f"query has {len(text)} characters; at most {limits.MAX_QUERY_LENGTH} are allowed. Search for the task at "
            "hand, not for all that was said",
            field="query",
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput("query holds a lone surrogate, which is not Unicode text", field="query") from error
    if not terms(text):
        raise InvalidInput(
            "query has no word, number or symbol that could be found; without one, `GET /v1/profile` lists all",
            field="query",
        )
    return text


def _groups(text: str) -> str:
    """`text` if it is names of groups, separated by commas. Raises InvalidInput."""
    for name in text.split(","):
        check_group(name)
    return text


Query = Annotated[
    str,
    AfterValidator(_check_query),
    Field(
        description="a question or a task in any words",
        examples=["When do I like to fly?"],
        json_schema_extra={"minLength": 1, "maxLength": limits.MAX_QUERY_LENGTH},
    ),
]


class _Searched(Model):
    """What both routes take."""

    query: Query
    everywhere: bool = Field(default=False, description="every scope by itself, not one chain")
    include: Literal["history"] | None = Field(
        default=None, description="`history`: also values that no longer apply, labelled"
    )
    exclude: Literal["unresolved"] | None = Field(default=None, description="`unresolved`: not what others contradict")
    min_authority: Authority | None = Field(default=None, strict=False, description="only with this authority or more")
    updated_from: Instant | None = Field(default=None, description="only what was said then or later")
    updated_before: Instant | None = Field(default=None, description="only what was said before")
    limit: Limit = DEFAULT_LIMIT
    page: Page = None

    def wanted(self, chain: tuple[str, ...], groups: tuple[str, ...]) -> Wanted:
        """What is searched for."""
        return Wanted(
            self.query,
            None if self.everywhere else chain,
            history=self.include == "history",
            unresolved=self.exclude != "unresolved",
            groups=groups,
            min_authority=self.min_authority,
            updated_from=self.updated_from,
            updated_before=self.updated_before,
        )


class SearchQuery(Bounded, _Searched):
    """Parameters of `GET /v1/search`."""

    model_config = ConfigDict(strict=False)

    scope: ScopeText = GLOBAL
    fallback: Fallback = True
    groups: Annotated[str, AfterValidator(_groups)] | None = Field(
        default=None,
        description="only keys that are declared to be of these groups, separated by commas",
        json_schema_extra={"minLength": 1},
    )


class SearchRequest(BoundedBody, _Searched):
    """Body of `POST /v1/search`."""

    model_config = ConfigDict(strict=True)

    groups: Annotated[list[str], AfterValidator(each("groups", check_group))] = Field(
        default_factory=list, max_length=limits.MAX_GROUPS_PER_SEARCH
    )
    """Only keys that are declared to be of these groups; default: all keys."""


def search_router(searches: Callable[[Request], Searches]) -> APIRouter:
    """The routes; `searches` finds the service of the application that a request is for."""
    router = APIRouter(tags=["read"])

    @router.get(
        "/v1/search",
        **answer_docs(SearchAnswer),
        operation_id="search",
        summary="The records nearest to a question, of those that apply",
        openapi_extra=query_docs(SearchQuery, DEMAND),
    )
    async def search(request: Request) -> Response:
        query = in_query(request, SearchQuery)
        chain = scope_chain(query.scope, fallback=query.fallback)
        wanted = query.wanted(chain, tuple(query.groups.split(",")) if query.groups else ())
        return answered(await searches(request).search(query.asked(), wanted, limit=query.limit, page=query.page))

    @router.post(
        "/v1/search",
        **answer_docs(SearchAnswer, "request-too-large"),
        operation_id="search_long",
        summary="The same for long questions, and along any scope chain",
        openapi_extra=body_docs(SearchRequest, examples=examples.SEARCHES) | {"parameters": [DEMAND]},
    )
    async def search_long(request: Request) -> Response:
        body = SearchRequest.read(await read_body(request))
        wanted = body.wanted(body.chain, tuple(dict.fromkeys(body.groups)))
        return answered(await searches(request).search(body.asked(), wanted, limit=body.limit, page=body.page))

    return router
