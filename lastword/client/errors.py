"""What can come of a call, each situation by its name. All of them are LastwordErrors."""

from typing import TYPE_CHECKING, Any

from lastword_schemas.errors import InvalidInput, LastwordError

if TYPE_CHECKING:
    from lastword.client.receipts import Receipt
    from lastword_schemas.problems import Problem
    from lastword_schemas.verdicts import Verdict


class CallFailed(LastwordError):
    """A call of lastword did not bring what it was made for."""

    def __init__(self, message: str, *, field: str | None = None, problem: "Problem | None" = None) -> None:
        super().__init__(message, field=field)
        self.problem = problem
        """The problem document that lastword answered with, if it answered."""
        self.request_id: str | None = None
        """The request's id, which the log lines of lastword about it have, too; None if nothing answered."""


class Unreachable(CallFailed):
    """Nothing answers where lastword should be; nothing was written."""

    code = "unreachable"
    retryable = True


class Unavailable(CallFailed):
    """lastword answers, but cannot do this now; nothing was written."""

    code = "unavailable"
    retryable = True


class Misconfigured(CallFailed):
    """The parts of lastword do not fit together, or its log was replaced; whoever runs it has to mend that."""

    code = "misconfigured"


class Backpressure(Unavailable):
    """Too many events are under way; this one was not sent."""

    code = "backpressure"


class NotProjectedYet(Unavailable):
    """The projection has not reached the demanded position in time."""

    code = "not-projected-yet"

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        problem: "Problem | None" = None,
        receipt: "Receipt | None" = None,
    ) -> None:
        super().__init__(message, field=field, problem=problem)
        members = _members(problem)
        self.projected: int | None = members.get("projected")
        """The sequence that the projection has reached, if that is known."""
        self.demanded: int | None = members.get("demanded")
        """The sequence that it should have reached."""
        self.receipt = receipt
        """Of a write whose verdict was waited for: the log has the event."""


class UnknownOutcome(CallFailed):
    """The event may be in the log or not."""

    code = "unknown-outcome"
    retryable = True

    def __init__(self, event_id: str | None, reason: str, *, problem: "Problem | None" = None) -> None:
        super().__init__(
            f"whether event {event_id or '(of a batch)'} is in the log is not known ({reason}). Write it again with "
            "the same event_id: if the first copy is there, the second changes nothing",
            problem=problem,
        )
        self.event_id = event_id
        """The id to write the event with again; None of a whole batch."""
        self.reason = reason
        """Why it is not known."""


class Refused(CallFailed):
    """The event does not count, and the same event never will."""

    code = "refused"

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        event_id: str | None,
        field: str | None = None,
        problem: "Problem | None" = None,
        receipt: "Receipt | None" = None,
        verdict: "Verdict | None" = None,
    ) -> None:
        super().__init__(message, field=field, problem=problem)
        self.reason = reason
        """Why, for programs: a verdict's reason or a problem's code, such as `undeclared-key`."""
        self.event_id = event_id
        """The event."""
        self.receipt = receipt
        """Where the log has the event; None if it was refused at the door and is not in the log."""
        self.verdict = verdict
        """The verdict on an event that is in the log."""

    @property
    def detail(self) -> str:
        """Why, for people: without the value."""
        return self.message


class NotSent(CallFailed):
    """The event was not sent, because one before it in the batch did not get through."""

    code = "not-sent"
    retryable = True


class PublishFailed(CallFailed):
    """The event is certainly not in the log, by no fault of its own."""

    code = "publish-failed"


class WrongLog(CallFailed):
    """The demanded position is of another log than the one that answers."""

    code = "wrong-log"


class BeforeHorizon(CallFailed):
    """The boundary lies before the first sequence that the history has."""

    code = "before-horizon"

    @property
    def history_from(self) -> int | None:
        """The sequence that the history begins with."""
        return _members(self.problem).get("history_from")


class UnknownEvent(CallFailed):
    """The owner has no such event, as far as the log is projected."""

    code = "unknown-event"


class UnknownContext(CallFailed):
    """There is no such context: it was never stored, or is older than contexts are kept."""

    code = "unknown-context"


class AccessDenied(CallFailed):
    """The token is missing, or does not allow this."""

    code = "access-denied"


class UnexpectedAnswer(CallFailed):
    """What answered does not speak lastword's contract, or a version of it that this client cannot read."""

    code = "unexpected-answer"


class ServerError(CallFailed):
    """Something went wrong inside lastword; its log says more."""

    code = "error"


class DoesNotFit(LastwordError):
    """The value that applies does not fit the type that was asked for."""

    code = "does-not-fit"

    def __init__(self, key: str, wanted: str, misfits: tuple[tuple[str, str], ...]) -> None:
        shown = "; ".join(f"{path or 'the value'}: {why}" for path, why in misfits[:3])
        more = f"; and {len(misfits) - 3} more" if len(misfits) > 3 else ""
        super().__init__(
            f"the value of {key!r} does not fit {wanted}: {shown}{more}. Read it without as_type to see it; a schema "
            "in keys.toml keeps such values out",
            field=misfits[0][0] or None,
        )
        self.key = key
        self.misfits = misfits
        """What did not fit: dotted paths into the value (empty: the whole) and the reasons, without the value."""


__all__ = [
    "AccessDenied",
    "Backpressure",
    "BeforeHorizon",
    "CallFailed",
    "DoesNotFit",
    "InvalidInput",
    "LastwordError",
    "Misconfigured",
    "NotProjectedYet",
    "NotSent",
    "PublishFailed",
    "Refused",
    "ServerError",
    "Unavailable",
    "UnexpectedAnswer",
    "UnknownContext",
    "UnknownEvent",
    "UnknownOutcome",
    "Unreachable",
    "WrongLog",
]


def _members(problem: "Problem | None") -> dict[str, Any]:
    """What a problem document has besides the common members."""
    return {} if problem is None else problem.model_extra or {}
