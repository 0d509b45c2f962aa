"""Searching: the records that apply are found first, and only they are ranked."""

import asyncio
import heapq
import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from lastword_projector.engine.decisions import standing_of
from lastword_projector.store.plans import EntriesRead, HistoryRead
from lastword_projector.store.ports import Checkpoint
from lastword_query_api import answering
from lastword_query_api.readings import Asked, Page, Readings
from lastword_query_api.search.documents import Document, history_documents
from lastword_query_api.search.lexical import LexicalIndex, matched
from lastword_query_api.search.ranking import Candidates, Corpus, LexicalRanker, Ranker, Ranking
from lastword_query_api.search.snapshots import Held, Snapshot, SnapshotCache
from lastword_schemas.answers import Reading
from lastword_schemas.authority import Authority, AuthorityRank
from lastword_schemas.ids import record_id
from lastword_schemas.model import from_micros, to_micros
from lastword_schemas.registry import Registry
from lastword_schemas.search import Explanation, Fact, Hit, SearchAnswer

MOST_ENTRIES: Final = 100_000
"""Entries whose indexes are held in memory, of all owners together."""
_MANY: Final = 200
"""Documents from which on an index is made beside the event loop."""
_DIGITS: Final = 6
"""Decimals of a score that count: the same documents rank the same, however a sum was rounded."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is searched for, and among which records."""

    query: str
    scopes: tuple[str, ...] | None
    """A chain, first scope first; None: every scope by itself."""
    history: bool = False
    """Also values that no longer apply, labelled."""
    unresolved: bool = True
    """Also values that others contradict."""
    groups: tuple[str, ...] = ()
    """Only keys of these groups, unless it is empty."""
    min_authority: Authority | None = None
    updated_from: datetime | None = None
    """Only what was said then or later; inclusive."""
    updated_before: datetime | None = None
    """Only what was said earlier, what is backfilled included; exclusive."""

    def passes(self, document: Document) -> bool:
        """Whether a document passes the filters."""
        record = document.record
        return (
            (self.unresolved or not document.unresolved)
            and (not self.groups or document.declared.group in self.groups)
            and (self.min_authority is None or record.authority >= self.min_authority.rank)
            and (self.updated_from is None or record.source_recorded_at * 1000 >= to_micros(self.updated_from))
            and (self.updated_before is None or record.source_recorded_at * 1000 < to_micros(self.updated_before))
        )

    @property
    def filters(self) -> bool:
        """Whether there are any."""
        return self != Wanted(self.query, self.scopes, self.history)


class Applicable(NamedTuple):
    """What may be found, and what it was read with."""

    reading: Reading
    moment: int
    """What expiry was compared with, microseconds since 1970."""
    registry: Registry
    candidates: Candidates


