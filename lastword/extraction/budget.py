"""How many tokens a model may use."""

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from lastword.extraction.protocol import ExtractorUnavailable

_HOUR_S: Final = 3_600


class BudgetSpent(ExtractorUnavailable):
    """The tokens of this hour are used up."""

    code = "budget-spent"


class Budget:
    """Tokens in any hour. What one answer uses is known when it is there, so answers under way may exceed it."""

    def __init__(self, hourly_tokens: int, now: Callable[[], float] = time.monotonic) -> None:
        self._most, self._now = hourly_tokens, now
        self._used: deque[tuple[float, int]] = deque()
        self._sum = 0

    def check(self) -> None:
        """Raise BudgetSpent where nothing is left."""
        while self._used and self._used[0][0] <= self._now() - _HOUR_S:
            self._sum -= self._used.popleft()[1]
        if self._sum >= self._most:
            raise BudgetSpent(
                f"{self._sum} tokens were used in an hour, and {self._most} may be: wait, or raise "
                "LASTWORD_EXTRACTOR_HOURLY_TOKENS"
            )

    def use(self, tokens: int) -> None:
        """Note what an answer has used."""
        self._used.append((self._now(), tokens))
        self._sum += tokens
