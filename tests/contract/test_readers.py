"""The reader in memory and the one on Redis keep the same contract, and give the same answers."""

import asyncio
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest
import redis

from lastword_projector.projector import PartitionProjector
from lastword_projector.store.memory import MemoryStore
from lastword_projector.store.memory_reader import MemoryReader
from lastword_projector.store.names import Names
from lastword_projector.store.ports import Checkpoint, Store, StoreUnavailable
from lastword_projector.store.reader import Reader
from lastword_projector.store.redis import RedisStore
from lastword_projector.store.runners import AwaitingRunner
from lastword_query_api.readings import ReaderPort
from tests.contract.reader import Question, ReaderContract
from tests.model.logs import KEYS, OWNERS, SCOPES, log_of, plan_of
from tests.support.logs import START_MS, SentLetters

T = TypeVar("T")


def ask_memory(store: Store, question: Question[T]) -> T:
    assert isinstance(store, MemoryStore)

    async def ask() -> T:
        return await question(MemoryReader(store))

    return asyncio.run(ask())


def ask_redis(url: str, question: Question[T]) -> T:
    async def ask() -> T:
        reader = Reader(AwaitingRunner(url), Names("main"))
        try:
            return await question(reader)
        finally:
            await reader.close()

    return asyncio.run(ask())


class TestMemoryReader(ReaderContract):
    @pytest.fixture
    def kept(self) -> Store:
        return MemoryStore()

    def ask(self, store: Store, question: Question[T]) -> T:
        return ask_memory(store, question)

    def set_back(self, store: Store, checkpoint: Checkpoint) -> None:
        assert isinstance(store, MemoryStore)
        store._checkpoints[0] = checkpoint


class TestRedisReader(ReaderContract):
    @pytest.fixture
    def kept(self, redis_url: str) -> Iterator[Store]:
        self.url = redis_url
        store = RedisStore(redis_url, Names("main"))
        yield store
        store.reset()

    def ask(self, store: Store, question: Question[T]) -> T:
        return ask_redis(self.url, question)

    def set_back(self, store: Store, checkpoint: Checkpoint) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.hset(Names("main").of(0).checkpoint, "next", f"{checkpoint.next_sequence:016d}")


def test_both_readers_give_the_same_answers_about_random_logs(redis_url: str) -> None:
    log = log_of(plan_of(7, 80))
    memory, in_redis = MemoryStore(), RedisStore(redis_url, Names("main"))
    for store in (memory, in_redis):
        PartitionProjector(log.genesis, store, SentLetters(), now_ms=lambda: START_MS).project(log.records)
    wanted = [(scope, key) for scope in SCOPES for key in sorted(set(KEYS))]
    last = log.records[-1].offset
    boundaries = [None, *range(0, last + 2, 9), last]

    async def everything(reader: ReaderPort) -> list[Any]:
        answers: list[Any] = []
        for owner in OWNERS:
            answers += [await reader.entries(0, owner), await reader.entries(0, owner, wanted)]
            answers.append(await reader.last_record(0, owner))
            answers.append(await reader.history(0, owner))
            answers += [await reader.event(0, owner, record.event_id) for record in answers[-1].records]
            answers += [
                await reader.state_at(0, owner, wanted, as_of=as_of, known_at=known_at)
                for as_of in boundaries
                for known_at in boundaries
            ]
        return answers

    found = ask_memory(memory, everything)
    assert found == ask_redis(redis_url, everything)
    assert len({repr(answer) for answer in found}) > 50
    in_redis.reset()


def test_a_redis_that_is_not_there_is_an_error_that_may_be_tried_again() -> None:
    with pytest.raises(StoreUnavailable):
        ask_redis("redis://127.0.0.1:1", lambda reader: reader.checkpoint(0))
