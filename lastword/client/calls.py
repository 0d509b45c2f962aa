"""Calls of the HTTP API as data: what is asked, apart from how it is sent."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from pydantic_core import to_jsonable_python

from lastword.client.drafts import SOURCE, Event, instant
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import scope_chain
from lastword_schemas.positions import Demand

AsOf = int | datetime | str
"""A sequence; a datetime that knows its zone; or the text of either (RFC 3339)."""

_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=to_jsonable_python
)


@dataclass(frozen=True, slots=True)
class Call:
    """One request to be made, as often as it takes."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    """Of a read by POST; `at_least` and `wait_ms` join it."""
    content: bytes | None = None
    """Of a write: the same bytes every time, so that it is the same event."""
    demand: Demand | None = None
    """The position that a read demands."""
    applied: bool = False
    """Whether a write waits for the verdict."""
    event_id: str | None = None
    """Of a write of one event."""

    @property
    def is_write(self) -> bool:
        """Whether something may be in the log because of it."""
        return self.content is not None

    @property
    def waits(self) -> bool:
        """Whether the API may take its time to answer."""
        return self.demand is not None or self.applied

    def request(self, wait_ms: int) -> tuple[str, bytes | None]:
        """Path with query, and body, where the API may wait up to `wait_ms` milliseconds."""
        query, body = dict(self.query), self.body
        if self.waits:
            waiting: dict[str, Any] = {} if self.demand is None else {"at_least": str(self.demand)}
            waiting["wait_ms"] = wait_ms
            if body is None:
                query |= waiting
            else:
                body = {**body, **waiting}
        if self.applied:
            query["wait"] = "applied"
        url = f"{self.path}?{urlencode(query)}" if query else self.path
        return url, self.content if body is None else encode(body)


def value(
    owner: str, scope: str, key: str, *, fallback: bool, boundary: Mapping[str, Any], demand: Demand | None
) -> Call:
    """What applies for one key."""
    query = {"owner": owner, "scope": scope, "key": key} | _texts(boundary)
    return Call("GET", "/v1/value", query if fallback else query | {"fallback": "false"}, demand=demand)


def values(
    owner: str, scope: str, keys: Sequence[str], *, fallback: bool, boundary: Mapping[str, Any], demand: Demand | None
) -> Call:
    """What applies for several keys, at one moment."""
    scopes = list(scope_chain(scope, fallback=fallback))
    body = {"owner": owner, "scopes": scopes, "keys": list(keys), **boundary}
    return Call("POST", "/v1/values/read", body=body, demand=demand)


def search(
    owner: str, scope: str, query: str, wanted: Mapping[str, Any], *, fallback: bool, demand: Demand | None
) -> Call:
    """The records nearest to a question. Parameters that are None are left out."""
    scopes = list(scope_chain(scope, fallback=fallback))
    body = {"owner": owner, "scopes": scopes, "query": query}
    return Call(
        "POST",
        "/v1/search",
        body=body | {name: one for name, one in wanted.items() if one is not None},
        demand=demand,
    )


def listing(path: str, query: Mapping[str, Any], demand: Demand | None) -> Call:
    """A page of `/v1/profile` or `/v1/history`. Parameters that are None are left out."""
    return Call("GET", path, _texts({name: one for name, one in query.items() if one is not None}), demand=demand)


def outcome(owner: str, event_id: str, demand: Demand | None) -> Call:
    """What the log's reader made of an event."""
    return Call("GET", "/v1/outcomes", {"owner": owner, "id": event_id}, demand=demand)


def publish(event: Event, *, applied: bool) -> Call:
    """Write one event."""
    return Call("POST", route_of(event), content=encode(event), applied=applied, event_id=event.get("event_id"))


def publish_many(route: str, texts: Iterable[bytes], *, applied: bool) -> Call:
    """Write events of one route, each as JSON text."""
    many = route.rpartition("/")[2].encode()
    return Call("POST", route, content=b'{"%s":[%s]}' % (many, b",".join(texts)), applied=applied)


def boundary(as_of: AsOf | None, known_at: int | None) -> dict[str, Any]:
    """The parameters that limit a reading. Raises InvalidInput where `as_of` is a datetime without a zone."""
    given: dict[str, Any] = {}
    if as_of is not None:
        given["as_of"] = instant(as_of, "as_of") if isinstance(as_of, datetime) else as_of
    if known_at is not None:
        given["known_at"] = known_at
    return given


def encode(body: Mapping[str, Any]) -> bytes:
    """The JSON text of a body; pydantic models, dataclasses and the like become what pydantic makes of them.

    Raises InvalidInput where that is not JSON.
    """
    try:
        return _ENCODER.encode(body).encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        why = type(error).__name__ if isinstance(error, UnicodeEncodeError | RecursionError) else str(error)
        raise InvalidInput(f"value is not JSON: {why}", field="value") from None


def route_of(event: Event) -> str:
    """Where an event goes: a candidate cites a source."""
    return "/v1/candidates" if SOURCE in event else "/v1/events"


def _texts(parameters: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(one).lower() if isinstance(one, bool) else str(one) for name, one in parameters.items()}
