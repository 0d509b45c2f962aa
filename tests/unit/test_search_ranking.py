"""Ranking in memory: injected scores, BM25, and that only records which apply are ever ranked."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lastword_projector.projector import PartitionProjector
from lastword_projector.store.memory import MemoryStore
from lastword_projector.store.memory_reader import MemoryReader
from lastword_projector.store.plans import EntriesRead
from lastword_query_api.boundary import Boundary
from lastword_query_api.readings import Asked, Readings
from lastword_query_api.search.ranking import Candidates, Ranker, Ranking
from lastword_query_api.search.searches import Searches, Wanted
from lastword_schemas.positions import sequence_of
from lastword_schemas.search import Hit, SearchAnswer
from tests.support.logs import ADA, BEN, START_MS, Log, SentLetters, registry_of

KEYS = registry_of(
    answer_detail={"description": "How much detail answers have.", "aliases": ["verbosity"]},
    flight={"description": "When the person likes to fly.", "group": "travel"},
    seat={"description": "Where the person likes to sit.", "group": "travel"},
    note={},
)
GLOBAL = ("global",)


class Injected:
    """Scores by source sequence; it says nothing of others, and something of a document that is no candidate."""

    name = "injected"

    def __init__(self, scores: Mapping[int, float]) -> None:
        self.scores = scores
        self.given: list[tuple[str, int]] = []

    async def rank(self, query: str, candidates: Candidates) -> Ranking:
        self.given = [(document.key, document.source_sequence) for _, document in candidates]
        everyone = enumerate(candidates.corpus.documents)
        return Ranking(
            {n: self.scores[one.source_sequence] for n, one in everyone if one.source_sequence in self.scores}
        )


class CountingReader(MemoryReader):
    """Counts how often all entries were read; the namespace can be changed."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.reads, self.other = 0, ""

    @property
    def namespace(self) -> str:
        return self.other

    async def entries(self, partition: int, owner: str, wanted: Sequence[tuple[str, str]] | None = None) -> EntriesRead:
        self.reads += wanted is None
        return await super().entries(partition, owner, wanted)


class Memory:
    """A log, its projection, and searches in it."""

    def __init__(self, ranker: Ranker | None = None, **more: Any) -> None:
        self.log = Log(registry=KEYS)
        self.store = MemoryStore()
        self.now = START_MS * 1000 + 10**9
        self.reader = CountingReader(self.store)
        self._searches = Searches(Readings(self.reader, now_micros=lambda: self.now), ranker, **more)
        self._worker = PartitionProjector(self.log.genesis, self.store, SentLetters(), now_ms=lambda: START_MS)
        self._projected = 0

    def project(self) -> None:
        self._worker.project(self.log.records[self._projected :])
        self._projected = len(self.log.records)

    def search(self, query: str, scopes: tuple[str, ...] | None = GLOBAL, **more: Any) -> SearchAnswer:
        self.project()
        asked = Asked(more.pop("owner", ADA), Boundary(more.pop("as_of", None), more.pop("known_at", None)))
        limit, page = more.pop("limit", 10), more.pop("page", None)
        return asyncio.run(self._searches.search(asked, Wanted(query, scopes, **more), limit=limit, page=page))

    def found(self, query: str, **more: Any) -> list[Any]:
        return [hit.fact.value for hit in self.search(query, **more).hits]


def statuses(hits: Sequence[Hit]) -> list[tuple[int, str]]:
    return [(hit.source_sequence, hit.status) for hit in hits]


@pytest.fixture
def memory() -> Memory:
    return Memory()


def test_a_better_score_never_brings_back_what_was_superseded() -> None:
    ranker = Injected({10: 0.94, 20: 0.88})
    memory = Memory(ranker)
    memory.log.set(ADA, "answer_detail", "brief", at=10)
    memory.log.set(ADA, "answer_detail", "detailed", at=20)
    memory.log.set(ADA, "note", "later", at=30)

    default = memory.search("how much detail", as_of=22)
    assert [(hit.source_sequence, hit.fact.value, hit.score) for hit in default.hits] == [(20, "detailed", 0.88)]
    assert ranker.given == [("answer_detail", 20)]

    past = memory.search("how much detail", as_of=22, history=True)
    assert statuses(past.hits) == [(10, "superseded"), (20, "current")]
    assert [hit.rank for hit in past.hits] == [1, 2]
    assert past.hits[0].ended is not None
    assert past.hits[0].ended.sequence == 20
    assert statuses(memory.search("how much detail").hits) == [(20, "current")]


