"""The port of ranking: who is nearest to a query, of those that may be answered."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from lastword_query_api.search.documents import Document
from lastword_query_api.search.lexical import LexicalIndex


@dataclass(eq=False)
class Corpus:
    """Documents of one owner that were made together."""

    documents: Sequence[Document]
    index: LexicalIndex
    kept: dict[str, Any] = field(default_factory=dict)
    """What rankers keep with it, by their names."""


class Candidates:
    """The documents of a corpus that may be answered: of the owner, in the scopes, with the status that were asked for.

    All that a ranker is given; whatever it says of another document is not heard.
    """

    def __init__(self, corpus: Corpus, numbers: Sequence[int]) -> None:
        self.corpus, self.numbers = corpus, numbers

    def __iter__(self) -> Iterator[tuple[int, Document]]:
        return ((number, self.corpus.documents[number]) for number in self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)


class Ranking(NamedTuple):
    """What a ranker found."""

    scores: Mapping[int, float]
    """By the number of the document, greater for nearer. A document without one is no hit."""
    parts: Mapping[str, Mapping[int, float]] = {}  # an empty one is like any other
    """What the scores were made of, by name, to be shown."""


class Ranker(Protocol):
    """Ranks candidates. Never asked whether a record applies: that is settled before."""

    name: str
    """What answers call it."""

    async def rank(self, query: str, candidates: Candidates) -> Ranking:
        """Scores for a query. The same query and candidates give the same scores."""
        ...


class LexicalRanker:
    """BM25 over key, aliases, description and value."""

    name = "bm25"

    async def rank(self, query: str, candidates: Candidates) -> Ranking:
        """See `Ranker`."""
        return Ranking(candidates.corpus.index.scores(query, candidates.numbers))
