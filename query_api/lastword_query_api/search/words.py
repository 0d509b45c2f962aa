"""Texts as the terms that are compared: any script, case and accents aside, English plurals as singulars.

A script that is written without spaces (Chinese, Japanese, Thai, ...) has no words to be seen; there every character
and every pair of neighbours is a term, as in the bigram analysers of search engines.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from lastword_schemas import jsontext, limits

MOST_CHARACTERS: Final = limits.MAX_QUERY_LENGTH
"""Characters of one text that are looked at; what follows cannot be found."""
_ENGLISH: Final = """
a about after all also am an and any are as at be been being but by can could did do does doing done each for from had
has have having he her him his how i if in into is it its just let like may me might more most must my no nor not of
off on onto or our out over own per please shall she should so some such than that the their them then there these
they this those to too under until up upon us very was we were what when where which while who whom whose why will
with would you your s t
"""
FUNCTION_WORDS: Final = frozenset(_ENGLISH.split())
"""English words that say how others belong together, and little by themselves."""

_ASCII_WORD = re.compile(r"[a-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UNSPACED: Final = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0x9FFF),  # Han
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),  # Han, further extensions
)
_KANA_MARKS: Final = "\u3099\u309a"
_SPACE, _LETTER, _UNSPACED_LETTER, _SYMBOL = range(4)


def terms(text: str) -> list[str]:
    """The terms of a text, in order; of a pair of characters it comes after its second one."""
    text = text[:MOST_CHARACTERS]
    if text.isascii():
        return [_singular(word) for word in _ASCII_WORD.findall(text.lower())]
    return list(_terms(_folded(text)))


def key_terms(key: str) -> list[str]:
    """The terms of a key: `travel.flight_time` and `travel.flightTime` are three words."""
    return terms(_HUMP.sub(" ", key))


def value_text(value: bytes) -> str:
    """What stands in a JSON value: its strings, numbers and names of members, one after the other."""
    if value.startswith(b'"') and b"\\" not in value:
        return value[1:-1].decode("utf-8")
    return " ".join(_parts(jsontext.parse_stored(value)))[:MOST_CHARACTERS]


def _parts(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for name, member in value.items():
                yield name
                yield from _parts(member)
        case list():
            for item in value:
                yield from _parts(item)
        case str():
            yield value
        case None:
            pass
        case _:
            yield jsontext.dump(value)


def _folded(text: str) -> str:
    """Without case, accents, vowel points and compatibility forms.

    Marks that stand for a letter of their own (combining class 0, as in Devanagari) and those of kana are kept.
    """
    apart = unicodedata.normalize("NFKD", text).casefold()
    kept = (char for char in apart if not unicodedata.combining(char) or char in _KANA_MARKS)
    return unicodedata.normalize("NFC", "".join(kept))


def _terms(text: str) -> Iterator[str]:
    begin, kind = 0, _SPACE
    for at, char in enumerate(text):
        now = _kind(char)
        if now != kind or now == _SYMBOL:
            yield from _run(text[begin:at], kind)
            begin, kind = at, now
    yield from _run(text[begin:], kind)


def _run(text: str, kind: int) -> Iterator[str]:
    if kind == _LETTER:
        word = text.replace("\u0640", "")  # Arabic letters drawn long
        yield _singular(word) if word.isascii() else word
    elif kind == _UNSPACED_LETTER:
        yield from text
        yield from (one + other for one, other in pairwise(text))
    elif kind == _SYMBOL:
        yield text


@lru_cache(maxsize=65_536)
def _kind(char: str) -> int:
    code = ord(char)
    if 0xFE00 <= code <= 0xFE0F:  # says only how an emoji looks
        return _SPACE
    if any(first <= code <= last for first, last in _UNSPACED):
        return _UNSPACED_LETTER
    category = unicodedata.category(char)
    if category[0] in "LNM":
        return _LETTER
    return _SYMBOL if category == "So" else _SPACE


def _singular(word: str) -> str:
    """An English plural as its singular.

    Source: after the S stemmer of D. Harman, "How effective is suffixing?", JASIS 42 (1991), 7-15.
    """
    if len(word) < 4 or word[-1] != "s" or word[-2] in "us" or word in FUNCTION_WORDS:
        return word
    if word.endswith("ies") and word[-4] not in "ae":
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "xes", "ches", "shes")) else word[:-1]
