"""Open values: what stands where a sentence says something of a key whose values are not listed."""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from lastword.extraction.protocol import Span
from lastword.extraction.rules.clauses import Clause
from lastword.extraction.rules.slots import Slot
from lastword.extraction.rules.words import TONES

_ADVERBS: Final = (
    r"(?:(?:now|currently|still|actually|really|just|recently|mostly|mainly|always|usually|generally|"
    r"finally|also|officially|simply|only|even|have|severely|deathly|highly|badly|very|terribly|slightly|"
    r"mildly|permanently) )*"
)
_I: Final = rf"\bi(?:'?m|'?ve been| have been|'?ve| am| have)? (?:[^,.;]{{1,60}}? and )?{_ADVERBS}"
_END: Final = re.compile(
    r"[,.!?;:()\n]|\s(?:now|and|but|since|because|from now|please|these days|instead|any ?more|resident|actually|"
    r"today|last|not|"
    r"rather|as of|for|again|when|where|which|who|that|so|if|in (?:all|every|future|my|january|february|"
    r"march|april|june|"
    r"july|august|september|october|november|december|the (?:spring|summer|autumn|winter))|by the way|btw|thanks|"
    r"going forward|by default|always|too|as well|with my|together|or|right|at the moment|everywhere|permanently|"
    r"starting|this|after|until|already|though|while|full[- ]time|part[- ]time|over|once)\b|$"
)
_ARTICLE: Final = re.compile(r"^(?:an?|the|in|at|to|as|is|called|named|spelled|spelt|simply|just|now) ")
_FRAMES: Final[dict[str, tuple[str, ...]]] = {
    "name": (
        r"\b(?:call|name) me ",
        r"\b(?:everyone|everybody|people|(?:my |most )?friends)(?: \w+){,3} calls? me ",
        r"\bi(?:'?m| am) (?=[a-z]+,? (?:and )?nice to meet)",
        r"\b(?:my|the) (?:first |preferred |full |real |nick)?name(?: is|'s) (?:now |actually )?",
        r"\bi go by ",
        r"\b(?:address|refer to) me as ",
        r"\bi(?:'?m| am) (?:called|named) ",
        r"\bi answer to ",
    ),
    "home": (
        _I + r"(?:live|living|reside|residing|settled|based|located|staying permanently) (?:in|at) ",
        _I + r"(?:moved|relocated)(?: back)?(?: from \w+)? to ",
        r"\bmy home(?:town| town| city)? is (?:now )?(?:in )?",
        r"\bhome is (?:now )?(?:in )?",
        r"^(?:i've )?been living in ",
        r"\bi(?:'?m| am) an? (?=[\w -]+ resident\b)",
    ),
    "employer": (
        _I + r"(?:work|working|employed) (?:at|for|by|with) ",
        _I + r"(?:joined|join) ",
        r"\bmy job is (?:at|with) ",
        r"\bi (?:teach|study|volunteer|consult) (?:at|for) ",
        r"\bi(?:'ve)? (?:just )?(?:got|landed|took|accepted|have) an? (?:new )?(?:job|position) (?:at|with) ",
        r"\bthe (?:company|firm) (?:that )?i(?:'?m| am)? (?:now )?(?:work|working) (?:for|at) is ",
        r"\bthe (?:company|firm) where i work is ",
        _I + r"started (?:working |work |a (?:new )?job )?(?:at|for|with) ",
        r"\bi(?:'?m| am) (?:now )?(?:at|with) (?=(?:[\w'&.-]+ ){1,3}now\b)",
        _I + r"(?:changed|switched) (?:jobs|employers|companies) to ",
    ),
    "role": (
        _I + r"(?:work|working|employed) as (?:an? )?",
        _I + r"(?:became|promoted to) (?:an? )?",
        r"\bi(?:'?m| am) an? (?=.* by (?:trade|profession))",
    ),
    "diet": (
        r"\bi(?:'?m| am| have become|'?ve become|'?ve gone| went| became) (?:now )?(?:an? )?(?:strict(?:ly)? )?"
        r"(?=(?:vegan|vegetarian|pescatarian|lactose|gluten|halal|kosher|keto|flexitarian|celiac|coeliac))",
        r"\bi (?:only )?eat (?=(?:vegan|vegetarian|halal|kosher|gluten))",
    ),
    "allergy": (
        _I + r"allergic to ",
        r"\bi(?: have|'?ve got|'?ve) an? (?=\w+ allergy)",
        r"\bi(?: have|'?ve got|'?ve) an? allergy to ",
        r"\bi (?:can't|cannot) (?:eat|have) ",
    ),
    "interest": (
        _I + r"(?:really |very |deeply )?(?:into|interested in|keen on|passionate about|fascinated by) ",
        _I + r"a (?:big |huge )?fan of ",
        r"\bi care (?:most |a lot )?about ",
    ),
    "signature": (
        r"\bsign (?:off )?(?:(?:all )?(?:of )?(?:my |the )?(?:e-?mails?|mails?|messages|letters|off) )?"
        r"(?:with |as |off with |off as )",
        r"\b(?:put|add|use) (?=[\"“'‘].*\b(?:end|bottom|signature|sign-?off)\b)",
        r"\b(?:e-?mails?|mails|messages|letters)\b.{,30}\b(?:end with|signed(?: with| as)?) ",
        r"\bsign (?:all )?(?:of )?(?:my |the )?(?:e-?mails?|mails?|messages|letters) (?=[\"“])",
        r"\b(?:close|finish|end) (?:every|each|all) (?:of )?(?:my )?(?:e-?mails?|mails?|messages|letters) with ",
        r"\bmy sign-?off is ",
        r"\bend (?:all )?(?:my |the )?(?:e-?mails?|mails?|messages|letters) with ",
    ),
    "timezone": (
        _I + r"(?:in|on) (?=[a-z]{3,4}(?: time)?\b(?: now)?$)",
        r"\bmy time ?zone (?:is|to) (?:now )?",
    ),
    "editor": (_I + r"(?:use|using|code in|write code in|switched to|moved to) ",),
}
"""How people say of themselves what has no listed values; what follows is the value."""
_SPEAKS: Final = {
    "name": r"\b(?:name is|name's|calls? (?!me\b))",
    "home": r"\b(?:liv(?:e|es|ed|ing) in|mov(?:e|ed|es|ing) to|relocat\w+ to)\b",
    "employer": r"\b(?:work(?:s|ed|ing)? (?:at|for)|join(?:s|ed|ing)?)\b",
    "role": r"\bwork(?:s|ed|ing)? as\b",
    "allergy": r"\ballergic to\b",
    "diet": r"\b(?:vegan|vegetarian)\b",
    "signature": r"\bsign\b",
}
"""Words of a relation, whoever it is said of."""
_NOT_VALUES: Final = frozenset([
    "it", "that", "this", "there", "here", "him", "her", "them", "something", "anything", "nothing", "someone",
    "fine", "good", "great", "better", "important", "what", "not", "a", "the", "about", "how", "when", "ok", "okay",
    "private", "secret",
    "later", "tomorrow", "maybe", "soon", "again", "anytime", "tonight", "at", "on", "if", "old",
    "none", "unknown", "wrong", "right", "correct", "back", "home",
])  # fmt: skip
_DESCRIBING: Final = (
    r"(?:(?:be|sound|feel|look|less \w+,|being|stay|kept|more|very|rather|quite|always|nice and|a bit|a little|"
    r"much|as|strictly|only|to) )*"
)


