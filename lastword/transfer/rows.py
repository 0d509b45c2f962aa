"""What a file of another system holds: rows. Each origin reads its own form into the same few fields."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from lastword_schemas.authority import Authority, Role
from lastword_schemas.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that another system remembers."""

    origin_id: str
    """What that system calls it: the same in every export."""
    value: Any = None
    operation: Literal["set", "delete"] = "set"
    said_at: datetime | None = None
    """When it was said or last changed there; orders rows of the same key."""
    occurred_at: datetime | None = None
    """When it happened by whoever said it, where that is another time."""
    expires_at: datetime | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    """All that stands there, for templates and rules."""
    place: tuple[str, str, str] | None = None
    """Owner, scope and key, where the origin has the same notion of them; else templates say."""
    authority: Authority | None = None
    """Where it differs from the origin's."""
    actor: tuple[str, Role] | None = None
    """Service and role, where the origin knows them."""


class Origin(NamedTuple):
    """A system that files come from."""

    name: str
    items: Callable[[Any], Iterable[Any]]
    """The items of one parsed document. Raises InvalidInput where it is not of the form."""
    row: Callable[[Any], Row | None]
    """One item; None if it holds nothing to import. Raises InvalidInput with what is wrong with it."""
    owner: str
    """Template, as `scope` and `key`."""
    scope: str
    key: str
    authority: Authority
    """What its rows claim: `inferred` where a model read them out of what was said."""
    in_lines: bool = False
    """A file of lines, owner by owner, each key once: it is read line by line, however long it is."""


def items_under(*names: str) -> Callable[[Any], Iterable[Any]]:
    """Reads a document that is a list, or an object with a list under one of the names, or a single item."""

    def items(document: Any) -> Iterable[Any]:
        if isinstance(document, list):
            return document
        if isinstance(document, dict):
            listed = next((document[name] for name in names if isinstance(document.get(name), list)), None)
            return [document] if listed is None else listed
        raise InvalidInput(f"neither a list of items nor an object with one under {' or '.join(names)}")

    return items


def text_of(item: Any, *names: str) -> str:
    """The first of these members that is a text. Raises InvalidInput."""
    if not isinstance(item, dict):
        raise InvalidInput("not a JSON object")
    for name in names:
        if isinstance(value := item.get(name), str) and value:
            return value
    raise InvalidInput(f"it has no {' or '.join(names)}")


def time_of(item: Mapping[str, Any], *names: str) -> datetime | None:
    """The first of these members that is there, in UTC; without an offset it is taken for UTC. Raises InvalidInput."""
    for name in names:
        if (value := item.get(name)) is None or value == "":
            continue
        try:
            moment = datetime.fromisoformat(value)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"its {name} is no time") from error
    return None
