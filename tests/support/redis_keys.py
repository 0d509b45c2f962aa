"""Everything that is in Redis below a prefix, to be compared."""

from typing import Any

import redis


def everything(client: "redis.Redis", prefix: str) -> dict[bytes, Any]:
    """All keys below the prefix with what they hold, by the rest of their names."""
    found: dict[bytes, Any] = {}
    for name in client.scan_iter(match=f"{prefix}*", count=1_000):
        if (content := _content(client, name)) is not None:
            found[name.removeprefix(prefix.encode())] = content
    return found


def _content(client: "redis.Redis", name: bytes) -> Any:
    match client.type(name):
        case b"hash":
            return client.hgetall(name)
        case b"list":
            return client.lrange(name, 0, -1)
        case b"zset":
            return client.zrange(name, 0, -1, withscores=True)
        case b"string":
            return client.get(name)
        case b"none":
            return None  # gone meanwhile, as what is relayed from an outbox
        case kind:
            raise AssertionError(f"{name!r} is a {kind!r}")