class Found(NamedTuple):
    """A value that stands in a clause. Places are the message's."""

    span: Span
    """Of the value."""
    value: Any
    frame: int
    """Where the words begin that say it."""


def open_values(slot: Slot, clause: Clause, text: str) -> Iterator[Found]:
    """What a clause says of a key, from left to right."""
    for relation in sorted(slot.relations):
        for pattern in _FRAMES.get(relation, ()):
            for match in re.finditer(pattern, clause.text):
                if (found := _read(slot, clause, text, match.start(), match.end(), relation)) is not None:
                    yield found
    yield from _described(slot, clause, text)
    phrases = "|".join(re.escape(phrase) for phrase in slot.phrases)
    generic = (
        rf"\bmy (?:new |current |favou?rite |preferred |default |own |usual |"
        rf"main )*(?:{phrases})(?: of choice)?(?: is| are|'s|:| changed to| should be|"
        rf" has changed to) (?:now |actually )?",
        rf"\b(?:set|change|update|switch) (?:my|the) (?:{phrases}) to ",
        rf"^(?:{phrases}) (?:is|are) now ",
    )
    for pattern in generic:
        for match in re.finditer(pattern, clause.text):
            if (found := _read(slot, clause, text, match.start(), match.end(), "")) is not None:
                yield found
    behind = (
        rf"\b(?:use|prefer|like|choose|take|set) ((?:\w[\w+#]* ?){{1,3}}?) (?:as|for) (?:my |all |"
        rf"the )?(?:{phrases})\b"
    )
    for match in re.finditer(behind, clause.text):
        if match[1] not in _NOT_VALUES:
            span = clause.start + match.start(1), clause.start + match.end(1)
            yield Found(span, _shaped(slot, text[slice(*span)]), clause.start + match.start())


