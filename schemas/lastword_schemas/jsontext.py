"""Strict JSON: no NaN, integers of any size exact, one canonical text per value, no lone surrogates in it."""

import json
from collections.abc import Callable
from typing import Any, NoReturn

from lastword_schemas import limits
from lastword_schemas.errors import InvalidInput, TooLarge


def parse(text: bytes | str) -> Any:
    """Read one JSON document that somebody hands in.

    Raises InvalidInput on anything that RFC 8259 does not allow (NaN, Infinity), on a number that no double can
    hold, and on an object that has a member twice. Escaped lone surrogates are read: each field refuses them by its
    name.
    """
    return _read(text, _object)


def parse_stored(text: bytes | str) -> Any:
    """Read one JSON document that stands in the log, where a member that stands twice can no longer be refused.

    The last one counts, as for most readers. Raises InvalidInput as `parse` does otherwise.
    """
    return _read(text, None)


def _read(text: bytes | str, members: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None) -> Any:
    try:
        raw = text.decode("utf-8") if isinstance(text, bytes) else text
        return json.loads(raw, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=members)
    except InvalidInput:
        raise
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise InvalidInput(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except ValueError as error:  # an integer with thousands of digits
        raise InvalidInput(f"not usable JSON: {error}") from error
    except RecursionError as error:
        raise InvalidInput("not usable JSON: nested too deeply") from error


def canonical(value: Any) -> str:
    """The one compact text of a value: sorted members, no white space, no escapes that are not needed.

    Two values are equal for lastword when their canonical texts are. Raises InvalidInput where `value` is not JSON.
    """
    return dump(value, sort=True)


def dump(value: Any, *, sort: bool = False) -> str:
    """The compact text of a value, members in their order or sorted. Raises InvalidInput where it is not JSON."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort)
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput("a string holds a lone surrogate, which is not Unicode text") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(f"not a JSON value: {error}") from error
    return text


def check_value(value: Any, *, field: str = "value") -> str:
    """The canonical text of a value within the limits; raises InvalidInput or TooLarge naming `field`."""
    if _depth(value) > limits.MAX_VALUE_DEPTH:
        raise TooLarge(f"{field} is nested deeper than {limits.MAX_VALUE_DEPTH} levels", field=field)
    try:
        text = canonical(value)
    except InvalidInput as error:
        raise InvalidInput(f"{field}: {error.message}", field=field) from error
    size = len(text.encode("utf-8"))
    if size > limits.MAX_VALUE_BYTES:
        raise TooLarge(f"{field} has {size} bytes as JSON; at most {limits.MAX_VALUE_BYTES} are allowed", field=field)
    return text


def _depth(value: Any) -> int:
    """Levels of nesting; stops counting one past the limit."""
    level, layer = 0, [value]
    while layer and level <= limits.MAX_VALUE_DEPTH:
        containers = [item for item in layer if isinstance(item, dict | list)]
        if not containers:
            break
        level += 1
        layer = [inner for item in containers for inner in (item.values() if isinstance(item, dict) else item)]
    return level


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidInput(f"{name} is not a JSON value; use null or a string")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise InvalidInput(f"the number {text[:40]} is out of range; use a string")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"the member {twice!r} stands twice in one object")
    return members
