"""A file of events to the API, in batches that keep the order of the lines; it goes on where it was stopped."""

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Final

from lastword.cli.client import Api, ApiProblem, ApiUnreachable
from lastword.cli.journal import Journal, Place
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

    place: Place
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
    done_before: int = 0
    """Lines that were done before this run."""
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
            "done_before": self.done_before,
            "refusals": [{"line": number, "reason": reason} for number, reason in self.refusals],
        }


OnRefused = Callable[[int, str], None]
"""Told of the number of a refused line and the reason."""
OnProgress = Callable[[int, int], None]
"""Told of the events of this run and the bytes of the file that are done."""


def replay_lines(
    api: Api,
    file: BinaryIO,
    journal: Journal | None,
    batch: int,
    *,
    wait: bool,
    on_refused: OnRefused,
    on_progress: OnProgress,
) -> Replayed:
    """Publish JSON lines, from where the journal says. It stops at the first batch with an event that is not known to
    be in the log or refused: what follows must not come before it.

    Raises InvalidInput where the file is not the one that the journal is of.
    """
    if journal is not None and journal.place.log_id is not None and journal.place.log_id != api.log_id():
        journal.begin_again()
    done = hashlib.sha256() if journal is None else journal.check(file)
    replayed = Replayed(done_before=0 if journal is None else journal.place.line)

    def refuse(number: int, reason: str) -> None:
        replayed.counts["refused"] += 1
        replayed.refusals.append((number, reason))
        on_refused(number, reason)

    try:
        for run in _runs(_read(file, done, journal, refuse), batch):
            results = _send(api, run, wait)
            _count(replayed, run, results, refuse, journal)
            on_progress(replayed.total, run[-1].place.end)
            if replayed.stopped is not None:
                return replayed
            if journal is not None:
                journal.note(replace(run[-1].place, log_id=_log_of(results) or journal.place.log_id))
    except (ApiUnreachable, ApiProblem) as error:
        replayed.stopped = _stopped(run[0].place.line, error.message, journal)
    except KeyboardInterrupt:
        replayed.stopped = _stopped(None, "interrupted", journal)
    else:
        if journal is not None:
            journal.finish()
    return replayed


def _log_of(results: list[dict[str, Any]]) -> str | None:
    return next((item["receipt"]["log_id"] for item in results if "receipt" in item), None)


def _count(
    replayed: Replayed, run: list[Line], results: list[dict[str, Any]], refuse: OnRefused, journal: Journal | None
) -> None:
    for line, item in zip(run, results, strict=True):
        if item["outcome"] == "refused":
            refuse(line.place.line, reason_of(item))
        else:
            replayed.counts[outcome_of(item)] += 1
        if item["outcome"] in ("failed", "unknown") and replayed.stopped is None:
            replayed.stopped = _stopped(line.place.line, reason_of(item), journal)


def _read(file: BinaryIO, done: "hashlib._Hash", journal: Journal | None, refuse: OnRefused) -> Iterator[Line]:
    """The lines that hold an event, each with an id, so that a batch that is sent again is the same events."""
    number, end = (0, 0) if journal is None else (journal.place.line, journal.place.end)
    for text in file:
        number, end = number + 1, end + len(text)
        done.update(text)
        if not text.strip():
            continue
        if len(text) > _BATCH_BYTES:
            refuse(number, f"the line has {len(text)} bytes; no event is that large")
            continue
        try:
            draft = jsontext.parse(text)
        except InvalidInput as error:
            refuse(number, error.message)
            continue
        if not isinstance(draft, dict):
            refuse(number, "not a JSON object")
            continue
        if draft.get("event_id") is None:
            draft["event_id"] = _new_id() if journal is None else journal.event_id(number)
        yield Line(Place(number, end, done.hexdigest()), draft, len(text))


def _new_id() -> str:
    return uuid7(time.time_ns() // 1_000_000, os.urandom(10))


def _runs(lines: Iterator[Line], batch: int) -> Iterator[list[Line]]:
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


def outcome_of(item: dict[str, Any]) -> str:
    """The effect where the verdict is known; of a copy the verdict is that of the first one."""
    verdict = item.get("verdict")
    if verdict is None:
        return str(item["outcome"])
    return "duplicate" if verdict["sequence"] != item["receipt"]["sequence"] else str(verdict["effect"])


def reason_of(item: dict[str, Any]) -> str:
    """Why an event was refused, failed, or is unknown."""
    problem, verdict = item.get("problem"), item.get("verdict")
    if problem is not None:
        return str(problem["detail"])
    if verdict is not None:
        return f"{verdict.get('reason')}: {verdict.get('detail')}"
    return str(item["outcome"])


def _stopped(line: int | None, reason: str, journal: Journal | None) -> ReplayStopped:
    where = "" if line is None else f" at line {line}"
    if journal is None:
        advice = (
            "Replay it again when that is mended; lines with an event_id of their own change nothing when they come "
            "twice, others should be cut up to here"
        )
    else:
        advice = (
            f"Lines up to {journal.place.line} are done. Replay the file again: it goes on from there, and nothing is "
            "added twice"
        )
    return ReplayStopped(f"stopped{where}: {reason}. {advice}")
