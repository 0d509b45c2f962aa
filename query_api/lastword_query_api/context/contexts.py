"""Contexts: assembled from what applies, kept as they were, and checked against what applies now."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from lastword_query_api.boundary import WrongLog
from lastword_query_api.context.budget import CountedRuns, TokenCounter, fit
from lastword_query_api.context.check import UNCHANGED, Held, checked, delta_of
from lastword_query_api.context.log import ContextLog, UnknownContext
from lastword_query_api.context.selection import (
    NEWEST,
    Left,
    Overlay,
    Task,
    item_of,
    newest,
    select,
    told,
)
from lastword_query_api.readings import Asked, Readings
from lastword_query_api.search.ranking import Candidates
from lastword_query_api.search.searches import Searches
from lastword_query_api.search.snapshots import Snapshot
from lastword_schemas import limits
from lastword_schemas.contexts import ContextAnswer, ContextCheck, ContextId, ContextItem, digest_of
from lastword_schemas.errors import TooLarge
from lastword_schemas.model import from_micros
from lastword_schemas.positions import owner_digest, parse_demand
from lastword_schemas.registry import Registry

MOST_BYTES: Final = 16 * 2**20
"""Bytes of stored contexts that are held in memory for those who ask again; parsed, they take some times that."""


@dataclass(frozen=True, slots=True)
class Handed:
    """What a model was handed, to be checked."""

    owner: str
    held: Sequence[Held]
    task: Task
    since: int | None
    """The last sequence that was taken into account; None: not known, and nothing is called newer."""
    id: str | None = None


class Contexts:
    """Answers what `Readings` answers, and raises what it raises; also UnknownContext and ContextsUnavailable."""

    def __init__(
        self,
        readings: Readings,
        searches: Searches,
        log: ContextLog,
        counter: TokenCounter | None = None,
        *,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._readings, self._searches, self._log = readings, searches, log
        self._counter = counter or CountedRuns()
        self._held = _Held(most_bytes)
        self._registry: tuple[Registry, str] | None = None

    async def make(
        self, asked: Asked, task: Task, overlays: Sequence[Overlay] = (), *, budget: int, store: bool = True
    ) -> ContextAnswer:
        """A context of the records that apply within the boundary, stored before it is answered, unless told not to."""
        applicable = await self._searches.applicable(asked, task.wanted)
        reading = applicable.reading
        order = await self._order(task, task.among(applicable.candidates))
        chosen = select(task, applicable, order, overlays)
        fitted = fit(chosen.items, budget, self._counter)
        without_room = [Left(one.scope, one.key, one.source_sequence, "budget") for one in fitted.without_room]
        left_out, by_reason = told([*without_room, *chosen.left])
        answer = ContextAnswer(
            **dict(reading),
            task=task.text,
            scopes=list(task.scopes),
            keys=list(task.keys),
            groups=list(task.groups),
            min_authority=task.min_authority,
            exclude=None if task.unresolved else "unresolved",
            limit=task.limit,
            budget=budget,
            tokens=fitted.tokens,
            counter=self._counter.name,
            ranker=NEWEST if task.is_any else self._searches.ranker,
            registry=self._digest_of(applicable.registry),
            made_at=from_micros(self._readings.now()),
            considered=len(applicable.candidates) + len(overlays),
            items=fitted.items,
            left_out=left_out,
            left_out_by_reason=by_reason,
            prompt=fitted.prompt,
        )
        return await self._stored(answer) if store else answer

    async def get(self, ident: ContextId) -> ContextAnswer:
        """A stored context, as it was answered."""
        text = str(ident)
        if (known := self._held.get(text)) is not None:
            return known
        stored = await self._log.read(ident.partition, ident.offset)
        if stored is None or not ident.is_of(stored):
            raise _unknown()
        answer = ContextAnswer.model_validate_json(stored)
        if _id_of(answer, ident.partition, ident.offset, ident.digest) != ident:
            raise _unknown()
        answer = answer.model_copy(update={"id": text})
        self._held.put(text, answer, len(stored))
        return answer

    async def check(self, handed: Handed, asked: Asked) -> ContextCheck:
        """What has become of what was handed out; for an owner of whom nothing came since, one look at Redis."""
        try:
            reading, snapshot = await self._searches.current(asked)
        except WrongLog as error:
            if handed.id is None:
                raise
            raise WrongLog("the context is of another log than this one: ask for a new context", field="id") from error
        moment, task = self._readings.now(), handed.task
        items = [
            checked(one, snapshot, task.scopes, moment, since=handed.since, known_at=reading.known_at)
            for one in handed.held
        ]
        newer = await self._newer(handed, snapshot)
        return ContextCheck(
            **dict(reading),
            id=handed.id,
            stale=bool(newer) or any(item.status not in UNCHANGED for item in items),
            items=items,
            newer=newer,
            delta=delta_of(handed.owner, items, newer, snapshot, task.scopes),
        )

    async def _order(self, task: Task, candidates: Candidates) -> list[int]:
        return newest(candidates) if task.is_any else await self._searches.ranked(task.text, candidates)

    def _digest_of(self, registry: Registry) -> str:
        """Kept of the last one: of a thousand keys it takes as long as half a context."""
        if self._registry is None or self._registry[0] is not registry:
            self._registry = registry, registry.digest
        return self._registry[1]

    async def _newer(self, handed: Handed, snapshot: Snapshot) -> list[ContextItem]:
        """What came after it, of other keys than it has, and would be chosen now."""
        since, task, documents = handed.since, handed.task, snapshot.corpus.documents
        if since is None:
            return []
        has = {held.key for held in handed.held}
        numbers = snapshot.numbers(task.scopes)
        came = {at for at in numbers if documents[at].record.sequence > since and documents[at].key not in has}
        if not came:
            return []
        found = [
            item_of(handed.owner, documents[at], "profile", "key")
            for at in numbers
            if at in came and documents[at].key in task.keys
        ]
        order = await self._order(task, task.among(Candidates(snapshot.corpus, numbers)))
        ranked = [at for at in order if documents[at].key not in task.keys][: task.limit]
        return found + [
            item_of(handed.owner, documents[at], "profile", task.chosen, rank)
            for rank, at in enumerate(ranked, 1)
            if at in came
        ]

    async def _stored(self, answer: ContextAnswer) -> ContextAnswer:
        """The context with its id, once the broker has acknowledged it."""
        stored = answer.model_dump_json(exclude={"id"}).encode("utf-8")
        if len(stored) > limits.MAX_CONTEXT_BYTES:
            raise TooLarge(
                f"the context has {len(stored)} bytes with all of its sources; at most {limits.MAX_CONTEXT_BYTES} are "
                "stored. Ask for fewer records (limit, keys), a smaller budget, or with store=false",
                field="limit",
            )
        partition = await self._readings.partition_of(answer.owner)
        offset = await self._log.append(partition, quote(answer.owner, safe=""), stored)
        ident = str(_id_of(answer, partition, offset, digest_of(stored)))
        named = answer.model_copy(update={"id": ident})
        self._held.put(ident, named, len(stored))
        return named


def _unknown() -> UnknownContext:
    return UnknownContext(
        "there is no context with this id: it is older than contexts are kept, or their topic was made anew. Ask for a "
        "new one with `POST /v1/contexts`",
        field="id",
    )


def _id_of(context: ContextAnswer, partition: int, offset: int, digest: str) -> ContextId:
    log_id = parse_demand(context.position_token, field="position_token").log_id
    return ContextId(log_id, owner_digest(context.owner), partition, offset, digest)


def handed_of(context: ContextAnswer) -> Handed:
    """A context as something to be checked."""
    said = context.known_at if context.as_of is None else min(context.known_at, context.as_of)
    task = Task(
        context.task,
        tuple(context.scopes),
        tuple(context.keys),
        tuple(context.groups),
        context.min_authority,
        context.exclude is None,
        context.limit,
    )
    return Handed(context.owner, [Held.of(item) for item in context.items], task, said, context.id)


class _Held:
    """The contexts that were made or asked for last, bounded by their size together."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._found: OrderedDict[str, tuple[ContextAnswer, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, ident: str) -> ContextAnswer | None:
        """The context with this id, if it is held."""
        with self._lock:
            if ident not in self._found:
                return None
            self._found.move_to_end(ident)
            return self._found[ident][0]

    def put(self, ident: str, context: ContextAnswer, size: int) -> None:
        """Hold it, and let go of others where it is too much."""
        with self._lock:
            self._size += size - self._found.pop(ident, (context, 0))[1]
            self._found[ident] = context, size
            while self._size > self._most:
                self._size -= self._found.popitem(last=False)[1][1]
