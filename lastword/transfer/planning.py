"""From rows to statements: where each goes, its place before the log, its event id."""

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from lastword.transfer.mapping import Rule, place_of, rule_for, value_of
from lastword.transfer.rows import Origin, Row
from lastword_schemas import jsontext, limits
from lastword_schemas.authority import Authority, Role
from lastword_schemas.drafts import EventDraft, read_draft, to_envelope
from lastword_schemas.errors import LastwordError
from lastword_schemas.model import instant_text

_NAMESPACE: Final = uuid.UUID("6f5a0a0e-6f0b-5c3c-9a55-696d706f7274")
_FIRST_HOUR: Final = datetime(2000, 1, 1, tzinfo=UTC)
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Statement:
    """A row that becomes an event."""

    number: int
    """The line, or the number of the item, from 1."""
    origin_id: str
    draft: dict[str, Any]
    """What POST /v1/events takes."""
    said_at: datetime

    @property
    def place(self) -> tuple[str, str, str]:
        """Owner, scope and key."""
        return self.draft["owner"], self.draft["scope"], self.draft["key"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row that does not."""

    number: int
    origin_id: str
    reason: str
    wanted: bool
    """Whether a rule, or the nature of the line, leaves it out; else it cannot be imported as it is."""


def plan(
    numbered: Iterable[tuple[int, Any]],
    origin: Origin,
    rules: list[Rule],
    usual: Rule,
    service: str | None = None,
) -> Iterator[Statement | LeftOut]:
    """What becomes of the items of a file, each with its number.

    Statements come owner by owner and in the order of their times, so that each has its place before the log: the hours
    from the year 2000 to when it was said, and after all others of its key that were said before it.
    """
    planned: Iterator[Statement | LeftOut] = (
        _plan_one(number, item, origin, rules, usual, service) for number, item in numbered
    )
    if not origin.in_lines:
        made = list(planned)
        yield from (one for one in made if isinstance(one, LeftOut))
        statements = [one for one in made if isinstance(one, Statement)]
        statements.sort(key=_by_owner_and_time)
        planned = iter(statements)
    owner, last = "", dict[tuple[str, str, str], int]()
    for one in planned:
        if isinstance(one, LeftOut):
            yield one
            continue
        if one.place[0] != owner:
            owner, last = one.place[0], {}
        ordinal = max(_hours(one.said_at), last.get(one.place, -1) + 1)
        if ordinal > limits.MAX_BACKFILL:
            yield LeftOut(one.number, one.origin_id, "there are too many statements of its key", wanted=False)
            continue
        last[one.place] = ordinal
        yield replace(one, draft=one.draft | {"backfill": ordinal})


def declarations(statements: Iterable[Statement]) -> str:
    """The lines of a key registry file that would declare the keys of these statements."""
    least: dict[str, Authority] = {}
    for statement in statements:
        key, authority = statement.draft["key"], Authority(statement.draft["authority"])
        least[key] = min(least.get(key, authority), authority, key=lambda one: one.rank)
    lines = []
    for key, authority in sorted(least.items()):
        lines += [f"[keys.{jsontext.dump(key)}]", 'policy = "latest"']
        lines += [f'min_authority = "{authority}"'] if authority is Authority.INFERRED else []
        lines.append("")
    return "\n".join(lines)


def _hours(said_at: datetime) -> int:
    return max(0, min(int((said_at - _FIRST_HOUR).total_seconds() // 3600), limits.MAX_BACKFILL))


def _by_owner_and_time(statement: Statement) -> tuple[str, datetime, int]:
    return statement.place[0], statement.said_at, statement.number


def _plan_one(
    number: int, item: Any, origin: Origin, rules: list[Rule], usual: Rule, service: str | None
) -> Statement | LeftOut:
    origin_id = ""
    try:
        row = origin.row(item)
        if row is None:
            return LeftOut(number, origin_id, "its history stays with the log that it is of", wanted=True)
        origin_id = row.origin_id
        rule = rule_for(row, rules, usual)
        if rule.skip:
            return LeftOut(number, origin_id, "a rule leaves it out", wanted=True)
        draft = _draft(row, rule, origin, service)
        checked = read_draft(draft | {"backfill": 0}, EventDraft)
        to_envelope(checked, event_id=draft["event_id"], published_at=_FIRST_HOUR)
        return Statement(number, origin_id, draft | {"owner": checked.owner}, row.said_at or _NEVER)
    except LastwordError as error:
        return LeftOut(number, origin_id, error.message, wanted=False)


def _draft(row: Row, rule: Rule, origin: Origin, service: str | None) -> dict[str, Any]:
    owner, scope, key = place_of(row, rule, origin)
    made_by, role = row.actor or (f"import-{origin.name}", Role.SERVICE)
    authority = rule.authority or row.authority or origin.authority
    draft: dict[str, Any] = {
        "operation": row.operation,
        "owner": owner,
        "scope": scope,
        "key": key,
        "actor": {"service": service or made_by, "role": role.value},
        "authority": authority.value,
    }
    if row.operation == "set":
        draft["value"] = value_of(row, rule)
        if row.expires_at is not None:
            draft["expires_at"] = instant_text(row.expires_at)
    if (occurred_at := row.occurred_at or row.said_at) is not None:
        draft["occurred_at"] = instant_text(occurred_at)
    # The same in every file: what it is called there, where it goes, what it says and since when.
    name = jsontext.canonical([origin.name, row.origin_id, draft])
    return draft | {"event_id": str(uuid.uuid5(_NAMESPACE, name))}
