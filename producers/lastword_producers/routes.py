"""The write routes. Each item of a request is settled by itself; a mix of outcomes is a 207."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import ConfigDict, Field

from lastword_producers import json_lines
from lastword_producers.desk import Desk, DraftKind, Settled
from lastword_schemas import examples, jsontext, limits
from lastword_schemas.answers import BatchAnswer, ItemAnswer, ReceiptAnswer
from lastword_schemas.authority import Authority, Role
from lastword_schemas.bodies import body_docs, read_json
from lastword_schemas.drafts import CandidateDraft, EventDraft
from lastword_schemas.envelope import EventId, ExpectedSequence, KeyText, OwnerText, ScopeText, ServiceName
from lastword_schemas.errors import InvalidInput, LastwordError, TooLarge
from lastword_schemas.headers import IDEMPOTENCY_KEY, POSITION
from lastword_schemas.ids import event_id_from
from lastword_schemas.model import Model
from lastword_schemas.positions import Receipt
from lastword_schemas.problems import MEDIA_TYPE, problem_docs, problem_of
from lastword_schemas.queries import header_docs, query_docs, read_query
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
    service: ServiceName = Field(examples=["settings"])
    role: Role = Role.SERVICE
    authority: Authority = Authority.STATED
    event_id: EventId | None = None
    expected_sequence: ExpectedSequence | None = None


_KEY = header_docs(IDEMPOTENCY_KEY, "of one event: the same as its `event_id`; both are only allowed if they are equal")
_CODES = (
    *("malformed", "not-yet", "unknown-operation", "position-not-allowed", "too-large", "actor-not-allowed"),
    *("undeclared-key", "value-schema", "authority-too-low", "refused"),
    *(
        "publish-failed",
        "backpressure",
        "publisher-closed",
        "broker-refused",
        "broker-unavailable",
        "log-not-ready",
        "log-mismatch",
    ),
    *("not-projected", "store-unavailable", "unknown-outcome"),
)


def write_router(desk: Callable[[Request], Desk]) -> APIRouter:
    """The routes; `desk` finds the door of the application that a request is for."""
    router = APIRouter(tags=["write"])

    @router.post(
        "/v1/events",
        response_model=ItemAnswer | BatchAnswer,
        responses=_answers(is_batch=True),
        status_code=_ACCEPTED,
        response_description="Every event is in the log",
        operation_id="publish_events",
        summary="Publish one statement or turn, or many as {events: [...]} or as JSON lines",
        openapi_extra=_body(EventDraft, EventBatch, examples.EVENTS) | query_docs(WriteQuery, _KEY),
    )
    async def events(request: Request) -> Response:
        return await _write(request, desk(request), EventDraft, "events")

    @router.post(
        "/v1/candidates",
        response_model=ItemAnswer | BatchAnswer,
        responses=_answers(is_batch=True),
        status_code=_ACCEPTED,
        response_description="Every event is in the log",
        operation_id="publish_candidates",
        summary="Publish one candidate, or many as {candidates: [...]} or as JSON lines",
        openapi_extra=_body(CandidateDraft, CandidateBatch, examples.CANDIDATES) | query_docs(WriteQuery, _KEY),
    )
    async def candidates(request: Request) -> Response:
        return await _write(request, desk(request), CandidateDraft, "candidates")

    @router.delete(
        "/v1/value",
        response_model=ItemAnswer,
        responses=_answers(is_batch=False),
        status_code=_ACCEPTED,
        response_description="Every event is in the log",
        operation_id="delete_value",
        summary="Publish a tombstone for one key",
        openapi_extra=query_docs(DeleteQuery, _KEY),
    )
    async def delete(request: Request) -> Response:
        query = DeleteQuery.read(read_query(request.scope["query_string"]))
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
        return await _write_one(request, desk(request), draft, EventDraft, query)

    return router


def _body(one: type[Model], several: type[Model], shown: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI part on the body of a write."""
    docs = body_docs(one, several, examples=shown)
    lines = f"One JSON document a line, each as of `{one.__name__}`; empty lines are passed over."
    first = next(iter(shown.values()))
    media = {"schema": {"description": lines}, "example": f"{jsontext.dump(first)}\n" * 2}
    docs["requestBody"]["content"][json_lines.MEDIA_TYPE] = media
    return docs