class Searches:
    """Answers searches. Raises what `Readings` raises."""

    def __init__(self, readings: Readings, ranker: Ranker | None = None, *, most_entries: int = MOST_ENTRIES) -> None:
        self._readings, self._ranker = readings, ranker or LexicalRanker()
        self._cache = SnapshotCache(most_entries)

    async def search(self, asked: Asked, wanted: Wanted, *, limit: int, page: str | None) -> SearchAnswer:
        """A page of the records nearest to a query, of those that apply within the boundary."""
        place = Page.parse(page, ("search", asked, wanted))
        reading, moment, _, candidates = await self._candidates(asked, wanted, place)
        ranking = await self._ranker.rank(wanted.query, candidates)
        first = 0 if place is None else place.number
        best = _best(ranking, candidates, first + limit + 1)
        more = None
        if len(best) > first + limit:
            place = Page(reading.known_at, moment, [str(first + limit)])
            more = place.text(("search", asked, wanted))
        documents = candidates.corpus.documents
        return SearchAnswer(
            **dict(reading),
            scopes=None if wanted.scopes is None else list(wanted.scopes),
            ranker=self._ranker.name,
            considered=len(candidates),
            hits=[
                _hit(asked.owner, wanted.query, at + 1, number, documents[number], ranking)
                for at, number in enumerate(best[first : first + limit], first)
            ],
            next_page=more,
        )

    @property
    def ranker(self) -> str:
        """By what is ranked."""
        return self._ranker.name

    async def applicable(self, asked: Asked, wanted: Wanted) -> Applicable:
        """All that a search for this ranks."""
        return await self._candidates(asked, wanted, None)

    async def ranked(self, query: str, candidates: Candidates) -> list[int]:
        """The numbers of the candidates that a query finds, the nearest first."""
        return _best(await self._ranker.rank(query, candidates), candidates, len(candidates))

    async def _candidates(self, asked: Asked, wanted: Wanted, place: Page | None) -> Applicable:
        numbers: Sequence[int]
        if asked.boundary.is_open and place is None and not wanted.history:
            reading, snapshot = await self.current(asked)
            registry = snapshot.registry
            moment, corpus, numbers = self._readings.now(), snapshot.corpus, snapshot.numbers(wanted.scopes)
        else:
            reading, checkpoint, records, resolved = await self._readings.records(asked, place)
            moment, registry = resolved.moment, checkpoint.registry
            as_of, known_at = resolved.as_of, resolved.known_at
            policies = await self._readings.policies(asked.owner, checkpoint)
            if wanted.history:
                standing = standing_of(records, known_at=known_at)
                within = [one for one in records if answering.counts_within(one, as_of=as_of, known_at=known_at)]
                documents = await _beside(len(within), history_documents, within, policies, registry, moment, standing)
                corpus = Corpus(documents, await _beside(len(documents), LexicalIndex, documents))
                chain = wanted.scopes
                numbers = [at for at, one in enumerate(documents) if chain is None or one.scope in chain]
            else:
                entries = answering.from_history(records, policies, as_of=as_of, known_at=known_at)
                snapshot = await _beside(len(entries), Snapshot.made, entries, registry, moment)
                corpus, numbers = snapshot.corpus, snapshot.numbers(wanted.scopes)
        if wanted.filters:
            numbers = [number for number in numbers if wanted.passes(corpus.documents[number])]
        return Applicable(reading, moment, registry, Candidates(corpus, numbers))

    async def current(self, asked: Asked) -> tuple[Reading, Snapshot]:
        """What applies now: as it is held, if nothing of the owner has come since, else from the profile."""
        readings, reader = self._readings, self._readings.reader
        partition = await readings.partition_of(asked.owner)
        namespace = ""

        async def look() -> HistoryRead:
            nonlocal namespace
            namespace = reader.namespace
            return await reader.last_record(partition, asked.owner)

        async def read() -> EntriesRead:
            nonlocal namespace
            namespace = reader.namespace
            return await reader.entries(partition, asked.owner)

        last, checkpoint = await readings.await_demand(asked, partition, look)
        held, moment = self._cache.get(asked.owner), readings.now()
        if held is not None and held.is_of(namespace, checkpoint, last.records):
            snapshot = held.snapshot
            if snapshot.moment <= moment < snapshot.until:
                return _reading(asked.owner, checkpoint), snapshot
            entries = snapshot.entries
        else:
            found, checkpoint = await readings.await_demand(asked, partition, read)
            entries = answering.from_profile(found.entries)
        before = None if held is None or held.namespace != namespace else held.snapshot
        snapshot = await _beside(len(entries), Snapshot.made, entries, checkpoint.registry, moment, before)
        self._cache.put(asked.owner, Held(snapshot, namespace, checkpoint))
        return _reading(asked.owner, checkpoint), snapshot


async def _beside(size: int, make: Any, *arguments: Any) -> Any:
    """What a function makes, beside the event loop where it takes its time."""
    return await asyncio.to_thread(make, *arguments) if size > _MANY else make(*arguments)


def _reading(owner: str, checkpoint: Checkpoint) -> Reading:
    return answering.reading_of(owner, checkpoint, known_at=checkpoint.last_sequence, from_profile=True)


def _best(ranking: Ranking, candidates: Candidates, most: int) -> list[int]:
    """The numbers of the best candidates: greatest score first, of equal ones the newer source."""
    documents, may = candidates.corpus.documents, frozenset(candidates.numbers)
    scored = (
        (-round(score, _DIGITS), -document.source_sequence, document.scope, document.key, number)
        for number, score in ranking.scores.items()
        if number in may and math.isfinite(score)
        for document in [documents[number]]
    )
    return [place[-1] for place in heapq.nsmallest(most, scored)]


def _hit(owner: str, query: str, rank: int, number: int, document: Document, ranking: Ranking) -> Hit:
    record = document.record
    parts = {name: round(part[number], _DIGITS) for name, part in ranking.parts.items() if number in part}
    return Hit(
        rank=rank,
        score=round(ranking.scores[number], _DIGITS),
        fact=Fact(scope=document.scope, key=document.key, value=answering.value_of(record)),
        status=document.status,
        resolution_state="unresolved" if document.unresolved else "resolved",
        record_id=record_id(owner, document.scope, document.key),
        source_sequence=record.source_sequence,
        updated_at=answering.source_time(record.source_recorded_at),
        expires_at=None if document.expires_at is None else from_micros(document.expires_at),
        authority=AuthorityRank(record.authority).authority,
        event_id=str(uuid.UUID(bytes=record.event_id)),
        source=answering.words_of(record),
        actor=answering.actor_of(record),
        ended=None if document.version is None else document.version.ended,
        why=Explanation(matched=matched(query, document), parts=parts),
    )
