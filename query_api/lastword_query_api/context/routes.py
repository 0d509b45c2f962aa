"""The routes of contexts. Owner and task travel in the body, an id in the query, never in the path."""

from collections.abc import Callable
from typing import Annotated, Literal, Self

from fastapi import APIRouter, Request, Response
from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator

from lastword_query_api.context.check import Held
from lastword_query_api.context.contexts import Contexts, Handed, handed_of
from lastword_query_api.context.selection import Overlay, Task
from lastword_query_api.queries import BoundedBody, Demanding, each
from lastword_query_api.readings import Asked
from lastword_query_api.routes import DEMAND, answer_docs, read_body
from lastword_schemas import examples, jsontext, limits
from lastword_schemas.authority import Authority
from lastword_schemas.bodies import body_docs
from lastword_schemas.contexts import (
    CONTEXT_ID_PATTERN,
    ContextAnswer,
    ContextCheck,
    parse_context_id,
)
from lastword_schemas.envelope import KeyText, OwnerText, ScopeText
from lastword_schemas.errors import InvalidInput, TooLarge
from lastword_schemas.headers import POSITION
from lastword_schemas.identity import GLOBAL, check_key, check_scope, scope_chain
from lastword_schemas.model import Model
from lastword_schemas.positions import (
    DEMAND_PATTERN,
    MAX_SEQUENCE,
    parse_demand,
    parse_receipt,
)
from lastword_schemas.problems import problem_docs
from lastword_schemas.queries import query_docs, read_query
from lastword_schemas.registry import check_group

DEFAULT_BUDGET, DEFAULT_LIMIT = 1_000, 8


