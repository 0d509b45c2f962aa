"""Redis operations as data: a `Call` is one command and how to read its reply; a plan is a generator of calls.

Plans hold the logic once; a runner that blocks (the worker's) and one that awaits (the API's) carry them out.
"""

import hashlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

T = TypeVar("T")

Plan = Generator[Sequence["Call"], list[Any], T]
"""Yields calls to be sent in one pipeline, is sent their parsed replies, returns its result."""


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script of this package, by name."""

    name: str
    text: str
    sha: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class Call:
    """One Redis command and how to read its reply."""

    command: tuple[str | bytes | int, ...]
    parse: Callable[[Any], Any]


READ_ONLY = ("read", "slice", "find", "load", "window", "owner", "indexed")
SCRIPTS = (*READ_ONLY, "commit", "index", "relayed", "hand_over")


@cache
def script(name: str) -> Script:
    """The script in `lua/<name>.lua`."""
    text = (files("lastword_projector.store") / "lua" / f"{name}.lua").read_text("utf-8")
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), name in READ_ONLY)


def script_call(
    name: str, keys: Sequence[str], arguments: Sequence[str | bytes | int], parse: Callable[[Any], Any]
) -> Call:
    """A call of a script; a read-only one goes to replicas too and cannot write."""
    found = script(name)
    command = "EVALSHA_RO" if found.read_only else "EVALSHA"
    return Call((command, found.sha, len(keys), *keys, *arguments), parse)


class ScriptKeys:
    """The KEYS of a script call, each once; arguments name them by their index."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        """In order; names that come once only may be put in directly."""
        self._index_of = {name: index for index, name in enumerate(names, 1)}

    def index(self, name: str) -> int:
        """The index of a name, from 1."""
        index = self._index_of.get(name)
        if index is None:
            self.names.append(name)
            index = self._index_of[name] = len(self.names)
        return index


def together(plans: Sequence[Plan[T]]) -> Plan[list[T]]:
    """Several plans as one: what they ask for at the same step goes in the same pipeline."""
    results: dict[int, T] = {}
    waiting: dict[int, Sequence[Call]] = {}

    def advance(number: int, replies: list[Any] | None) -> None:
        try:
            waiting[number] = next(plans[number]) if replies is None else plans[number].send(replies)
        except StopIteration as done:
            waiting.pop(number, None)
            results[number] = done.value

    for number in range(len(plans)):
        advance(number, None)
    while waiting:
        asked = list(waiting.items())
        replies = yield [call for _, calls in asked for call in calls]
        for number, calls in asked:
            advance(number, replies[: len(calls)])
            replies = replies[len(calls) :]
    return [results[number] for number in range(len(plans))]
