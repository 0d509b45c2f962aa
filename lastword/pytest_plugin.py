"""Fixtures for the tests of those who use lastword. pytest loads this by itself; it imports nothing until one is used.

`lastword_keys` in pytest's configuration names the registry file that they all begin with, from the root folder.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from lastword import Client
    from lastword.launcher import LocalLastword
    from lastword.testing import InMemoryLastword

_KEYS = "lastword_keys"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plugin's one setting."""
    parser.addini(_KEYS, "key registry file of the lastword fixtures (default: the starter keys)", type="string")


@pytest.fixture
def lastword_memory(pytestconfig: pytest.Config) -> "Iterator[InMemoryLastword]":
    """A new lastword in memory, with its controls: see `lastword.testing.InMemoryLastword`."""
    try:
        from lastword.testing import InMemoryLastword
    except ModuleNotFoundError as error:
        _missing(error, "testing")
    with InMemoryLastword(_keys(pytestconfig)) as lastword:
        yield lastword


@pytest.fixture
def lastword_client(lastword_memory: "InMemoryLastword") -> "Iterator[Client]":
    """A client of `lastword_memory`."""
    with lastword_memory.client(service="tests") as client:
        yield client


@pytest.fixture(scope="session")
def embedded_lastword(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[LocalLastword]":
    """A lastword on the embedded broker and store, shared by all tests of a run: use owners of your own.

    It has a `url`. Where the wheels are not installed, its tests are skipped; with `CI` in the environment they fail.
    """
    try:
        from lastword.embedded import WheelMissingError
        from lastword.launcher import LocalLastword, Ports
        from lastword.testing.keys import registry_from
    except ModuleNotFoundError as error:
        _missing(error, "server,embedded")
    registry = registry_from(_keys(pytestconfig))
    lastword = LocalLastword(tmp_path_factory.mktemp("lastword"), Ports.free(), partitions=4, registry=registry)
    try:
        lastword.start()
    except WheelMissingError as error:
        _missing(error, "server,embedded")
    yield lastword
    lastword.stop()


def _keys(config: pytest.Config) -> Path | None:
    name = config.getini(_KEYS)
    if not name:
        return None
    path: Path = config.rootpath / name
    if not path.is_file():
        pytest.fail(f"{_KEYS} in pytest's configuration names {path}, and there is no such file", pytrace=False)
    return path


def _missing(error: Exception, extras: str) -> NoReturn:
    what = error.name if isinstance(error, ModuleNotFoundError) else error
    message = f"this fixture needs more of lastword ({what}): pip install 'lastword[{extras}]'"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
