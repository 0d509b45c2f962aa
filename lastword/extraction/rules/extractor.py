"""The extractor by rules: grammar and discourse of English, and the words of the declared keys. No model, no I/O."""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from lastword.extraction.admission import Admission
from lastword.extraction.protocol import Candidate, Extraction, Message, NotProposed, Span, Why
from lastword.extraction.rules import discourse, quotation, speech
from lastword.extraction.rules.clauses import Clause, Sentence, sentences
from lastword.extraction.rules.frames import Found, open_values, speaks_of
from lastword.extraction.rules.slots import Slot, slots, stems
from lastword.extraction.rules.values import closed_values, needs_evidence
from lastword_schemas.authority import Authority
from lastword_schemas.registry import Registry

_REPAIR: Final = re.compile(
    r"\b(?:no|wait|i mean|i meant|sorry|actually|scratch that|correction|make that|rather|better)\b"
)
_CHOICE: Final = re.compile(r"^\W*(?:\w+ ){0,2}(?:or|and)\W+(?:\w+ ){0,2}$|^\s*/\s*$")
_FORGET: Final = re.compile(
    r"\b(?:forget|delete|remove|clear|erase|drop|unset)(?: about)? (?:all |everything about |"
    r"what you know (?:about|of) )?"
    r"(?:(?:my|the) )?((?:\w+ ?){1,4})"
)
_KEEP: Final = re.compile(r"\b(?:don'?t|do not|never|not|can'?t|cannot|no longer)\b(?! mind)")
_WHERE: Final = {"where i live": "home", "where i work": "employer"}
"""How people name keys without a noun: what the key is about."""
_PROJECT: Final = re.compile(r"\b(?:project (?:called |named )?([A-Z][\w-]*)|[Tt]he ([A-Z][\w-]*) project)\b")
_LONGEST: Final = 1_000
"""Code points of a sentence; the work grows with the square of it."""


class _Reading(NamedTuple):
    slot: Slot
    found: Found
    clause: Clause
    evidence: int


class RuleExtractor:
    """Reads English messages against a registry. The same message gives the same candidates, always."""

    name = "rules-1"

    def __init__(self, registry: Registry) -> None:
        self._slots = slots(registry)
        self._admission = Admission(registry)

    async def extract(self, message: Message) -> Extraction:
        """As `read`; it waits for nothing."""
        return self.read(message)

    def read(self, message: Message) -> Extraction:
        """What the message says that lasts, and why the rest is not proposed."""
        candidates: list[Candidate] = []
        refused: list[NotProposed] = []
        spans = quotation.quoted(message.text)
        told = False
        for sentence in sentences(message.text):
            if len(sentence.text) > _LONGEST:
                refused.append(NotProposed(Why.TOO_LONG, (sentence.start, sentence.end)))
                continue
            report = quotation.reported(sentence.text)
            others = [(sentence.start + report[0], sentence.start + report[1])] if report else []
            if told and quotation.within((sentence.start, sentence.start + 1), spans):
                others.append((sentence.start, sentence.end))
            told = quotation.opens_report(sentence.text)
            for clause in sentence.clauses:
                for made in self._clause(message, sentence, clause, spans, others):
                    (candidates if isinstance(made, Candidate) else refused).append(made)  # type: ignore[arg-type]
        return self._admission.admit(message, Extraction(tuple(_last_words(candidates)), tuple(refused)))

    def _clause(
        self, message: Message, sentence: Sentence, clause: Clause, spans: list[Span], others: list[Span]
    ) -> Iterator[Candidate | NotProposed]:
        place = clause.start, clause.end
        asked = discourse.sentence_problem(sentence, message.text[sentence.end - 1])
        if (forgotten := _FORGET.search(clause.text)) is not None:
            yield from self._forget(message, clause, forgotten[1], asked)
            return
        by_key = self._readings(message, sentence, clause)
        if not by_key:
            shadows = list(self._shadows(sentence, clause, spans, others, asked))
            yield from shadows
            if (
                not shadows
                and asked is None
                and re.search(rf"\bi {speech.ADVERBS}(?:prefer|like|love|hate)\b", clause.text)
            ):
                yield NotProposed(Why.NO_KEY, place)
            return
        for readings in by_key:
            slot, found = readings[0].slot, readings[-1].found
            scope = _scope(message, sentence)
            why = asked or self._problem(sentence, clause, readings, spans, others)
            if why is not None or scope is None:
                yield NotProposed(why or Why.SEVERAL_SCOPES, place, slot.key)
                continue
            chosen = next((one.found for one in reversed(readings) if not _negated(slot, clause, one.found)), found)
            sure = 0.95 if discourse.DURABLE.search(sentence.text) else 0.85
            quote = message.text[slice(*place)]
            yield Candidate(slot.key, chosen.value, place, quote, Authority.STATED, sure, scope)

    def _readings(self, message: Message, sentence: Sentence, clause: Clause) -> list[list[_Reading]]:
        """The readings of a clause, by key; where words fit several keys, only the one that they fit best."""
        found: dict[str, list[_Reading]] = defaultdict(list)
        for slot in self._slots:
            closed = list(closed_values(slot, clause))
            near, around = slot.evidence(clause.text), slot.evidence(sentence.text)
            for one in closed:
                own = slot.evidence(message.text[slice(*one.span)].lower())
                evidence = max(near, around) - (own if slot.kind == "closed" else 0)
                if speech.says_only(clause, message.text[slice(*one.span)].lower()):
                    evidence += 1
                if evidence >= needs_evidence(slot, one, clause) and speech.says(sentence, clause, evidence):
                    found[slot.key].append(_Reading(slot, one, clause, 2 * near + around))
            if slot.kind in ("text", "list"):
                for one in open_values(slot, clause, message.text):
                    found[slot.key].append(_Reading(slot, one, clause, 3 + near))
        return _best(found)

    def _problem(
        self, sentence: Sentence, clause: Clause, readings: list[_Reading], spans: list[Span], others: list[Span]
    ) -> Why | None:
        slot = readings[0].slot
        frame = readings[-1].found.frame
        if quotation.within((frame, frame + 1), spans):
            return Why.QUOTED
        if quotation.within((clause.start, clause.start + 1), others):
            return Why.QUOTED
        standing = [one for one in readings if not _negated(slot, clause, one.found)]
        at = (standing or readings)[-1].found.span
        if slot.kind == "flag":
            at = clause.start, clause.end
        subject = discourse.subject(clause)
        if subject is not None and not any(slot.evidence(subject) for slot in self._slots):
            return Why.OTHER_PERSON
        why = discourse.clause_problem(sentence, clause, at[0] if standing else readings[-1].found.span[0], at[1])
        if why is Why.NEGATED and slot.kind == "flag":
            why = None
        if why is None and _choice(standing, clause):
            why = Why.SEVERAL_VALUES
        return why

    def _shadows(
        self, sentence: Sentence, clause: Clause, spans: list[Span], others: list[Span], asked: Why | None
    ) -> Iterator[NotProposed]:
        """What speaks of an open key, in a way that nothing is proposed of it."""
        for slot in self._slots:
            if (at := speaks_of(slot, clause)) is None:
                continue
            why: Why | None = Why.QUOTED if quotation.within((at[0], at[1]), [*spans, *others]) else asked
            if why is None:
                why = discourse.clause_problem(sentence, clause, *at)
            if why is not None:
                yield NotProposed(why, (clause.start, clause.end), slot.key)

    def _forget(
        self, message: Message, clause: Clause, what: str, asked: Why | None
    ) -> Iterator[Candidate | NotProposed]:
        place = clause.start, clause.end
        about = next((about for words, about in _WHERE.items() if what.startswith(words)), None)
        named = [
            slot
            for slot in self._slots
            if about in slot.relations or any(_begins(what, phrase) for phrase in slot.phrases)
        ]
        named = named or _named_by_words(what, self._slots)
        why = asked or (Why.NEGATED if _KEEP.search(clause.text) else None)
        if not named or why is not None:
            yield NotProposed(why or Why.NO_KEY, place)
        elif len(named) > 1:
            yield NotProposed(Why.SEVERAL_KEYS, place)
        else:
            quote = message.text[slice(*place)]
            yield Candidate(named[0].key, None, place, quote, Authority.STATED, 0.9, message.scope, "delete")


