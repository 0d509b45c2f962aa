"""What the door refuses by the key registry, before anything enters the log. The log's reader judges the same again."""

from lastword_producers.errors import AuthorityTooLow, UndeclaredKey, ValueSchema
from lastword_projector.engine.keys import Keys
from lastword_schemas import jsontext
from lastword_schemas.envelope import Envelope


def check_declared(envelope: Envelope, keys: Keys) -> None:
    """Check an event against the declared keys. A turn has no key and always passes.

    Raises UndeclaredKey (field `key`), ValueSchema (field `value`) or AuthorityTooLow (field `authority`), in the order
    in which the log's reader checks.
    """
    key = envelope.key
    if key is None:
        return
    declaration = keys.get(key)
    if declaration is None:
        raise UndeclaredKey(key)
    if "value" in envelope.body.model_fields_set:
        problem = keys.value_problem(key, jsontext.dump(envelope.body.value).encode("utf-8"))
        if problem is not None:
            raise ValueSchema(f"{problem}: send a value that fits, or change the schema in keys.toml", field="value")
    if envelope.authority.rank < declaration.min_authority.rank:
        raise AuthorityTooLow(
            f"key {key!r} takes authority '{declaration.min_authority}' or higher, this event has "
            f"'{envelope.authority}': have it confirmed, quote the person, or lower min_authority in keys.toml",
            field="authority",
        )
