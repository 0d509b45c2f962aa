"""The tables of messages that the extractor is scored on, and the score."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lastword.extraction import Candidate, Message, RuleExtractor
from lastword_schemas import jsontext
from lastword_schemas.registry import Registry, parse_registry_file

FOLDER = Path(__file__).parents[1] / "data" / "extraction"
WRITTEN, PRACTICE, INDEPENDENT = "messages.jsonl", "practice.jsonl", "independent.jsonl"
"""Tables: written with the rules; what the rules were mended by later; by somebody who had not seen the rules."""


class Case(NamedTuple):
    """One message and what is to be made of it."""

    kind: str
    """What the message is: durable, correction, one-off, quoted, hypothetical, negated, other-person ..."""
    text: str
    expected: frozenset[str]
    """Operation, key, scope and value of every candidate, as JSON."""


class Score(NamedTuple):
    """How an extractor did on a table."""

    messages: int
    right: int
    missed: int
    false: Counter[str]
    """Candidates that nobody expected, by kind of message."""

    @property
    def precision(self) -> float:
        """Of what was proposed, how much was to be."""
        return self.right / max(self.right + self.false.total(), 1)

    @property
    def recall(self) -> float:
        """Of what was to be proposed, how much was."""
        return self.right / max(self.right + self.missed, 1)


def cases(table: str = WRITTEN) -> Iterator[Case]:
    """The messages of a table."""
    for line in (FOLDER / table).read_text("utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        wanted = (
            _name("delete" if one["value"] is None else "set", one["key"], one.get("scope", "global"), one["value"])
            for one in row["expect"]
        )
        yield Case(row["class"], row["text"], frozenset(wanted))


def registry() -> Registry:
    """The keys that the tables are about."""
    return parse_registry_file((FOLDER / "keys.toml").read_text("utf-8"))


def extractor() -> RuleExtractor:
    """The extractor for these keys."""
    return RuleExtractor(registry())


def message(text: str) -> Message:
    """A message that is in a log."""
    return Message(text, "user:ada", source="turn-1")


def named(candidate: Candidate) -> str:
    """As `Case.expected`."""
    return _name(candidate.operation, candidate.key, candidate.scope, candidate.value)


def score(table: str = WRITTEN) -> Score:
    """The score of the rules on a table."""
    rules, false = extractor(), Counter[str]()
    count = right = missed = 0
    for case in cases(table):
        proposed = {named(one) for one in rules.read(message(case.text)).candidates}
        count += 1
        right += len(proposed & case.expected)
        missed += len(case.expected - proposed)
        if wrong := len(proposed - case.expected):
            false[case.kind] += wrong
    return Score(count, right, missed, false)


def _name(operation: str, key: str, scope: str, value: Any) -> str:
    return jsontext.canonical([operation, key, scope, value])
