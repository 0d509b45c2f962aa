"""The reference says what the code says."""

import importlib.util
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"


def _generator() -> Any:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_the_reference_are_those_that_the_code_gives() -> None:
    page = (DOCS / "reference.md").read_text("utf-8")

    assert _generator().render(page) == page, "run `make docs`"


def test_the_schema_of_exports_is_that_of_the_lines() -> None:
    assert _generator().export_schema() == (DOCS / "export.schema.json").read_text("utf-8"), "run `make docs`"
