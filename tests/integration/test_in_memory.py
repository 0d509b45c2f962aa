"""What is read and written over HTTP is the same in memory: tests of the real brokers, on `InMemoryLastword`."""

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from lastword import Client
from tests.integration import test_client, test_conditions, test_contexts, test_reading, test_search
from tests.integration.test_client import ada
from tests.integration.test_reading import owner
from tests.support.memory import RunningInMemory
from tests.support.services import Broker

_LARGE = {"test_a_listing_of_several_pages_is_whole"}
__all__ = ["ada", "owner"]


def _tests_of(module: ModuleType) -> dict[str, Callable[..., None]]:
    """Those that start and stop no parts of their own, and make no clients of their own."""
    return {
        name: test
        for name, test in vars(module).items()
        if name.startswith("test_")
        and name not in _LARGE
        and not (module is test_client and "lastword" in inspect.signature(test).parameters)
        and not any(mark.name == "parametrize" and mark.args[0] == "broker" for mark in getattr(test, "pytestmark", ()))
    }


@pytest.fixture(scope="module")
def lastword() -> Iterator[RunningInMemory]:
    with RunningInMemory() as running:
        yield running


@pytest.fixture
def broker() -> Broker:
    """Like Kafka, its log stamps its records itself."""
    return Broker("kafka", "")


@pytest.fixture
def client(lastword: RunningInMemory) -> Iterator[Client]:
    with lastword.memory.client(service="mail") as client:
        yield client


globals().update(
    _tests_of(test_reading)
    | _tests_of(test_search)
    | _tests_of(test_contexts)
    | _tests_of(test_conditions)
    | _tests_of(test_client)
)