def _check_task(text: str) -> str:
    """`text` if it can be a task. Raises InvalidInput."""
    if len(text) > limits.MAX_QUERY_LENGTH:
        raise TooLarge(
            f"task has {len(text)} characters; at most {limits.MAX_QUERY_LENGTH} are allowed. Say what is to be done, "
            "not all that was said",
            field="task",
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput("task holds a lone surrogate, which is not Unicode text", field="task") from error
    return text


TaskText = Annotated[
    str,
    AfterValidator(_check_task),
    Field(
        description="what the model is to do, in any words; empty: what is kept for any task",
        json_schema_extra={"maxLength": limits.MAX_QUERY_LENGTH},
    ),
]
ItemLimit = Annotated[int, Field(ge=0, le=limits.MAX_CONTEXT_ITEMS)]
Keys = Annotated[list[str], AfterValidator(each("keys", check_key))]


class OverlayBody(Model):
    """A statement of the current turn that may not be projected yet."""

    scope: ScopeText = GLOBAL
    key: KeyText
    value: JsonValue
    receipt: Annotated[str, Field(json_schema_extra={"pattern": "^r1\\."})] | None = None
    """Of its publish, if there is one: as soon as the projection has it, the projection is believed."""


class ContextRequest(BoundedBody):
    """Body of `POST /v1/contexts`."""

    task: TaskText = ""
    budget: int = Field(default=DEFAULT_BUDGET, ge=1, le=limits.MAX_CONTEXT_TOKENS)
    """Tokens that `prompt` may have."""
    limit: ItemLimit = DEFAULT_LIMIT
    """Records to be chosen, at most, besides those that are named."""
    keys: Keys = Field(default_factory=list, max_length=limits.MAX_CONTEXT_ITEMS)
    """Always to be there, if something applies and there is room, before all others."""
    groups: Annotated[list[str], AfterValidator(each("groups", check_group))] = Field(
        default_factory=list, max_length=limits.MAX_GROUPS_PER_SEARCH
    )
    """Choose only among keys that are declared to be of these groups; default: all keys."""
    min_authority: Authority | None = Field(default=None, strict=False)
    """Choose only among records with this authority or more."""
    exclude: Literal["unresolved"] | None = None
    """`unresolved`: choose nothing that others contradict."""
    overlay: list[OverlayBody] = Field(default_factory=list, max_length=limits.MAX_OVERLAYS)
    """What was said in this turn and may not be projected yet, one statement a key."""
    store: bool = True
    """False: keep it nowhere; it has no id."""

    @property
    def for_task(self) -> Task:
        """What it is for."""
        return Task(
            self.task,
            self.chain,
            tuple(dict.fromkeys(self.keys)),
            tuple(dict.fromkeys(self.groups)),
            self.min_authority,
            self.exclude is None,
            self.limit,
        )

    def overlays(self) -> list[Overlay]:
        """The overlays, read. Raises InvalidInput naming the offending one."""
        found: dict[str, Overlay] = {}
        for number, one in enumerate(self.overlay):
            at = f"overlay.{number}"
            if one.key in found:
                raise InvalidInput(f"{at}.key: there is a statement of this key already", field=f"{at}.key")
            if one.scope not in self.chain:
                raise InvalidInput(f"{at}.scope is not in the chain of scopes: say it in scopes", field=f"{at}.scope")
            jsontext.check_value(one.value, field=f"{at}.value")
            receipt = None if one.receipt is None else parse_receipt(one.receipt, field=f"{at}.receipt")
            found[one.key] = Overlay(one.scope, one.key, one.value, receipt)
        return list(found.values())


class ContextQuery(Model):
    """Parameters of `GET /v1/contexts`."""

    model_config = ConfigDict(strict=False)

    id: str = Field(
        description="of a stored context",
        json_schema_extra={"pattern": CONTEXT_ID_PATTERN},
        examples=[examples.CONTEXT],
    )


class HandedItem(Model):
    """A record that a model was handed."""

    scope: ScopeText = GLOBAL
    key: KeyText
    source_sequence: int = Field(ge=0, le=MAX_SEQUENCE)
    event_id: str | None = None
    """Of the event that it stood on: tells readings of the same words apart."""


class CheckRequest(Demanding):
    """Body of `POST /v1/contexts/check`: the id of a stored context, or items with the chain that they are of."""

    model_config = ConfigDict(strict=True)

    owner: OwnerText | None = None  # type: ignore[assignment]
    """With items; with an id it need not be said."""
    id: Annotated[str, Field(json_schema_extra={"pattern": CONTEXT_ID_PATTERN})] | None = None
    items: list[HandedItem] | None = Field(default=None, max_length=limits.MAX_CONTEXT_ITEMS)
    scopes: Annotated[list[str], AfterValidator(each("scopes", check_scope))] | None = Field(
        default=None, min_length=1, max_length=limits.MAX_SCOPES_PER_READ
    )
    """Of items, the chain, first scope first; default: `scope`, then global."""
    scope: ScopeText = GLOBAL
    position: Annotated[str, Field(json_schema_extra={"pattern": DEMAND_PATTERN})] | None = None
    """Of items, the position token of the answer that they are from: what came after it is told as `newer`."""
    task: TaskText = ""
    """Of items, what `newer` is to be near to."""
    limit: ItemLimit = DEFAULT_LIMIT
    """Of items, how many would be chosen now."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.id is None) == (self.items is None):
            raise InvalidInput("id and items: say one of them", field="id")
        if self.id is None and self.owner is None:
            raise InvalidInput("owner: is missing; items are of somebody", field="owner")
        if self.scopes is not None and "scope" in self.model_fields_set:
            raise InvalidInput("scope and scopes: say one of them", field="scopes")
        mine = {"scope", "scopes", "position", "task", "limit"} & self.model_fields_set
        if self.id is not None and mine:
            raise InvalidInput(f"{min(mine)} goes with items; a stored context has its own", field=min(mine))
        return self

    def handed(self) -> Handed:
        """The items, read. Raises InvalidInput."""
        chain = tuple(dict.fromkeys(self.scopes or scope_chain(self.scope)))
        held = []
        for number, item in enumerate(self.items or ()):
            if item.scope not in chain:
                raise InvalidInput(
                    f"items.{number}.scope is not in the chain of scopes: say it in scopes",
                    field=f"items.{number}.scope",
                )
            held.append(Held(item.scope, item.key, item.source_sequence, item.event_id))
        since = None if self.position is None else parse_demand(self.position, field="position").sequence
        return Handed(str(self.owner), held, Task(self.task, chain, limit=self.limit), since)

    def asked_after(self, owner: str, position: str | None) -> Asked:
        """A check reads nothing older than what it is of. Raises InvalidInput."""
        own = None if position is None else parse_demand(position, field="position")
        more = None if self.at_least is None else parse_demand(self.at_least)
        if own is not None and more is not None and own.log_id == more.log_id and own.sequence >= more.sequence:
            more = None
        return Asked(owner, at_least=more or own, wait_ms=self.wait_ms)


def context_router(contexts: Callable[[Request], Contexts]) -> APIRouter:
    """The routes; `contexts` finds the service of the application that a request is for."""
    router = APIRouter(tags=["read"])

    @router.post(
        "/v1/contexts",
        **answer_docs(ContextAnswer, "request-too-large", "contexts-unavailable"),
        operation_id="make_context",
        summary="The few cited records for a task, as a block for a prompt, kept as they are now",
        openapi_extra=body_docs(ContextRequest, examples=examples.CONTEXTS) | {"parameters": [DEMAND]},
    )
    async def make(request: Request) -> Response:
        body = ContextRequest.read(await read_body(request))
        overlays = body.overlays()
        asked = body.asked()
        return _answered(
            await contexts(request).make(asked, body.for_task, overlays, budget=body.budget, store=body.store)
        )

    @router.get(
        "/v1/contexts",
        response_model=ContextAnswer,
        responses=problem_docs("malformed", "unknown-context", "contexts-unavailable"),
        response_description="The context, as it was answered when it was made",
        operation_id="read_context",
        summary="A stored context",
        openapi_extra=query_docs(ContextQuery),
    )
    async def read(request: Request) -> Response:
        query = ContextQuery.read(read_query(request.scope["query_string"]))
        return _answered(await contexts(request).get(parse_context_id(query.id)))

    @router.post(
        "/v1/contexts/check",
        **answer_docs(ContextCheck, "unknown-context", "request-too-large", "contexts-unavailable"),
        operation_id="check_context",
        summary="Whether a context still says what applies, and what to change in the prompt",
        openapi_extra=body_docs(CheckRequest, examples=examples.CHECKS) | {"parameters": [DEMAND]},
    )
    async def check(request: Request) -> Response:
        body = CheckRequest.read(await read_body(request))
        service = contexts(request)
        if body.id is None:
            return _answered(await service.check(body.handed(), body.asked_after(str(body.owner), body.position)))
        context = await service.get(parse_context_id(body.id))
        if body.owner not in (None, context.owner):
            raise InvalidInput("owner: the context is of another owner", field="owner")
        asked = body.asked_after(context.owner, context.position_token)
        return _answered(await service.check(handed_of(context), asked))

    return router


def _answered(answer: ContextAnswer | ContextCheck) -> Response:
    """The answer, with how far it goes in a header."""
    return Response(answer.model_dump_json(), headers={POSITION: answer.position_token}, media_type="application/json")
