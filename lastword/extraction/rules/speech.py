"""Whether a clause says something of the person, and does not only name it."""

import re
from typing import Final

from lastword.extraction.rules import discourse
from lastword.extraction.rules.clauses import Clause, Sentence

ADVERBS: Final = (
    r"(?:(?:really|always|usually|generally|now|much|do|would|also|still|actually|definitely|strongly|just|"
    r"only|typically|normally|have|mostly|tend to|honestly|absolutely|rather|currently|exclusively|"
    r"never) )*"
)
_ASSERTS: Final = re.compile(
    rf"\b(?:i|i'd|i've|i'll) {ADVERBS}(?:prefer|like|love|want|need|enjoy|use|favou?r|go for|go with|fly|eat|"
    rf"drink|speak|read|take|choose|"
    r"stick (?:with|to)|follow|pick|rather|appreciate|think in|work|get|travel|sit|switched|changed|moved|"
    r"gone|become|became|set|keep|adhere|find|wear|pay|meant|mean|start|type|write|learn|book)\b"
    r"|\bi(?:'?m| am)\b|\bmy\b|\b(?:is|are|works?|suits?|feels?|fits?|looks?) (?:much |far |way |always |"
    r"the |so |just |really )*(?:better|best|easier|nicer|fine|perfect|me|for me|great|preferred|my|"
    r"a must|essential|important)\b"
    r"|\b(?:should|must|need to|have to|ought to) (?:always )?(?:be|have|use|stay|come|end|go|follow|match|sound)\b|"
    r"\bthe better\b|^\w+ here\b|\bfor me\b|"
    r"\bsuits? me\b"
)
_OPENING: Final = (
    r"^(?:(?:no|actually|sorry|correction|wait|oh|well|ok|okay|hey|hi|hello|yes|please|and|but|so|also|then|"
    r"again|in general|generally|by default|from now on|from here on|going forward|in (?:the )?future|"
    r"as a rule|henceforth|always|only|never|remember|note|let's|just|kindly|whenever possible|can you|"
    r"could you|would you|will you|would you mind|i meant|i mean|scratch that|make that|for all \w+|"
    r"starting now|as of now|everywhere|if possible|to be clear|thanks|(?:for|in|on|within) (?:the )?project \w+|"
    r"(?:for|in|on|when|whenever|with|at|as for) [^,]{1,40}(?=,))[,:]?(?: that)? )*"
)
_IMPERATIVE: Final = re.compile(
    _OPENING + r"(?:use|using|switch|set|change|keep|call|address|write|answer|reply|respond|speak|talk|make|give|show|"
    r"book|pick|choose|go with|stick (?:to|with)|default|measure|send|put|format|prefer|quote|list|reserve|"
    r"order|translate|contact|"
    r"notify|reach|turn|disable|enable|stop|don'?t|do not|display|convert|update|be|take|find|text|email|"
    r"ping|sign|end|explain|remember|stay|schedule|let|express|tell|get|have|recommend|suggest|include|"
    r"avoid|skip|plan|go|follow|leave|ping|message|alert|opt|try|aim)\b"
)
_CORRECTS: Final = re.compile(
    r"^(?:no|actually|sorry|correction|wait|oh no|i meant|i mean|scratch that|make that|on second thoughts?|"
    r"my mistake|nope|that's (?:wrong|not right)|not [\w ]{2,30},)(?!\w)"
)
_BARE: Final = (
    r"^(?:(?:no|actually|sorry|wait|correction|oh|well|but|then)[,:]? )*"
    rf"(?:i(?:'d)? {ADVERBS}(?:prefer|rather have|meant|mean|choose) )(?:the |a |an |my )?(?:%s)"
    r"(?: (?:one|ones|please|instead|though|thanks|in general|by default|from now on))*[.!]*$"
)
"""A clause that says nothing but which value: then it needs no word of the key."""
_FRAGMENT: Final = re.compile(r"\b(?:please|only|always|by default|from now on|at all times)\b")


def says(sentence: Sentence, clause: Clause, evidence: int) -> bool:
    """Whether a clause asserts or asks for something, and does not only name it."""
    if _ASSERTS.search(clause.text) or _IMPERATIVE.search(clause.text) or _CORRECTS.search(sentence.text):
        return True
    return (
        _FRAGMENT.search(sentence.text) is not None
        or (evidence > 0 and len(clause.text.split()) <= 4)
        or discourse.first_person(clause.text)
    )


def says_only(clause: Clause, words: str) -> bool:
    """Whether a clause says nothing but which value: then it needs no word of the key."""
    return re.match(_BARE % re.escape(words), clause.text) is not None
