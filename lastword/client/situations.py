"""Which error an answer, a problem document or a broken connection is."""

from collections.abc import Callable
from typing import Any, Final

import httpx
from pydantic import ValidationError

from lastword.client import errors
from lastword.client.receipts import read_receipt
from lastword_schemas.answers import ReceiptAnswer
from lastword_schemas.errors import InvalidInput, LastwordError
from lastword_schemas.problems import Problem
from lastword_schemas.verdicts import Verdict

_ALL_WELL: Final = frozenset({200, 202, 207})
_BAD_GATEWAY, _UNAVAILABLE, _GATEWAY_TIMEOUT, _TOO_MANY = 502, 503, 504, 429
_NOT_CONNECTED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)

_BY_CODE: Final[dict[str, type[errors.CallFailed]]] = {
    "backpressure": errors.Backpressure,
    "before-horizon": errors.BeforeHorizon,
    "error": errors.ServerError,
    "log-mismatch": errors.Misconfigured,
    "method-not-allowed": errors.UnexpectedAnswer,
    "not-found": errors.UnexpectedAnswer,
    "not-projected-yet": errors.NotProjectedYet,
    "other-projection": errors.Misconfigured,
    "publish-failed": errors.PublishFailed,
    "unknown-context": errors.UnknownContext,
    "unknown-event": errors.UnknownEvent,
    "wrong-log": errors.WrongLog,
}


def of_answer(response: httpx.Response, url: str, *, event_id: str | None, is_write: bool) -> LastwordError | None:
    """What is wrong with an answer; None if it is what was asked for, or the results of a batch."""
    if response.status_code in _ALL_WELL:
        return None
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        if is_write and b'"results"' in response.content[:20]:
            return None
        error: LastwordError = _foreign(response, url)
    else:
        error = of_problem(problem, event_id=event_id, is_write=is_write)
    if isinstance(error, errors.CallFailed):
        error.request_id = response.headers.get("x-request-id")
    return error


def of_problem(problem: Problem, *, event_id: str | None, is_write: bool) -> LastwordError:
    """The error that a problem document tells of."""
    if (kind := _BY_CODE.get(problem.code)) is not None:
        return kind(problem.detail, field=problem.field, problem=problem)
    if problem.code == "unknown-outcome":
        return errors.UnknownOutcome(event_id, "the log did not acknowledge it in time", problem=problem)
    if problem.status in (401, 403):
        return errors.AccessDenied(problem.detail, field=problem.field, problem=problem)
    if problem.status >= 500:
        return errors.Unavailable(problem.detail, field=problem.field, problem=problem)
    return _refused(problem, event_id) if is_write else InvalidInput(problem.detail, field=problem.field)


def refused(verdict: Verdict, receipt: Any) -> errors.Refused:
    """The error of an event that is in the log and does not count."""
    reason = str(verdict.reason)
    message = f"the log has the event, and it does not count ({reason}): {verdict.detail}"
    return errors.Refused(message, reason=reason, event_id=verdict.event_id, receipt=receipt, verdict=verdict)


def of_transport(error: httpx.TransportError, url: str) -> errors.Unreachable:
    """The error of a connection that broke or did not come about."""
    if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
        return errors.Unreachable(f"lastword at {url} did not answer in time; look at its log, or allow more time")
    return errors.Unreachable(
        f"no lastword answers at {url} ({str(error) or type(error).__name__}). Start one on this machine with "
        "`lastword up` or `make demo`, or say in LASTWORD_URL where it is"
    )


def is_retryable(error: LastwordError) -> bool:
    """Whether the same call may succeed a moment later."""
    if isinstance(error, errors.NotProjectedYet):
        return False  # the API has waited already
    problem = error.problem if isinstance(error, errors.CallFailed) else None
    return error.retryable and (problem is None or problem.retryable)


def perhaps_written(cause: httpx.TransportError | httpx.Response) -> bool:
    """Whether a write that ended so may be in the log."""
    if isinstance(cause, httpx.TransportError):
        return not isinstance(cause, _NOT_CONNECTED)
    if cause.headers.get("content-type", "").startswith("application/problem+json"):
        return cause.status_code in (500, _GATEWAY_TIMEOUT)
    return cause.status_code in (500, _BAD_GATEWAY, _GATEWAY_TIMEOUT)


def parsed(read: Callable[[bytes], Any], response: httpx.Response, url: str) -> Any:
    """The answer, read. Raises UnexpectedAnswer where it does not have the form."""
    try:
        return read(response.content)
    except ValidationError as error:
        found = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['type']}" for one in error.errors(include_input=False)[:3]
        )
    raise errors.UnexpectedAnswer(
        f"what answers at {url} is no lastword that this client can read ({found}). Is the address right, and is this "
        "client as new as that lastword?"
    )


def _refused(problem: Problem, event_id: str | None) -> errors.Refused:
    extra = problem.model_extra or {}
    if "verdict" in extra:
        verdict = Verdict.model_validate(extra["verdict"], strict=False)
        receipt = ReceiptAnswer.model_validate(extra["receipt"]).receipt if "receipt" in extra else None
        error = refused(verdict, None if receipt is None else read_receipt(receipt, verdict))
        error.problem = problem
        return error
    return errors.Refused(problem.detail, reason=problem.code, event_id=event_id, field=problem.field, problem=problem)


def _foreign(response: httpx.Response, url: str) -> errors.CallFailed:
    """An answer of something in between, or of no lastword at all."""
    status = response.status_code
    if status in (401, 403, 407):
        return errors.AccessDenied(f"{url} answers with status {status}: give the client a token that is allowed this")
    if status in (_BAD_GATEWAY, _UNAVAILABLE, _GATEWAY_TIMEOUT, _TOO_MANY):
        return errors.Unavailable(f"{url} answers with status {status}, without saying why; try again")
    if status >= 500:
        return errors.ServerError(f"{url} answers with status {status}, without saying why; its log may say more")
    return errors.UnexpectedAnswer(
        f"what answers at {url} does not speak lastword's contract (status {status}): is the address right?"
    )
