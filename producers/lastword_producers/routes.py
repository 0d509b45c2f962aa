"""The write routes. Each item of a request is settled by itself; a mix of outcomes is a 207."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import ConfigDict, Field

from lastword_producers.desk import Desk, DraftKind, Settled
from lastword_schemas import limits
from lastword_schemas.answers import BatchAnswer, ItemAnswer, ReceiptAnswer
from lastword_schemas.authority import Authority, Role
from lastword_schemas.bodies import body_docs, read_json
from lastword_schemas.drafts import CandidateDraft, EventDraft
from lastword_schemas.envelope import EventId, ExpectedSequence, KeyText, OwnerText, ScopeText, ServiceName
from lastword_schemas.errors import InvalidInput, LastwordError, TooLarge
from lastword_schemas.model import Model
from lastword_schemas.positions import Receipt
from lastword_schemas.problems import MEDIA_TYPE, Problem, problem_of
from lastword_schemas.verdicts import Outcome

_ACCEPTED, _APPLIED, _MIXED = 202, 200, 207


class Refused(LastwordError):
    """The event is in the log and does not count."""

    code = "refused"


class EventBatch(Model):
    """Several statements and turns."""

    events: list[EventDraft] = Field(min_length=1, max_length=limits.MAX_EVENTS_PER_CALL)


class CandidateBatch(Model):
    """Several candidates."""

    candidates: list[CandidateDraft] = Field(min_length=1, max_length=limits.MAX_EVENTS_PER_CALL)


class WriteQuery(Model):
    """Parameters of a write."""

    model_config = ConfigDict(strict=False)

    wait: Literal["applied"] | None = Field(default=None, description="`applied`: answer with the verdict")
    wait_ms: int = Field(
        default=5_000, ge=0, le=limits.MAX_WAIT_MS, description="how long to wait for it, in milliseconds"
    )

    @property
    def wait_applied_s(self) -> float | None:
        """Seconds to wait for the verdict; None for not at all."""
        return None if self.wait is None else self.wait_ms / 1000


class DeleteQuery(WriteQuery):
    """Parameters of `DELETE /v1/value`."""

    owner: OwnerText
    scope: ScopeText
    key: KeyText
    service: ServiceName
    role: Role = Role.SERVICE
    authority: Authority = Authority.STATED
    event_id: EventId | None = None
    expected_sequence: ExpectedSequence | None = None


def write_router(desk: Callable[[Request], Desk]) -> APIRouter:
    """The routes; `desk` finds the door of the application that a request is for."""
    router = APIRouter(tags=["write"])

    @router.post(
        "/v1/events",
        response_model=ItemAnswer | BatchAnswer,
        responses=_answers(ItemAnswer | BatchAnswer),
        status_code=_ACCEPTED,
        summary="Publish one statement or turn, or many as {events: [...]}",
        openapi_extra=body_docs(EventDraft, EventBatch),
    )
    async def events(request: Request, query: Annotated[WriteQuery, Query()]) -> Response:
        return await _write(desk(request), await read_json(request.stream()), EventDraft, "events", query)

    @router.post(
        "/v1/candidates",
        response_model=ItemAnswer | BatchAnswer,
        responses=_answers(ItemAnswer | BatchAnswer),
        status_code=_ACCEPTED,
        summary="Publish one candidate, or many as {candidates: [...]}",
        openapi_extra=body_docs(CandidateDraft, CandidateBatch),
    )
    async def candidates(request: Request, query: Annotated[WriteQuery, Query()]) -> Response:
        return await _write(desk(request), await read_json(request.stream()), CandidateDraft, "candidates", query)

    @router.delete(
        "/v1/value",
        response_model=ItemAnswer,
        responses=_answers(ItemAnswer),
        status_code=_ACCEPTED,
        summary="Publish a tombstone for one key",
    )
    async def delete(request: Request, query: Annotated[DeleteQuery, Query()]) -> Response:
        draft: dict[str, Any] = {
            "operation": "delete",
            "owner": query.owner,
            "scope": query.scope,
            "key": query.key,
            "actor": {"service": query.service, "role": query.role.value},
            "authority": query.authority.value,
        }
        if query.event_id is not None:
            draft["event_id"] = query.event_id
        if query.expected_sequence is not None:
            draft["expected_sequence"] = query.expected_sequence
        return await _write(desk(request), draft, EventDraft, "events", query)

    return router


def _answers(model: Any) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI part on answers other than `accepted`. A problem may also be that of every item of a batch."""
    is_batch = model is not ItemAnswer
    schemas = {MEDIA_TYPE: Problem} | ({"application/json": BatchAnswer} if is_batch else {})
    content = {kind: {"schema": {"$ref": f"#/components/schemas/{of.__name__}"}} for kind, of in schemas.items()}
    answers: dict[int | str, dict[str, Any]] = {
        _APPLIED: {"model": model, "description": "Every event counts (with wait=applied)"},
        "default": {"description": "Refused, failed or unknown", "content": content},
    }
    if is_batch:
        answers[_MIXED] = {"model": BatchAnswer, "description": "The events fared differently"}
    return answers


