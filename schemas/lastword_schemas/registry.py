"""The key registry: which keys there are, what their values look like, by which policy they fold."""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, field_validator, model_validator

from lastword_schemas import jsontext, limits
from lastword_schemas.authority import Authority
from lastword_schemas.errors import InvalidInput, NotYet, TooLarge
from lastword_schemas.identity import check_key
from lastword_schemas.model import Model

PolicyName = Literal["latest", "branch"]
PLANNED_POLICIES = frozenset({"max", "min", "collection"})
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


LEAST: Mapping[str, Authority] = {"latest": Authority.STATED, "branch": Authority.INFERRED}
"""The least authority that a key takes unless it says otherwise, by policy."""


ReconcileRule = Literal["human", "newest_stated", "confidence_weighted", "contradiction_pass"]


class KeyDeclaration(Model):
    """One declared key."""

    policy: PolicyName
    """How events of the key fold. `latest`: the greatest mark wins, a tombstone included. `branch`: values that differ
    stand side by side, and the entry is unresolved, until somebody of more authority says otherwise."""
    description: str = ""
    """What the key holds, for people and for search."""
    aliases: list[Annotated[str, AfterValidator(_check_alias)]] = Field(
        default_factory=list, max_length=limits.MAX_ALIASES
    )
    """Other words that people use for it, for search and extractors."""
    group: Annotated[str, AfterValidator(check_group)] | None = None
    """Keys of one group can be searched alone."""
    schema_: JsonValue = Field(default=None, alias="schema")
    """JSON Schema (2020-12) of the value; none = any JSON. References to other documents are refused."""
    min_authority: Authority = Field(default=Authority.STATED, strict=False)
    """Events with less authority are refused: keeps guesses out. Under `branch` they are let in unless it says so."""
    reconcile: ReconcileRule = "human"
    """Under `branch`: who answers where values differ. `human`: a person. `newest_stated`, `confidence_weighted`,
    `contradiction_pass`: the reconciler, by that rule; what the rule leaves open is for a person."""
    falls_through: bool = False
    """Whether a tombstone in a scope lets the next scope of the chain answer. Default: it answers `deleted`."""
    extraction: Literal["allowed", "sensitive", "not-kept"] = "allowed"
    """Whether extractors may propose it: `sensitive` (its class forbids) and `not-kept` (its retention ends with the
    conversation) are written by services and people alone."""

    @field_validator("policy", mode="before")
    @classmethod
    def _known_policy(cls, value: Any) -> Any:
        if isinstance(value, str) and value in PLANNED_POLICIES:
            raise NotYet(f"policy '{value}' is not supported yet; this build folds 'latest' and 'branch'")
        return value

    @model_validator(mode="before")
    @classmethod
    def _least_of_the_policy(cls, data: Any) -> Any:
        if isinstance(data, dict) and "min_authority" not in data and isinstance(policy := data.get("policy"), str):
            return data | {"min_authority": LEAST.get(policy, Authority.STATED)}
        return data


