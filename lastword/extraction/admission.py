"""What earns a place: the checks that every candidate passes, whoever read it."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from lastword.extraction.protocol import Candidate, Extraction, Message, NotProposed, Span, Why
from lastword_projector.engine.keys import compile_registry
from lastword_schemas import jsontext
from lastword_schemas.authority import Authority
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import check_key
from lastword_schemas.limits import MAX_QUOTE_LENGTH
from lastword_schemas.registry import Registry

_SECRET: Final = re.compile(
    r"\b(pass(word|phrase|code)|pin( code| number)?|secret key|api[ -]?key|social security|ssn|cvv)\b"
    r"|\b(?:\d[ -]?){13,19}\b|\b(sk|ghp|xox[bp])[-_]\w{16,}",
    re.IGNORECASE,
)


class Admission:
    """Lets through what names a declared key (or one in a namespace of its own), fits, and can be traced."""

    def __init__(self, registry: Registry, namespaces: Iterable[str] = ()) -> None:
        self._keys = compile_registry(registry.to_canonical())
        self._prefixes = tuple(f"{name}." for name in namespaces)

    def judge(self, message: Message, candidate: Candidate) -> Why | None:
        """Why a candidate earns no place; None if it does."""
        if not message.source or not _at_its_span(message.text, candidate):
            return Why.UNTRACEABLE
        if not _said_there(message, candidate.scope):
            return Why.OTHER_SCOPE
        if candidate.quote is not None and _recalled(message, candidate.quote):
            return Why.RECALLED
        declared = self._keys.registry.keys.get(candidate.key)
        if declared is None and not self._namespaced(candidate.key):
            return Why.NO_KEY
        if declared is not None and declared.extraction != "allowed":
            return Why.SENSITIVE if declared.extraction == "sensitive" else Why.NOT_KEPT
        if _SECRET.search(f"{candidate.quote or ''} {jsontext.dump(candidate.value)}"):
            return Why.SENSITIVE
        value = jsontext.dump(candidate.value).encode()
        unfit = candidate.operation == "set" and self._keys.value_problem(candidate.key, value) is not None
        return Why.NO_VALUE if unfit else None

    def admit(self, message: Message, extraction: Extraction) -> Extraction:
        """The extraction with what earns no place moved to what is refused. Nothing claims more than it can."""
        kept: list[Candidate] = []
        refused = list(extraction.refused)
        for candidate in extraction.candidates:
            why = self.judge(message, candidate)
            if why is not None:
                known = None if why is Why.NO_KEY else candidate.key
                refused.append(NotProposed(why, candidate.span or (0, len(message.text)), known))
            elif candidate not in kept:
                kept.append(_at_most(candidate))
        return Extraction(tuple(kept), tuple(refused))

    def _namespaced(self, key: str) -> bool:
        if not key.startswith(self._prefixes):
            return False
        try:
            check_key(key)
        except InvalidInput:
            return False
        return True


def _at_most(candidate: Candidate) -> Candidate:
    """Without a quote at its span nobody stated it; a person's act in a control is nothing that can be read."""
    least = Authority.INFERRED if candidate.quote is None else Authority.STATED
    return candidate if candidate.authority.rank <= least.rank else replace(candidate, authority=least)


def _at_its_span(text: str, candidate: Candidate) -> bool:
    if candidate.span is None or candidate.quote is None:
        return candidate.span is None and candidate.quote is None and candidate.authority is Authority.INFERRED
    start, end = candidate.span
    return 0 <= start < end <= len(text) and end - start <= MAX_QUOTE_LENGTH and text[start:end] == candidate.quote


def _said_there(message: Message, scope: str) -> bool:
    """Whether a scope is where the message was said, or one whose name stands in it."""
    kind, _, name = scope.partition(":")
    return scope == message.scope or (kind == "project" and name != "" and name in message.text)


def _recalled(message: Message, quote: str) -> bool:
    return any(quote in text for text in message.recalled)


def recalled_at(message: Message, span: Span) -> bool:
    """Whether the words at a span are memory's own."""
    return _recalled(message, message.text[slice(*span)])
