"""The names of all Redis keys. Every key of a partition carries its hash tag, so that a partition is one slot."""

import re
from dataclasses import dataclass
from functools import lru_cache

from lastword_schemas.errors import InvalidInput

MOST_NAMESPACE = 32
"""Characters of a namespace."""
_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
EVENT_BUCKETS = 1024
"""Hashes that the ids of a partition which are in no run are spread over, so that each stays small and packed."""


class PartitionNames:
    """Key names of one partition of a namespace."""

    def __init__(self, namespace: str, partition: int) -> None:
        self.prefix = f"lw:{namespace}:{{p{partition}}}:"
        """What every key of the partition begins with."""
        self.checkpoint = f"{self.prefix}checkpoint"
        """Hash: `next` (16 digits), `fold`, `log`, `genesis` (JSON), `registry` (JSON), `clock`; once nothing is
        committed here any more, `closed`: the namespace in which the projection goes on.

        Also the name of the sharded channel on which each commit announces the new `next`.
        """
        self.dead = f"{self.prefix}dead"
        """List: sequence (16 digits), what was wrong with the record."""
        self.written = f"{self.prefix}written"
        """Hash of what was ever written, wherever the checkpoint stands: `next` (16 digits); `greatest`, `run` (hex of
        event ids) and `count`, see `EventIds`.
        """
        self.outbox = f"{self.prefix}outbox"
        """List: what commits changed and nobody was told yet, an item a commit (see `engine.changes`)."""
        self.told = f"{self.prefix}told"
        """Hash: `log`, `next` (16 digits): changes below this sequence went into the outbox, wherever the checkpoint
        stands. A rebuild spares it and the outbox.
        """
        self.runs = f"{self.prefix}runs"
        """Sorted set, all scores 0: the runs' first event ids (hex)."""
        self.run_prefix = f"{self.prefix}r:"
        self.buckets = tuple(f"{self.prefix}e:{bucket}" for bucket in range(EVENT_BUCKETS))
        """Hashes, by bucket: digest of owner and event id (see `event_ids`) -> sequence of the first copy."""

    def run(self, first_id: str) -> str:
        """String, items of 23 bytes: digest of owner and event id, sequence of the first copy (7 bytes, big-endian)."""
        return f"{self.run_prefix}{first_id}"

    def profile(self, owner: str) -> str:
        """Hash: scope NUL key -> head (see `packing`), packed record that the pointer is on."""
        return f"{self.prefix}p:{owner}"

    def history(self, owner: str) -> str:
        """List, in accepted order: sequence (16 digits), packed record."""
        return f"{self.prefix}h:{owner}"

    def key_index(self, owner: str, field: str) -> str:
        """Sorted set, of a long history: places (from 0) of one key's counting events, by source sequence."""
        return f"{self.prefix}k:{owner}\0{field}"

    def indexed(self, owner: str) -> str:
        """Number: how many items of the history, from its beginning, are in the key indexes."""
        return f"{self.prefix}i:{owner}"


@dataclass(frozen=True, slots=True)
class Names:
    """Key names of one namespace, that is of one projection of the log."""

    namespace: str = "main"

    def __post_init__(self) -> None:
        if _NAMESPACE.fullmatch(self.namespace) is None:
            raise InvalidInput(
                f"namespace {self.namespace!a}: lower-case letters, digits, '-' and '_', at most 32",
                field="namespace",
            )

    @property
    def upcasters(self) -> str:
        """String: the upcasters under which the namespace is folded (JSON)."""
        return f"lw:{self.namespace}:upcasters"

    @property
    def profiles(self) -> str:
        """A pattern that the names of all profiles match, and no other key's."""
        return f"lw:{self.namespace}:{{p*}}:p:*"

    @property
    def histories(self) -> str:
        """The same of histories."""
        return f"lw:{self.namespace}:{{p*}}:h:*"

    def of(self, partition: int) -> PartitionNames:
        """The names of a partition."""
        return _names(self.namespace, partition)


@lru_cache(maxsize=4096)
def _names(namespace: str, partition: int) -> PartitionNames:
    return PartitionNames(namespace, partition)


def owner_in(name: bytes) -> str:
    """The owner in the name of a profile or a history."""
    return name.decode("utf-8").split(":", 4)[4]


def field_of(scope: str, key: str) -> str:
    """The field of a profile hash; neither part can hold a NUL."""
    return f"{scope}\0{key}"


def scope_and_key(field: bytes) -> tuple[str, str]:
    """The scope and key of such a field."""
    scope, _, key = field.decode("utf-8").partition("\0")
    return scope, key


def bucket_of(digest: bytes) -> int:
    """The bucket that a digest is in, of those for ids that are in no run."""
    return (digest[0] << 8 | digest[1]) % EVENT_BUCKETS


def escaped(text: str) -> str:
    """The text as a pattern that matches it alone."""
    return "".join(f"\\{char}" if char in "*?[]\\^" else char for char in text)
