"""In what way something is said: whether it is the person's own, holds now, and lasts."""

import re
from typing import Final

from lastword.extraction.protocol import Why
from lastword.extraction.rules.clauses import Clause, Sentence

DURABLE: Final = re.compile(
    r"\b(?:always|from now on|from here on|by default|in general|generally|going forward|whenever|"
    r"every ?time|each time|"
    r"usually|as a rule|henceforth|in (?:the )?future|permanently|normally|remember|note that|typically|for good|"
    r"any ?time|all the time|every (?:day|morning|answer|mail|email|message|trip|flight|reply|one)|across the board|"
    r"at all times|in every|on every|no matter what|for all|in all|for future|starting (?:now|today)|"
    r"as of (?:now|today)|"
    r"never|for life|default)\b"
)
_ONE_OFF: Final = re.compile(
    r"\b(?:this (?:time|once|one|week|weekend|month|morning|afternoon|evening|answer|mail|e-?mail|message|trip|"
    r"flight|question|reply|response|report|document|chat|conversation|session|meeting|booking|letter|text|"
    r"task|thread|"
    r"summary|paragraph|visit|call|order|table|recipe|story|essay|draft|note|post|year|summer|winter|"
    r"presentation)|just (?:once|this|for)|for once|"
    r"only this|(?:for|right) now|tonight|tomorrow|for today|today|for the next|the next \w+|next (?:week|"
    r"time|month|monday|tuesday|wednesday|"
    r"thursday|friday|saturday|sunday|trip|flight)|(?<!i )temporarily|(?:until|till)(?! \d)|for a (?:while|minute|"
    r"moment|bit|few|day|"
    r"week|change)|in this case|at the moment|for the time being|one[- ]off|this is an exception|exceptionally|"
    r"on (?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)|for (?:monday|tuesday|wednesday|"
    r"thursday|friday|"
    r"saturday|sunday)|while i'm|during (?:my|the|this)|"
    r"for (?:this|that|the) (?!project\b|\w+s\b|most part)\w+(?: \w+)?(?=[.!]*$)|"
    r"(?<!.)for (?:this|that|the) (?!project\b|\w+s\b|most part)\w+(?: \w+)?(?=,)|"
    r"(?:it|that|this) (?:short|brief|"
    r"formal|casual|detailed|long|concise|friendly|shorter|longer)|these(?! days)|here|my flight (?:to|on)|"
    r"my trip to)\b"
)
_IF: Final = re.compile(
    r"\b(?:if|unless|suppose|supposing|imagine|pretend|what if|let's say|say i|in case|hypothetically|"
    r"assum(?:e|ing)|as though|"
    r"were i to|had i|provided that|wish|role-?play|in theory|in a (?:dream|novel|story|game)|fictional|"
    r"for (?:example|instance)|e\.g|otherwise|even if|as if|in (?:my|the|a|this) (?:novel|story|book|game|"
    r"dream|movie|film|play)|my character)\b"
)
_POLITE_IF: Final = re.compile(
    r"\bi(?:'d| would) (?:prefer|like|love|appreciate) (?:it )?if you(?: could| would)?\b|"
    r"\bif (?:possible|you (?:can|could|don't mind|would|please|like)|that's (?:ok|okay|fine|possible))\b"
)
_MIGHT: Final = re.compile(
    r"\b(?:might|(?<!in )(?<!of )(?<!since )(?<!until )(?<!last )may(?! \d)|"
    r"maybe|perhaps|could|possibly|thinking (?:of|about)|considering|tempted|someday|one day|hope to|"
    r"hoping to|dream of|dreaming|probably|not sure|would(?! (?:like|prefer|rather|appreciate|love|want|you|"
    r"be (?:great|nice|good)))|"
    r"should i|i'd(?! (?:like|prefer|rather|appreciate|love|want|really|much|always|generally))|wonder(?:ing)?|"
    r"(?:like|love|want|wanted|prefer|rather) to (?:live|work|move|become|join|try|"
    r"be(?! (?:notified|called|addressed|reached|contacted|pinged)))|guess|in another life)\b"
)
_NOT_YET: Final = re.compile(
    r"\b(?:i'll(?! (?:always|only|never|take|stick|go with))|i will(?! always)|going to|planning (?:to|on)|"
    r"plan to|about to|will be|soon|intend to|"
    r"i'm (?:moving|switching|joining|starting)|i am (?:moving|switching|joining|starting))\b"
)
_PAST: Final = re.compile(
    r"\b(?:(?<!i'm )(?<!am )used to|i was|i were|we were|back when|back then|(?:years?|months?|weeks?|days?|ages) ago|"
    r"previously|formerly|in the past|"
    r"as a (?:kid|child|student|teenager)|when i was|i had|i preferred|i liked|i loved|i lived|i worked|i wanted|"
    r"i needed|i ate|i hated|i wore|last (?:time|year|week|month|summer|night)|yesterday|once upon|"
    r"in my (?:last|old|previous)|"
    r"my (?:last|old|previous|former|ex)|was|were)\b"
)
_RESULT: Final = re.compile(
    r"\b(?:moved|relocated|switched|changed|joined|started|became|turned|renamed|gone|went|quit)\b"
)
_OTHERS: Final = (
    r"(?:wife|husband|spouse|partner|boss|manager|colleagues?|coworkers?|co-workers?|team|friends?|"
    r"brothers?|sisters?|"
    r"mother|father|mom|mum|dad|parents?|son|daughter|kids?|children|girlfriend|boyfriend|roommates?|flatmates?|"
    r"neighbou?rs?|clients?|customers?|assistant|boyfriend|uncle|aunt|cousins?|grand\w+|doctor|teacher|"
    r"company|dog|cat|"
    r"fianc[eé]e?|ex|family|landlord|lawyer|intern|students?|employees?|in-laws?|nephew|niece|secretary|dentist|"
    r"colleague's|twin|mentor|supervisor|baby|professor|therapist|trainer|accountant|crew|guests?|"
    r"team-?mates?|lead|siblings?|editor|coach|tutor|pal|buddy|mate|nanny|babysitter|hubby|wifey|step\w+|"
    r"god\w+|folks|host|hosts|tenants?|investors?|department|band|group|club|school|people)"
)
_OTHER: Final = re.compile(
    rf"\bmy (?:\w+ ){{0,2}}?{_OTHERS}(?:'s)?\b|\b(?:he|she|they|him|her|his|their|he's|she's|they're|hers|theirs|"
    r"everyone|everybody|people|someone|somebody|anyone|nobody|most of us|others|folks|everyone's|who|users|"
    r"customers|visitors|readers)\b"
    r"|\bthe (?:boss|team|client|customer|user|manager|"
    r"company(?! (?:that )?(?:where )?i\b)|others|kids|audience|board|ceo|reader|hotel|"
    r"airline|doctor)(?:'s)?\b"
    r"|\b(?!i\b|my\b|name\b|mine\b|today\b|it\b|this\b|that\b|let\b|what\b|"
    r"here\b|there\b)[a-z]+'s (?=\w+)(?!.*\b(?:i|me)\b)"
)
_OTHER_VERB: Final = re.compile(
    r"\b(?:prefers|likes|wants|loves|needs|hates|lives|uses|enjoys|doesn't like|does not like|favou?rs|"
    r"drinks|eats|moved|joined|speaks|works|sits|flies|takes|expects|insists|asks|writes|signs)\b"
)
_FIRST: Final = re.compile(r"\b(?:i|i'?m|i'?ve|i'd|i'll|me|my|mine|myself)\b")
_US: Final = re.compile(
    r"\b(?:we|we're|we've|we'd|us|our|ours|(?:my|our) \w+ and (?:i|me)|both of us|\w+ and i (?:both )?)\b"
)
_MINE: Final = re.compile(r"^(?:and |but |so |also |because )?my ([a-z-]+) (?:is|are|has|have)\b")
_MY_CHOICE: Final = frozenset([
    "name", "preference", "preferences", "choice", "default", "favourite", "favorite", "pick", "usual", "go-to", "home",
    "house", "place", "work", "job", "day", "schedule", "setting", "settings", "style", "priority", "rule", "wish",
    "sign-off",
])  # fmt: skip
_PAIR: Final = re.compile(
    rf"\b(?:my|our) (?:\w+ )?{_OTHERS} and (?:i|me)\b"
    r"|^(?!thanks|ok|okay|yes|no|sorry|agreed|and)[a-z]+ and i (?:both )?"
    r"(?:live|work|prefer|like|are|want|use|eat|fly|need)\b"
)
_WITH: Final = re.compile(rf"(?<=\w) with my (?:\w+ ){{0,2}}?{_OTHERS}\b")
_EXCEPT_NAME: Final = re.compile(r"\b(?:everyone|everybody|people|(?:my |most )?friends)(?: \w+){,3} calls? me\b")
_REQUEST: Final = re.compile(
    r"^(?:\w+, )?(?:please,? )?(?:can|could|would|will) (?:you|we)\b(?: please)?|^would you mind|"
    r"^(?:why don't|how about) you"
)
_TAG: Final = re.compile(r",? (?:ok|okay|alright|please|thanks|yeah|yes|deal)\s*\?$")
_TASK: Final = re.compile(
    r"^(?:(?:please|ok|okay|hey|hi|hello|now|just|and|so|thanks|great|also|then|can you|could you|would you|will you|"
    r"can you please|could you please|let's),? )*"
    r"(?:book|write|translate|draft|summari[sz]e|send|give|show|tell|explain|convert|find|order|reserve|"
    r"answer|reply|make|"
    r"put|get|format|list|rewrite|compose|print|read|create|schedule|respond|shorten|buy|add|describe|generate|check|"
    r"recommend|suggest|turn|do|keep|use|i need|i want|i'd like|i would like|can i have|may i have|"
    r"could i (?:have|get)|can i get)\b"
)
_WORKS_ON_TEXT: Final = re.compile(
    r"^(?:(?:please|ok|okay|hey|hi|hello|now|just|can you|could you|would you|will you),? )*(?:please )?"
    r"(?:translate|summari[sz]e|proofread|rewrite|rephrase|paraphrase|draft|compose|shorten)\b"
)
_YOU_MAY: Final = re.compile(r"\byou (?:may|can|could)\b")
_ONE_TASK: Final = re.compile(
    r"^(?:(?:please|ok|okay|hey|hi|now|just|can you|could you|would you),? )*(?:"
    r"(?:explain|describe|tell) (?!things|everything|stuff|yourself|your|all|it all|me (?:things|everything))"
    r"|(?:reply|respond|write|answer) to (?!me\b|my\b|all\b|every)|convert \d"
    r"|remind me\b.*\b(?:about|of|to)\b)"
)
_MAKE_THAT: Final = re.compile(r"\bmake that ")
_SINGLE: Final = re.compile(r"\b(?:a|an|this|that|it|the|another|one|these|those)\b")
_ARTICLE_ONLY: Final = re.compile(r"\b(?:use|want|like|need|turn|keep)$")
_DEICTIC: Final = re.compile(r"\b(?:a|an|this|that|it|another|one|those)\b")
_NOT: Final = r"(?:do|does|did|is|are|was|wo|ca|should|would|could|have|has|had|need)n'?t"
NEGATOR: Final = re.compile(
    r"\b(?:not(?! only)|never|no longer|no more|neither|nor|without|hardly|rarely|instead of|rather than|"
    r"anything but|"
    rf"{_NOT}(?! (?:forget|mind|hesitate))|cannot|"
    r"no(?!,|\.|!| preference| matter| idea| problem|$)|hates?|"
    r"dislikes?|detest|avoid|stop|sick of|tired of|"
    r"can't stand|skip|over(?= )|than|away from|quit|drop|against|isn't|allergic to nothing|except|lose|"
    r"enough of|far from|g[ai]ve up|given up|ditch(?:ed|ing)?|done with|refuse|fed up|barely|from(?= \w+ to ))\b"
)


