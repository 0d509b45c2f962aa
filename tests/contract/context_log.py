"""What every `ContextLog` does. A test class of an implementation subclasses `ContextLogContract`."""

import asyncio

import pytest

from lastword_query_api.context.log import ContextLog, ContextsUnavailable

PARTITIONS = 4
ABOUT_AS_LARGE_AS_IT_GETS = b"x" * 500_000


class ContextLogContract:
    """Subclass it with the fixtures."""

    @pytest.fixture
    def log(self) -> ContextLog:
        """A log with four partitions."""
        raise NotImplementedError

    @pytest.fixture
    def silent(self) -> ContextLog:
        """A log that does not answer."""
        raise NotImplementedError

    def test_what_is_acknowledged_is_read_where_it_stands(self, log: ContextLog) -> None:
        async def run() -> None:
            stored = [b'{"n":%d}' % number for number in range(8)]
            places = [
                (number % PARTITIONS, await log.append(number % PARTITIONS, "o", value))
                for number, value in enumerate(stored)
            ]
            assert len(set(places)) == 8
            for place, value in reversed(list(zip(places, stored, strict=True))):
                assert await log.read(*place) == value

        asyncio.run(run())

    def test_offsets_of_a_partition_grow(self, log: ContextLog) -> None:
        async def run() -> None:
            offsets = [await log.append(2, "main/user:ada", b"{}") for _ in range(5)]
            assert offsets == sorted(set(offsets))

        asyncio.run(run())

    def test_where_nothing_stands_there_is_nothing(self, log: ContextLog) -> None:
        async def run() -> None:
            last = await log.append(1, "o", b"{}")
            assert await log.read(1, last + 1) is None
            assert await log.read(1, last + 1_000_000) is None
            assert await log.read(77, 0) is None
            assert await log.read(1, last) == b"{}"

        asyncio.run(run())

    def test_many_at_once_and_large_ones(self, log: ContextLog) -> None:
        async def run() -> None:
            stored = [ABOUT_AS_LARGE_AS_IT_GETS + b"%d" % number for number in range(6)]
            offsets = await asyncio.gather(*(log.append(3, "o", value) for value in stored))
            found = await asyncio.gather(*(log.read(3, offset) for offset in offsets))
            assert found == stored

        asyncio.run(run())

    def test_it_is_of_any_event_loop(self, log: ContextLog) -> None:
        offset = asyncio.run(log.append(0, "o", b"one"))
        assert asyncio.run(log.read(0, offset)) == b"one"

    def test_one_that_does_not_answer_says_so(self, silent: ContextLog) -> None:
        for asked in (silent.append(0, "o", b"{}"), silent.read(0, 0)):
            with pytest.raises(ContextsUnavailable) as caught:
                asyncio.run(asked)
            assert caught.value.retryable
