"""An export, line by line: each owner's entries and events of one moment, read page by page from the API."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final

from lastword.cli.client import Api
from lastword.cli.patience import patiently
from lastword.transfer.lines import EndLine, EntryLine, EventLine, HeaderLine, Line, OwnerLine
from lastword_schemas.answers import HistoryAnswer, InspectionRecord, ProfileAnswer, Status
from lastword_schemas.envelope import Actor

_PAGE: Final = 1000


def export_lines(
    api: Api, owners: Iterable[str], named: list[str] | None, now: datetime, *, history: bool
) -> Iterator[Line]:
    """The lines of a whole export. Raises ApiUnreachable and ApiProblem."""
    counts = {"owner": 0, "entry": 0, "event": 0}
    yield HeaderLine(log_id=api.log_id(), exported_at=now, owners=named, history=history)
    for owner in owners:
        for line in _owner_lines(api, owner, history=history):
            counts[line.type] += 1
            yield line
    yield EndLine(owners=counts["owner"], entries=counts["entry"], events=counts["event"])


def _owner_lines(api: Api, owner: str, *, history: bool) -> Iterator[OwnerLine | EntryLine | EventLine]:
    page: str | None = None
    first = True
    while first or page is not None:
        profile = _profile(api, owner, page)
        if first:
            yield OwnerLine(owner=profile.owner, known_at=profile.known_at, position_token=profile.position_token)
            known_at = profile.known_at
        yield from (_entry_line(api, record) for record in profile.entries)
        page, first = profile.next_page, False
    if history:
        yield from _event_lines(api, owner, known_at)


def _profile(api: Api, owner: str, page: str | None) -> ProfileAnswer:
    get = partial(api.get, "/v1/profile", owner=owner, everything=True, limit=_PAGE, page=page)
    return ProfileAnswer.model_validate_json(patiently(get))


def _event_lines(api: Api, owner: str, known_at: int) -> Iterator[EventLine]:
    asked: dict[str, Any] = {"owner": owner, "known_at": known_at, "limit": _PAGE}
    for answer in _history_pages(api, asked):
        yield from (EventLine(owner=answer.owner, event=event) for event in answer.events or ())


def _history_pages(api: Api, asked: dict[str, Any]) -> Iterator[HistoryAnswer]:
    page: str | None = None
    while True:
        answer = HistoryAnswer.model_validate_json(patiently(partial(api.get, "/v1/history", page=page, **asked)))
        yield answer
        if (page := answer.next_page) is None:
            return


def _entry_line(api: Api, record: InspectionRecord) -> EntryLine:
    identity, state, source = record.identity, record.state, record.source
    if source is None or state.authority is None:
        raise AssertionError("an entry of a profile has a source")
    told: dict[str, Any] = {
        "owner": identity.owner,
        "scope": identity.scope,
        "key": identity.key,
        "status": state.status.value,
        "resolution_state": state.resolution_state,
        "authority": state.authority,
        "actor": Actor(service=source.actor.service, role=source.actor.role),
        "event_id": source.event_id,
        "position": source.position,
        "source_sequence": source.source_sequence,
        "confidence": source.confidence,
        "occurred_at": source.occurred_at,
        "updated_at": source.updated_at,
        "expires_at": state.expires_at,
    }
    told = {name: value for name, value in told.items() if value is not None}
    if state.status is Status.SET:
        told["value"] = state.value
    elif state.status is Status.EXPIRED:
        told["value"] = _expired_value(api, record)
    return EntryLine(**told)


def _expired_value(api: Api, record: InspectionRecord) -> Any:
    """The value whose time is over: only the history tells it."""
    identity = record.identity
    asked = {
        "owner": identity.owner,
        "scope": identity.scope,
        "key": identity.key,
        "known_at": record.selection.known_at,
        "limit": _PAGE,
    }
    last = [version for answer in _history_pages(api, asked) for version in answer.versions or ()][-1]
    return last.value