def sentence_problem(sentence: Sentence, ends_with: str) -> Why | None:
    """What holds of a whole sentence: asked, or supposed."""
    text = sentence.text
    if ends_with == "?" and not _REQUEST.search(text) and not _TAG.search(text):
        return Why.QUESTION
    if _IF.search(_POLITE_IF.sub(" ", text)):
        return Why.HYPOTHETICAL
    return None


def clause_problem(sentence: Sentence, clause: Clause, at: int, end: int) -> Why | None:
    """What is wrong with a clause as a lasting word of the person's own about [at, end); None if nothing is."""
    text, whole = clause.text, sentence.text
    own = _WITH.sub(" ", _EXCEPT_NAME.sub("call me", text))
    before = own[: max(0, end - clause.start)]
    if _US.search(_REQUEST.sub("please", own)) or _PAIR.search(whole):
        return Why.SEVERAL_OWNERS
    if _OTHER.search(own) or (
        _OTHER_VERB.search(before) and not re.search(r"\bi(?:'ve)?\b.*\b(?:moved|joined)\b", own)
    ):
        return Why.OTHER_PERSON
    if _MIGHT.search(_YOU_MAY.sub("please", _REQUEST.sub("please", text))):
        return Why.HYPOTHETICAL
    if _NOT_YET.search(text):
        return Why.NOT_YET
    if _PAST.search(text) and not (_RESULT.search(text) and not re.search(r"\bused to\b|\bago, i\b", text)):
        return Why.PAST
    if negated(clause, at):
        return Why.NEGATED
    return _passing(text, whole)


