"""Which owners one pass over a partition's log looks at.

Each owner has a number that nobody can foresee without the seed. A pass takes the owners whose number is in a range,
and draws the range's upper end in while it holds too much: the owners with the smallest numbers stay. An owner that is
within the range at the end has been within it all along, so that every event of it was seen; and those with the
smallest numbers are a sample in which each owner is as likely as any other.
"""

import hashlib
from typing import Final, Protocol

END: Final = 1 << 64
"""Above every owner's number."""
SEEDS: Final = 1 << 32
"""Above every seed."""


class Choice(Protocol):
    """Which owners are looked at."""

    def wants(self, owner: str) -> bool:
        """Whether the owner is looked at."""
        ...


class OneOwner:
    """That owner alone."""

    def __init__(self, owner: str) -> None:
        self.owner = owner

    def wants(self, owner: str) -> bool:
        """See `Choice`."""
        return owner == self.owner


class Range:
    """Owners whose number is from `low` (inclusive) to `high` (exclusive)."""

    def __init__(self, seed: int, low: int = 0, high: int = END) -> None:
        self._key = seed.to_bytes(8, "big")
        self.low, self.high = low, high

    def number(self, owner: str) -> int:
        """The owner's number, 64 bits of BLAKE2b."""
        digest = hashlib.blake2b(owner.encode(), digest_size=8, key=self._key).digest()
        return int.from_bytes(digest, "big")

    def wants(self, owner: str) -> bool:
        """See `Choice`."""
        return self.low <= self.number(owner) < self.high
