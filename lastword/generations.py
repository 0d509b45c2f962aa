"""Generations of a log whose broker keeps nothing: each start of it is a new log. Redis, which may keep more, counts.

A generation has a namespace of its own, so that nothing of an earlier log is taken for the new one's.
"""

import redis
from redis.exceptions import RedisError

from lastword_projector.store.names import Names
from lastword_projector.store.pointer import current_name
from lastword_projector.store.ports import StoreUnavailable

_TIMEOUT_S = 5.0


def begin_generation(redis_url: str, namespace: str) -> int:
    """Count one more generation; the first is 0. Passes over those in whose namespace something is projected already.

    Raises StoreUnavailable where Redis does not answer.
    """
    try:
        with redis.Redis.from_url(
            redis_url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S, retry=None
        ) as client:
            while True:
                generation = int(client.incr(f"lw:{namespace}:generations")) - 1
                begun = namespace_of(namespace, generation)
                if not client.exists(Names(begun).of(0).checkpoint, current_name(begun)):
                    return generation
    except (RedisError, ValueError) as error:
        raise StoreUnavailable(f"Redis does not answer as it should ({type(error).__name__}: {error})") from error


def namespace_of(namespace: str, generation: int) -> str:
    """The namespace of a generation: the plain one is that of generation 0."""
    return namespace if generation == 0 else f"{namespace}-{generation}"
