"""Calls that are made again while the API is away or has no room."""

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from lastword.cli.client import ApiProblem, ApiUnreachable

T = TypeVar("T")
_TRIES: Final = 8
_FIRST_S, _LONGEST_S = 0.5, 15.0


def pauses() -> list[float]:
    """Seconds to wait before each further try: longer and longer, not the same for everybody; a minute or so in all."""
    return [min(_LONGEST_S, _FIRST_S * 2**number) * random.uniform(0.75, 1.25) for number in range(_TRIES - 1)]


def patiently(call: Callable[[], T], sleep: Callable[[float], None] = time.sleep) -> T:
    """The call's result. Raises what it raises where another try would not help, or none of them did."""
    for pause in pauses():
        try:
            return call()
        except ApiUnreachable:
            sleep(pause)
        except ApiProblem as error:
            if not error.problem.get("retryable"):
                raise
            sleep(max(pause, error.retry_after_s))
    return call()
