"""The names of all Redis keys. Every key of a partition carries its hash tag, so that a partition is one slot."""

import re
from dataclasses import dataclass

from lastword_schemas.errors import InvalidInput

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class Names:
    """Key names of one namespace, that is of one projection of the log."""

    namespace: str = "main"

    def __post_init__(self) -> None:
        if _NAMESPACE.fullmatch(self.namespace) is None:
            raise InvalidInput(
                f"namespace {self.namespace!a}: lower-case letters, digits, '-' and '_', at most 32", field="namespace"
            )

    def prefix(self, partition: int) -> str:
        """What every key of the partition begins with."""
        return f"lw:{self.namespace}:{{p{partition}}}:"

    def checkpoint(self, partition: int) -> str:
        """Hash: `next` (16 digits), `fold`, `log`, `genesis` (JSON), `registry` (JSON), `clock`.

        Also the name of the sharded channel on which each commit announces the new `next`.
        """
        return f"{self.prefix(partition)}checkpoint"

    def profile(self, partition: int, owner: str) -> str:
        """Hash: scope NUL key -> mark (23 digits), projected_at (13 digits, ms), packed entry."""
        return f"{self.prefix(partition)}p:{owner}"

    def events(self, partition: int, owner: str) -> str:
        """Hash: 16 bytes of an event id -> sequence (16 digits) of its first copy."""
        return f"{self.prefix(partition)}e:{owner}"

    def history(self, partition: int, owner: str) -> str:
        """List, in accepted order: sequence (16 digits), packed record."""
        return f"{self.prefix(partition)}h:{owner}"

    def dead(self, partition: int) -> str:
        """List: sequence (16 digits), what was wrong with the record."""
        return f"{self.prefix(partition)}dead"


def field_of(scope: str, key: str) -> str:
    """The field of a profile hash; neither part can hold a NUL."""
    return f"{scope}\0{key}"


def scope_and_key(field: bytes) -> tuple[str, str]:
    """The scope and key of such a field."""
    scope, _, key = field.decode("utf-8").partition("\0")
    return scope, key
