"""What the client says while parts of lastword are away, on the lastword in memory."""

import asyncio
from collections.abc import Iterator

import pytest

from lastword import AsyncClient, NotProjectedYet, Status, Unavailable, UnknownOutcome
from lastword.testing import InMemoryLastword


@pytest.fixture(scope="module")
def memory() -> Iterator[InMemoryLastword]:
    with InMemoryLastword() as memory:
        yield memory


def test_a_read_behind_its_own_write_is_an_error_and_never_the_older_value(memory: InMemoryLastword) -> None:
    with memory.client() as client:
        ada = client.user("ada")
        ada.set("mail.tone", "brief")
        with memory.hold_projection():
            written = ada.set("mail.tone", "formal")
            with pytest.raises(NotProjectedYet) as behind:
                ada.get("mail.tone")
        assert ada.get("mail.tone").value == "formal"

    assert behind.value.demanded == written.sequence
    assert behind.value.projected is not None
    assert behind.value.projected < written.sequence


def test_a_write_whose_verdict_does_not_come_in_time_gives_its_receipt(memory: InMemoryLastword) -> None:
    with memory.client() as client:
        ada = client.user("ada")
        with memory.hold_projection(), pytest.raises(NotProjectedYet) as behind:
            ada.within(0.2).set("mail.tone", "formal", applied=True)
        assert behind.value.receipt is not None
        assert ada.outcome(behind.value.receipt).outcome == "counts"


def test_while_the_log_is_away_a_write_is_unknown_and_written_again_it_is_one_event(memory: InMemoryLastword) -> None:
    with memory.client() as client:
        grace = client.user("grace")
        with memory.take_down("log"), pytest.raises(UnknownOutcome) as unknown:
            grace.set("mail.tone", "brief")
        again = grace.set("mail.tone", "brief", event_id=unknown.value.event_id or "", applied=True)
        assert again.event_id == unknown.value.event_id
        assert [version.value for version in grace.history("mail.tone")] == ["brief"]


def test_while_the_store_is_away_a_read_says_so(memory: InMemoryLastword) -> None:
    with memory.client() as client:
        with memory.take_down("store"), pytest.raises(Unavailable) as away:
            client.user("ada").get("mail.tone")
        assert away.value.problem is not None
        assert away.value.problem.code == "store-unavailable"


def test_a_read_that_meets_a_part_that_is_away_gets_through_once_it_is_back(memory: InMemoryLastword) -> None:
    async def read_while_it_is_away() -> Status:
        async with AsyncClient(memory.url, transport=memory.async_transport) as client:
            grace = client.user("grace")
            with memory.take_down("store"):
                read = asyncio.create_task(grace.get("travel.flight_time"))
                await asyncio.sleep(0.02)
            return (await read).status

    assert asyncio.run(read_while_it_is_away()) is Status.ABSENT
