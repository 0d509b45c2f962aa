"""Where a follower's checkpoints are kept: in Redis, apart from the projection's, and per log and follower."""

from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from lastword_projector.store.ports import StoreUnavailable
from lastword_schemas import jsontext
from lastword_schemas.registry import Registry

_TIMEOUT_S: Final = 5


class InForce(NamedTuple):
    """A registry, and when the log got it."""

    registry: Registry
    recorded_at: int
    """Append time of its record, ms since 1970."""


class Checkpoints:
    """Of one follower, on one log. Losing them costs time: everything is read again, and nothing is added twice."""

    def __init__(self, url: str, log_id: str, follower: str) -> None:
        self._redis = Redis.from_url(url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S)
        prefix = f"lw-follower:{{{log_id}:{follower}}}"
        self._next = f"{prefix}:next"
        """Sorted set: partitions by the lowest offset that is not finished."""
        self._registry = f"{prefix}:registry"
        """Sorted set, by `recorded_at`: the newest registry (JSON) that a checkpoint is beyond."""

    async def load(self) -> dict[int, int]:
        """The checkpoints by partition. Raises StoreUnavailable (retryable), as all methods."""
        try:
            stored = await self._redis.zrange(self._next, 0, -1, withscores=True)
        except RedisError as error:
            raise _unavailable(error) from error
        return {int(item[0]): int(item[1]) for item in stored}

    async def advance(self, checkpoints: Mapping[int, int]) -> None:
        """Store checkpoints; a greater one that somebody else has stored stays."""
        if not checkpoints:
            return
        scores = {str(partition): offset for partition, offset in checkpoints.items()}
        try:
            await self._redis.zadd(self._next, scores, gt=True)
        except RedisError as error:
            raise _unavailable(error) from error

    async def load_registry(self) -> InForce | None:
        """The registry that was stored last; None if none was."""
        try:
            stored = await self._redis.zrange(self._registry, -1, -1, withscores=True)
        except RedisError as error:
            raise _unavailable(error) from error
        if not stored:
            return None
        text, recorded_at = cast(bytes, stored[0][0]), stored[0][1]
        return InForce(Registry.read(jsontext.parse(text)), int(recorded_at))

    async def store_registry(self, in_force: InForce) -> None:
        """Store a registry, before the checkpoint of its partition passes it; a newer one stays, whoever stored it."""
        try:
            await self._redis.zadd(self._registry, {in_force.registry.to_canonical(): in_force.recorded_at}, gt=True)
            await self._redis.zremrangebyrank(self._registry, 0, -2)
        except RedisError as error:
            raise _unavailable(error) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()


def _unavailable(error: RedisError) -> StoreUnavailable:
    return StoreUnavailable(f"no answer from Redis: {type(error).__name__}. Start it, or check LASTWORD_REDIS")
