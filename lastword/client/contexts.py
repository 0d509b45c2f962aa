"""What a context takes besides its task, and what is checked."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from lastword.client import calls
from lastword.client.bound import Position
from lastword.client.calls import AsOf, Call
from lastword_schemas.authority import Authority
from lastword_schemas.contexts import ContextAnswer, ContextItem
from lastword_schemas.identity import scope_chain
from lastword_schemas.positions import Demand


class ContextOptions(TypedDict, total=False):
    """Options of `context`."""

    keys: Sequence[str]
    """Always to be there, if something applies and there is room, before all others."""
    groups: Sequence[str]
    """Choose only among keys that are declared to be of these groups."""
    min_authority: Authority | Literal["inferred", "stated", "confirmed"]
    """Choose only among records with this authority or more."""
    unresolved: bool
    """False: choose nothing that others contradict."""
    overlay: Sequence[Mapping[str, Any]]
    """What was said in this turn and may not be projected yet: `key`, `value`, perhaps `scope` and `receipt`."""
    store: bool
    """False: keep it nowhere; it has no id."""
    as_of: AsOf
    """As of `get`."""
    known_at: int
    """As of `get`."""
    at_least: Position
    """As of `get`."""


def context_options(options: ContextOptions, scope: str) -> dict[str, Any]:
    """The members of a request's body. Raises InvalidInput where a datetime has no zone."""
    members: dict[str, Any] = calls.boundary(options.get("as_of"), options.get("known_at"))
    if keys := options.get("keys"):
        members["keys"] = list(keys)
    if groups := options.get("groups"):
        members["groups"] = list(groups)
    if (authority := options.get("min_authority")) is not None:
        members["min_authority"] = str(authority)
    if not options.get("unresolved", True):
        members["exclude"] = "unresolved"
    if overlay := options.get("overlay"):
        members["overlay"] = [_overlay(one, scope) for one in overlay]
    if not options.get("store", True):
        members["store"] = False
    return members


def making(
    owner: str, scope: str, task: str, wanted: Mapping[str, Any], *, fallback: bool, demand: Demand | None
) -> Call:
    """A context for a task."""
    body = {"owner": owner, "scopes": list(scope_chain(scope, fallback=fallback)), "task": task, **wanted}
    return Call("POST", "/v1/contexts", body=body, demand=demand)


def stored(ident: str) -> Call:
    """A stored context."""
    return Call("GET", "/v1/contexts", {"id": ident})


def checking(owner: str, context: ContextAnswer | str, demand: Demand | None) -> Call:
    """Whether a context still says what applies: a stored one by its id, another by its items."""
    if isinstance(context, str):
        body: dict[str, Any] = {"id": context}
    elif context.id is not None:
        body = {"id": context.id}
    else:
        body = {
            "scopes": context.scopes,
            "items": [_item(one) for one in context.items if one.source_sequence is not None],
            "position": context.position_token,
            "task": context.task,
            "limit": context.limit,
        }
    return Call("POST", "/v1/contexts/check", body={"owner": owner, **body}, demand=demand)


def _overlay(one: Mapping[str, Any], scope: str) -> dict[str, Any]:
    given = {"scope": scope, **one}
    return given | ({} if given.get("receipt") is None else {"receipt": str(given["receipt"])})


def _item(one: ContextItem) -> dict[str, Any]:
    known = {} if one.event_id is None else {"event_id": one.event_id}
    return {"scope": one.scope, "key": one.key, "source_sequence": one.source_sequence} | known
