"""Carries plans out with await, for the API. The worker has `pipe`."""

from collections.abc import Sequence
from typing import Any, TypeVar

import redis.asyncio
from redis.exceptions import NoScriptError, RedisError

from lastword_projector.store.calls import SCRIPTS, Call, Plan, script
from lastword_projector.store.ports import StoreUnavailable

T = TypeVar("T")

_TIMEOUT_S = 5.0


class AwaitingRunner:
    """The same for asyncio."""

    def __init__(self, url: str, *, max_connections: int = 64) -> None:
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            url,
            max_connections=max_connections,
            timeout=_TIMEOUT_S,
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_TIMEOUT_S,
        )
        self.client = redis.asyncio.Redis.from_pool(pool)
        """The client, for subscriptions."""

    async def run(self, plan: Plan[T]) -> T:
        """The plan's result. Raises StoreUnavailable."""
        try:
            calls = next(plan)
            while True:
                calls = plan.send(await self._send(calls))
        except StopIteration as done:
            result: T = done.value
            return result

    async def _send(self, calls: Sequence[Call]) -> list[Any]:
        try:
            replies = await self._pipeline(calls)
            missing = _without_script(replies)
            if missing:
                for name in SCRIPTS:
                    await self.client.script_load(script(name).text)
                for index, reply in zip(missing, await self._pipeline([calls[i] for i in missing]), strict=True):
                    replies[index] = reply
        except RedisError as error:
            raise _unavailable(error) from error
        return _parsed(calls, replies)

    async def _pipeline(self, calls: Sequence[Call]) -> list[Any]:
        pipeline = self.client.pipeline(transaction=False)
        for call in calls:
            pipeline.execute_command(*call.command)
        return await pipeline.execute(raise_on_error=False)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.aclose()


def _without_script(replies: list[Any]) -> list[int]:
    return [index for index, reply in enumerate(replies) if isinstance(reply, NoScriptError)]


def _parsed(calls: Sequence[Call], replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, RedisError):
            raise _unavailable(reply) from reply
    return [call.parse(reply) for call, reply in zip(calls, replies, strict=True)]


def _unavailable(error: RedisError) -> StoreUnavailable:
    return StoreUnavailable(f"Redis does not answer as it should ({type(error).__name__}: {error}); it is tried again")
