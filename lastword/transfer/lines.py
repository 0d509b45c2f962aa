"""The lines of an export: one JSON object each, of the type that it names."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, JsonValue, TypeAdapter

from lastword_schemas import jsontext
from lastword_schemas.answers import EventAnswer, Position
from lastword_schemas.authority import Authority
from lastword_schemas.envelope import Actor
from lastword_schemas.errors import InvalidInput
from lastword_schemas.model import Instant, Model

SCHEMA: Final = "lastword-export"
VERSION: Final = 1


class OtherVersion(InvalidInput):
    """The export was written by a newer lastword."""

    code = "other-version"


class HeaderLine(Model):
    """The first line: what this file is."""

    type: Literal["header"] = "header"
    schema_: Literal["lastword-export"] = Field(default=SCHEMA, alias="schema")
    version: Literal[1] = VERSION
    log_id: str
    """The log that it was read from."""
    exported_at: Instant
    owners: list[str] | None
    """Whose entries were asked for; None: everybody's."""
    history: bool
    """Whether the owners' events stand in it too."""


class OwnerLine(Model):
    """The lines that follow, up to the next owner, are this owner's, all of one moment."""

    type: Literal["owner"] = "owner"
    owner: str
    known_at: int
    """The last sequence that they take into account."""
    position_token: str


class EntryLine(Model):
    """What applies for one scope and key: a value, a tombstone, or a value whose time is over."""

    type: Literal["entry"] = "entry"
    owner: str
    scope: str
    key: str
    status: Literal["set", "deleted", "expired"]
    value: JsonValue = None
    """Not there with status `deleted`."""
    resolution_state: Literal["resolved", "unresolved"] = "resolved"
    """`unresolved`: another value has the very same mark; it stands in the history only."""
    authority: Authority = Field(strict=False)
    actor: Actor
    event_id: str
    """The event that it stands on."""
    position: Position
    """Where that event stands."""
    source_sequence: int
    confidence: float | None = None
    occurred_at: Instant | None = None
    updated_at: Instant | None = None
    """The source event's append time; None of what was imported there."""
    expires_at: Instant | None = None


class EventLine(Model):
    """One event of an owner's history, with its verdict, as `GET /v1/history` answers."""

    type: Literal["event"] = "event"
    owner: str
    event: EventAnswer


class EndLine(Model):
    """The last line: a file without it is not whole."""

    type: Literal["end"] = "end"
    owners: int
    entries: int
    events: int


Line = HeaderLine | OwnerLine | EntryLine | EventLine | EndLine
_TYPES: Final[Mapping[str, type[Line]]] = {
    "header": HeaderLine,
    "owner": OwnerLine,
    "entry": EntryLine,
    "event": EventLine,
    "end": EndLine,
}


def line_text(line: Line) -> str:
    """The line as compact JSON; what was not given is left out."""
    data = line.model_dump(mode="json", exclude_unset=not isinstance(line, HeaderLine))
    return jsontext.dump({"type": line.type} | data)


def read_line(data: Any) -> Line | None:
    """A line of an export from its parsed JSON; None for an event, whose answer is not read back.

    Raises InvalidInput where it is none, OtherVersion where a newer lastword wrote it.
    """
    kind = _TYPES.get(str(data.get("type"))) if isinstance(data, dict) else None
    if kind is None:
        raise InvalidInput("not a line of an export: its type is none of " + ", ".join(_TYPES))
    if kind is HeaderLine and isinstance(data.get("version"), int) and data["version"] > VERSION:
        raise OtherVersion(f"the export has version {data['version']}, this lastword reads {VERSION}: use a newer one")
    return None if kind is EventLine else kind.read(data)


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of one line."""
    lines: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="type")])
    schema = lines.json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"A line of {SCHEMA}"} | schema