def negated(clause: Clause, at: int) -> bool:
    """Whether a negator governs what stands at a place: it stands before it, and no comma ends its reach."""
    before = clause.text[: at - clause.start]
    after = clause.text[at - clause.start :]
    for match in NEGATOR.finditer(before):
        reach = before[match.end() :]
        listed = re.search(r"\b(?:or|nor)\b", reach + after) is not None
        if ("," not in reach or listed) and not re.search(
            rf"\b(?:to|but|instead|anymore|any more)\b(?! {_NOT})",
            reach,
        ):
            return True
        if match[0] in ("stop", "never", "not") and "," not in reach and "instead" not in reach and "but" not in reach:
            return True
    return (
        re.match(
            r"^[\w\s]{0,30}\b(?:isn't|aren't|is not|are not|no longer|doesn't|don't|is out|is over|is wrong|"
            r"(?:is|are) (?:the worst|awful|terrible|horrible|overrated|annoying|bad))\b",
            after,
        )
        is not None
    )


def _passing(text: str, whole: str) -> Why | None:
    lasting = DURABLE.search(whole) is not None
    text, whole = _MAKE_THAT.sub("", text), _MAKE_THAT.sub("", whole)
    if _ONE_OFF.search(re.sub(r"^\w+ here\b", "", whole)) and not re.search(
        r"from now on|going forward|from here on|by default|starting (?:now|today)|as of (?:now|today)|in general",
        whole,
    ):
        return Why.ONE_OFF
    if not lasting and (_WORKS_ON_TEXT.match(text) or _ONE_TASK.match(text)):
        return Why.ONE_OFF
    task = _TASK.match(text)
    if task and not lasting and _ARTICLE_ONLY.search(task[0]) and not _DEICTIC.search(text[task.end() :]):
        return None
    if (
        task
        and not lasting
        and _SINGLE.search(
            text[task.end() :]
            .replace("in a ", "in ")
            .replace("the end", "end")
            .replace("a bit", "")
            .replace("the metric", "metric")
        )
    ):
        return Why.ONE_OFF
    return None


def subject(clause: Clause) -> str | None:
    """Of what is mine a clause tells what it is; None if it is of nothing, or of a choice or a habit."""
    match = _MINE.match(clause.text)
    return None if match is None or match[1] in _MY_CHOICE else match[1]


def first_person(text: str) -> bool:
    """Whether a clause is about who says it."""
    return _FIRST.search(text) is not None