def test_a_ranker_is_not_heard_about_records_that_are_no_candidates() -> None:
    memory = Memory(Injected({2: 9.0, 3: 1.0, 4: float("nan")}))
    memory.log.set(ADA, "flight", "in Comet", at=2, scope="project:Comet")
    memory.log.set(ADA, "seat", "window", at=3)
    memory.log.set(ADA, "note", "not a number", at=4)

    assert memory.found("anything") == ["window"]


def test_only_what_applies_is_given_to_a_ranker() -> None:
    ranker = Injected({})
    memory = Memory(ranker)
    log = memory.log
    log.set(ADA, "flight", "morning")
    log.set(ADA, "flight", "evening")  # 3
    log.set(ADA, "seat", "window")
    log.delete(ADA, "seat")
    log.set(ADA, "note", "over soon", expires_at="2026-03-01T12:00:30Z")
    log.set(BEN, "flight", "noon")
    memory.search("x")

    assert ranker.given == [("flight", 3)]


def test_what_expires_leaves_the_index_by_itself(memory: Memory) -> None:
    memory.log.set(ADA, "note", "umbrella", expires_at="2026-03-01T12:20:00Z")
    memory.log.set(ADA, "flight", "with an umbrella")
    assert set(memory.found("umbrella")) == {"umbrella", "with an umbrella"}

    memory.now += 10 * 60 * 10**6
    assert memory.found("umbrella") == ["with an umbrella"]
    assert memory.reader.reads == 1


def test_equal_scores_come_newest_first() -> None:
    memory = Memory()
    for scope in ("project:A", "project:B", "project:C"):
        memory.log.set(ADA, "note", "tea", scope=scope)

    assert statuses(memory.search("tea", None).hits) == [(4, "current"), (3, "current"), (2, "current")]


def test_words_of_key_alias_description_and_value_are_found(memory: Memory) -> None:
    memory.log.set(ADA, "answer_detail", "brief")
    memory.log.set(ADA, "flight", "morning")

    for query in ("detail", "verbosity", "answers", "BRIEF"):
        assert memory.found(query) == ["brief"], query
    (hit,) = memory.search("When should I fly in the morning?").hits
    assert hit.why.matched == ["fly", "morning"]


def test_function_words_find_nothing_by_themselves_unless_there_is_nothing_else(memory: Memory) -> None:
    memory.log.set(ADA, "flight", "morning")
    memory.log.set(ADA, "note", "The The")

    assert memory.found("the spaceship") == []
    assert memory.found("The The")[0] == "The The"


def test_a_rare_word_weighs_more_than_a_common_one(memory: Memory) -> None:
    for number in range(20):
        memory.log.set(ADA, "note", f"coffee {number}", scope=f"project:{number}")
    memory.log.set(ADA, "seat", "oat milk")

    assert memory.found("coffee with oat milk", scopes=None)[0] == "oat milk"


def test_the_chain_decides_before_the_score(memory: Memory) -> None:
    memory.log.set(ADA, "flight", "morning morning morning")
    memory.log.set(ADA, "flight", "evening", scope="project:Comet")
    memory.log.set(ADA, "seat", "aisle in the morning")
    memory.log.delete(ADA, "seat", scope="project:Orion")
    chain = ("project:Comet", "global")

    assert memory.found("morning", scopes=chain) == ["aisle in the morning"]
    assert memory.found("morning", scopes=("project:Orion", "global")) == ["morning morning morning"]
    assert set(memory.found("morning", scopes=GLOBAL)) == {"aisle in the morning", "morning morning morning"}
    assert memory.found("flight", scopes=("project:Comet",)) == ["evening"]
    assert len(memory.found("flight", scopes=None)) == 2


