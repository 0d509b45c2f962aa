"""The Python client on a whole lastword, as a service uses it."""

import uuid
from collections.abc import Iterator

import pytest

from lastword import Client, Deleted, Memory, Refused, Status
from tests.support.running import RunningLastword

pytestmark = pytest.mark.parametrize("broker", [pytest.param("kafka", marks=pytest.mark.real)], indirect=True)


@pytest.fixture
def client(lastword: RunningLastword) -> Iterator[Client]:
    with Client(str(lastword.http.base_url), service="mail") as client:
        yield client


@pytest.fixture
def ada(client: Client) -> Memory:
    """A new owner's memory."""
    return client.user(str(uuid.uuid4()), scope="project:Comet")


def test_what_was_written_is_read_at_once(ada: Memory) -> None:
    for number in range(20):
        ada.set("theme", number)
        assert ada.get("theme").value == number


def test_a_deleted_value_is_told_from_an_absent_one(ada: Memory) -> None:
    assert ada.get("theme").status is Status.ABSENT
    ada.set("theme", "dark")
    ada.delete("theme")

    answer = ada.get("theme")

    assert answer.status is Status.DELETED
    assert answer.value_or("light") == "light"
    with pytest.raises(Deleted):
        _ = answer.value


def test_a_suggestion_counts_from_the_turn_that_it_cites(ada: Memory) -> None:
    turn = ada.say(thread="t1", text="Evening flights work better now.")
    ada.set("travel.flight_time", "morning")

    late = ada.suggest("travel.flight_time", "evening", source=turn, quote="Evening", at=0, applied=True)

    assert late.verdict is not None
    assert late.verdict.effect == "late"
    assert ada.get("travel.flight_time").value == "morning"


def test_what_does_not_count_is_refused_with_its_reason(ada: Memory) -> None:
    ada.set("theme", "dark")

    with pytest.raises(Refused) as refused:
        ada.set("theme", "light", expected_sequence=0, applied=True)

    assert refused.value.reason == "expected-sequence"
    assert refused.value.receipt is not None
    with pytest.raises(Refused) as at_the_door:
        ada.set("never.declared", 1)
    assert at_the_door.value.reason == "undeclared-key"
    assert at_the_door.value.receipt is None
