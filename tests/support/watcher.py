"""A reader that keeps asking with the position token of its last answer, and remembers every answer that was wrong."""

import threading
import time
from collections import Counter
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx

from tests.support.load import Load
from tests.support.running import RunningLastword

_WAIT_MS = 200
_SECONDS = 60.0


class Seen(NamedTuple):
    """What was read of an owner last."""

    number: int
    sequence: int
    token: str


class Watcher:
    """Asks for the number that each owner of a load said last, until the end of the `with` block.

    Each question demands to be as new as the last answer about that owner. An answer that is older in any way, or that
    is neither an answer nor a refusal that may be tried again, is wrong.
    """

    def __init__(self, lastword: RunningLastword, load: Load) -> None:
        self._get, self._load = lastword.get, load
        self.seen: dict[str, Seen] = {}
        """By owner."""
        self.answers = 0
        self.refusals: Counter[str] = Counter()
        """Codes of the refusals."""
        self.wrong: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher")

    def __enter__(self) -> Self:
        self._thread.start()
        self.goes_on()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def goes_on(self, count: int = 20) -> None:
        """Wait until so many more answers came."""
        self._await(lambda: self.answers, count, "answers")

    def is_refused(self, code: str, count: int = 3) -> None:
        """Wait until so many more refusals with this code came."""
        self._await(lambda: self.refusals[code], count, f"refusals with code {code}")

    def check(self) -> None:
        """Fails the test where an answer was wrong, or none came."""
        assert self.answers > 0
        assert not self.wrong, f"{len(self.wrong)} wrong answers, first: {self.wrong[:5]}"

    def _await(self, counter: Any, count: int, what: str) -> None:
        goal, deadline = counter() + count, time.monotonic() + _SECONDS
        while counter() < goal:
            assert time.monotonic() < deadline, f"waited {_SECONDS:.0f} s for {count} more {what}: {self.refusals}"
            time.sleep(0.005)

    def _watch(self) -> None:
        while not self._stop.is_set():
            for owner in list(self._load.last):
                try:
                    self._ask(owner)
                except Exception as error:
                    self.wrong.append(f"{type(error).__name__}: {error}")
            time.sleep(0.002)

    def _ask(self, owner: str) -> None:
        before = self.seen.get(owner)
        token = None if before is None else before.token
        answer = self._get("/v1/value", owner=owner, key="any", at_least=token, wait_ms=_WAIT_MS)
        if answer.status_code != 200:
            self._refused(answer)
            return
        self.answers += 1
        record = answer.json()
        state, selection = record["state"], record["selection"]
        if state["status"] != "set":
            if before is not None:
                self.wrong.append(f"{state['status']} after {before}")
            return
        now = Seen(state["value"], selection["known_at"], selection["position_token"])
        self.seen[owner] = now
        if before is not None and (now.number < before.number or now.sequence < before.sequence):
            self.wrong.append(f"{now} after {before}")
        if record["source"]["source_sequence"] > now.sequence:
            self.wrong.append(f"{now} shows what was said at {record['source']['source_sequence']}")

    def _refused(self, answer: httpx.Response) -> None:
        problem = answer.json()
        self.refusals[problem["code"]] += 1
        if not problem["retryable"]:
            self.wrong.append(f"{answer.status_code} {problem['code']}: {problem['detail']}")
