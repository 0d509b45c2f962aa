"""Streams of changes, as programs read them."""

import threading
import time
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx

from lastword_schemas import jsontext
from lastword_schemas.changes import Change
from tests.support.running import RunningLastword


class Sent(NamedTuple):
    """One server-sent event."""

    event: str
    data: Any
    id: str
    """The last id so far: what a browser sends when it connects again."""


class NoStream(Exception):
    """The API refused to stream."""


class Stream:
    """A context manager around `GET /v1/changes`; nothing is read but by its methods, which wait. Raises NoStream."""

    def __init__(
        self, lastword: RunningLastword, owner: str, *, last_event_id: str | None = None, **query: str
    ) -> None:
        self._http = httpx.Client(base_url=lastword.http.base_url, timeout=30)
        headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        self._request = self._http.stream("GET", "/v1/changes", params={"owner": owner} | query, headers=headers)
        self.last_id = ""

    def __enter__(self) -> Self:
        response = self._request.__enter__()
        if response.status_code != 200:
            self.__exit__(None, None, None)
            raise NoStream(response)
        self._lines = response.iter_lines()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._request.__exit__(kind, error, trace)
        self._http.close()

    def next(self) -> Sent | None:
        """The next event; None for a comment; ends with StopIteration."""
        event, data = "message", ""
        while line := next(self._lines):
            name, _, value = line.partition(":")
            match name, value.removeprefix(" "):
                case "event", value:
                    event = value
                case "data", value:
                    data += value
                case "id", value:
                    self.last_id = value
        return Sent(event, jsontext.parse(data.encode()), self.last_id) if data else None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes; waits for either."""
        return next(self._lines, None) is None

    def until(self, event: str) -> Sent:
        """The next one of a kind; others are passed over."""
        while (sent := self.next()) is None or sent.event != event:
            pass
        return sent

    def changes(self, count: int) -> list[Change]:
        """The next changes. Fails the test where the stream ends before."""
        return [Change.model_validate_json(jsontext.dump(self.until("change").data)) for _ in range(count)]


class Follower:
    """A context manager: follows an owner's changes in a thread, and comes back whenever its stream ends or breaks."""

    def __init__(self, lastword: RunningLastword, owner: str, after: str) -> None:
        self._lastword, self._owner, self._after = lastword, owner, after
        self.told: list[int] = []
        """Sequences, as they came."""
        self.ends = 0
        """How often a stream ended or broke, or could not be had."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follower", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                with Stream(self._lastword, self._owner, after=self._after) as stream:
                    while (sent := stream.next()) is None or sent.event not in ("dropped", "closing"):
                        self._after = stream.last_id or self._after
                        if sent is not None and sent.event == "change":
                            self.told.append(sent.data["sequence"])
            except (httpx.HTTPError, NoStream, StopIteration):
                time.sleep(0.05)
            self.ends += 1
