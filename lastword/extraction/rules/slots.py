"""Declared keys as what a reader looks for: names that people use, values that can be told by a word."""

import re
from dataclasses import dataclass
from typing import Any, Final

from lastword.extraction.rules import words
from lastword_schemas.registry import KeyDeclaration, Registry

_WORD: Final = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Slot:
    """One declared key, ready to be looked for."""

    key: str
    names: frozenset[str]
    """Stems of the words that are evidence of it."""
    phrases: tuple[str, ...]
    """What it is called, longest first, as after "my"."""
    values: dict[str, Any]
    """JSON values by what people call them; empty where any word will do."""
    relations: frozenset[str]
    """What it is about, as in `words.RELATIONS`; only of keys without a closed set of values."""
    kind: str
    """`closed`, `flag`, `hours`, `number`, `list` or `text`."""

    def evidence(self, text: str) -> int:
        """How many of its words stand in a text."""
        return len(self.names & {stem(word) for word in _WORD.findall(text)})


def slots(registry: Registry) -> tuple[Slot, ...]:
    """The slots of all declared keys."""
    return tuple(_slot(key, declared) for key, declared in registry.keys.items())


def stem(word: str) -> str:
    """A word without its most usual endings: enough to meet its plural."""
    for ending, least in (
        ("ations", 4),
        ("ation", 4),
        ("ings", 3),
        ("ing", 3),
        ("ies", 3),
        ("es", 4),
        ("s", 3),
        ("ed", 4),
    ):
        if word.endswith(ending) and len(word) - len(ending) >= least and not word.endswith("ss"):
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] in "ey" else word


def _slot(key: str, declared: KeyDeclaration) -> Slot:
    schema = declared.schema_ if isinstance(declared.schema_, dict) else {}
    segments = re.split(r"[._-]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower())
    described = [word for word in _WORD.findall(declared.description.lower()) if word not in words.EMPTY]
    aliases = [alias.lower() for alias in declared.aliases]
    named = [word for word in segments if word not in ("user", "profile", "prefs", "preferences", "settings")]
    names = _related({stem(word) for word in [*named, *described, *(w for alias in aliases for w in alias.split())]})
    values = _values(schema, {*segments, *described})
    kind = _kind(schema, values)
    last = named[-1] if named else key
    phrases = {" ".join(_own(key)), last, *aliases, " ".join(named)}
    relations = {name for name, about in words.RELATIONS.items() if {last, *aliases} & {*about}}
    if not relations:
        relations = {name for name, about in words.RELATIONS.items() if {*segments, *described} & {*about}}
    if "name" in relations and (
        last != "name"
        or (
            len(named) > 1
            and not {*named}
            & {"user", "profile", "preferred", "display", "first", "personal", "identity", "person", "me", "about"}
        )
    ):
        relations.discard("name")
    if kind not in ("text", "list"):
        relations = set()
    if "home" in relations and "employer" in relations:
        relations.discard("home" if last in words.RELATIONS["employer"] else "employer")
    return Slot(
        key, frozenset(names), tuple(sorted(phrases, key=len, reverse=True)), values, frozenset(relations), kind
    )


def _related(names: set[str]) -> set[str]:
    """The stems, and those of words that are evidence of the same."""
    groups = ({stem(word) for word in group} for group in words.RELATED)
    return names.union(*(group for group in groups if group & names))


def stems(text: str) -> list[str]:
    """The stems of a text's words, in their order."""
    return [stem(word) for word in _WORD.findall(text)]


def _own(key: str) -> list[str]:
    """The words of a key's last part."""
    return re.split(r"[_-]+", key.rsplit(".", 1)[-1].lower())


def _kind(schema: dict[str, Any], values: dict[str, Any]) -> str:
    if values:
        return "closed"
    if schema.get("type") == "boolean":
        return "flag"
    if schema.get("type") in ("integer", "number"):
        return "number"
    if schema.get("type") == "array":
        return "list"
    if {"from", "to"} <= set(schema.get("properties", ())):
        return "hours"
    return "other" if schema.get("type") == "object" else "text"


def _values(schema: dict[str, Any], about: set[str]) -> dict[str, Any]:
    enum = schema.get("enum")
    if isinstance(enum, list):
        exact = {name: value for value in enum for name in _exact(value)}
        loose = {name: value for value in enum for name in words.SYNONYMS.get(str(value).lower(), ())}
        return loose | exact
    if "language" in about and schema.get("type") == "string":
        return dict(words.LANGUAGES)
    if "currency" in about and schema.get("type") == "string":
        return words.CURRENCIES | {code.lower(): code for code in words.CURRENCIES.values()}
    return {}


def _exact(value: Any) -> set[str]:
    text = str(value).lower()
    return {text, text.replace("_", " ").replace("-", " ")}
