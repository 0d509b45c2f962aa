"""A file of events to the API, in batches that keep the order of the lines."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from lastword.cli.client import Api, ApiProblem, ApiUnreachable
from lastword_schemas import jsontext, limits
from lastword_schemas.errors import InvalidInput, LastwordError
from lastword_schemas.ids import uuid7

_WAIT_MS: Final = 30_000
_BATCH_BYTES: Final = limits.MAX_BODY_BYTES // 2


class ReplayStopped(LastwordError):
    """The replay did not come to the end of the file."""

    code = "replay-stopped"
    retryable = True


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the file."""

    number: int
    """From 1."""
    draft: dict[str, Any]
    size: int
    """Bytes."""

    @property
    def route(self) -> str:
        """Where it goes: `candidates` if it cites a source."""
        return "candidates" if "source_event_id" in self.draft else "events"


@dataclass(slots=True)
class Replayed:
    """What became of the lines."""

    counts: Counter[str] = field(default_factory=Counter)
    """Events by what became of them: an effect where the verdict is known, else an outcome."""
    refusals: list[tuple[int, str]] = field(default_factory=list)
    """Line number and reason."""
    stopped: ReplayStopped | None = None
    """Why the end of the file was not reached."""

    @property
    def total(self) -> int:
        """Events that were read."""
        return self.counts.total()

    def as_json(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "counts": dict(sorted(self.counts.items())),
            "total": self.total,
            "refusals": [{"line": number, "reason": reason} for number, reason in self.refusals],
        }


OnRefused = Callable[[Line, str], None]
OnProgress = Callable[[int, int], None]
"""Told of the events and the bytes that are done."""


def replay_lines(
    api: Api, lines: Iterable[bytes], batch: int, *, wait: bool, on_refused: OnRefused, on_progress: OnProgress
) -> Replayed:
    """Publish JSON lines. It stops at the first batch with an event that is not known to be in the log or refused:
    what follows must not come before it."""
    replayed = Replayed()

    def refuse(line: Line, reason: str) -> None:
        replayed.counts["refused"] += 1
        replayed.refusals.append((line.number, reason))
        on_refused(line, reason)

    bytes_read = 0
    for run in _runs(_read(lines, refuse), batch):
        bytes_read += sum(line.size for line in run)
        try:
            results = _send(api, run, wait)
        except (ApiUnreachable, ApiProblem) as error:
            replayed.stopped = _stopped(run[0], error.message)
            return replayed
        stopped: ReplayStopped | None = None
        for line, item in zip(run, results, strict=True):
            if item["outcome"] == "refused":
                refuse(line, _reason(item))
            else:
                replayed.counts[_outcome(item)] += 1
            if item["outcome"] in ("failed", "unknown") and stopped is None:
                stopped = _stopped(line, _reason(item))
        on_progress(replayed.total, bytes_read)
        if stopped is not None:
            replayed.stopped = stopped
            return replayed
    return replayed


def _read(lines: Iterable[bytes], refuse: OnRefused) -> Iterator[Line]:
    """The lines that hold an event, each with an id, so that a batch that is sent again is the same events."""
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        if len(text) > _BATCH_BYTES:
            refuse(Line(number, {}, len(text)), f"the line has {len(text)} bytes; no event is that large")
            continue
        try:
            draft = jsontext.parse(text)
        except InvalidInput as error:
            refuse(Line(number, {}, len(text)), error.message)
            continue
        if not isinstance(draft, dict):
            refuse(Line(number, {}, len(text)), "not a JSON object")
            continue
        if draft.get("event_id") is None:
            draft["event_id"] = uuid7(time.time_ns() // 1_000_000, os.urandom(10))
        yield Line(number, draft, len(text))


def _runs(lines: Iterable[Line], batch: int) -> Iterator[list[Line]]:
    """Lines that can go in one request: of one route, not too many, not too large."""
    run: list[Line] = []
    size = 0
    for line in lines:
        if run and (len(run) == batch or size + line.size > _BATCH_BYTES or line.route != run[0].route):
            yield run
            run, size = [], 0
        run.append(line)
        size += line.size
    if run:
        yield run


def _send(api: Api, run: list[Line], wait: bool) -> list[dict[str, Any]]:
    route = run[0].route
    waiting = {"wait": "applied", "wait_ms": _WAIT_MS} if wait else {}
    answer = jsontext.parse(api.post(f"/v1/{route}", {route: [line.draft for line in run]}, **waiting))
    results: list[dict[str, Any]] = answer["results"]
    return results


def _outcome(item: dict[str, Any]) -> str:
    """The effect where the verdict is known; of a copy the verdict is that of the first one."""
    verdict = item.get("verdict")
    if verdict is None:
        return str(item["outcome"])
    return "duplicate" if verdict["sequence"] != item["receipt"]["sequence"] else str(verdict["effect"])


def _reason(item: dict[str, Any]) -> str:
    problem, verdict = item.get("problem"), item.get("verdict")
    if problem is not None:
        return str(problem["detail"])
    if verdict is not None:
        return f"{verdict.get('reason')}: {verdict.get('detail')}"
    return str(item["outcome"])


def _stopped(line: Line, reason: str) -> ReplayStopped:
    return ReplayStopped(
        f"stopped at line {line.number}: {reason}. Replay the file again when that is mended; lines with an event_id "
        "of their own change nothing when they come twice, others should be cut up to here"
    )
