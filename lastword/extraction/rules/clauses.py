"""A message as sentences and clauses. All places are Unicode code points of the message itself."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lastword.extraction.protocol import Span

_ABBREVIATIONS: Final = re.compile(
    r"\b(e\.g|i\.e|etc|mr|mrs|ms|dr|prof|st|vs|a\.m|p\.m|u\.s|u\.k|approx|no|[a-hj-z])\.$"
)
_SENTENCE_END: Final = re.compile(r"[.!?…]+[\"'”)\]]*(?=\s|$)|\n+|;")
_CLAUSE_END: Final = re.compile(
    r"\s*[—–]\s*|\s-+\s|[()]|:\s"
    r"|,?\s+(?=(but|although|though|whereas|while|because|since|however|yet)\b)"
    r"|,\s+(?=(so|please|not|and|i|i'm|i've|i'd|my|just|use|keep|call|make|let's|actually|no|"
    r"notify|answer|write|respond|set|switch|send|give|show|put)\b)"
    r"|\s+(?=(and|so) (i|i'm|i've|i'd|my|please|call|use|keep|always|never|also|don't|do not|make|set|"
    r"switch|write)\b)"
    r"|,\s+(?=(he|she|they|it|we|you|it's)\b)"
)
_SHORT_QUOTATION: Final = re.compile(r"“[^”\n]{,60}”|\"[^\"\n]{,60}\"|«[^»\n]{,60}»")
"""Such as a signature: it may have full stops of its own."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a sentence with one finite verb, about."""

    start: int
    end: int
    text: str
    """Lower case, plain apostrophes; as long as what stands there."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """What stands between full stops."""

    start: int
    end: int
    text: str
    """As in a clause."""
    clauses: tuple[Clause, ...]


def plain(text: str) -> str:
    """Lower case with plain apostrophes and spaces, code point by code point, so that places stay what they are."""
    return "".join(_plain(letter) for letter in text)


def _plain(letter: str) -> str:
    if letter in "’‘ʼ`":
        return "'"
    if letter in "\u00a0\t":
        return " "
    lower = letter.lower()
    return lower if len(lower) == 1 else letter


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a message, without the space around them."""
    low = plain(text)
    names = [match.span() for match in _SHORT_QUOTATION.finditer(low)]
    start = 0
    for match in _SENTENCE_END.finditer(low):
        if match[0].startswith(".") and _ABBREVIATIONS.search(low, 0, match.start() + 1):
            continue
        if not _inside(match.start(), names):
            yield from _sentence(low, start, match.end(), names)
            start = match.end()
    yield from _sentence(low, start, len(low), names)


def _inside(place: int, spans: list[Span]) -> bool:
    return any(start < place < end - 1 for start, end in spans)


def _sentence(low: str, start: int, end: int, names: list[Span]) -> Iterator[Sentence]:
    start, end = _trim(low, start, end)
    if start == end:
        return
    clauses, at = [], start
    for match in _CLAUSE_END.finditer(low, start, end):
        if _inside(match.start(), names):
            continue
        clauses.append((at, match.start()))
        at = match.end()
    clauses.append((at, end))
    trimmed = [_trim(low, *place) for place in clauses]
    yield Sentence(start, end, low[start:end], tuple(Clause(a, b, low[a:b]) for a, b in trimmed if b > a))


def _trim(low: str, start: int, end: int) -> Span:
    while start < end and low[start] in " \n\r,;":
        start += 1
    while end > start and low[end - 1] in " \n\r,;":
        end -= 1
    return start, end
