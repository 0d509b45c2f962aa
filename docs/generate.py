"""Writes the tables of reference.md and http.md that the code itself says (limits, problems, effects, reasons,
settings, routes), and the JSON Schema of exports.

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
from lastword.settings import (
    ApiSettings,
    AuditorSettings,
    ClientSettings,
    ConnectionSettings,
    ExtractorSettings,
    ReconcilerSettings,
    WorkerSettings,
)
from lastword.transfer.lines import json_schema
from lastword_schemas import answers, limits, problems, verdicts
from lastword_schemas.errors import LastwordError

DOCS = Path(__file__).parent
TABLES_OF = {
    "reference.md": ("routes", "rules", "effects", "reasons", "settings"),
    "http.md": ("problems", "limits"),
}
"""By page, the names of its tables."""
EXPORT = DOCS / "export.schema.json"


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
        "problems": _table(("code", "status", "retryable", "what it means", "what to do"), _problems()),
        "settings": _table(("variable", "default", "meaning", "for"), _settings()),
        "routes": _table(("route", "answers"), _routes()),
    }


def export_schema() -> str:
    """JSON Schema of the lines of an export."""
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def render(page_name: str) -> str:
    """The page with its tables written anew."""
    page, found = (DOCS / page_name).read_text("utf-8"), tables()
    for name in TABLES_OF[page_name]:
        table = found[name]
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        page, count = pattern.subn(lambda match, table=table: match[1] + table + match[2], page)
        if count != 1:
            raise SystemExit(f"{page_name} has no place for the table '{name}'")
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
        (AuditorSettings, "auditor"),
        (ExtractorSettings, "extractor"),
        (ReconcilerSettings, "reconciler"),
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


def _problems() -> Iterator[tuple[str, str, str, str, str]]:
    """The codes of HTTP answers; what they mean and what to do is said by the page on operations."""
    page = (DOCS / "operations.md").read_text("utf-8")
    said = dict(re.findall(r"^\| `([a-z-]+)` \| (.+ \| .+) \|$", page, re.MULTILINE))
    by_server = (error for error in _errors(LastwordError) if not error.__module__.startswith("lastword.client"))
    retryable = {error.code: error.retryable for error in by_server}
    for code, status in problems.STATUS_OF_CODE.items():
        meaning, remedy = said[code].split(" | ")
        yield f"`{code}`", str(status), "yes" if retryable[code] else "no", meaning, remedy


def _errors(error: type[LastwordError]) -> Iterator[type[LastwordError]]:
    yield error
    for kind in error.__subclasses__():
        yield from _errors(kind)


def _routes() -> Iterator[tuple[str, str]]:
    for path, methods in create_app(LiveParts(ApiSettings())).openapi()["paths"].items():
        for method, route in methods.items():
            yield f"`{method.upper()} {path}`", route["summary"]


def _sentence(text: str) -> str:
    return " ".join(text.split()).removesuffix(".").replace("|", "\\|")


if __name__ == "__main__":
    for page_name in TABLES_OF:
        (DOCS / page_name).write_text(render(page_name), "utf-8")
    EXPORT.write_text(export_schema(), "utf-8")
