"""A network that is scripted, and answers as lastword gives them: for tests of the client alone."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import httpx

from lastword_schemas.problems import STATUS_OF_CODE

URL = "http://lastword.test"
LOG, OTHER_LOG = "a" * 16, "b" * 16

Step = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


class Network:
    """Answers requests as scripted; the last step goes on for ever."""

    def __init__(self, *steps: Step) -> None:
        self._steps = itertools.chain(steps, itertools.repeat(steps[-1]))
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        step = next(self._steps)
        if isinstance(step, Exception):
            raise step
        return step(request) if callable(step) else step

    @property
    def drafts(self) -> list[dict[str, Any]]:
        """The bodies of all requests."""
        return [json.loads(request.content) for request in self.requests]


def problem(code: str, *, status: int | None = None, retryable: bool = False, **members: Any) -> httpx.Response:
    status = status or STATUS_OF_CODE.get(code, 422)
    common = {"type": f"urn:lastword:problem:{code}", "title": "t", "status": status, "detail": f"about {code}"}
    document = common | {"code": code, "retryable": retryable} | members
    headers = {"content-type": "application/problem+json"} | ({"retry-after": "1"} if status == 503 else {})
    return httpx.Response(status, headers=headers, content=json.dumps(document))


def receipt(event_id: str, sequence: int = 5) -> dict[str, Any]:
    text = f"r1.{LOG}.0.1.{sequence}.{event_id}"
    place = {"log_id": LOG, "generation": 0, "partition": 1, "offset": sequence, "sequence": sequence}
    return {"receipt": text, "event_id": event_id} | place


def accepted(request: httpx.Request) -> httpx.Response:
    event = json.loads(request.content)
    return httpx.Response(202, json={"outcome": "accepted", "receipt": receipt(event["event_id"])})


def record(value: Any = "brief", *, log: str = LOG, sequence: int = 7, **state: Any) -> httpx.Response:
    """The answer to a keyed read about Ada."""
    digest = "3559b75f8fc1536f"
    identity = {
        "record_id": "x",
        "type": "keyed",
        "owner": "main/user:ada",
        "scope": "global",
        "answered_scope": "global",
    }
    selection = {
        "representation": "profile",
        "as_of": None,
        "known_at": sequence,
        "rule": "exact",
        "provisional": False,
    }
    answer = {
        "identity": identity | {"key": "mail.tone", "declared": True},
        "state": {"status": "set", "value": value} | state,
        "source": None,
        "selection": selection | {"clock": "broker", "position_token": f"p1.{log}.{digest}.{sequence}"},
    }
    return httpx.Response(200, json=answer)


REFUSED_CONNECTION = httpx.ConnectError("[Errno 111] Connection refused")
NO_ANSWER = httpx.ReadTimeout("timed out")
BROKEN_OFF = httpx.RemoteProtocolError("Server disconnected without sending a response.")
