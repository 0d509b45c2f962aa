"""mem0: what `get_all` or `search` returns, in the open-source library and on the platform.

Memories are sentences that a model read out of conversations: authority `inferred`. An `expiration_date` is the last
day on which a memory applies. Relations of its graph are not memories and stay behind.
"""

from datetime import timedelta
from typing import Any, Final

from lastword.transfer.rows import Origin, Row, items_under, text_of, time_of
from lastword_schemas.authority import Authority

_DATE: Final = len("2026-03-01")


def _row(item: Any) -> Row:
    expires_at = time_of(item, "expiration_date") if isinstance(item, dict) else None
    if expires_at is not None and len(item["expiration_date"]) == _DATE:
        expires_at += timedelta(days=1)
    return Row(
        origin_id=text_of(item, "id"),
        value=text_of(item, "memory", "data"),
        said_at=time_of(item, "updated_at", "created_at"),
        expires_at=expires_at,
        fields=item,
    )


MEM0: Final = Origin(
    name="mem0",
    items=items_under("results", "memories"),
    row=_row,
    owner="user:{user_id}",
    scope="global",
    key="imported.mem0.{id}",
    authority=Authority.INFERRED,
)
