"""Upcasters: how a namespace reads what the log has otherwise than it was written. Pure; the log is never changed.

A migration is a rebuild under more of them. Each is a small declaration, so that a namespace can say in Redis under
which it was folded, and every worker and audit of it reads alike.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec.structs import replace
from pydantic import Field, TypeAdapter, ValidationError

from lastword_projector.engine.decode import Event, ScopedKey
from lastword_schemas import jsontext
from lastword_schemas.control import RegistryRecord
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import check_key
from lastword_schemas.model import Model
from lastword_schemas.registry import Registry


class MoveKey(Model):
    """Events of one key are read as events of another, in all scopes of all owners.

    Wherever the one is declared, so is the other; the door goes on to take events of both.
    """

    upcaster: Literal["move"] = "move"
    key: str
    to: str


class ChangePolicy(Model):
    """A key is read as declared with this policy, from the beginning of the log on."""

    upcaster: Literal["policy"] = "policy"
    key: str
    policy: str


Upcaster = Annotated[MoveKey | ChangePolicy, Field(discriminator="upcaster")]
_ADAPTER: TypeAdapter[list[MoveKey | ChangePolicy]] = TypeAdapter(list[Upcaster])


class Upcasters:
    """Some upcasters, in order. Raises InvalidInput where one has a key that can be none."""

    def __init__(self, steps: Sequence[MoveKey | ChangePolicy] = ()) -> None:
        self.steps = tuple(steps)
        self._moves: dict[str, str] = {}
        self._policies: dict[str, str] = {}
        for step in self.steps:
            check_key(step.key)
            if isinstance(step, ChangePolicy):
                self._policies[step.key] = step.policy
            else:
                check_key(step.to)
                self._moves = {key: step.to if to == step.key else to for key, to in self._moves.items()}
                self._moves[step.key] = step.to

    def __bool__(self) -> bool:
        return bool(self.steps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Upcasters) and self.steps == other.steps

    def __hash__(self) -> int:
        return hash(self.to_canonical())

    @property
    def touched(self) -> frozenset[str]:
        """Keys whose entries may become others."""
        return frozenset(self._moves.keys() | set(self._moves.values()) | self._policies.keys())

    def and_then(self, more: "Upcasters") -> "Upcasters":
        """These, and more after them."""
        return Upcasters([*self.steps, *more.steps])

    def event(self, event: Event) -> Event:
        """An event as it is read."""
        moves = self._moves
        if event.retires and any(other.key in moves for other in event.retires):
            retires = tuple(ScopedKey(other.scope, moves.get(other.key, other.key)) for other in event.retires)
            event = replace(event, retires=retires)
        if event.key is not None and event.key in moves:
            event = replace(event, key=moves[event.key])
        return event

    def registry(self, record: RegistryRecord) -> RegistryRecord:
        """A registry as it is read. Raises InvalidInput where it would be none, as with an unknown policy."""
        data: dict[str, Any] = jsontext.parse(record.registry.to_canonical())
        keys: dict[str, Any] = data.get("keys", {})
        for key, to in self._moves.items():
            if (declared := keys.get(key)) is not None:
                keys.setdefault(to, declared)
        for key, policy in self._policies.items():
            if key in keys:
                keys[key]["policy"] = policy
        return RegistryRecord(registry=Registry.read(data | {"keys": keys}))

    def to_canonical(self) -> str:
        """The upcasters as canonical JSON."""
        return jsontext.canonical([step.model_dump(mode="json") for step in self.steps])

    @classmethod
    def read(cls, text: str | bytes) -> "Upcasters":
        """The upcasters of such JSON. Raises InvalidInput where this build does not know one."""
        try:
            return cls(_ADAPTER.validate_python(jsontext.parse(text)))
        except ValidationError as error:
            raise InvalidInput(f"upcasters that this build does not know: {error.errors()[0]['msg']}") from error


AS_WRITTEN = Upcasters()
"""Everything is read as it was written."""
