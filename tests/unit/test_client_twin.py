"""There is one client: the blocking one is written from the asynchronous one."""

import importlib.util
from pathlib import Path
from typing import Any

TOOL = Path(__file__).parents[2] / "tools" / "blocking.py"


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("blocking", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_blocking_client_is_the_one_that_the_asynchronous_one_gives() -> None:
    tool = _tool()

    assert tool.RESULT.read_text("utf-8") == tool.blocking(tool.SOURCE.read_text("utf-8")), "run `make client`"


def test_nothing_asynchronous_is_left_in_the_blocking_client() -> None:
    text = _tool().RESULT.read_text("utf-8")

    assert not [word for word in ("async ", "await ", "Async", "asyncio", "aclose") if word in text]