def _answers(*, is_batch: bool) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI part on answers other than `accepted`. A problem may also be that of every item of a batch."""
    problems = problem_docs(*_CODES, *(("request-too-large",) if is_batch else ()))
    applied: dict[str, Any] = {"description": "Every event counts (with wait=applied)"}
    if not is_batch:
        return problems | {_APPLIED: applied | {"model": ItemAnswer}}
    batch = {"schema": {"$ref": "#/components/schemas/BatchAnswer"}}
    for problem in problems.values():
        problem["content"] = problem["content"] | {"application/json": batch}
    applied |= {
        "model": ItemAnswer | BatchAnswer,
        "description": applied["description"] + "; or JSON lines were sent: an ItemAnswer a line",
        "content": {json_lines.MEDIA_TYPE: {"schema": {"description": "One `ItemAnswer` a line."}}},
    }
    return problems | {_APPLIED: applied, _MIXED: {"model": BatchAnswer, "description": "The events fared differently"}}


async def _write(request: Request, desk: Desk, kind: DraftKind, many: str) -> Response:
    query = WriteQuery.read(read_query(request.scope["query_string"]))
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type == json_lines.MEDIA_TYPE:
        _refuse_key(request)
        items = json_lines.documents(request.stream())
        return json_lines.JsonLines(_lines(desk.accept_each(items, kind, wait_applied_s=query.wait_applied_s)))
    body = await read_json(request.stream())
    if isinstance(body, dict) and many in body:
        _refuse_key(request)
        settled = await desk.accept(_items(body, many), kind, wait_applied_s=query.wait_applied_s)
        return _batch_response([_item(one) for one in settled])
    return await _write_one(request, desk, body, kind, query)


async def _write_one(request: Request, desk: Desk, draft: Any, kind: DraftKind, query: WriteQuery) -> Response:
    key = request.headers.get(IDEMPOTENCY_KEY)
    if key is not None and isinstance(draft, dict):
        draft = draft | {"event_id": _event_id(key, draft.get("event_id"))}
    (settled,) = await desk.accept([draft], kind, wait_applied_s=query.wait_applied_s)
    return _single_response(settled)


def _event_id(key: str, given: Any) -> str:
    """The event id that the header gives; the quotes of a structured field are not part of it.

    Raises InvalidInput where the body gives another one.
    """
    text = key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key
    if not text.isascii():
        raise InvalidInput(f"{IDEMPOTENCY_KEY} is not ASCII", field=IDEMPOTENCY_KEY)
    event_id = event_id_from(text)
    if given is not None and (not isinstance(given, str) or event_id_from(given) != event_id):
        raise InvalidInput(f"event_id and {IDEMPOTENCY_KEY} differ: say one of them", field=IDEMPOTENCY_KEY)
    return event_id


def _refuse_key(request: Request) -> None:
    if IDEMPOTENCY_KEY in request.headers:
        message = f"{IDEMPOTENCY_KEY} is of one event: of several give each its event_id"
        raise InvalidInput(message, field=IDEMPOTENCY_KEY)


async def _lines(groups: AsyncGenerator[list[Settled], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(groups) as groups:
        async for group in groups:
            yield "".join(f"{_item(one).model_dump_json(exclude_none=True)}\n" for one in group).encode()


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
        headers = {POSITION: str(settled.receipt)}
        return Response(problem.model_dump_json(exclude_none=True), problem.status, headers, MEDIA_TYPE)
    return _json(item, _status(item), settled.receipt)


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


def _json(answer: Model, status: int, receipt: Receipt | None = None) -> Response:
    headers = {"Retry-After": "1"} if status == 503 else {}
    if receipt is not None:
        headers[POSITION] = str(receipt)
    return Response(answer.model_dump_json(exclude_none=True), status, headers, "application/json")
