"""Zep and Graphiti: edges of a user's graph, each a fact with the times between which it held.

A fact that ended (`invalid_at`, else `expired_at`) is imported with that as its `expires_at`: it answers `expired`, and
its version says when. Facts are read by a model out of what was said: authority `inferred`. An edge does not say whose
graph it is of, unless the file has a `user_id` or `group_id` beside it.
"""

from collections.abc import Iterable
from typing import Any, Final

from lastword.transfer.rows import Origin, Row, items_under, text_of, time_of
from lastword_schemas.authority import Authority

_listed = items_under("edges", "facts")


def _items(document: Any) -> Iterable[Any]:
    """The edges; each has the user of the document, where that names one."""
    beside = (
        {name: document[name] for name in ("user_id", "group_id") if name in document} if _is_object(document) else {}
    )
    return [beside | item if _is_object(item) else item for item in _listed(document)]


def _row(item: Any) -> Row:
    ident = text_of(item, "uuid", "uuid_")
    fields = item | {"uuid": ident, "user_id": item.get("user_id", item.get("group_id"))}
    return Row(
        origin_id=ident,
        value=text_of(item, "fact"),
        said_at=time_of(item, "valid_at", "created_at"),
        expires_at=time_of(item, "invalid_at", "expired_at"),
        fields=fields,
    )


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


ZEP: Final = Origin(
    name="zep",
    items=_items,
    row=_row,
    owner="user:{user_id}",
    scope="global",
    key="imported.zep.{uuid}",
    authority=Authority.INFERRED,
)
