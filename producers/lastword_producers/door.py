"""What the door refuses by the key registry, before anything enters the log. The log's reader judges the same again."""

from typing import Final

from pydantic import JsonValue

from lastword_producers.errors import AuthorityTooLow, UndeclaredKey, ValueSchema
from lastword_producers.spelling import meant
from lastword_projector.engine.keys import Keys
from lastword_schemas import jsontext
from lastword_schemas.authority import Authority, AuthorityRank
from lastword_schemas.envelope import Envelope

_MOST_TOLD: Final = 200
"""Characters of a schema that a message tells."""


def check_declared(envelope: Envelope, keys: Keys) -> None:
    """Check an event, and the keys that it retires, against the key registry. A turn has no key and always passes.

    Raises UndeclaredKey (field `key`), ValueSchema (field `value`) or AuthorityTooLow (field `authority`), in the order
    in which the log's reader checks; of a key that it retires the field is that key.
    """
    if envelope.key is None:
        return
    retired = {f"retires.{at}.key": other.key for at, other in enumerate(envelope.retires or ())}
    for field, key in {"key": envelope.key, **retired}.items():
        if not keys.takes(key):
            raise UndeclaredKey(key, meant=meant(key, keys), field=field)
    if "value" in envelope.body.model_fields_set:
        problem = keys.value_problem(envelope.key, jsontext.dump(envelope.body.value).encode("utf-8"))
        if problem is not None:
            takes = _takes(keys.registry.keys[envelope.key].schema_)
            raise ValueSchema(
                f"{problem}{takes}: send a value that fits, or change the schema in keys.toml", field="value"
            )
    for field, key in {"authority": envelope.key, **retired}.items():
        _check_authority(key, keys, envelope.authority, field)


def _takes(schema: JsonValue) -> str:
    """What a schema takes, where a few words say it."""
    if not isinstance(schema, dict) or not (said := schema.get("enum", schema.get("type"))):
        return ""
    choices = [jsontext.dump(choice) for choice in said] if isinstance(said, list) else [str(said)]
    told = " or ".join(choices)
    return f" (it takes {told})" if len(told) <= _MOST_TOLD else ""


def _check_authority(key: str, keys: Keys, authority: Authority, field: str) -> None:
    least = keys.min_rank(key)
    if authority.rank < least:
        raise AuthorityTooLow(
            f"key {key!r} takes authority '{AuthorityRank(least).authority}' or higher, this event has "
            f"'{authority}': have it confirmed, quote the person, or lower min_authority in keys.toml",
            field=field,
        )
