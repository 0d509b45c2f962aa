"""Whose words they are: quotation marks, pasted lines, reported speech."""

import re
from typing import Final

from lastword.extraction.protocol import Span

_MARKED: Final = re.compile(
    r"“[^”]*”|«[^»]*»|„[^“”]*[“”]|\"[^\"]*\"|```.*?```|(?<![\w])['‘][^'’\n]{2,}?(?:['’](?!\w))", re.DOTALL
)
_PASTED: Final = re.compile(
    r"^[ \t]*>.*$|^.*\bwrote:\s*$.*|^-{3,} ?(forwarded|original).*|^(from|subject|sent):.*\n.*", re.IGNORECASE | re.M
)
_WORKED_ON: Final = re.compile(
    r"\b(?:translate|proofread|summari[sz]e|rephrase|paraphrase|rewrite|spell-?check|grammar)\b[^.!?\n:]*:.*",
    re.IGNORECASE | re.DOTALL,
)
"""A text to be worked on, behind a colon."""
_TO_THE_END: Final = re.compile(r"wrote:\s*$|^-{3,} ?(forwarded|original)|^(from|sent|subject):", re.I | re.M)
_TELLS: Final = (
    r"(?:said|says|saying|wrote|writes|told|tells|thinks|thought|claims|claimed|asks|asked|mentions|mentioned|"
    r"suggests|suggested|texted|replied|insists|insisted|believes|believed|recommends|recommended|goes|reckons|"
    r"swears|argues|argued|announces|announced|states|stated|advises|advised|keeps? (?:saying|telling)|was like|"
    r"is like|joked|quotes|quoted|describes|assumes|assumed|guesses|guessed|reads|explained|complained|"
    r"admitted|confessed|swore|promised|noted|warned|posted|tweeted|shouted|whispered|remarked|hinted|sings|sang)"
)
_MANY_TELL: Final = (
    r"\b(?:people|they|others|some|many|experts|doctors|scientists|critics|friends|guides|books|surveys|studies) "
    r"(?:say|write|think|claim|suggest|insist|believe|recommend|argue|advise)\b"
)
_REPORTED: Final = re.compile(
    rf"\b(?!i\b|please\b|can\b|second\b|united\b|it\b)[\w'’.-]+(?:\s(?:just|once|always|also|still|even|never|often|"
    rf"actually|recently|has|had|have))*\s{_TELLS}\b"
    rf"|{_MANY_TELL}|\bi (?:read|heard) (?:that|somewhere|in)\b"
    r"|\baccording to\b|\bquote\b|\bin (?:his|her|their) words\b|\bas (?:he|she|they|you) (?:put|said)\b"
    r"|\bthe (?:lyrics?|headline|article|poster|sign|slogan|title)\b|\bproofread\b|\bparaphrase\b"
)
_SELF: Final = re.compile(rf"\b(?:i|i've|i'd|i have)(?:\s\w+)?\s{_TELLS}\b|\bas i\b|\blike i\b")
_NOT_TELLING: Final = re.compile(r"\b(?:to|and|or|not|don'?t|do not|please|so|i)\s+\w+$")


def quoted(text: str) -> list[Span]:
    """What stands in quotation marks or is pasted."""
    found = [match.span() for match in _MARKED.finditer(text)]
    found += [match.span() for match in _WORKED_ON.finditer(text)]
    for match in _PASTED.finditer(text):
        start, end = match.span()
        found.append((start, len(text) if _TO_THE_END.search(match[0]) else end))
    return found


def reported(sentence: str) -> Span | None:
    """The part of a sentence (as `plain`) that tells what somebody else said; None if there is none."""
    for match in _REPORTED.finditer(sentence):
        if _NOT_TELLING.search(match[0]):
            continue
        resumes = re.search(r"\b(?:but|however|though|whereas|yet)\b", sentence[match.end() :])
        before = re.search(r".*\b(?:but|because|although|though|even if)\b", sentence[: match.start()])
        start = before.end() if before else 0
        return start, match.end() + resumes.start() if resumes else len(sentence)
    return None


def opens_report(sentence: str) -> bool:
    """Whether the next sentence in quotation marks or after a colon is somebody else's."""
    return sentence.rstrip().endswith(":") and reported(sentence) is not None


def within(place: Span, spans: list[Span]) -> bool:
    """Whether a place lies in one of the spans."""
    return any(start <= place[0] and place[1] <= end for start, end in spans)
