"""Writes python.md: what the package offers to programs, from its docstrings.

`make docs` runs it; a test fails when the page is not what it would write.
"""

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lastword
import lastword.conformance as conformance
import lastword.testing as testing
from lastword.client.contexts import ContextOptions
from lastword.client.drafts import Drafts, EventOptions, SetOptions, StatementOptions, SuggestionOptions, TurnOptions
from lastword.client.finding import SearchOptions
from lastword_producers import publisher
from lastword_producers.broker import KafkaSettings

PAGE = Path(__file__).parent / "python.md"
_HEAD = """# Python

What programs import, from the docstrings of the code (`make docs` writes this page). What to do with it is told in
[the client](client.md), [test an assistant](testing.md) and [how to](how-to.md). A name that is not here, or that
begins with an underscore, is not for others.

`AsyncClient` and `AsyncMemory` have the methods of `Client` and `Memory`; those that ask something are awaited. The
answers' models (`Version`, `EventAnswer`, `InspectionRecord`, ...) are those of [openapi.json](openapi.json).
"""
_OPTIONS = (EventOptions, StatementOptions, SetOptions, SuggestionOptions, TurnOptions)


def page() -> str:
    """The page as it is written."""
    errors = [getattr(lastword, name) for name in lastword.__all__]
    errors = [item for item in errors if isinstance(item, type) and issubclass(item, Exception)]
    parts = [
        _HEAD,
        "## `lastword`: the client\n",
        *_classes(lastword.Client, lastword.Memory, Drafts, lastword.Value, lastword.Status),
        *_classes(lastword.Receipt, lastword.Result),
        "### Options of writes\n",
        "What `set`, `delete`, `say` and `suggest` take besides.\n",
        *(_options(options) for options in _OPTIONS),
        "### Options of searches\n",
        "What `search` takes besides.\n",
        _options(SearchOptions),
        "### Options of contexts\n",
        "What `context` takes besides.\n",
        _options(ContextOptions),
        "\n## `lastword`: errors\n",
        "\n".join(_errors(errors)),
        "\n## `lastword.testing`: a lastword in memory\n",
        *_classes(testing.InMemoryLastword, testing.HeldCandidates, testing.Clock, testing.LoggedEvent),
        "## `lastword_producers`: straight to Kafka\n",
        *_classes(KafkaSettings, publisher.Publisher, publisher.CandidateClient),
        "`AsyncPublisher` and `AsyncCandidateClient` have the same methods, awaited.\n",
        "## `lastword.conformance`: the check of a producer\n",
        *_functions("", [("check", conformance.check)]),
        *_classes(conformance.Produced, conformance.Report),
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _classes(*classes: type) -> Iterator[str]:
    for cls in classes:
        yield f"### `{cls.__name__}`\n"
        yield _text(cls) + "\n"
        made = vars(cls).get("__init__")
        if inspect.isfunction(made) and made.__doc__ and not made.__doc__.startswith("Initialize"):
            yield from _functions(cls.__name__, [("", made)])
        fields = list(_fields(cls))
        if fields:
            yield "\n".join(f"- `{name}`: {_sentence(text)}" for name, text in fields) + "\n"
        yield from _functions(cls.__name__, _methods(cls))


def _methods(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    seen: set[str] = set()
    for base in cls.__mro__:
        if base.__module__.partition(".")[0].startswith("lastword"):
            for name, member in vars(base).items():
                member = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                if not name.startswith("_") and name not in seen and inspect.isfunction(member) and member.__doc__:
                    seen.add(name)
                    yield name, inspect.unwrap(member)


def _fields(cls: type) -> Iterator[tuple[str, str]]:
    """Properties, and attributes with the docstring that follows them; those that a base says first come last."""
    seen: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.partition(".")[0].startswith("lastword"):
            continue
        found = {name: member.__doc__ for name, member in vars(base).items() if isinstance(member, property)}
        for name, text in (found | dict(_documented(base))).items():
            if not name.startswith("_") and text and name not in seen:
                seen.add(name)
                yield name, text


def _documented(cls: type) -> Iterator[tuple[str, str]]:
    node: Any = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    bodies = [node.body]
    bodies += [item.body for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    for body in bodies:
        for assignment, text in itertools.pairwise(body):
            if not (isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)):
                continue
            if isinstance(assignment, ast.Assign | ast.AnnAssign):
                target = assignment.targets[0] if isinstance(assignment, ast.Assign) else assignment.target
                name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "_")
                yield name, str(text.value.value)


def _functions(owner: str, functions: Any) -> Iterator[str]:
    for name, function in functions:
        call = f"{owner}.{name}" if owner and name else owner or name
        yield f"```text\n{call}{_signature(function)}\n```\n"
        yield _text(function) + "\n"


def _signature(function: Callable[..., Any]) -> str:
    node: Any = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    arguments = node.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        arguments.args = arguments.args[1:]
    returned = "" if node.returns is None or node.name == "__init__" else f" -> {ast.unparse(node.returns)}"
    each = [re.sub(r"^([^=]*:[^=]*)=", r"\1 = ", argument) for argument in _split(ast.unparse(arguments))]
    text = f"({', '.join(each)}){returned}"
    if len(text) > 90:
        text = "(\n    " + ",\n    ".join(each) + f",\n){returned}"
    return text.replace("'", '"')


def _split(arguments: str) -> Iterator[str]:
    """The arguments one by one: split at commas that are in no bracket."""
    depth, begun = 0, 0
    for place, char in enumerate(arguments):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            yield arguments[begun:place].strip()
            begun = place + 1
    if arguments[begun:]:
        yield arguments[begun:].strip()


def _options(options: type) -> str:
    own = dict(_documented(options))
    bases = [base.__name__ for base in getattr(options, "__orig_bases__", ()) if base.__name__ != "TypedDict"]
    lines = [f"- `{name}`: {_sentence(text)}" for name, text in own.items()]
    more = f" and those of `{', '.join(bases)}`" if bases else ""
    return f"`{options.__name__}`: {_sentence(_text(options)).removesuffix('.')}{more}.\n\n" + "\n".join(lines) + "\n"


def _errors(errors: list[type[Exception]]) -> Iterator[str]:
    for error in errors:
        base = next(base.__name__ for base in error.__mro__[1:] if base is not error)
        fields = "".join(f"\n  - `{name}`: {_sentence(text)}" for name, text in _documented(error))
        yield f"- **`{error.__name__}`** ({base}): {_sentence(_text(error))}{fields}"


def _text(item: Any) -> str:
    return inspect.getdoc(item) or ""


def _sentence(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