class Registry(Model):
    """All declared keys. A file for people, a control record in the log."""

    v: Literal[1] = 1
    keys: dict[str, KeyDeclaration] = Field(default_factory=dict)
    undeclared: Literal["branch"] | None = None
    """What becomes of keys that are not declared. `branch`: they take any JSON value, and fold by that policy; a file
    says so unless it says `refuse`, which is None here: their events are refused."""
    former: dict[str, PolicyName] | None = None
    """Of a registry in force: the policies of keys that were declared once and are no longer. Nobody declares it."""

    @field_validator("undeclared", mode="before")
    @classmethod
    def _refuse_is_none(cls, value: Any) -> Any:
        return None if value == "refuse" else value

    @model_validator(mode="after")
    def _valid_keys(self) -> "Registry":
        for key in self.keys:
            try:
                check_key(key)
            except InvalidInput as error:
                raise InvalidInput(f"keys.{key!a}: {error.message}", field=f"keys.{key}") from error
        return self

    def policy_of(self, key: str) -> PolicyName:
        """The policy of the entries of a key that begin now."""
        declared = self.keys.get(key)
        return declared.policy if declared is not None else (self.former or {}).get(key, "branch")

    def least_of(self, key: str) -> Authority | None:
        """The least authority that a key takes; None where its events are refused, because it is not declared."""
        declared = self.keys.get(key)
        if declared is not None:
            return declared.min_authority
        return None if self.undeclared is None else LEAST[self.policy_of(key)]

    @property
    def _policies(self) -> dict[str, PolicyName]:
        """Of all keys that are or were declared."""
        return (self.former or {}) | {key: declared.policy for key, declared in self.keys.items()}

    def other_policies(self, before: "Registry") -> dict[str, PolicyName]:
        """The keys that this registry declares with another policy than they have in the one in force, and that one."""
        known = before._policies
        return {
            key: known[key] for key, declared in self.keys.items() if declared.policy != known.get(key, declared.policy)
        }

    def following(self, before: "Registry") -> "Registry":
        """What is in force when this registry is applied after another: all of it, but for declarations that would
        change a key's policy. There the key stays as it was, because a policy changes by a migration alone."""
        kept = self.other_policies(before)
        declared = {key: declaration for key, declaration in self.keys.items() if key not in kept}
        declared |= {key: before.keys[key] for key in kept if key in before.keys}
        former = {key: policy for key, policy in before._policies.items() if key not in declared}
        return self.model_copy(update={"keys": declared, "former": former or None})

    def check_following(self, before: "Registry") -> None:
        """Raise InvalidInput, naming the first key, where a declaration would change the policy of a key."""
        for key, policy in self.other_policies(before).items():
            wanted = self.keys[key].policy
            raise InvalidInput(
                f"keys.{key}: its policy is '{policy}', and a registry does not change that to '{wanted}': entries "
                f"would fold otherwise than they did. `lastword migrate --policy '{key}={wanted}'` does, or take "
                "another key",
                field=f"keys.{key}.policy",
            )

    def to_canonical(self) -> str:
        """The registry as canonical JSON."""
        data = self.model_dump(mode="json", exclude_defaults=True) | {"v": self.v}
        for key, declared in self.keys.items():
            if LEAST[declared.policy] is not Authority.STATED:  # then the default of the field is not that of the key
                data["keys"][key]["min_authority"] = declared.min_authority.value
        return jsontext.canonical(data)

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that tell apart what registries declare, whatever was in force before them."""
        declares = self.model_copy(update={"former": None})
        return hashlib.sha256(declares.to_canonical().encode("utf-8")).hexdigest()[:16]


def parse_registry_file(text: str, *, name: str = "the registry file") -> Registry:
    """Read a registry from TOML. Raises InvalidInput naming the file and the offending key."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{name} is not TOML: {error}") from error
    try:
        if "former" in data:
            raise InvalidInput("former: a file declares keys; which there were before is known", field="former")
        _check_names(data.get("keys"))
        registry = Registry.read({"undeclared": "branch"} | data)
        canonical = registry.to_canonical()
    except InvalidInput as error:
        raise type(error)(f"{name}: {error.message}", field=error.field) from error
    if (size := len(canonical.encode("utf-8"))) > limits.MAX_REGISTRY_BYTES:
        raise TooLarge(f"{name} has {size} bytes as JSON; at most {limits.MAX_REGISTRY_BYTES} are allowed")
    return registry


def _check_names(keys: Any) -> None:
    """Raise InvalidInput where a declaration has a field that there is not: a mistyped one, or the rest of a key."""
    if not isinstance(keys, dict):
        return
    known = {field.alias or name for name, field in KeyDeclaration.model_fields.items()}
    for key, declaration in keys.items():
        for name in declaration.keys() - known if isinstance(declaration, dict) else ():
            why = "is not a known field"
            if isinstance(declaration[name], dict):
                why += f'. A key that has a dot stands in quotation marks: [keys."{key}.{name}"]'
            raise InvalidInput(f"keys.{key}.{name}: {why}", field=f"keys.{key}.{name}")
