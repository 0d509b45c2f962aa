"""Writes the tables of reference.md that the code itself says (limits, effects, reasons, settings, routes), and the
JSON Schema of exports.

`make docs` runs it; a test fails when the page is not what it would write. Tables stand between markers:
`<!-- begin NAME -->` and `<!-- end NAME -->`.
"""

import ast
import inspect
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic_settings import BaseSettings

from lastword.app import create_app
from lastword.parts import LiveParts
from lastword.settings import ApiSettings, ClientSettings, ConnectionSettings, WorkerSettings
from lastword.transfer.lines import json_schema
from lastword_schemas import answers, limits, problems, verdicts

PAGE = Path(__file__).parent / "reference.md"
EXPORT = Path(__file__).parent / "export.schema.json"


def tables() -> dict[str, str]:
    """Each table by its name."""
    return {
        "limits": _table(
            ("limit", "value", "of"),
            ((f"`{name}`", f"{getattr(limits, name):,}", text) for name, text in _documented(limits)),
        ),
        "effects": _table(("effect", "meaning"), _members(verdicts, "Effect")),
        "reasons": _table(("reason", "meaning"), _members(verdicts, "Reason")),
        "rules": _table(("rule", "meaning"), _members(answers, "Rule")),
        "codes": _table(
            ("code", "HTTP status"), ((f"`{code}`", str(status)) for code, status in problems.STATUS_OF_CODE.items())
        ),
        "settings": _table(("variable", "default", "meaning", "for"), _settings()),
        "routes": _table(("route", "answers"), _routes()),
    }


def export_schema() -> str:
    """JSON Schema of the lines of an export."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def render(page: str) -> str:
    """The page with its tables written anew."""
    for name, table in tables().items():
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        page, count = pattern.subn(lambda match, table=table: match[1] + table + match[2], page)
        if count != 1:
            raise SystemExit(f"reference.md has no place for the table '{name}'")
    return page


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _documented(source: ModuleType | type) -> Iterator[tuple[str, str]]:
    """Assigned names and the docstring that follows each."""
    body: Any = ast.parse(inspect.getsource(source)).body
    body = body[0].body if isinstance(source, type) else body
    for assignment, text in itertools.pairwise(body):
        if isinstance(assignment, ast.Assign | ast.AnnAssign) and isinstance(text, ast.Expr):
            target: Any = assignment.target if isinstance(assignment, ast.AnnAssign) else assignment.targets[0]
            yield target.id, _sentence(ast.literal_eval(text.value))


def _members(module: ModuleType, name: str) -> Iterator[tuple[str, str]]:
    enum = getattr(module, name)
    return ((f"`{enum[member].value}`", text) for member, text in _documented(enum))


def _settings() -> Iterator[tuple[str, str, str, str]]:
    seen: set[str] = set()
    classes: list[tuple[type[BaseSettings], str]] = [
        (ConnectionSettings, "worker, API, admin commands"),
        (WorkerSettings, "worker"),
        (ApiSettings, "API"),
        (ClientSettings, "command line"),
    ]
    for settings, part in classes:
        for name, field in settings.model_fields.items():
            if name not in seen:
                seen.add(name)
                default = field.get_default(call_default_factory=True, validated_data={})
                shown = default.get_secret_value() if hasattr(default, "get_secret_value") else default
                yield f"`LASTWORD_{name.upper()}`", f"`{shown}`", _sentence(field.description or ""), part


def _routes() -> Iterator[tuple[str, str]]:
    for path, methods in create_app(LiveParts(ApiSettings())).openapi()["paths"].items():
        for method, route in methods.items():
            yield f"`{method.upper()} {path}`", route["summary"]


def _sentence(text: str) -> str:
    return " ".join(text.split()).removesuffix(".").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text("utf-8")), "utf-8")
    EXPORT.write_text(export_schema(), "utf-8")
