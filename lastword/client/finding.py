"""What a search takes besides what is searched for."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

from lastword.client import calls
from lastword.client.bound import Position
from lastword.client.calls import AsOf
from lastword.client.drafts import instant
from lastword_schemas.authority import Authority


class SearchOptions(TypedDict, total=False):
    """Options of `search`."""

    everywhere: bool
    """Every scope of the owner by itself, not this one and global."""
    history: bool
    """Also values that no longer apply; `status` of a hit tells what has become of them."""
    unresolved: bool
    """False: not what others contradict."""
    groups: Sequence[str]
    """Only keys that are declared to be of these groups."""
    min_authority: Authority | Literal["inferred", "stated", "confirmed"]
    """Only with this authority or more."""
    updated_from: datetime | str
    """Only what was said then or later."""
    updated_before: datetime | str
    """Only what was said before."""
    as_of: AsOf
    """As of `get`."""
    known_at: int
    """As of `get`."""
    at_least: Position
    """As of `get`."""


def search_options(options: SearchOptions) -> dict[str, Any]:
    """The members of a request's body. Raises InvalidInput where a datetime has no zone."""
    members: dict[str, Any] = calls.boundary(options.get("as_of"), options.get("known_at"))
    if options.get("everywhere"):
        members["everywhere"] = True
    if options.get("history"):
        members["include"] = "history"
    if not options.get("unresolved", True):
        members["exclude"] = "unresolved"
    if groups := options.get("groups"):
        members["groups"] = list(groups)
    if (authority := options.get("min_authority")) is not None:
        members["min_authority"] = str(authority)
    for name in ("updated_from", "updated_before"):
        if (given := options.get(name)) is not None:
            members[name] = instant(given, name) if isinstance(given, datetime) else given
    return members
