"""The base of every pydantic model here: frozen, strict, no unknown fields; pydantic's errors become ours."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

from lastword_schemas.errors import InvalidInput, LastwordError

NameT = TypeVar("NameT")


class Model(BaseModel):
    """A frozen model that takes exactly the fields it declares, with exactly the types it declares."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, serialize_by_alias=True, use_attribute_docstrings=True
    )

    @classmethod
    def read(cls, data: Any, *, at: str = "") -> Self:
        """Validate parsed JSON. Raises InvalidInput naming the first offending field, below `at`."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise invalid_input(error.errors(include_url=False, include_input=False)[0], at) from error


class Answer(Model):
    """A frozen model of what the API answers. Its reader ignores members that it does not know, of a later build."""

    model_config = ConfigDict(extra="ignore", defer_build=True)


def _or_text(value: Any, names: ValidatorFunctionWrapHandler) -> Any:
    try:
        return names(value)
    except ValidationError:
        if isinstance(value, str):
            return value
        raise


Named = Annotated[NameT, WrapValidator(_or_text)]
"""Of an answer: a name of an enum or a Literal. What its reader does not know, of a later build, stays text."""


def invalid_input(first: Mapping[str, Any], at: str = "") -> LastwordError:
    """One of pydantic's complaints as InvalidInput, or the lastword error that caused it; the field is below `at`."""
    cause = first.get("ctx", {}).get("error")
    names = [str(part) for part in first["loc"] if not str(part).startswith(("function-", "lax-or-strict"))]
    field = ".".join(([at] if at else []) + names)
    if isinstance(cause, LastwordError):
        inner = cause.field or field
        if field.endswith(f".{inner}"):  # the whole path to it
            inner = field
        cause.field = f"{at}.{inner}" if at and not inner.startswith(at) else inner
        return cause
    text = {"missing": "is missing", "extra_forbidden": "is not a known field"}.get(first["type"], first["msg"])
    return InvalidInput(f"{field or 'the document'}: {text}", field=field or None)


def parse_instant(text: str, *, field: str = "instant") -> datetime:
    """Read an RFC 3339 instant with its offset; the result is in UTC. Raises InvalidInput with the field given."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(f"{field}: not an RFC 3339 instant, such as 2026-03-01T12:00:00Z", field=field) from error
    if value.tzinfo is None or len(text) < len("2026-03-01T12:00:00Z"):
        raise InvalidInput(
            f"{field}: an instant needs date, time and offset, such as 2026-03-01T12:00:00Z", field=field
        )
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"{field}: the instant is out of range", field=field) from error


def to_micros(value: datetime) -> int:
    """Microseconds since 1970 in UTC."""
    delta = value.astimezone(UTC) - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def from_micros(micros: int) -> datetime:
    """The UTC instant of microseconds since 1970."""
    seconds, rest = divmod(micros, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


def instant_text(value: datetime) -> str:
    """The RFC 3339 text in UTC: milliseconds or microseconds only where there are some."""
    value = value.astimezone(UTC)
    spec = "seconds" if value.microsecond == 0 else "milliseconds" if value.microsecond % 1000 == 0 else "microseconds"
    return value.isoformat(timespec=spec).replace("+00:00", "Z")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_instant(value: object, *, named: str = "instant") -> datetime:
    """A text or a datetime as an instant in UTC. Raises InvalidInput without a field, which says what it is named."""
    if isinstance(value, str):
        try:
            return parse_instant(value, field=named)
        except InvalidInput as error:
            error.field = None  # the model that has the field knows its name
            raise
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    raise InvalidInput("an instant needs date, time and offset, such as 2026-03-01T12:00:00Z")


def _read_of_a_field(value: object, info: ValidationInfo) -> datetime:
    return read_instant(value, named=info.field_name or "instant")


Instant = Annotated[
    datetime,
    PlainValidator(_read_of_a_field, json_schema_input_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
    PlainSerializer(instant_text, return_type=str, when_used="json"),
]
"""An instant in UTC; as JSON an RFC 3339 text."""
