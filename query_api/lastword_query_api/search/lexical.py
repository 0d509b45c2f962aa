"""An inverted index over some documents, and BM25F: what a query and a document have in common, rare words first. Pure.

Source: H. Zaragoza et al., "Microsoft Cambridge at TREC 13: Web and HARD tracks" (2004), formulas 2 and 3; the inverse
document frequency is that of Lucene, which is never negative.
"""

import math
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from lastword_query_api.search.documents import Document, Fields
from lastword_query_api.search.words import FUNCTION_WORDS, terms

WEIGHTS: Final = {"key": 2.0, "aliases": 1.0, "description": 1.0, "value": 1.0}
"""How much a word counts, by where it stands."""
SATURATION: Final = 1.2
"""k1: how soon a word that is repeated counts no more."""
LENGTH: Final = 0.5
"""b: how much a long field is held against its words."""
OF_FUNCTION_WORDS: Final = 0.1
"""What a function word counts, of a word as rare as it is here: in a few hundred short records that is not rare."""


class LexicalIndex:
    """The words of some documents, numbered as they are given. Not changed once it is made."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.size = len(documents)
        averages = [_average(document.fields[at] for document in documents) for at in range(len(WEIGHTS))]
        numbers: dict[str, array[int]] = {}
        weights: dict[str, array[float]] = {}
        for number, document in enumerate(documents):
            for term, frequency in _frequencies(document.fields, averages).items():
                if term not in numbers:
                    numbers[term], weights[term] = array("I"), array("f")
                numbers[term].append(number)
                weights[term].append(frequency * (SATURATION + 1) / (frequency + SATURATION))
        self._postings = {term: (found, weights[term]) for term, found in numbers.items()}

    def scores(self, query: str, among: Collection[int]) -> dict[int, float]:
        """The scores of the documents among these that have a word of the query, by their numbers.

        Function words find nothing by themselves, unless the query has no other words.
        """
        finding = dict.fromkeys(finding_terms(query))
        found = self._summed(finding, dict.fromkeys(among, 0.0))
        self._summed([term for term in dict.fromkeys(terms(query)) if term not in finding], found)
        return found

    def _summed(self, wanted: Iterable[str], found: dict[int, float]) -> dict[int, float]:
        """What the terms add to the scores of the documents that are in `found`; those that have some."""
        for term in wanted:
            posting = self._postings.get(term)
            if posting is None:
                continue
            weight = self._weight(term, len(posting[0]))
            for number, frequency in zip(*posting, strict=True):
                if number in found:
                    found[number] += weight * frequency
        return {number: score for number, score in found.items() if score}

    def _weight(self, term: str, documents: int) -> float:
        rarity = math.log(1 + (self.size - documents + 0.5) / (documents + 0.5))
        return rarity * OF_FUNCTION_WORDS if term in FUNCTION_WORDS else rarity


def finding_terms(query: str) -> list[str]:
    """The terms of a query by which something is found, each once: without function words if it has others."""
    asked = dict.fromkeys(terms(query))
    return [term for term in asked if term not in FUNCTION_WORDS] or list(asked)


def matched(query: str, document: Document) -> list[str]:
    """The terms by which a query finds a document, in the query's order."""
    has = frozenset(term for field in document.fields for term in field)
    return [term for term in finding_terms(query) if term in has]


def _average(fields: Iterable[Sequence[str]]) -> float:
    lengths = [len(field) for field in fields]
    return sum(lengths) / max(1, len(lengths)) or 1.0


def _frequencies(fields: Fields, averages: Sequence[float]) -> Mapping[str, float]:
    """How often each term stands in a document: in a heavy or a short field it counts for more."""
    found: dict[str, float] = {}
    for field, weight, average in zip(fields, WEIGHTS.values(), averages, strict=True):
        counts = weight / (1 - LENGTH + LENGTH * len(field) / average)
        for term in field:
            found[term] = found.get(term, 0.0) + counts
    return found
