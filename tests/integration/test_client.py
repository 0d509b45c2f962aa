"""The Python client on a whole lastword, as a service uses it."""

import asyncio
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import pytest

from lastword import AsyncClient, Client, Deleted, DoesNotFit, InvalidInput, Memory, Refused, Status, UnknownEvent
from tests.support.running import RunningLastword

pytestmark = pytest.mark.parametrize("broker", [pytest.param("kafka", marks=pytest.mark.real)], indirect=True)


class Tone(StrEnum):
    BRIEF = "brief"
    FORMAL = "formal"


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


def test_another_service_with_the_position_reads_what_was_written(lastword: RunningLastword, ada: Memory) -> None:
    for number in range(10):
        ada.set("theme", number)
        assert ada.position is not None
        with Client(str(lastword.http.base_url)) as other:
            theirs = other.owner(ada.owner, scope="project:Comet").after(ada.position)
            assert theirs.get("theme").value == number


def test_what_was_written_is_read_at_once_by_every_way_to_read(ada: Memory) -> None:
    for number in range(5):
        ada.set("theme", number)
        assert ada.get_many(["theme", "any"])["theme"].value == number
        ada.set("any", number)
        assert {entry.key: entry.value for entry in ada.profile()} == {"theme": number, "any": number}
        ada.set("theme", number + 0.5)
        assert ada.history("theme")[-1].value == number + 0.5
        written = ada.set("any", number + 0.5)
        assert ada.events()[-1].event_id == written.event_id


def test_what_was_written_is_found_at_once_and_no_longer_once_it_was_deleted(ada: Memory) -> None:
    ada.set("any", "green tea")
    ada.scope("global").set("theme", "tea cups")
    ada.set("answer_detail", "brief")

    found = ada.search("tea", limit=5)
    assert {hit.fact.value for hit in found.hits} == {"green tea", "tea cups"}
    assert found.considered == 3
    assert {hit.fact.value for hit in ada.search("tea", fallback=False).hits} == {"green tea"}
    assert {hit.fact.value for hit in ada.scope("global").search("tea", everywhere=True).hits} == {
        "green tea",
        "tea cups",
    }

    deleted = ada.delete("any")
    assert [hit.fact.value for hit in ada.search("tea").hits] == ["tea cups"]
    soon = datetime.now(UTC) + timedelta(days=1)
    past = ada.search("green", history=True, unresolved=False, min_authority="stated", updated_before=soon)
    assert [(hit.fact.value, hit.status) for hit in past.hits] == [("green tea", "deleted")]
    assert ada.search("green", as_of=deleted.sequence - 1).hits[0].status == "current"
    assert ada.search("tea", groups=["travel"]).hits == []


def test_the_global_value_answers_where_the_scope_has_none(ada: Memory) -> None:
    ada.scope("global").set("theme", "dark")
    ada.set("any", 1)

    assert (ada.get("theme").scope, ada.get("theme").rule) == ("global", "fallback")
    assert ada.get("theme", fallback=False).status is Status.ABSENT
    many = ada.get_many(["theme", "any"], fallback=False)
    assert {key: value.status for key, value in many.items()} == {"theme": Status.ABSENT, "any": Status.SET}
    assert [entry.key for entry in ada.profile(scope="global")] == ["theme"]


def test_a_value_of_then_by_sequence_and_by_instant(ada: Memory) -> None:
    first = ada.set("theme", "dark", applied=True)
    ada.set("theme", "light", applied=True)

    assert ada.get("theme", as_of=first.sequence).value == "dark"
    assert ada.get("theme", known_at=first.sequence).value == "dark"
    assert ada.get("theme", as_of=datetime.now(UTC) - timedelta(days=1)).status is Status.ABSENT
    assert ada.get("theme", as_of=datetime.now(UTC) + timedelta(days=1)).is_provisional
    with pytest.raises(InvalidInput, match="zone"):
        ada.get("theme", as_of=datetime(2026, 3, 1))


def test_the_history_tells_what_ended_each_version(ada: Memory) -> None:
    ada.set("theme", "dark")
    ada.set("theme", "light")
    ada.delete("theme")

    versions = ada.history("theme")

    assert [(version.operation, version.ended and version.ended.by) for version in versions] == [
        ("set", "set"),
        ("set", "delete"),
        ("delete", None),
    ]


def test_a_listing_of_several_pages_is_whole(ada: Memory, client: Client) -> None:
    client.publish_many((ada.draft.set("any", number) for number in range(1_500)), applied=True)

    assert [event.value for event in ada.events()] == list(range(1_500))
    assert [version.value for version in ada.history("any")] == list(range(1_500))
    assert [event.value for event in ada.events("any", limit=1_200)] == list(range(1_200))


def test_a_thousand_events_in_one_call_have_a_thousand_verdicts(ada: Memory, client: Client) -> None:
    drafts = [ada.draft.set("any", number) for number in range(998)]
    drafts.append(ada.draft.set("never.declared", 1))
    drafts.append(ada.draft.set("any", 1, expected_sequence=0))

    results = client.publish_many(drafts, applied=True)

    assert [result.outcome for result in results[:998]] == ["applied"] * 998
    at_the_door, by_its_verdict = results[998].error, results[999].error
    assert isinstance(at_the_door, Refused)
    assert isinstance(by_its_verdict, Refused)
    assert (at_the_door.reason, by_its_verdict.reason) == ("undeclared-key", "expected-sequence")
    assert client.publish_many(drafts[:1])[0].receipt != results[0].receipt  # a copy; the first one counts
    assert ada.get("any").value == 997


