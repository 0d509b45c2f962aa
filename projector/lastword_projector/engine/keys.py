"""The registry, ready to judge with: value schemas compiled once."""

from functools import lru_cache
from typing import Any, NoReturn

import jsonschema_rs

from lastword_schemas import jsontext
from lastword_schemas.errors import InvalidInput
from lastword_schemas.registry import Registry


class Keys:
    """Declared keys with compiled value schemas. Raises InvalidInput where a schema is not valid JSON Schema."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._min_ranks = {key: int(declared.min_authority.rank) for key, declared in registry.keys.items()}
        self._takes_undeclared = registry.undeclared is not None
        self._validators = {
            key: _compile(key, declaration.schema_)
            for key, declaration in registry.keys.items()
            if declaration.schema_ is not None
        }

    def takes(self, key: str) -> bool:
        """Whether events of a key are taken: it is declared, or need not be."""
        return self._takes_undeclared or key in self._min_ranks

    def min_rank(self, key: str) -> int:
        """The rank of the least authority that a key takes; 0 if it takes none."""
        rank = self._min_ranks.get(key)
        if rank is None:
            least = self.registry.least_of(key)
            return 0 if least is None else int(least.rank)
        return rank

    def has_schema(self, key: str) -> bool:
        """Whether the key's values have a schema."""
        return key in self._validators

    def value_problem(self, key: str, value: bytes) -> str | None:
        """Why a value (JSON text) does not fit its key's schema, without the value; None if it fits."""
        validator = self._validators.get(key)
        if validator is None:
            return None
        errors = list(validator.iter_errors(jsontext.parse_stored(value)))
        if not errors:
            return None
        error = errors[0]
        path = "/".join(str(part) for part in error.schema_path)
        return f"the value does not fit the schema of '{key}' at /{path}"


@lru_cache(maxsize=64)
def compile_registry(canonical: str) -> Keys:
    """The compiled keys of a registry's canonical JSON."""
    return Keys(Registry.read(jsontext.parse(canonical)))


def _compile(key: str, schema: Any) -> Any:
    if not isinstance(schema, dict | bool):
        raise InvalidInput(f"the schema of '{key}' is not a JSON Schema", field=f"keys.{key}.schema")
    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse_reference)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        text = str(error).splitlines()[0]
        raise InvalidInput(f"the schema of '{key}' is not usable: {text}", field=f"keys.{key}.schema") from error


def _refuse_reference(uri: str) -> NoReturn:
    raise ValueError(f"it refers to another document ({uri}), which is not allowed")
