"""The key registry: which keys there are, what their values look like, by which policy they fold."""

import hashlib
import re
import tomllib
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, field_validator, model_validator

from lastword_schemas import jsontext, limits
from lastword_schemas.authority import Authority
from lastword_schemas.errors import InvalidInput, NotYet, TooLarge
from lastword_schemas.identity import check_key
from lastword_schemas.model import Model

PLANNED_POLICIES = frozenset({"branch", "max", "min", "collection"})
"""Policies of the design that this build does not support yet."""

_GROUP = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


def check_group(text: str) -> str:
    """`text` if it can name a group of keys. Raises InvalidInput with field `group`."""
    if _GROUP.fullmatch(text) is None:
        raise InvalidInput(
            f"group {text[:80]!a} is no name of lower-case letters, digits, '.', '_' and '-', at most 63",
            field="group",
        )
    return text


def _check_alias(text: str) -> str:
    if not 0 < len(text.strip()) <= len(text) <= limits.MAX_ALIAS_LENGTH or not text.isprintable():
        raise InvalidInput(f"an alias has 1 to {limits.MAX_ALIAS_LENGTH} printable characters")
    return text


class KeyDeclaration(Model):
    """One declared key."""

    policy: Literal["latest"]
    """How events of the key fold. `latest`: the greatest mark wins, a tombstone included."""
    description: str = ""
    """What the key holds, for people and for search."""
    aliases: list[Annotated[str, AfterValidator(_check_alias)]] = Field(
        default_factory=list, max_length=limits.MAX_ALIASES
    )
    """Other words that people use for it, for search."""
    group: Annotated[str, AfterValidator(check_group)] | None = None
    """Keys of one group can be searched alone."""
    schema_: JsonValue = Field(default=None, alias="schema")
    """JSON Schema (2020-12) of the value; none = any JSON. References to other documents are refused."""
    min_authority: Authority = Field(default=Authority.STATED, strict=False)
    """Events with less authority are refused: keeps guesses out."""
    falls_through: bool = False
    """Whether a tombstone in a scope lets the next scope of the chain answer. Default: it answers `deleted`."""

    @field_validator("policy", mode="before")
    @classmethod
    def _known_policy(cls, value: Any) -> Any:
        if isinstance(value, str) and value in PLANNED_POLICIES:
            raise NotYet(f"policy '{value}' is not supported yet; this build folds 'latest'")
        return value


class Registry(Model):
    """All declared keys. A file for people, a control record in the log."""

    v: Literal[1] = 1
    keys: dict[str, KeyDeclaration] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _valid_keys(self) -> "Registry":
        for key in self.keys:
            try:
                check_key(key)
            except InvalidInput as error:
                raise InvalidInput(f"keys.{key!a}: {error.message}", field=f"keys.{key}") from error
        return self

    def to_canonical(self) -> str:
        """The registry as canonical JSON."""
        return jsontext.canonical(self.model_dump(mode="json", exclude_defaults=True) | {"v": self.v})

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that tell registries apart."""
        return hashlib.sha256(self.to_canonical().encode("utf-8")).hexdigest()[:16]


def parse_registry_file(text: str, *, name: str = "the registry file") -> Registry:
    """Read a registry from TOML. Raises InvalidInput naming the file and the offending key."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{name} is not TOML: {error}") from error
    try:
        registry = Registry.read(data)
        canonical = registry.to_canonical()
    except InvalidInput as error:
        raise type(error)(f"{name}: {error.message}", field=error.field) from error
    if (size := len(canonical.encode("utf-8"))) > limits.MAX_REGISTRY_BYTES:
        raise TooLarge(f"{name} has {size} bytes as JSON; at most {limits.MAX_REGISTRY_BYTES} are allowed")
    return registry
