"""What a read of a key returns: what applies, told apart from what does not, and where it comes from."""

from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from lastword.client.errors import DoesNotFit
from lastword_schemas import jsontext
from lastword_schemas.errors import LastwordError

if TYPE_CHECKING:
    from lastword_schemas.answers import InspectionRecord, Rule, Source

T = TypeVar("T")
A = TypeVar("A")
D = TypeVar("D")


class Status(StrEnum):
    """What applies for a key. Each of these is an answer, none stands for another."""

    SET = "set"
    """A value applies."""
    ABSENT = "absent"
    """Nothing was ever said."""
    DELETED = "deleted"
    """It was taken back."""
    EXPIRED = "expired"
    """It applied until its time was over."""
    ERASED = "erased"
    """What it was can never be said again."""
    UNRESOLVED = "unresolved"
    """Values contradict each other, and nobody has decided yet."""
    OTHER = "other"
    """Something that a later lastword says and this client does not know: see `record`."""


_STATUSES = frozenset(Status)


class NoValue(LastwordError):
    """There is no value to work with."""

    def __init__(self, message: str, answer: "Value[Any]") -> None:
        super().__init__(message)
        self.answer = answer
        """The answer that has no value: its status, source and position."""


class Absent(NoValue):
    """Nothing was ever said about the key."""

    code = "absent"


class Deleted(NoValue):
    """The value was taken back."""

    code = "deleted"


class Expired(NoValue):
    """The value applied until its time was over."""

    code = "expired"


class Erased(NoValue):
    """What the value was can never be said again."""

    code = "erased"


class Unresolved(NoValue):
    """Values contradict each other, and nobody has decided yet."""

    code = "unresolved"


_NO_VALUE: dict[Status, tuple[type[NoValue], str]] = {
    Status.ABSENT: (Absent, "nothing was said about it"),
    Status.DELETED: (Deleted, "its value was deleted"),
    Status.EXPIRED: (Expired, "its value has expired"),
    Status.ERASED: (Erased, "its value was erased"),
    Status.OTHER: (NoValue, "this client does not know its status"),
    Status.UNRESOLVED: (Unresolved, "values contradict each other (see answer.record); ask the person"),
}


