"""One stream of changes: what it still has to say, and up to where it has said all."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from lastword_schemas import jsontext
from lastword_schemas.errors import LastwordError
from lastword_schemas.positions import PositionToken, owner_digest

_MOST_PENDING = 2_000
"""Events that may wait for one reader; more than a feed hands over at once."""
_RETRY = b"retry: 1000\n"
"""Milliseconds after which a browser connects again."""


class SlowReader(LastwordError):
    """The stream was read more slowly than changes came; go on behind its last position."""

    code = "slow-reader"
    retryable = True


@dataclass(frozen=True, slots=True)
class Line:
    """One change: what a filter looks at, and its JSON document."""

    scope: str
    key: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Told:
    """All that one event changed."""

    log_id: str
    owner: str
    sequence: int
    lines: Sequence[Line]


class Subscriber:
    """One stream. Of one event loop."""

    __slots__ = (
        "_beats", "_digest", "_key", "_last", "_leave", "_log_id", "_missed", "_over", "_pending", "_scope", "_seen",
        "_told", "_waiting", "owner",
    )  # fmt: skip

    def __init__(self, owner: str, scope: str | None, key: str | None, leave: Callable[["Subscriber"], object]) -> None:
        """`leave` is called when nothing more is to be offered; perhaps again."""
        self.owner, self._scope, self._key, self._leave = owner, scope, key, leave
        self._digest = owner_digest(owner)
        self._log_id = ""
        self._missed: Sequence[Told] = ()
        self._pending: list[Told] = []
        self._seen = self._told = 0
        self._beats = False
        self._over = False
        self._last: tuple[str, LastwordError] | None = None
        self._waiting: asyncio.Future[None] | None = None

    def begin(self, log_id: str, missed: Sequence[Told], position: int) -> None:
        """What was missed, and the sequence up to which that is all."""
        self._log_id, self._missed, self._seen = log_id, missed, position

    @property
    def position_token(self) -> str:
        """Up to here all has been offered."""
        return self._token(self._seen).decode()

    def offer(self, event: Told) -> None:
        """An event of the owner; those of a log come in its order, perhaps more than once."""
        if len(self._pending) >= _MOST_PENDING:
            self.end("dropped", SlowReader())
        else:
            self._pending.append(event)
            self._wake()

    def beat(self) -> None:
        """Show that the stream is alive."""
        self._beats = True
        self._wake()

    def end(self, event: str, why: LastwordError) -> None:
        """Say this and nothing more."""
        self._last = self._last or (event, why)
        self.leave()

    def leave(self) -> None:
        """Say nothing more: the reader has gone. May be called again."""
        self._over = True
        self._leave(self)
        self._wake()

    async def texts(self) -> AsyncIterator[bytes]:
        """The stream as `text/event-stream`.

        Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
        """
        head, position = _RETRY, self._seen
        missed, self._missed = self._missed, ()
        for event in missed:
            if text := self._text(event):
                yield head + text
                head = b""
        yield head + self._position()
        while not self._over:
            events, self._pending = self._pending, []
            parts = []
            for event in events:
                if event.sequence > position and event.log_id == self._log_id:
                    position = self._seen = event.sequence
                    parts.append(self._text(event))
            if self._beats:
                self._beats = False
                parts.append(self._position() if self._seen > self._told else b":\n\n")
            if text := b"".join(parts):
                yield text
            elif not (self._pending or self._beats or self._over):
                self._waiting = asyncio.get_running_loop().create_future()
                await self._waiting
        if self._last is not None:
            yield self._last_words(*self._last)

    def _text(self, event: Told) -> bytes:
        """The event's changes that the filter lets through. The last one has the position: all of them are told."""
        blocks = [
            b"event: change\ndata: %b\n\n" % line.data
            for line in event.lines
            if (self._scope is None or line.scope == self._scope) and (self._key is None or line.key == self._key)
        ]
        if not blocks:
            return b""
        self._told = event.sequence
        return b"%bid: %b\n%b" % (b"".join(blocks[:-1]), self._token(event.sequence), blocks[-1])

    def _position(self) -> bytes:
        """Up to here nothing else is to be told."""
        self._told = self._seen
        token = self._token(self._seen)
        return b'id: %b\nevent: position\ndata: {"position_token":"%b"}\n\n' % (token, token)

    def _last_words(self, event: str, why: LastwordError) -> bytes:
        token = self._token(self._told).decode()
        data = jsontext.dump({"code": why.code, "detail": why.message, "position_token": token})
        return f"event: {event}\ndata: {data}\n\n".encode()

    def _token(self, sequence: int) -> bytes:
        return str(PositionToken(self._log_id, self._digest, sequence)).encode()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
