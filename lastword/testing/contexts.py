"""The topic of contexts in memory."""

from collections import defaultdict
from collections.abc import Callable

from lastword_query_api.context.log import ContextsUnavailable


class MemoryContextLog:
    """`ContextLog` of this process. It does not answer as long as `trouble` says why the log does not."""

    def __init__(self, trouble: Callable[[], str]) -> None:
        self._trouble = trouble
        self._stored: defaultdict[int, list[bytes]] = defaultdict(list)

    async def append(self, partition: int, key: str, value: bytes) -> int:
        """See `ContextLog`."""
        self._check()
        self._stored[partition].append(value)
        return len(self._stored[partition]) - 1

    async def read(self, partition: int, offset: int) -> bytes | None:
        """See `ContextLog`."""
        self._check()
        stored = self._stored[partition]
        return stored[offset] if offset < len(stored) else None

    def _check(self) -> None:
        if reason := self._trouble():
            raise ContextsUnavailable(f"contexts cannot be stored: {reason}")