class Value(Generic[T]):
    """The answer for one key. Its `repr` shows what happened, never the value.

    `match answer.status: case Status.SET: ...` tells all cases apart; `answer.value_or("neutral")` is for those who
    need not.
    """

    __slots__ = ("_value", "record", "status")
    __match_args__: ClassVar = ("status",)

    def __init__(self, record: "InspectionRecord", value: T | None) -> None:
        self.record = record
        """The inspection record: the whole answer, with everything that is known about it."""
        self.status: Status = _status(record)
        """What applies."""
        self._value = value

    @property
    def value(self) -> T:
        """The value. Raises Absent, Deleted, Expired, Erased or Unresolved where there is none to work with."""
        if self.status is Status.SET:
            return self._value  # type: ignore[return-value]  # T itself may be None
        kind, why = _NO_VALUE[self.status]
        raise kind(f"there is no value of {self.key!r} in {self.asked_scope}: {why}. `value_or` takes a default", self)

    def value_or(self, default: D) -> T | D:
        """The value; `default` where there is none to work with."""
        return self._value if self.status is Status.SET else default  # type: ignore[return-value]

    def as_type(self, as_type: "type[A] | TypeAdapter[A]") -> "Value[A]":
        """The same answer with the value validated by pydantic, as JSON is. Raises DoesNotFit."""
        value = fit(self._value, as_type, self.key) if self.is_set else None
        return Value(self.record, value)

    @property
    def is_set(self) -> bool:
        """Whether a value applies."""
        return self.status is Status.SET

    @property
    def is_absent(self) -> bool:
        """Whether nothing was ever said."""
        return self.status is Status.ABSENT

    @property
    def is_deleted(self) -> bool:
        """Whether it was taken back."""
        return self.status is Status.DELETED

    @property
    def is_expired(self) -> bool:
        """Whether its time was over."""
        return self.status is Status.EXPIRED

    @property
    def is_erased(self) -> bool:
        """Whether what it was can never be said again."""
        return self.status is Status.ERASED

    @property
    def is_unresolved(self) -> bool:
        """Whether values contradict each other."""
        return self.status is Status.UNRESOLVED

    @property
    def owner(self) -> str:
        """The owner's canonical text, such as `main/user:ada`."""
        return self.record.identity.owner

    @property
    def key(self) -> str:
        """The key."""
        return self.record.identity.key

    @property
    def asked_scope(self) -> str:
        """The scope that was asked for."""
        return self.record.identity.scope

    @property
    def scope(self) -> str | None:
        """The scope that answered: the one asked for or one that it falls back to; None if none has an entry."""
        return self.record.identity.answered_scope

    @property
    def rule(self) -> "Rule":
        """Why this is the answer."""
        return self.record.selection.rule

    @property
    def source(self) -> "Source | None":
        """Who said it, when, in which words; None if nothing was ever said."""
        return self.record.source

    @property
    def sequence(self) -> int:
        """Source sequence of the entry of exactly the scope asked for, 0 if that has none: an `expected_sequence`."""
        if self.record.source is None or self.scope != self.asked_scope:
            return 0
        return self.record.source.source_sequence

    @property
    def known_at(self) -> int:
        """The last sequence that the answer takes into account; asked with it, a read answers the same again."""
        return self.record.selection.known_at

    @property
    def is_provisional(self) -> bool:
        """Whether the boundary lies beyond what is projected, so that the answer may still change."""
        return self.record.selection.provisional

    @property
    def position_token(self) -> str:
        """How far the answer goes. Another service that demands it with `at_least` reads nothing older."""
        return self.record.selection.position_token

    def __repr__(self) -> str:
        where = f"{self.scope or self.asked_scope} {self.key}"
        since = f" by sequence {self.record.source.source_sequence}" if self.record.source else ""
        return f"<{type(self).__name__} {where}: {self.status}{since}>"


def _status(record: "InspectionRecord") -> Status:
    if record.state.resolution_state != "resolved":
        return Status.UNRESOLVED
    told = str(record.state.status)
    return Status(told) if told in _STATUSES else Status.OTHER


def value_of(record: "InspectionRecord", as_type: Any = None) -> Value[Any]:
    """An inspection record as an answer, of the type asked for. Raises DoesNotFit."""
    answer: Value[Any] = Value(record, record.state.value)
    return answer if as_type is None else answer.as_type(as_type)


def fit(value: Any, as_type: Any, key: str) -> Any:
    """A JSON value as a type, as pydantic validates JSON. Raises DoesNotFit, which does not hold the value."""
    adapter = as_type if isinstance(as_type, TypeAdapter) else _adapter(as_type)
    try:
        return adapter.validate_json(jsontext.dump(value))
    except ValidationError as error:
        misfits = tuple(_misfit(one) for one in error.errors(include_url=False, include_input=False))
    raise DoesNotFit(key, _name(as_type), misfits)  # outside of the handler: the cause would show the value


def _misfit(error: Any) -> tuple[str, str]:
    path = ".".join(str(part) for part in error["loc"])
    told = error["msg"] if error["type"] not in ("value_error", "assertion_error") else "its validator refuses it"
    return path, told


def _adapter(as_type: Any) -> TypeAdapter[Any]:
    try:
        return _kept_adapter(as_type)
    except TypeError:  # not hashable
        return TypeAdapter(as_type)


@lru_cache(maxsize=256)
def _kept_adapter(as_type: Any) -> TypeAdapter[Any]:
    return TypeAdapter(as_type)


def _name(as_type: Any) -> str:
    return getattr(as_type, "__name__", None) or str(as_type)
