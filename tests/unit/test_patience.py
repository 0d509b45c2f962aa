"""Calls are made again while that may help, and no longer."""

from collections.abc import Iterator

import pytest

from lastword.cli.client import ApiProblem, ApiUnreachable
from lastword.cli.patience import patiently

FULL = ApiProblem({"retryable": True}, 503, retry_after_s=20.0)
WRONG = ApiProblem({"retryable": False}, 422)


def called(*outcomes: Exception | str) -> tuple[str | Exception, list[float]]:
    """What comes of a call with these outcomes, and how long was waited before each further one."""
    left: Iterator[Exception | str] = iter(outcomes)
    slept: list[float] = []

    def call() -> str:
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    try:
        return patiently(call, slept.append), slept
    except (ApiProblem, ApiUnreachable) as error:
        return error, slept


def test_what_may_succeed_later_is_tried_again_and_waits_as_long_as_it_was_told() -> None:
    outcome, slept = called(ApiUnreachable(), FULL, "answer")
    assert outcome == "answer"
    assert len(slept) == 2
    assert slept[1] >= 20


def test_what_would_not_succeed_is_raised_at_once() -> None:
    assert called(WRONG, "answer") == (WRONG, [])


@pytest.mark.parametrize("error", [FULL, ApiUnreachable()])
def test_it_gives_up_after_a_minute_or_so(error: Exception) -> None:
    outcome, slept = called(*[error] * 100)
    assert outcome is error
    assert len(slept) == 7
    assert 30 < sum(slept) < 200
