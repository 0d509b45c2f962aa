"""What the door refuses by the key registry, before anything enters the log. The log's reader judges the same again."""

from lastword_producers.errors import AuthorityTooLow, UndeclaredKey, ValueSchema
from lastword_projector.engine.keys import Keys
from lastword_schemas import jsontext
from lastword_schemas.authority import Authority
from lastword_schemas.envelope import Envelope
from lastword_schemas.registry import KeyDeclaration


def check_declared(envelope: Envelope, keys: Keys) -> None:
    """Check an event, and the keys that it retires, against the declared keys. A turn has no key and always passes.

    Raises UndeclaredKey (field `key`), ValueSchema (field `value`) or AuthorityTooLow (field `authority`), in the order
    in which the log's reader checks; of a key that it retires the field is that key.
    """
    if envelope.key is None:
        return
    own = _declared(envelope.key, keys, "key")
    retired = {f"retires.{at}.key": other.key for at, other in enumerate(envelope.retires or ())}
    declared = {field: _declared(key, keys, field) for field, key in retired.items()}
    if "value" in envelope.body.model_fields_set:
        problem = keys.value_problem(envelope.key, jsontext.dump(envelope.body.value).encode("utf-8"))
        if problem is not None:
            raise ValueSchema(f"{problem}: send a value that fits, or change the schema in keys.toml", field="value")
    _check_authority(envelope.key, own, envelope.authority, "authority")
    for field, declaration in declared.items():
        _check_authority(retired[field], declaration, envelope.authority, field)


def _declared(key: str, keys: Keys, field: str) -> KeyDeclaration:
    declaration = keys.get(key)
    if declaration is None:
        raise UndeclaredKey(key, field=field)
    return declaration


def _check_authority(key: str, declaration: KeyDeclaration, authority: Authority, field: str) -> None:
    if authority.rank < declaration.min_authority.rank:
        raise AuthorityTooLow(
            f"key {key!r} takes authority '{declaration.min_authority}' or higher, this event has "
            f"'{authority}': have it confirmed, quote the person, or lower min_authority in keys.toml",
            field=field,
        )