def _named_by_words(what: str, slots: tuple[Slot, ...]) -> list[Slot]:
    return [slot for slot in slots if {*stems(what)} <= slot.names]


def _begins(what: str, phrase: str) -> bool:
    wanted = stems(phrase)
    return stems(what)[: len(wanted)] == wanted


def _best(found: dict[str, list[_Reading]]) -> list[list[_Reading]]:
    kept = []
    for key, readings in found.items():
        rivals = [
            other for name, others in found.items() if name != key for other in others
            if any(_overlap(other.found.span, one.found.span) for one in readings)
        ]  # fmt: skip
        if all(
            readings[0].evidence > other.evidence
            or (readings[0].evidence == other.evidence and _longer(readings, other))
            for other in rivals
        ):
            kept.append(sorted(readings, key=lambda one: one.found.span))
    return kept


def _longer(readings: list[_Reading], other: _Reading) -> bool:
    return len(readings[0].slot.values) > 0 and not other.slot.values


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _negated(slot: Slot, clause: Clause, found: Found) -> bool:
    return slot.kind != "flag" and discourse.negated(clause, found.span[0])


def _choice(standing: list[_Reading], clause: Clause) -> bool:
    """Two values with "or" between them, and nothing that takes the first back."""
    for one, other in itertools.pairwise(standing):
        between = clause.text[one.found.span[1] - clause.start : other.found.span[0] - clause.start]
        if one.found.value != other.found.value and _CHOICE.search(between) and not _REPAIR.search(between):
            return True
    return False


def _scope(message: Message, sentence: Sentence) -> str | None:
    """Where a sentence applies; None if it names several projects."""
    named = {before or after for before, after in _PROJECT.findall(message.text[sentence.start : sentence.end])}
    if len(named) > 1:
        return None
    return f"project:{named.pop()}" if named else message.scope


def _last_words(candidates: list[Candidate]) -> list[Candidate]:
    """Of what a message says of one key the last; what is said before it has been taken back."""
    last = {(one.scope, one.key): one for one in candidates}
    return [one for one in candidates if last[one.scope, one.key] is one]
