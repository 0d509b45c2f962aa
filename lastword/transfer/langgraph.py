"""LangGraph: items of a store, as `search` returns them and their `dict()` writes them.

An item's value is any JSON object that a program put there: authority `stated`. Which part of its namespace names the
owner only its program knows; so there is no default, and `--owner 'user:{namespace.0}'` says it.
"""

from typing import Any, Final

from lastword.transfer.rows import Origin, Row, items_under, text_of, time_of
from lastword_schemas import jsontext
from lastword_schemas.authority import Authority
from lastword_schemas.errors import InvalidInput


def _row(item: Any) -> Row:
    key = text_of(item, "key")
    namespace = item.get("namespace", item.get("prefix"))
    parts = namespace.split(".") if isinstance(namespace, str) else namespace
    if not isinstance(parts, list) or not parts or not all(isinstance(part, str) for part in parts):
        raise InvalidInput("its namespace is no list of names")
    if "value" not in item:
        raise InvalidInput("it has no value")
    return Row(
        origin_id=jsontext.dump([*parts, key]),
        value=item["value"],
        said_at=time_of(item, "updated_at", "created_at"),
        fields=item | {"namespace": parts},
    )


LANGGRAPH: Final = Origin(
    name="langgraph",
    items=items_under("items"),
    row=_row,
    owner="",
    scope="global",
    key="imported.langgraph.{key}",
    authority=Authority.STATED,
)
