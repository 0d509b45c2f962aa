"""What the blocking and the asynchronous client have in common: everything that does not wait."""

import ipaddress
import os
import re
from copy import copy
from typing import Any, Final, Self

import httpx

from lastword.client import calls
from lastword.client.attempts import Attempts, Deadline
from lastword.client.batches import Batch
from lastword.client.calls import AsOf, Call
from lastword.client.drafts import Drafts
from lastword.client.seen import Seen, SeenOwners, newer
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import Owner, check_name, check_scope
from lastword_schemas.positions import Demand

DEFAULT_URL: Final = "http://127.0.0.1:7411"
DEFAULT_SERVICE: Final = "python-client"

_OWNER: Final = re.compile(r"(?:[a-z0-9._-]+/)?(?:user|org):")
_CONNECTIONS: Final = 100
_IDLE_S: Final = 4.0
"""A connection that was idle so long is not used again: at 5 s the API closes it."""

Position = str | Demand
"""A receipt, a position token, or the text of either."""


class Opened:
    """Where lastword is, who asks, and what has been seen of every owner."""

    def __init__(self, url: str | None, service: str | None, timeout: float, retries: int) -> None:
        self._url = _checked(url or os.environ.get("LASTWORD_URL") or DEFAULT_URL)
        self._service = check_name(service or os.environ.get("LASTWORD_SERVICE") or DEFAULT_SERVICE, "service")
        self._timeout, self._retries = timeout, retries
        self._owners = SeenOwners()

    @property
    def url(self) -> str:
        """Where lastword is, without any password."""
        return str(self._url.copy_with(username=None, password=None)).rstrip("/")

    @property
    def service(self) -> str:
        """The service that writes: the actor of what is written."""
        return self._service

    def _http_options(self, token: str | None) -> dict[str, Any]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return {
            "base_url": self._url,
            "headers": headers,
            "limits": httpx.Limits(
                max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS, keepalive_expiry=_IDLE_S
            ),
            "trust_env": not _is_local(self._url.host),
        }

    def _deadline(self) -> Deadline:
        return Deadline(self._timeout)

    def _note_results(self, batch: Batch) -> None:
        for event, result in zip(batch.events, batch.results, strict=True):
            if result.receipt is not None:
                self._owners.of(str(Owner.parse(event["owner"]))).note(result.receipt)

    def _attempts(self, call: Call, deadline: Deadline) -> Attempts:
        return Attempts(call, deadline, url=self.url, retries=self._retries)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}, service {self._service}>"


class Bound:
    """An owner and a scope. Reads are never older than what was written or read of this owner before."""

    def __init__(self, owner: str, scope: str, seen: Seen, service: str, timeout: float) -> None:
        self.owner: Final = owner
        """The owner's canonical text, such as `main/user:ada`."""
        self._scope, self._seen, self._service, self._timeout = check_scope(scope), seen, service, timeout
        self._floor: Demand | None = None

    @property
    def position(self) -> str | None:
        """How far this owner has been seen: hand it to another service, whose reads then are no older (`after`).

        None if nothing was read or written yet.
        """
        demand = self._demand(None)
        return None if demand is None else str(demand)

    @property
    def draft(self) -> Drafts:
        """Makes events without sending them, for `publish_many`."""
        return Drafts(self.owner, self._scope, self._service)

    def scope(self, scope: str) -> Self:
        """The same owner in another scope: `global` or `<kind>:<name>`. Raises InvalidInput."""
        return self._with(_scope=check_scope(scope))

    def within(self, seconds: float) -> Self:
        """The same with another time limit: of a whole call, waiting and attempts included."""
        return self._with(_timeout=seconds)

    def after(self, position: Position) -> Self:
        """The same, but it reads nothing older than this position, which the caller got elsewhere.

        Other handles of the owner do not: a position that is made up harms nobody else. Raises InvalidInput where it
        is no position, or that of another owner.
        """
        return self._with(_floor=newer(self._floor, self._seen.read(position, field="position")))

    def _with(self, **changed: Any) -> Self:
        other = copy(self)
        other.__dict__.update(changed)
        return other

    def _deadline(self) -> Deadline:
        return Deadline(self._timeout)

    def _demand(self, at_least: Position | None) -> Demand | None:
        """What the next read demands: the newest of what was seen, what the handle is after, and what is named here."""
        demand = self._seen.newest
        if self._floor is not None:
            demand = newer(demand, self._floor)
        return demand if at_least is None else newer(demand, self._seen.read(at_least))

    def _value_call(
        self, key: str, as_of: AsOf | None, known_at: int | None, at_least: Position | None, fallback: bool
    ) -> Call:
        boundary, demand = calls.boundary(as_of, known_at), self._demand(at_least)
        return calls.value(self.owner, self._scope, key, fallback=fallback, boundary=boundary, demand=demand)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.owner}, scope {self._scope}>"


def canonical_owner(kind: str, ident: str, tenant: str) -> str:
    """The canonical text of an owner. Raises InvalidInput, also where an owner was given for an id."""
    if _OWNER.match(ident) is not None:
        raise InvalidInput(
            f"{ident!r} is an owner, not the id of one: `{kind}` takes what stands after the colon, `owner` all of it",
            field="ident",
        )
    return str(Owner.parse(f"{tenant}/{kind}:{ident}"))


def _checked(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url.rstrip("/"))
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidInput(f"url (or LASTWORD_URL) is no URL such as {DEFAULT_URL}", field="url")
    return parsed


def _is_local(host: str) -> bool:
    """Whether a proxy has no business in between."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
