"""Where rows go: rules of a file, templates with the row's own fields in braces."""

import fnmatch
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import Field, JsonValue

from lastword.transfer.rows import Origin, Row
from lastword_schemas.authority import Authority
from lastword_schemas.errors import InvalidInput
from lastword_schemas.model import Model

_FIELD: Final = re.compile(r"\{([^{}]+)\}")
_MISSING: Final = object()


class Rule(Model):
    """What becomes of the rows that it is for. What it does not say the origin's defaults say."""

    where: dict[str, JsonValue] = Field(default_factory=dict)
    """Fields (`metadata.topic`) and what they must be: a pattern with `*` and `?`, or a number or boolean. Of a list
    one element is enough. All of them must fit; without any it is for every row."""
    skip: bool = False
    """Leave these rows out."""
    owner: str | None = None
    scope: str | None = None
    key: str | None = None
    value: str | None = None
    """The field whose value is taken instead of the whole."""
    authority: Authority | None = Field(default=None, strict=False)


class RuleFile(Model):
    """A mapping file: the first rule that fits a row is the row's."""

    rule: list[Rule] = Field(default_factory=list)


def read_mapping(text: str, *, name: str) -> list[Rule]:
    """The rules of a mapping file (TOML). Raises InvalidInput naming the file."""
    try:
        return RuleFile.read(tomllib.loads(text)).rule
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{name} is not TOML: {error}") from error
    except InvalidInput as error:
        raise type(error)(f"{name}: {error.message}", field=error.field) from error


def rule_for(row: Row, rules: list[Rule], usual: Rule) -> Rule:
    """The first rule that fits; what it does not say, or if none fits, is as usual."""
    found = next((rule for rule in rules if _fits(rule, row.fields)), usual)
    said = {name: getattr(usual, name) for name in ("owner", "scope", "key", "authority") if not getattr(found, name)}
    return found.model_copy(update=said)


def place_of(row: Row, rule: Rule, origin: Origin) -> tuple[str, str, str]:
    """Owner, scope and key. Raises InvalidInput where a template asks for a field that the row does not have."""
    own = row.place or (None, None, None)
    owner, scope, key = (
        literal if template is None and literal is not None else fill(template or usual, row.fields, part)
        for part, template, literal, usual in zip(
            ("owner", "scope", "key"),
            (rule.owner, rule.scope, rule.key),
            own,
            (origin.owner, origin.scope, origin.key),
            strict=True,
        )
    )
    return owner, scope, key


def value_of(row: Row, rule: Rule) -> Any:
    """The value. Raises InvalidInput where the rule names a field that the row does not have."""
    if rule.value is None:
        return row.value
    if (found := _look_up(row.fields, rule.value)) is _MISSING:
        raise InvalidInput(f"it has no {rule.value}, which is to be its value")
    return found


def fill(template: str, fields: Mapping[str, Any], part: str) -> str:
    """A template with the fields put in. Raises InvalidInput."""
    if not template:
        raise InvalidInput(f"nothing says its {part}: give --{part}, or a rule in --map")

    def put(match: re.Match[str]) -> str:
        found = _look_up(fields, match[1])
        if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
            raise InvalidInput(f"it has no {match[1]} for its {part}: give --{part}, or a rule in --map")
        return str(found)

    return _FIELD.sub(put, template)


def _fits(rule: Rule, fields: Mapping[str, Any]) -> bool:
    return all(_equals(_look_up(fields, path), wanted) for path, wanted in _flat(rule.where))


def _flat(where: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Paths and what is wanted; TOML reads `metadata.topic = "x"` as a table in a table."""
    for name, wanted in where.items():
        if isinstance(wanted, dict):
            yield from _flat(wanted, f"{above}{name}.")
        else:
            yield above + name, wanted


def _equals(found: Any, wanted: Any) -> bool:
    if isinstance(found, list):
        return any(_equals(element, wanted) for element in found)
    if isinstance(wanted, str):
        return isinstance(found, str) and fnmatch.fnmatchcase(found, wanted)
    return type(found) is type(wanted) and bool(found == wanted)


def _look_up(fields: Any, path: str) -> Any:
    """The value at a dotted path; a number is a place in a list."""
    found = fields
    for name in path.split("."):
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isascii() and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            return _MISSING
    return found
