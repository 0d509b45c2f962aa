"""Identities that were checked once: owners with their partitions, scopes and keys, and their percent-encoded forms."""

from typing import TypeVar
from urllib.parse import quote

import msgspec

from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import Owner, check_key, check_scope
from lastword_schemas.partitions import partition_for

T = TypeVar("T")
_MOST = 200_000


class KnownOwner(msgspec.Struct, frozen=True, gc=False):
    """An owner's canonical text that was checked."""

    partition: int
    encoded: str
    """Percent-encoded, as it stands in a record key."""


class Identities:
    """Checks owners, scopes and keys; remembers what passed, because the same ones come again and again."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._owners: dict[str, KnownOwner] = {}
        self._scopes: dict[str, str] = {}
        self._keys: dict[str, str] = {}

    def owner(self, text: str) -> KnownOwner:
        """The owner of a canonical text. Raises InvalidInput where it is none, or not written canonically."""
        known = self._owners.get(text)
        if known is None:
            canonical = str(Owner.parse(text))
            if canonical != text:
                raise InvalidInput(f"owner is not written as {canonical}", field="owner")
            known = KnownOwner(partition_for(text, self._partitions), quote(text, safe=""))
            _remember(self._owners, text, known)
        return known

    def record_key(self, owner: KnownOwner, scope: str, key: str | None) -> bytes:
        """See `lastword_schemas.identity.record_key`. Raises InvalidInput on a bad scope or key."""
        encoded_scope = self._scopes.get(scope)
        if encoded_scope is None:
            encoded_scope = quote(check_scope(scope), safe="")
            _remember(self._scopes, scope, encoded_scope)
        if key is None:
            return f"{owner.encoded}/{encoded_scope}/".encode()
        encoded_key = self._keys.get(key)
        if encoded_key is None:
            encoded_key = quote(check_key(key), safe="")
            _remember(self._keys, key, encoded_key)
        return f"{owner.encoded}/{encoded_scope}/{encoded_key}".encode()


def _remember(known: dict[str, T], text: str, value: T) -> None:
    if len(known) >= _MOST:
        known.clear()
    known[text] = value
