"""The page for those who test an assistant: its blocks are tests, and pass."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_every_test_of_the_page_passes(pytester: pytest.Pytester) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    pytester.makepyfile("\n\n".join(blocks))
    result = pytester.runpytest_subprocess("--strict-markers", "-W", "error")
    tests = "".join(blocks).count("def test_")
    assert tests > 8
    result.assert_outcomes(passed=tests)
