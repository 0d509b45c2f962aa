"""The pages and documents say what the code says."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def _generator(name: str = "generate") -> Any:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["reference.md", "http.md"])
def test_the_tables_of_the_pages_are_those_that_the_code_gives(page: str) -> None:
    assert _generator().render(page) == (DOCS / page).read_text("utf-8"), "run `make docs`"


def test_the_openapi_document_is_that_of_the_routes() -> None:
    generator = _generator("generate_openapi")

    assert generator.text_of(generator.document()) == (DOCS / "openapi.json").read_text("utf-8"), "run `make docs`"


def test_the_http_contract_takes_nothing_back() -> None:
    generator = _generator("generate_openapi")
    promised = set((DOCS / "http-v1.txt").read_text("utf-8").splitlines())
    kept = generator.promises(generator.document())

    assert not promised - kept, "programs rely on this: keep it, or make it version 2"
    assert not kept - promised, "run `make docs`"


def test_the_schema_of_exports_is_that_of_the_lines() -> None:
    assert _generator().export_schema() == (DOCS / "export.schema.json").read_text("utf-8"), "run `make docs`"


def test_the_page_on_python_is_that_of_the_docstrings() -> None:
    assert _generator("generate_python").page() == (DOCS / "python.md").read_text("utf-8"), "run `make docs`"


def test_the_charts_are_those_of_the_tables() -> None:
    generator = _generator("generate_charts")
    charts = generator.charts((DOCS / "benchmarks.md").read_text("utf-8"))

    assert charts
    for chart in charts:
        assert generator.drawn(chart) == (DOCS / chart.file).read_text("utf-8"), "run `make docs`"
        assert f"({chart.file})" in (DOCS / "benchmarks.md").read_text("utf-8")
