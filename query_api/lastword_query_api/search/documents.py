"""What is searched: a record as a document with its words. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from lastword_projector.engine.decisions import Standing
from lastword_projector.engine.records import Record
from lastword_query_api import versions
from lastword_query_api.answering import Entries, PolicyOf, expires_at, read_at, status_of
from lastword_query_api.search.words import key_terms, terms, value_text
from lastword_schemas.answers import Status, Version
from lastword_schemas.registry import KeyDeclaration, Registry

DocumentStatus = Literal["current", "superseded", "deleted", "expired", "ended", "withdrawn"]
_UNDECLARED: Final = KeyDeclaration(policy="branch")


class Fields(NamedTuple):
    """The terms of a document, by where they stand."""

    key: Sequence[str]
    aliases: Sequence[str]
    description: Sequence[str]
    value: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One value of one key, and the words under which it can be found."""

    scope: str
    key: str
    status: DocumentStatus
    record: Record
    """The event that it stands on."""
    unresolved: bool
    expires_at: int | None
    """When the value expires, microseconds since 1970."""
    declared: KeyDeclaration
    value: str
    """The words of the value."""
    fields: Fields
    version: Version | None = None
    """Of a document of history."""
    kept: dict[str, Any] = field(default_factory=dict)
    """What rankers keep with it, by their names: it is gone when the document is."""

    @property
    def source_sequence(self) -> int:
        """Of the record."""
        return self.record.source_sequence

    @property
    def text(self) -> str:
        """As one would say it, for those who compare meanings."""
        return f"{self.declared.description or ' '.join(self.fields.key)}: {self.value}"


Active = Mapping[tuple[str, str], Document]
"""By scope and key: what every scope says by itself."""


def active_documents(entries: Entries, registry: Registry, moment: int, before: Active) -> Active:
    """A document of every entry that has a value at a moment (microseconds since 1970), and of nothing else.

    Those of `before`, made under the same registry, are taken where their event is still the one that applies.
    """
    found: dict[tuple[str, str], Document] = {}
    for at, one in entries.items():
        entry = read_at(one.entry, moment)
        if status_of(entry, moment) is not Status.SET:
            continue
        known, expiry = before.get(at), expires_at(entry)
        said = entry.record.sequence, entry.unresolved, expiry
        if known is None or (known.record.sequence, known.unresolved, known.expires_at) != said:
            known = _made(at, entry.record, "current", entry.unresolved, expiry, registry)
        found[at] = known
    return found


def history_documents(
    records: Iterable[Record], policies: PolicyOf, registry: Registry, moment: int, standing: Standing
) -> list[Document]:
    """A document of every version that ever had a value, from the counting records within a boundary; withdrawn ones
    are labelled so."""
    by_key: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        for part in record.parts():
            by_key.setdefault((part.scope, part.key or ""), []).append(part)
    return [
        _made(
            at, record, version.status, version.resolution_state == "unresolved", record.expires_at, registry, version
        )
        for at, parts in by_key.items()
        for version, record in versions.told(at, parts, policies(*at), moment, standing)
        if version.operation == "set"
    ]


def _made(
    at: tuple[str, str],
    record: Record,
    status: DocumentStatus,
    unresolved: bool,
    expires_at: int | None,
    registry: Registry,
    version: Version | None = None,
) -> Document:
    scope, key = at
    declared = registry.keys.get(key, _UNDECLARED)
    value = value_text(record.value or b"null")
    fields = Fields(
        key_terms(key),
        [term for alias in declared.aliases for term in terms(alias)],
        terms(declared.description),
        terms(value),
    )
    return Document(scope, key, status, record, unresolved, expires_at, declared, value, fields, version)
