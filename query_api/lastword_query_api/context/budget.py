"""What a text costs in a model's window, and what fits into it. Pure."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from lastword_query_api.context.prompt import FRAME, block, line_of
from lastword_schemas.contexts import ContextItem

_RUN: Final = re.compile(
    r"(?P<letters>[A-Za-z]+)|(?P<digits>[0-9]+)|(?P<space>[ \t\r\n]+)|(?P<wide>[^\x00-\x7f]+)"
    r"|(?P<other>[\x00-\x08\x0b\x0c\x0e-\x1f!-/:-@\[-`{-\x7f]+)"
)
_A_TOKEN: Final = {"letters": 4, "digits": 3, "space": 4, "wide": 2, "other": 2}


class TokenCounter(Protocol):
    """Counts tokens. The same text has always the same number."""

    name: str
    """What contexts call its rule."""

    def count(self, text: str) -> int:
        """How many tokens a text has, or a number that is not below it."""
        ...


class CountedRuns:
    """Counts runs of characters of one kind, so that the number is near to what tokenizers make of JSON and prose, or
    above it: a token is four ASCII letters, three digits, two other ASCII characters, or two bytes of UTF-8 of anything
    else; begun ones count. Of white space the first character of a run is free, and then a token is four."""

    name = "runs"

    def count(self, text: str) -> int:
        """See `TokenCounter`."""
        found = 0
        for run in _RUN.finditer(text):
            kind, size = run.lastgroup, run.end() - run.start()
            if kind == "space":
                size -= 1
            elif kind == "wide":
                size = len(run.group().encode("utf-8"))
            found += -(-size // _A_TOKEN[kind or ""])
        return found


class Fitted(NamedTuple):
    """A prompt within its budget."""

    items: list[ContextItem]
    """Those that are in it."""
    without_room: list[ContextItem]
    prompt: str
    tokens: int


def fit(items: Sequence[ContextItem], budget: int, counter: TokenCounter) -> Fitted:
    """The prompt of as many items as there is room for, those first that stand first; one that is too large is passed
    over for smaller ones behind it."""
    lines = [(item, line_of(item)) for item in items]
    spent = counter.count(FRAME)
    kept: list[tuple[ContextItem, str]] = []
    for item, line in lines:
        cost = counter.count(f"{line}\n")
        if spent + cost <= budget:
            kept.append((item, line))
            spent += cost
    prompt = block([line for _, line in kept])
    while (tokens := counter.count(prompt)) > budget and kept:  # a counter need not add up
        kept.pop()
        prompt = block([line for _, line in kept])
    within = [item for item, _ in kept]
    left = [item for item in items if not any(item is one for one in within)]
    return Fitted(within, left, prompt, tokens)
