"""In what way the words at a place are said, whatever they are about."""

from lastword.extraction.protocol import Span, Why
from lastword.extraction.rules import discourse, quotation
from lastword.extraction.rules.clauses import sentences


def manner(text: str, span: Span) -> Why | None:
    """Why what stands at a place of an English text is not the person's own word on how things are; None: it may be."""
    if quotation.within(span, quotation.quoted(text)):
        return Why.QUOTED
    for sentence in sentences(text):
        if not _meet(span, (sentence.start, sentence.end)):
            continue
        report = quotation.reported(sentence.text)
        if report is not None and _meet(span, (sentence.start + report[0], sentence.start + report[1])):
            return Why.QUOTED
        if (why := discourse.sentence_problem(sentence, text[sentence.end - 1])) is not None:
            return why
        for clause in sentence.clauses:
            if _meet(span, (clause.start, clause.end)):
                return discourse.clause_problem(sentence, clause, *span)
    return None


def _meet(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]
