"""The port of the topic of contexts: appended to, and read one at a time by where they stand."""

from typing import Protocol

from lastword_schemas.errors import LastwordError


class ContextsUnavailable(LastwordError):
    """Contexts cannot be stored or looked up."""

    code = "contexts-unavailable"
    retryable = True


class UnknownContext(LastwordError):
    """There is no such context: it was never stored, or is older than contexts are kept."""

    code = "unknown-context"


class ContextLog(Protocol):
    """Keeps bytes at positions. Both methods raise ContextsUnavailable."""

    async def append(self, partition: int, key: str, value: bytes) -> int:
        """The offset at which the broker has it, once it has acknowledged that."""
        ...

    async def read(self, partition: int, offset: int) -> bytes | None:
        """What stands there; None if nothing does, or no longer."""
        ...
