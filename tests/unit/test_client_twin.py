"""There is one client: the blocking one is written from the asynchronous one."""

import asyncio
import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, assert_type

import pytest
from pydantic import TypeAdapter

import lastword
from lastword import AsyncClient, AsyncMemory, Client, Memory, Receipt, Value
from lastword.testing import InMemoryLastword
from lastword_schemas.answers import Version

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


@pytest.mark.parametrize(("blocking", "awaiting"), [(Client, AsyncClient), (Memory, AsyncMemory)])
def test_both_clients_have_the_same_methods_with_the_same_arguments(blocking: type, awaiting: type) -> None:
    def methods(of: type) -> dict[str, str]:
        named = {name: one for name, one in inspect.getmembers(of, callable) if not name.startswith("_")}
        return {name: str(inspect.signature(one)).replace("Async", "") for name, one in named.items()}

    assert methods(blocking) == methods(awaiting)
    assert len(methods(blocking)) >= 4


@pytest.mark.parametrize(
    ("statement", "too_much"),
    [
        ("import lastword", ("pydantic", "httpx", "lastword_schemas")),
        (
            "from lastword import Client, AsyncClient",
            ("lastword_producers", "lastword_projector", "lastword_query_api"),
        ),
        ("from lastword import AsyncClient", ("confluent_kafka", "redis", "msgspec", "fastapi", "uvicorn")),
    ],
)
def test_an_import_loads_no_more_than_it_needs(statement: str, too_much: tuple[str, ...]) -> None:
    tell = f"{statement}; import sys; print([name for name in {too_much!r} if name in sys.modules])"

    assert subprocess.check_output([sys.executable, "-c", tell], text=True).strip() == "[]"


def test_every_public_name_can_be_imported_and_no_other() -> None:
    assert all(getattr(lastword, name) for name in lastword.__all__)
    assert dir(lastword) == lastword.__all__ == sorted(lastword.__all__)
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = lastword.nothing_of_this_name


def test_types_are_seen_through_both_clients() -> None:
    """`make check` is the judge of the types; that they are true is seen by running it."""

    def blocking(ada: Memory) -> None:
        assert_type(ada.set("age", 7), Receipt)
        assert_type(ada.get("age"), Value[Any])
        assert_type(ada.get("age", as_type=int), Value[int])
        assert_type(ada.get("age", as_type=int).value_or(None), int | None)
        assert_type(ada.get("age", as_type=TypeAdapter(Literal[7])).value, Literal[7])
        assert_type(ada.get_many(["age"]), dict[str, Value[Any]])
        assert_type(ada.history("age"), list[Version])
        assert_type(ada.scope("global").within(1.0).after(ada.position or ""), Memory)

    async def awaiting(ada: AsyncMemory) -> None:
        assert_type(await ada.set("age", 7), Receipt)
        assert_type(await ada.get("age"), Value[Any])
        assert_type(await ada.get("age", as_type=int), Value[int])
        assert_type(await ada.get_many(["age"]), dict[str, Value[Any]])
        assert_type(await ada.history("age"), list[Version])
        assert_type(ada.scope("global").within(1.0).after(ada.position or ""), AsyncMemory)

    with InMemoryLastword({"age": {}}) as memory, memory.client() as client:
        blocking(client.user("ada"))
        asyncio.run(awaiting(memory.async_client().user("ada")))