def test_a_typed_value_is_written_and_read(ada: Memory) -> None:
    ada.set("theme", Tone.BRIEF)

    assert ada.get("theme", as_type=Tone).value is Tone.BRIEF
    ada.set("theme", "shouting")
    with pytest.raises(DoesNotFit, match="'brief' or 'formal'"):
        ada.get("theme", as_type=Tone)


def test_a_conditional_write_takes_the_sequence_of_a_value(ada: Memory) -> None:
    assert ada.set("theme", "dark", expected_sequence=ada.get("theme").sequence, applied=True).verdict is not None
    read = ada.get("theme")
    ada.set("theme", "light", expected_sequence=read.sequence, applied=True)
    with pytest.raises(Refused):
        ada.delete("theme", expected_sequence=read.sequence, applied=True)

    ada.scope("global").set("any", 1)
    over_there = ada.get("any")
    assert over_there.scope == "global"
    assert over_there.sequence == 0  # this scope itself has nothing
    ada.set("any", 2, expected_sequence=over_there.sequence, applied=True)


def test_a_set_may_delete_other_keys_with_it(ada: Memory) -> None:
    ada.set("theme", "dark")

    ada.set("any", 1, retires=[("project:Comet", "theme")])

    assert ada.get("theme").is_deleted


def test_a_value_expires(ada: Memory) -> None:
    ada.set("theme", "dark", expires_at=datetime.now(UTC) - timedelta(seconds=1))

    assert ada.get("theme").status is Status.EXPIRED


def test_the_outcome_of_an_event_can_be_asked_for_by_receipt_and_by_id(ada: Memory) -> None:
    written = ada.set("theme", "dark")

    assert ada.outcome(written).effect == "added"
    assert ada.outcome(str(written)).effect == "added"
    assert ada.outcome(written.event_id).effect == "added"
    with pytest.raises(UnknownEvent):
        ada.outcome(str(uuid.uuid4()))


def test_of_values_that_stand_side_by_side_one_is_chosen_and_the_choice_taken_back(ada: Memory) -> None:
    for employer in ("Acme", "Globex"):
        turn = ada.say(thread=employer, text=f"I work at {employer}.")
        ada.suggest("employer", employer, source=turn, applied=True)
    assert ada.get("employer").status is Status.UNRESOLVED

    with pytest.raises(InvalidInput, match=r'none of the values.*"Acme", "Globex"'):
        ada.resolve("employer", "Initech")
    choice = ada.resolve("employer", "Globex", why="she says so", authority="confirmed", role="person", applied=True)

    assert ada.get("employer").value == "Globex"
    assert [version.status for version in ada.history("employer")] == ["ended", "current"]
    with pytest.raises(InvalidInput, match="no other value"):
        ada.resolve("employer", "Globex")
    with pytest.raises(Refused, match="authority"):
        ada.withdraw(choice, applied=True)

    ada.withdraw(str(choice), authority="confirmed", role="person")

    assert ada.get("employer").status is Status.UNRESOLVED


def test_a_set_corrects_what_never_was_true(ada: Memory) -> None:
    wrong = ada.set("theme", "purple")
    ada.set("theme", "dark", withdraws=[wrong])
    assert [(version.value, version.status) for version in ada.history("theme")] == [
        ("purple", "withdrawn"),
        ("dark", "current"),
    ]
    only = ada.set("employer", "Acme")
    ada.withdraw(only.event_id)
    assert ada.get("employer").status is Status.ABSENT


def test_the_same_event_id_is_one_event(ada: Memory) -> None:
    first = ada.set("theme", "dark", event_id="mine", applied=True)
    ada.set("theme", "light")
    again = ada.set("theme", "dark", event_id="mine", applied=True)

    assert again.event_id == first.event_id
    assert ada.get("theme").value == "light"


def test_a_suggestion_takes_a_value_back(ada: Memory) -> None:
    ada.set("theme", "dark")
    turn = ada.say(thread="t1", text="I no longer care for themes.", message="m1")

    ada.suggest_delete("theme", source=str(turn), quote="no longer care", at=2, applied=True)

    answer = ada.get("theme")
    assert answer.is_deleted
    assert answer.source is not None
    assert (answer.source.source.thread, answer.source.source.message) == ("t1", "m1")
    assert answer.source.source.quote == "no longer care"


def test_one_client_serves_many_threads(client: Client) -> None:
    def talk(number: int) -> bool:
        person = client.user(f"{uuid.uuid4()}")
        for turn in range(5):
            person.set("theme", [number, turn])
            if person.get("theme").value != [number, turn]:
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(talk, range(16)))


def test_the_asynchronous_client_does_the_same(lastword: RunningLastword) -> None:
    async def talk(client: AsyncClient, number: int) -> bool:
        grace = client.user(str(uuid.uuid4()), scope="project:Comet")
        turn = await grace.say(thread="t1", text="Keep it short.")
        await grace.suggest("theme", "short", source=turn, quote="short", at=8, applied=True)
        await grace.set("any", number)
        await client.publish_many([grace.draft.set("guess", number), grace.draft.delete("any")])
        many = await grace.get_many(["theme", "any", "guess"])
        assert len(await grace.events()) == 5
        assert [entry.key for entry in await grace.profile()] == ["guess", "theme"]
        return [value.value_or("none") for value in many.values()] == ["short", "none", number]

    async def all_at_once() -> list[bool]:
        async with AsyncClient(str(lastword.http.base_url)) as client:
            return await asyncio.gather(*(talk(client, number) for number in range(16)))

    assert asyncio.run(all_at_once()) == [True] * 16
