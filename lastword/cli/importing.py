"""An import: what the statements of a file would meet, and publishing them."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from typing import Any, Final, TypeVar

from lastword.cli.client import Api
from lastword.cli.patience import patiently, pauses
from lastword.cli.replaying import outcome_of, reason_of
from lastword.transfer.planning import LeftOut, Statement
from lastword_schemas import jsontext, limits
from lastword_schemas.answers import InspectionRecord, State, Status, ValuesAnswer
from lastword_schemas.authority import Authority
from lastword_schemas.errors import LastwordError

T = TypeVar("T")
_BATCH: Final = 500
_BATCH_BYTES: Final = limits.MAX_BODY_BYTES // 2
_WAIT_MS: Final = 30_000


class ImportStopped(LastwordError):
    """The import did not come to the end of the file."""

    code = "import-stopped"
    retryable = True


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a statement would become, as things stand."""

    statement: Statement
    becomes: str
    """An effect, `there already`, `superseded` or `refused`."""
    why: str
    declared: bool


@dataclass(slots=True)
class Imported:
    """What became of the rows of a file."""

    counts: Counter[str] = field(default_factory=Counter)
    """Rows by what became of them: an effect, `duplicate`, `accepted`, `refused`, `left out` or `not importable`."""
    problems: list[tuple[int, str]] = field(default_factory=list)
    """Number and reason of what was refused or cannot be imported."""
    undeclared: list[Statement] = field(default_factory=list)
    """The statements that were refused for their key: the first of each."""

    def leave_out(self, row: LeftOut) -> None:
        """Count a row that becomes nothing."""
        self.counts["left out" if row.wanted else "not importable"] += 1
        if not row.wanted:
            self.problems.append((row.number, row.reason))


# --- a dry run


def look(api: Api, statements: Iterable[Statement]) -> Iterator[Prospect]:
    """What each statement would meet. Statements of one scope of one owner are asked for together.

    Raises ApiUnreachable and ApiProblem.
    """
    for _, grouped in groupby(statements, key=lambda statement: statement.place[0]):
        of_owner = list(grouped)
        met = _met(api, of_owner)
        last = {statement.place: statement for statement in of_owner}
        yield from (_prospect(statement, met[statement.place], last[statement.place]) for statement in of_owner)


def _met(api: Api, statements: Sequence[Statement]) -> dict[tuple[str, str, str], InspectionRecord]:
    """What stands at the places of one owner's statements."""
    met: dict[tuple[str, str, str], InspectionRecord] = {}
    keys: dict[tuple[str, str], dict[str, None]] = {}
    for statement in statements:
        owner, scope, key = statement.place
        keys.setdefault((owner, scope), {})[key] = None
    for (owner, scope), wanted in keys.items():
        for part in _parts(wanted, limits.MAX_KEYS_PER_READ):
            post = partial(api.post, "/v1/values/read", {"owner": owner, "scopes": [scope], "keys": part})
            for record in ValuesAnswer.model_validate_json(patiently(post)).values:
                met[owner, scope, record.identity.key] = record
    return met


def _prospect(statement: Statement, met: InspectionRecord, last: Statement) -> Prospect:
    state, source = met.state, met.source
    if not met.identity.declared:
        return Prospect(statement, "refused", "its key is not declared", declared=False)
    if source is not None and source.event_id == statement.draft["event_id"]:
        becomes, why = "there already", "it was imported before"
    elif source is not None and source.source_sequence > 0:
        becomes, why = "late", f"{state.status.value} since, at sequence {source.source_sequence}"
    elif last is not statement:
        becomes, why = "superseded", f"row {last.number} says something later of this key"
    elif source is None or state.mark is None:
        becomes, why = ("deleted" if statement.draft["operation"] == "delete" else "added"), ""
    else:
        theirs = (state.mark.authority.rank, state.mark.ordinal)
        ours = (Authority(statement.draft["authority"]).rank, statement.draft["backfill"])
        same = _says_the_same(statement, state)
        becomes = "late" if ours < theirs else "restated" if same else "updated" if ours > theirs else "conflict"
        why = "against an earlier import" + (", from about the same time" if becomes == "conflict" else "")
    return Prospect(statement, becomes, why, declared=True)


def _says_the_same(statement: Statement, state: State) -> bool:
    if statement.draft["operation"] == "delete":
        return state.status is Status.DELETED
    ours = jsontext.canonical(statement.draft["value"])
    return state.status is Status.SET and jsontext.canonical(state.value) == ours


# --- a real run


def publish(api: Api, statements: Iterable[Statement], imported: Imported, on_progress: Callable[[int], None]) -> None:
    """Publish the statements in batches; what has no room is sent again, and nothing is added twice.

    `on_progress` is told how many are done. Raises ImportStopped.
    """
    done = 0
    for batch in _batches(statements):
        for statement, item in _send(api, batch):
            _count(imported, statement, item)
        done += len(batch)
        on_progress(done)


def _send(api: Api, batch: Sequence[Statement]) -> Iterator[tuple[Statement, dict[str, Any]]]:
    """The statements with what became of each; the order among them does not matter, each has its place."""
    left, waits = list(batch), pauses()
    while True:
        body = {"events": [statement.draft for statement in left]}
        text = patiently(partial(api.post, "/v1/events", body, wait="applied", wait_ms=_WAIT_MS))
        again: list[tuple[Statement, dict[str, Any]]] = []
        for statement, item in zip(left, jsontext.parse(text)["results"], strict=True):
            if item["outcome"] in ("failed", "unknown"):
                again.append((statement, item))
            else:
                yield statement, item
        if not again:
            return
        if not waits:
            statement, item = again[0]
            raise ImportStopped(
                f"stopped at row {statement.number}: {reason_of(item)}. Import it again when that is mended: nothing "
                "is added twice"
            )
        left = [statement for statement, _ in again]
        time.sleep(waits.pop(0))


def _count(imported: Imported, statement: Statement, item: dict[str, Any]) -> None:
    if item["outcome"] != "refused":
        imported.counts[outcome_of(item)] += 1
        return
    imported.counts["refused"] += 1
    imported.problems.append((statement.number, reason_of(item)))
    code = item.get("problem", {}).get("code") or item.get("verdict", {}).get("reason")
    if code == "undeclared-key" and statement.draft["key"] not in {one.draft["key"] for one in imported.undeclared}:
        imported.undeclared.append(statement)


def _batches(statements: Iterable[Statement]) -> Iterator[list[Statement]]:
    """Statements that can go in one request."""
    batch: list[Statement] = []
    size = 0
    for statement in statements:
        bytes_more = len(jsontext.dump(statement.draft).encode())
        if batch and (len(batch) == _BATCH or size + bytes_more > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(statement)
        size += bytes_more
    if batch:
        yield batch


def _parts(items: Iterable[T], most: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while part := list(islice(iterator, most)):
        yield part
