"""Closed values: words of a clause that stand for a value of a key."""

import re
from collections.abc import Iterator
from typing import Any, Final

from lastword.extraction.rules.clauses import Clause
from lastword.extraction.rules.frames import Found
from lastword.extraction.rules.slots import Slot
from lastword.extraction.rules.words import COMMON, EMPTY

_TIME: Final = r"(\d{1,2})(?::(\d{2}))? ?(am|pm|a\.m\.|p\.m\.|h|o'clock)?"
_HOURS: Final = re.compile(rf"\b(?:from |between )?{_TIME} ?(?:to|until|till|-|–|and) ?{_TIME}(?!\w)")
_NO_WORK: Final = re.compile(r"\b(?:off|free|lunch|break|meetings?|appointments?|calls?|class)\b")
_OFF: Final = re.compile(
    r"\b(?:turn(?:ed)? off|disable|switch off|stop|no more|don't|do not|never|without|unsubscribe|no|mute|"
    r"opt out|not)\b"
)
_ON: Final = re.compile(
    r"\b(?:turn(?:ed)? on|enable|switch on|always|send|show|include|want|like|do|yes|opt in|activate|allow|"
    r"ok with|use)\b"
)
_ADJECTIVE: Final = re.compile(
    r" (?!please|always|only|instead|from|for|now|not|by|with|when|whenever|and|or|answer|repl|response|to|is|as|at|"
    r"unless|again|everywhere|too|though|thanks|every|in|going|if|than|because|since|so|but|all|would|works|speaker)[a-z]"
)
"""What follows the name of a language where it is said of something else, such as a breakfast."""
_NUMBER: Final = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)(?![\w.]*\w)")


def closed_values(slot: Slot, clause: Clause) -> Iterator[Found]:
    """The values of a key that a clause names, from left to right."""
    if slot.kind == "closed":
        yield from _named(slot, clause)
    elif slot.kind == "hours" and not _NO_WORK.search(clause.text):
        for match in _HOURS.finditer(clause.text):
            span = clause.start + match.start(), clause.start + match.end()
            if (value := _hours(match)) is not None:
                yield Found(span, value, span[0])
    elif slot.kind == "number":
        for match in _NUMBER.finditer(clause.text):
            span = clause.start + match.start(), clause.start + match.end()
            yield Found(span, float(match[1]) if "." in match[1] else int(match[1]), span[0])
    elif slot.kind == "flag":
        off, on = _OFF.search(clause.text), _ON.search(clause.text)
        if (switch := off or on) is not None:
            yield Found((clause.start + switch.start(), clause.start + switch.end()), off is None, clause.start)


def needs_evidence(slot: Slot, found: Found, clause: Clause) -> int:
    """How many words of its key must stand by a value that is not plain of itself."""
    if slot.kind in ("hours", "number"):
        return 1
    if slot.kind == "flag":
        return min(2, len(slot.names))
    if slot.values.get("english") == "en" and _ADJECTIVE.match(clause.text, found.span[1] - clause.start):
        return 2
    word = clause.text[found.span[0] - clause.start : found.span[1] - clause.start]
    return 1 if {word, word.removesuffix("s"), word.removesuffix("ly")} & COMMON else 0


def _named(slot: Slot, clause: Clause) -> Iterator[Found]:
    names = sorted((name for name in slot.values if name), key=len, reverse=True)
    pattern = "|".join(re.escape(name) for name in names)
    for match in re.finditer(rf"(?<![\w-])(?:{pattern})(?:s|ly)?(?![\w])", clause.text):
        name = match[0] if match[0] in slot.values else re.sub(r"(?:s|ly)$", "", match[0])
        if name in slot.values and name not in EMPTY - COMMON:
            span = clause.start + match.start(), clause.start + match.end()
            yield Found(span, slot.values[name], span[0])


def _hours(match: re.Match[str]) -> dict[str, Any] | None:
    begins = _clock(match[1], match[2], match[3])
    ends = _clock(match[4], match[5], match[6])
    if begins is None or ends is None:
        return None
    if ends <= begins and match[6] is None and ends + 720 < 1_440:  # "9 to 5"
        ends += 720
    return {"from": f"{begins // 60:02d}:{begins % 60:02d}", "to": f"{ends // 60:02d}:{ends % 60:02d}"}


def _clock(hour: str, minute: str | None, half: str | None) -> int | None:
    hours, minutes = int(hour), int(minute or 0)
    if half in ("pm", "p.m.") and hours < 12:
        hours += 12
    if half in ("am", "a.m.") and hours == 12:
        hours = 0
    return hours * 60 + minutes if hours < 24 and minutes < 60 else None
