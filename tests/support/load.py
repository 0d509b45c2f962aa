"""People who keep saying things while something breaks, and remember what was acknowledged."""

import itertools
import threading
import time
import uuid
from types import TracebackType
from typing import Any, NamedTuple, Self

from lastword_producers.publisher import CandidateClient, Publisher
from lastword_schemas.drafts import CandidateDraft, EventDraft
from lastword_schemas.errors import LastwordError
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import Receipt
from tests.support.running import RunningLastword

_ACTOR = {"service": "load"}
_EXTRACTOR = {"service": "load", "role": "extractor"}
_PAUSE_S = 0.005
_SECONDS = 60.0


class Said(NamedTuple):
    """One acknowledged event."""

    owner: str
    receipt: Receipt


class Load:
    """Publishes from several threads until the end of the `with` block.

    Each owner belongs to one thread, and is in the next partition in turn. An owner says numbers that count up (key
    `any`), now and then something else: a turn, its reading some events later, a delete, a copy of what was said. An
    event whose outcome is unknown or that was held back is published again under its id before the owner goes on.
    """

    def __init__(self, lastword: RunningLastword, *, threads: int = 4, owners: int = 3) -> None:
        settings = lastword.worker_settings.kafka_settings
        self._publisher = Publisher(settings, lastword.log, delivery_timeout_s=2, block_s=1)
        self._candidates = CandidateClient(settings, lastword.log, service="load", delivery_timeout_s=2, block_s=1)
        self.said: list[Said] = []
        """All that was acknowledged."""
        self.last: dict[str, int] = {}
        """By owner: the number that was said last."""
        self.unsettled = 0
        """How often an outcome was unknown, or an event was held back."""
        partitions = itertools.cycle(range(lastword.log.partitions))
        self._strangers = [_owner_in(next(partitions), lastword.log.partitions) for _ in range(40)]
        self._threads = [
            threading.Thread(
                target=self._talk,
                args=([_owner_in(next(partitions), lastword.log.partitions) for _ in range(owners)],),
                name=f"load {number}",
            )
            for number in range(threads)
        ]
        self._stop = threading.Event()
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        self.goes_on(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._publisher.close()
        self._candidates.close()
        if error is None and self._error is not None:
            raise self._error

    @property
    def receipts(self) -> list[Receipt]:
        """Of all that was acknowledged."""
        return [said.receipt for said in self.said]

    def goes_on(self, count: int = 100) -> None:
        """Wait until so many more events are acknowledged."""
        goal, deadline = len(self.said) + count, time.monotonic() + _SECONDS
        while len(self.said) < goal:
            if self._error is not None:
                raise self._error
            assert time.monotonic() < deadline, f"waited {_SECONDS:.0f} s for {count} more events"
            time.sleep(0.005)

    def pile_up(self, count: int) -> None:
        """Publish so many events of owners who say nothing else; returns when all are acknowledged."""
        futures = []
        for number, owner in zip(range(count), itertools.cycle(self._strangers)):
            futures.append((owner, self._publisher.submit(_statement(owner, "any", "set", value=number))))
        self.said += [Said(owner, future.result(_SECONDS)) for owner, future in futures]

    def _talk(self, owners: list[str]) -> None:
        try:
            for number in itertools.count():
                for owner in owners:
                    if self._stop.is_set():
                        return
                    self._say(owner, number)
                    time.sleep(_PAUSE_S)
        except BaseException as error:
            self._error = error

    def _say(self, owner: str, number: int) -> None:
        statement = _statement(owner, "any", "set", value=number)
        self._publish(owner, statement)
        self.last[owner] = number
        match number % 8:
            case 2:
                self._publish(owner, _statement(owner, "theme", "set", value=f"theme {number}"))
            case 3:
                turn = self._publish(owner, _statement(owner, None, "say", text=f"guess {number}", thread="t"))
                self._publish(owner, _statement(owner, "guess", "set", value="said meanwhile"))
                self._publish(owner, _reading(owner, turn, f"guess {number}"))
            case 5:
                self._publish(owner, _statement(owner, "theme", "delete"))
            case 6:
                self._publish(owner, statement)

    def _publish(self, owner: str, draft: EventDraft | CandidateDraft) -> Receipt:
        while True:
            try:
                if isinstance(draft, EventDraft):
                    receipt = self._publisher.publish(draft)
                else:
                    receipt = self._candidates.publish(draft)
            except LastwordError as error:
                if not error.retryable and error.code != "publish-failed":
                    raise
                if self._stop.is_set():
                    raise
                self.unsettled += 1
                time.sleep(0.1)
            else:
                self.said.append(Said(owner, receipt))
                return receipt


def _statement(owner: str, key: str | None, operation: str, **more: Any) -> EventDraft:
    place = {} if key is None else {"key": key}
    about = {"owner": owner, "scope": "global", "operation": operation, "actor": _ACTOR, "event_id": str(uuid.uuid4())}
    return EventDraft.read(about | place | more)


def _reading(owner: str, turn: Receipt, quote: str) -> CandidateDraft:
    return CandidateDraft.read(
        {
            "operation": "set",
            "owner": owner,
            "scope": "global",
            "key": "guess",
            "value": quote,
            "quote": quote,
            "span": [0, len(quote)],
            "authority": "stated",
            "source_event_id": str(turn),
            "actor": _EXTRACTOR,
            "event_id": str(uuid.uuid4()),
        }
    )


def _owner_in(partition: int, partitions: int) -> str:
    """A new owner whose events are in that partition."""
    while partition_for(owner := f"main/user:{uuid.uuid4()}", partitions) != partition:
        pass
    return owner
