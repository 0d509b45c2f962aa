"""lastword: entries of an export. Tombstones come along; events of the history stay with the log that they are of."""

from collections.abc import Iterable
from typing import Any, Final

from lastword.transfer.lines import EntryLine, read_line
from lastword.transfer.rows import Origin, Row
from lastword_schemas.authority import Authority, Role


def _items(document: Any) -> Iterable[Any]:
    """What is said of keys and events; other lines are only looked at."""
    kind = document.get("type") if isinstance(document, dict) else None
    if kind in ("header", "owner", "end"):
        read_line(document)
        return []
    return [document]


def _row(item: Any) -> Row | None:
    line = read_line(item)
    if not isinstance(line, EntryLine):
        return None
    role = Role.SERVICE if line.actor.role is Role.EXTRACTOR else line.actor.role  # a candidate's source stays behind
    return Row(
        origin_id=line.event_id,
        operation="delete" if line.status == "deleted" else "set",
        value=line.value,
        said_at=line.updated_at or line.occurred_at,
        occurred_at=line.occurred_at,
        expires_at=line.expires_at,
        fields=item,
        place=(line.owner, line.scope, line.key),
        authority=line.authority,
        actor=(line.actor.service, role),
    )


LASTWORD: Final = Origin(
    name="lastword",
    items=_items,
    row=_row,
    owner="{owner}",
    scope="{scope}",
    key="{key}",
    authority=Authority.STATED,
    in_lines=True,
)