async def _write(desk: Desk, body: Any, kind: DraftKind, many: str, query: WriteQuery) -> Response:
    if isinstance(body, dict) and many in body:
        items = _items(body, many)
        settled = await desk.accept(items, kind, wait_applied_s=query.wait_applied_s)
        return _batch_response([_item(one) for one in settled])
    (settled_one,) = await desk.accept([body], kind, wait_applied_s=query.wait_applied_s)
    return _single_response(settled_one)


def _items(body: dict[str, Any], many: str) -> Sequence[Any]:
    if len(body) > 1:
        other = min(set(body) - {many}).encode("utf-8", "backslashreplace").decode()
        raise InvalidInput(f"beside '{many}' the request has other members", field=other)
    items = body[many]
    if not isinstance(items, list) or not items:
        raise InvalidInput(f"'{many}' is not a list with at least one event", field=many)
    if len(items) > limits.MAX_EVENTS_PER_CALL:
        raise TooLarge(f"'{many}' has {len(items)} events; at most {limits.MAX_EVENTS_PER_CALL} a call", field=many)
    return items


def _item(settled: Settled) -> ItemAnswer:
    if settled.error is not None:
        problem = problem_of(settled.error)
        if problem.code == "unknown-outcome":
            return ItemAnswer(outcome="unknown", problem=problem)
        return ItemAnswer(outcome="refused" if problem.status < 500 else "failed", problem=problem)
    receipt = None if settled.receipt is None else receipt_answer(settled.receipt)
    if settled.verdict is None:
        return ItemAnswer(outcome="accepted", receipt=receipt)
    counts = settled.verdict.outcome is not Outcome.REFUSED
    return ItemAnswer(outcome="applied" if counts else "refused", receipt=receipt, verdict=settled.verdict)


def _status(item: ItemAnswer) -> int:
    if item.problem is not None:
        return item.problem.status
    return {"accepted": _ACCEPTED, "applied": _APPLIED}.get(item.outcome, 422)


def _batch_response(items: list[ItemAnswer]) -> Response:
    statuses = {_status(item) for item in items}
    return _json(BatchAnswer(results=items), statuses.pop() if len(statuses) == 1 else _MIXED)


def _single_response(settled: Settled) -> Response:
    item = _item(settled)
    if settled.error is not None:
        raise settled.error
    if item.outcome == "refused" and item.verdict is not None:
        error = Refused(f"the log has the event, and it does not count: {item.verdict.detail}")
        members = item.model_dump(mode="json", include={"receipt", "verdict"}, exclude_none=True)
        problem = problem_of(error, **members)
        return Response(problem.model_dump_json(exclude_none=True), problem.status, media_type=MEDIA_TYPE)
    return _json(item, _status(item))


def receipt_answer(receipt: Receipt) -> ReceiptAnswer:
    """A receipt as answered."""
    return ReceiptAnswer(
        receipt=str(receipt),
        event_id=receipt.event_id,
        log_id=receipt.log_id,
        generation=receipt.generation,
        partition=receipt.partition,
        offset=receipt.offset,
        sequence=receipt.sequence,
    )


def _json(answer: Model, status: int) -> Response:
    headers = {"Retry-After": "1"} if status == 503 else None
    return Response(answer.model_dump_json(exclude_none=True), status, headers, "application/json")