def test_unresolved_records_are_marked_and_left_out_on_request(memory: Memory) -> None:
    log = Log(registry=registry_of(guess={"min_authority": "inferred"}))
    memory.log, memory._projected = log, 0
    turn = log.say(ADA, "tea, or coffee")
    log.candidate(ADA, "guess", "tea", source=turn)
    log.candidate(ADA, "guess", "coffee", source=turn)

    (hit,) = memory.search("guess").hits
    assert hit.resolution_state == "unresolved"
    assert memory.search("guess", unresolved=False).considered == 0


def test_filters_on_groups_authority_and_time(memory: Memory) -> None:
    memory.log.set(ADA, "flight", "evening")
    memory.log.set(ADA, "seat", "in the evening: aisle", authority="confirmed", role="person")
    memory.log.set(ADA, "note", "evening walks")
    hits = {hit.fact.key: hit for hit in memory.search("evening").hits}
    said = hits["seat"].updated_at

    def keys(**filters: Any) -> set[str]:
        return {hit.fact.key for hit in memory.search("evening", **filters).hits}

    assert keys() == {"flight", "seat", "note"}
    assert keys(groups=("travel",)) == {"flight", "seat"}
    assert keys(groups=("mail", "travel"), min_authority=hits["seat"].authority) == {"seat"}
    assert keys(updated_from=said) == {"seat", "note"}
    assert keys(updated_before=said) == {"flight"}


def test_pages_follow_on_each_other_though_other_things_were_said(memory: Memory) -> None:
    for number in range(7):
        memory.log.set(ADA, "note", f"tea {'x ' * number}", scope=f"project:{number}")
    whole = [hit.source_sequence for hit in memory.search("tea", None).hits]
    first = memory.search("tea", None, limit=3)
    memory.log.set(ADA, "note", "tea tea tea", scope="project:new")
    memory.log.delete(ADA, "note", scope="project:6")

    found, page = [hit.source_sequence for hit in first.hits], first.next_page
    while page is not None:
        answer = memory.search("tea", None, limit=3, page=page)
        assert answer.hits[0].rank == len(found) + 1
        found, page = found + [hit.source_sequence for hit in answer.hits], answer.next_page

    assert found == whole
    with pytest.raises(ValueError, match="other parameters"):
        memory.search("coffee", None, page=first.next_page)


def test_an_index_is_made_anew_only_when_something_of_the_owner_came(memory: Memory) -> None:
    memory.log.set(ADA, "flight", "morning")
    assert memory.found("flight") == ["morning"]
    memory.log.set(BEN, "flight", "noon")
    assert memory.found("flight") == ["morning"]
    assert memory.reader.reads == 1

    memory.log.delete(ADA, "flight")
    assert memory.found("flight") == []
    assert memory.reader.reads == 2


def test_an_index_is_of_one_projection_and_one_registry(memory: Memory) -> None:
    memory.log.set(ADA, "flight", "morning")
    memory.found("flight")
    memory.reader.other = "rebuilt"
    memory.found("flight")
    assert memory.reader.reads == 2

    memory.log.apply(registry_of(flight={"aliases": ["departure"]}))
    assert memory.found("departure") == ["morning"]


def test_after_a_checkpoint_was_set_back_nothing_newer_is_found(memory: Memory) -> None:
    memory.log.set(ADA, "flight", "morning")
    memory.log.say(ADA, "hello")
    assert memory.found("flight") == ["morning"]
    stored = memory.store.checkpoint(0)
    assert stored is not None
    memory.store._checkpoints[0] = replace(stored, next_sequence=sequence_of(0, 3))

    memory.found("flight")
    assert memory.reader.reads == 2


def test_the_indexes_that_are_held_are_bounded() -> None:
    memory = Memory(most_entries=3)
    for owner in (ADA, BEN):
        memory.log.set(owner, "flight", "morning")
        memory.log.set(owner, "seat", "aisle")
    for owner in (ADA, BEN, BEN, ADA):
        assert memory.found("flight", owner=owner) == ["morning"]

    assert memory.reader.reads == 3


def test_a_large_profile_is_searched_as_a_small_one(memory: Memory) -> None:
    for number in range(300):
        memory.log.set(ADA, "note", f"remark {number}", scope=f"project:{number}")

    assert memory.found("remark 217", scopes=None)[0] == "remark 217"
