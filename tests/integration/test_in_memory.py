"""What is read and written over HTTP is the same in memory: tests of the real brokers, on `InMemoryLastword`."""

from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from tests.integration import test_conditions, test_reading
from tests.integration.test_reading import owner
from tests.support.memory import RunningInMemory
from tests.support.services import Broker

__all__ = ["owner"]


def _tests_of(module: ModuleType) -> dict[str, Callable[..., None]]:
    """Those that take any broker; the others start and stop parts of their own."""
    return {
        name: test
        for name, test in vars(module).items()
        if name.startswith("test_")
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


globals().update(_tests_of(test_reading) | _tests_of(test_conditions))