def speaks_of(slot: Slot, clause: Clause) -> Span | None:
    """Where a clause speaks of what the key is about, be it of whom it may."""
    for relation in sorted(slot.relations & {*_SPEAKS}):
        if (match := re.search(_SPEAKS[relation], clause.text)) is not None:
            return clause.start + match.start(), clause.start + match.end()
    return None


def _described(slot: Slot, clause: Clause, text: str) -> Iterator[Found]:
    """An adjective of a thing, where the key is of its tone."""
    if "tone" not in slot.relations:
        return
    nouns = "|".join(sorted((f"{re.escape(name)}\\w*" for name in slot.names), key=len, reverse=True))
    patterns = (
        rf"\b(?:{nouns})\b.{{,30}} an? {_DESCRIBING}(?P<v>[a-z-]+) (?:tone|style|manner|voice)",
        rf"\b(?:keep|make|want|like|prefer|need|write)(?: all)?(?: of)?(?: my| your|"
        rf" the)? (?:\w+ )?(?:{nouns}) (?:to be )?{_DESCRIBING}(?P<v>[a-z-]+)",
        rf"\b(?:{nouns}) (?:should|must|have to|ought to|can|need to|is|are) {_DESCRIBING}(?P<v>[a-z-]+)",
        rf"\b(?:use|in|prefer|like|want|write|me|with|need|keep|take|adopt|for|only|always|to|send)(?: my|"
        rf" an?| the| your)? {_DESCRIBING}(?P<v>[a-z-]+)(?: and \w+)? (?:{nouns})\b",
        rf"\b(?:{nouns}) (?:in|with) an? {_DESCRIBING}(?P<v>[a-z-]+) (?:tone|style|manner|voice|way|fashion)",
        rf"^(?:no, |actually,? |please,? )*{_DESCRIBING}(?P<v>[a-z-]+) (?:{nouns})(?:,? please| only|,? always)",
        rf"\bbe {_DESCRIBING}(?P<v>[a-z-]+) in (?:\w+ )?(?:{nouns})\b",
    )
    for pattern in patterns:
        for match in re.finditer(pattern, clause.text):
            word = match["v"]
            if word not in TONES:
                continue
            span = clause.start + match.start("v"), clause.start + match.end("v")
            yield Found(span, word, clause.start + match.start())
            return


def _read(slot: Slot, clause: Clause, text: str, frame: int, at: int, relation: str) -> Found | None:
    start = clause.start + at
    while (article := _ARTICLE.match(clause.text[at:])) and relation != "signature":
        at += article.end()
        start = clause.start + at
    raw = text[start : clause.end]
    closing = {"“": "”", '"': '"', "'": "'", "‘": "’", "«": "»"}.get(raw[:1])
    if closing is not None and (end := raw.find(closing, 1)) > 1:
        return Found((start + 1, start + end), _shaped(slot, raw[1:end]), clause.start + frame)
    end = _value_end(clause.text[at:], relation, raw)
    value = raw[:end].strip(" '\"“”")
    if (
        not value
        or value.lower() in _NOT_VALUES
        or len(value.split()) > 6
        or re.match(r"(?:not|no longer|never)\b", value.lower())
    ):
        return None
    if relation == "allergy":
        value = re.sub(r" allergy$", "", value)
    return Found((start, start + end), _shaped(slot, value), clause.start + frame)


def _value_end(low: str, relation: str, raw: str) -> int:
    if relation == "signature":
        return len(raw.rstrip(".!"))
    if relation == "role" and (by := re.search(r" (?:by|at|for|in) ", low)):
        return by.start()
    if relation == "employer" and (other := re.search(r" (?:as|in|for) ", low)):
        low = low[: other.start()]
    if relation == "home" and (other := re.search(r" (?:with|near|from) ", low)):
        low = low[: other.start()]
    if relation == "allergy":
        low_end = re.search(r"[.!?;()\n]|\s(?:but|so|because|since|please|now)\b|, (?:so|please)|$", low)
        return low_end.start() if low_end else len(low)
    match = _END.search(low, 1)
    return match.start() if match else len(low)


def _shaped(slot: Slot, value: str) -> Any:
    if slot.kind == "list":
        return [part for part in re.split(r",? and |, | or ", value) if part]
    return value
