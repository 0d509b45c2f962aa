"""The lastword in memory as a team's tests use it: what it answers, and what goes wrong in it on demand."""

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from lastword import Backpressure, NotProjectedYet, Unavailable, UnknownOutcome
from lastword.testing import InMemoryLastword
from lastword_schemas.errors import InvalidInput

ADA, GRACE = "user:ada", "user:grace"
TONE = "mail.tone"
KEYS = {TONE: {}, "travel.flight_time": {"min_authority": "inferred"}}


@pytest.fixture
def lastword() -> Iterator[InMemoryLastword]:
    with InMemoryLastword(KEYS) as lastword:
        yield lastword


class Person:
    """One person's words and memory, over HTTP."""

    def __init__(self, lastword: InMemoryLastword, owner: str = ADA) -> None:
        self.http = httpx.Client(transport=lastword.transport, base_url=lastword.url)
        self.owner = owner

    def post(self, path: str = "/v1/events", **fields: Any) -> httpx.Response:
        event = {"owner": self.owner, "scope": "global", "actor": {"service": "tests"}} | fields
        return self.http.post(path, json=event)

    def set(self, key: str, value: Any, **fields: Any) -> httpx.Response:
        return self.post(operation="set", key=key, value=value, **fields)

    def say(self, text: str) -> str:
        """The receipt of a turn."""
        return receipt_of(self.post(operation="say", thread="t1", text=text))

    def reads(self, source: str, key: str, value: Any, **fields: Any) -> httpx.Response:
        """An extractor's reading of what was said."""
        return self.post("/v1/candidates", source_event_id=source, key=key, value=value, **fields)

    def ask(self, key: str, **parameters: Any) -> httpx.Response:
        return self.http.get("/v1/value", params={"owner": self.owner, "key": key} | parameters)

    def value(self, key: str, **parameters: Any) -> Any:
        """The value that applies; the status where there is none."""
        answer = self.ask(key, **parameters)
        assert answer.status_code == 200, answer.text
        state = answer.json()["state"]
        return state.get("value", state["status"])


@pytest.fixture
def ada(lastword: InMemoryLastword) -> Person:
    return Person(lastword)


def receipt_of(answer: httpx.Response) -> str:
    assert answer.status_code == 202, answer.text
    receipt: str = answer.json()["receipt"]["receipt"]
    return receipt


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("lastword-")}


# --- what it is


def test_what_was_said_is_what_is_answered_and_the_reason_too(ada: Person) -> None:
    ada.set(TONE, "brief")
    receipt = receipt_of(ada.set(TONE, "formal"))
    answer = ada.ask(TONE, at_least=receipt).json()
    assert answer["state"]["value"] == "formal"
    assert answer["source"]["actor"] == {"service": "tests", "role": "service"}
    history = ada.http.get("/v1/history", params={"owner": ADA, "key": TONE}).json()["versions"]
    assert [(version["value"], version["status"]) for version in history] == [
        ("brief", "superseded"),
        ("formal", "current"),
    ]


def test_it_is_ready_and_says_so(ada: Person, lastword: InMemoryLastword) -> None:
    ready = ada.http.get("/readyz")
    assert (ready.status_code, ready.json()["log_id"]) == (200, lastword.log.identity.log_id)
    assert ada.http.get("/openapi.json").status_code == 200


def test_it_starts_in_milliseconds(ada: Person) -> None:
    """After the first in a process, which builds the application."""
    ada.set(TONE, "brief")
    began = time.perf_counter()
    for _ in range(10):
        with InMemoryLastword(KEYS) as another:
            assert Person(another).value(TONE) == "absent"
    assert (time.perf_counter() - began) / 10 < 0.25  # some 10 ms on a quiet machine


def test_each_is_a_world_of_its_own(ada: Person) -> None:
    with InMemoryLastword(KEYS) as another:
        grace = Person(another)
        grace.set(TONE, "loud")
        ada.set(TONE, "brief")
        assert (ada.value(TONE), grace.value(TONE)) == ("brief", "loud")
        elsewhere = grace.ask(TONE, at_least=receipt_of(ada.set(TONE, "formal")))
        assert problem(elsewhere) == (409, "wrong-log")


def test_it_leaves_no_thread_behind() -> None:
    before = threads()
    with InMemoryLastword(KEYS) as lastword:
        Person(lastword).set(TONE, "brief")
        assert threads() - before
        with lastword.hold_candidates() as held:
            turn = Person(lastword).say("evening flights")
            held.start(Person(lastword).reads, turn, "travel.flight_time", "evening")
    lastword.close()
    assert not threads() - before


def test_many_threads_may_write_and_read_at_once(lastword: InMemoryLastword) -> None:
    def live(number: int) -> Any:
        person = Person(lastword, f"user:{number}")
        for value in range(20):
            receipt = receipt_of(person.set(TONE, value))
            assert person.value(TONE, at_least=receipt) == value
        return person.value(TONE)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(live, range(8))) == [19] * 8
    assert len(lastword.events()) == 160


def test_asynchronous_clients_and_blocking_ones_in_their_event_loop_see_the_same(lastword: InMemoryLastword) -> None:
    async def live(number: int) -> list[Any]:
        owner = f"user:{number}"
        event = {"operation": "set", "owner": owner, "scope": "global", "key": TONE, "value": "brief"}
        async with httpx.AsyncClient(transport=lastword.async_transport, base_url=lastword.url) as client:
            written = await client.post("/v1/events", json=event | {"actor": {"service": "tests"}})
            asked = {"owner": owner, "key": TONE, "at_least": receipt_of(written)}
            answer = await client.get("/v1/value", params=asked)
        return [answer.json()["state"]["value"], Person(lastword, owner).value(TONE)]

    async def two() -> list[list[Any]]:
        return list(await asyncio.gather(live(1), live(2)))

    assert asyncio.run(two()) == [["brief", "brief"]] * 2
    assert asyncio.run(live(3)) == ["brief", "brief"]  # in another event loop


def test_what_the_log_holds_can_be_looked_at(ada: Person, lastword: InMemoryLastword) -> None:
    ada.set(TONE, "brief", event_id="order-1")
    Person(lastword, GRACE).set(TONE, "loud")
    ada.set(TONE, "brief", event_id="order-1")
    (first, copy), everybody = lastword.events(ADA), lastword.events()
    assert first.envelope["event_id"] == copy.envelope["event_id"]
    assert first.envelope["body"] == {"value": "brief"}
    assert (copy.partition, copy.offset) == (first.partition, everybody[-1].offset)
    assert first.recorded_at < everybody[1].recorded_at < copy.recorded_at
    assert len(everybody) == 3


def test_what_is_no_event_is_a_dead_letter_and_the_others_go_on(ada: Person, lastword: InMemoryLastword) -> None:
    for partition in range(4):
        lastword.log.append(partition, b"somebody's", b"\xff")
    ada.set(TONE, "brief")
    lastword.project()
    assert ada.value(TONE) == "brief"
    assert [letter.record.value for letter in lastword.dead_letters] == [b"\xff"] * 4


def test_a_partition_with_a_record_of_a_newer_lastword_waits_and_the_others_go_on(lastword: InMemoryLastword) -> None:
    people = [Person(lastword, f"user:{number}") for number in range(20)]
    lastword.log.append(0, b"newer", b'{"v": 2, "event_id": "", "owner": ""}')
    receipts = [receipt_of(person.set(TONE, "brief")) for person in people]
    statuses = [
        person.ask(TONE, at_least=receipt, wait_ms=0).status_code
        for person, receipt in zip(people, receipts, strict=True)
    ]
    partitions = [int(receipt.split(".")[3]) for receipt in receipts]
    assert set(partitions) == {0, 1, 2, 3}
    assert [status == 503 for status in statuses] == [partition == 0 for partition in partitions]


# --- keys


def test_a_key_that_is_not_declared_is_refused_as_anywhere_until_it_is(ada: Person, lastword: InMemoryLastword) -> None:
    assert problem(ada.set("units", "metric")) == (422, "undeclared-key")
    lastword.declare("units", schema={"enum": ["metric", "imperial"]})
    assert problem(ada.set("units", "cubits")) == (422, "value-schema")
    ada.set("units", "metric")
    assert ada.value("units") == "metric"
    ada.set(TONE, "brief")
    assert ada.value(TONE) == "brief"


def test_without_keys_there_are_the_starter_keys_and_a_file_names_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text('[keys."pet"]\npolicy = "latest"\n')  # which takes all other keys, too
    with InMemoryLastword() as starter, InMemoryLastword(file) as own:
        assert Person(starter).set("mail.tone", "brief").status_code == 202
        assert problem(Person(starter).set("pet", "cat")) == (422, "undeclared-key")
        assert Person(own).set("pet", "cat").status_code == 202
        assert Person(own).set("fish", "carp").status_code == 202


def test_another_declaration_leaves_what_becomes_of_keys_that_are_not_declared(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    keys.write_text('[keys."mine"]\npolicy = "latest"\n')
    with InMemoryLastword(keys) as lastword, lastword.client() as client:
        lastword.declare("yours", schema={"type": "string"})
        client.user("ada").set("whose", 1)
        assert client.user("ada").get("whose").value == 1


def test_a_declaration_that_is_none_is_refused_naming_the_key(lastword: InMemoryLastword) -> None:
    with pytest.raises(InvalidInput) as caught:
        lastword.declare("units", polcy="latest")
    assert caught.value.field == "keys.units.polcy"
    with pytest.raises(InvalidInput):
        InMemoryLastword({"units": {"schema": {"type": "no such"}}})


# --- projection held back


def test_while_projection_is_held_back_a_demand_is_not_met_and_says_so_at_once(
    ada: Person, lastword: InMemoryLastword
) -> None:
    ada.set(TONE, "brief")
    with lastword.hold_projection():
        receipt = receipt_of(ada.set(TONE, "formal"))
        began = time.perf_counter()
        late = ada.ask(TONE, at_least=receipt, wait_ms=30_000)
        assert time.perf_counter() - began < 10
        assert problem(late) == (503, "not-projected-yet")
        assert ada.value(TONE) == "brief"
    assert ada.value(TONE, at_least=receipt) == "formal"


def test_projection_goes_on_step_by_step_in_accepted_order(ada: Person, lastword: InMemoryLastword) -> None:
    grace = Person(lastword, GRACE)
    with lastword.hold_projection():
        for person, value in ((ada, 1), (grace, 2), (ada, 3)):
            person.set(TONE, value)
        seen = []
        for _ in range(4):
            seen.append((lastword.project(1), ada.value(TONE), grace.value(TONE)))
    assert seen == [(1, 1, "absent"), (1, 1, 2), (1, 3, 2), (0, 3, 2)]


# --- candidates held back


def test_candidates_that_come_late_and_in_any_order_do_not_win_over_what_was_said_after_their_source(
    lastword: InMemoryLastword,
) -> None:
    def story(owner: str, order: list[int]) -> Any:
        person = Person(lastword, owner)
        with lastword.hold_candidates() as held:
            for number in range(4):
                held.start(person.reads, person.say(f"take {number}"), "travel.flight_time", number)
            assert [event["body"]["value"] for event in held.events] == [0, 1, 2, 3]
            assert person.value("travel.flight_time") == "absent"
            held.deliver(order)
        read = [event.envelope["body"].get("value") for event in lastword.events(owner)]
        assert read == [None, None, None, None, *order]
        return person.value("travel.flight_time")

    orders = [random.Random(seed).sample(range(4), 4) for seed in range(6)]
    assert len({tuple(order) for order in orders}) > 3
    assert {story(f"user:{number}", order) for number, order in enumerate(orders)} == {3}


def test_a_statement_that_is_made_while_a_reading_is_under_way_stays(ada: Person, lastword: InMemoryLastword) -> None:
    with lastword.hold_candidates() as held:
        turn = ada.say("evening flights, please")
        reading = held.start(ada.reads, turn, "travel.flight_time", "evening")
        ada.set("travel.flight_time", "morning")
        (receipt,) = held.deliver([0])
        assert len(held) == 0
    assert receipt_of(reading.result()) == str(receipt)
    assert ada.value("travel.flight_time") == "morning"
    assert ada.value("travel.flight_time", as_of=1) == "absent"


def test_candidates_of_tasks_wait_too_and_what_is_left_comes_at_the_end(lastword: InMemoryLastword) -> None:
    person = Person(lastword)

    async def read(client: httpx.AsyncClient, source: str, value: int) -> httpx.Response:
        candidate = {"owner": ADA, "scope": "global", "key": "travel.flight_time", "value": value}
        more = {"source_event_id": source, "actor": {"service": "reader"}}
        return await client.post("/v1/candidates", json=candidate | more)

    async def story() -> list[int]:
        async with httpx.AsyncClient(transport=lastword.async_transport, base_url=lastword.url) as client:
            turns = [person.say("one"), person.say("two")]
            with lastword.hold_candidates() as held:
                with pytest.raises(RuntimeError, match="in another thread or task"):
                    await read(client, turns[0], 1)
                tasks = [asyncio.create_task(read(client, turn, at)) for at, turn in enumerate(turns)]
                await asyncio.to_thread(held.wait_for, 2)
                held.deliver([1])
                assert (await tasks[1]).status_code == 202
                assert not tasks[0].done()
            return [(await task).status_code for task in tasks]

    assert asyncio.run(story()) == [202, 202]
    assert [event.envelope["body"].get("value") for event in lastword.events()] == [None, None, 1, 0]


def test_a_candidate_is_delivered_whether_or_not_its_publisher_has_given_up(lastword: InMemoryLastword) -> None:
    turn = Person(lastword).say("evening flights")
    candidate = {"owner": ADA, "scope": "global", "key": "travel.flight_time", "value": "evening"}

    async def story() -> None:
        async with httpx.AsyncClient(transport=lastword.async_transport, base_url=lastword.url) as client:
            body = candidate | {"source_event_id": turn, "actor": {"service": "reader"}}
            with lastword.hold_candidates() as held:
                task = asyncio.create_task(client.post("/v1/candidates", json=body))
                await asyncio.to_thread(held.wait_for, 1)
                task.cancel()
                await asyncio.wait([task])
                held.deliver()

    asyncio.run(story())
    assert Person(lastword).value("travel.flight_time") == "evening"


def test_who_would_wait_for_itself_is_told_so(ada: Person, lastword: InMemoryLastword) -> None:
    turn = ada.say("evening flights")
    with lastword.hold_candidates() as held:
        with pytest.raises(RuntimeError, match=r"held\.start"):
            ada.reads(turn, "travel.flight_time", "evening")
        assert len(held) == 0
        with pytest.raises(RuntimeError, match="held already"), lastword.hold_candidates():
            pass
        with pytest.raises(TimeoutError, match="0 candidates wait"):
            held.wait_for(1, timeout_s=0.01)
    assert ada.reads(turn, "travel.flight_time", "evening").status_code == 202


def test_what_a_started_call_raised_is_raised_at_the_end(lastword: InMemoryLastword) -> None:
    def broken() -> None:
        raise ValueError("the extractor has a bug")

    with pytest.raises(ValueError, match="the extractor has a bug"), lastword.hold_candidates() as held:
        held.start(broken)


def test_a_test_that_fails_while_candidates_are_held_ends(ada: Person, lastword: InMemoryLastword) -> None:
    turn = ada.say("evening flights")

    def failing() -> None:
        with lastword.hold_candidates() as held:
            started.append(held.start(ada.reads, turn, "travel.flight_time", "evening"))
            raise AssertionError("the test failed")

    started: list[Any] = []
    with pytest.raises(AssertionError, match="the test failed"):
        failing()
    assert problem(started[0].result()) == (504, "unknown-outcome")
    assert len(lastword.events()) == 1


# --- the clock


def test_a_value_expires_when_the_clock_is_put_forward(ada: Person, lastword: InMemoryLastword) -> None:
    expires = lastword.clock.now() + timedelta(hours=1)
    ada.set(TONE, "brief", expires_at=expires.isoformat())
    lastword.clock.advance(minutes=59)
    assert ada.value(TONE) == "brief"
    assert lastword.clock.advance(minutes=2) > expires
    assert ada.value(TONE) == "expired"


def test_what_applied_last_week_is_asked_by_instant(ada: Person, lastword: InMemoryLastword) -> None:
    ada.set(TONE, "brief")
    last_week = lastword.clock.now()
    lastword.clock.advance(timedelta(days=7))
    ada.set(TONE, "formal")
    assert ada.value(TONE, as_of=last_week.isoformat()) == "brief"
    assert ada.value(TONE, as_of=lastword.clock.now().isoformat()) == "formal"
    first, second = lastword.events(ADA)
    assert second.recorded_at - first.recorded_at >= timedelta(days=7)


def test_no_two_events_have_one_append_time_and_now_is_never_before_them(
    ada: Person, lastword: InMemoryLastword
) -> None:
    events = [
        {"operation": "set", "owner": ADA, "scope": "global", "key": TONE, "value": at, "actor": {"service": "tests"}}
        for at in range(200)
    ]
    assert ada.http.post("/v1/events", json={"events": events}).status_code == 202
    times = [event.recorded_at for event in lastword.events()]
    assert times == sorted(set(times))
    assert ada.value(TONE, as_of=lastword.clock.now().isoformat()) == 199
    assert ada.value(TONE, as_of=times[150].isoformat()) == 150


def test_the_clock_is_that_of_the_machine_put_forward_and_never_goes_back(lastword: InMemoryLastword) -> None:
    assert abs(lastword.clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
    with pytest.raises(ValueError, match="forward only"):
        lastword.clock.advance(seconds=-1)


# --- parts taken down


def test_while_the_log_is_down_a_write_is_unknown_and_comes_afterwards_in_its_order(
    ada: Person, lastword: InMemoryLastword
) -> None:
    ada.set(TONE, "brief")
    with lastword.take_down("log"):
        assert problem(ada.set(TONE, "formal", event_id="order-1")) == (504, "unknown-outcome")
        assert problem(ada.set(TONE, "friendly")) == (504, "unknown-outcome")
        assert ada.value(TONE) == "brief"
    assert ada.value(TONE) == "friendly"
    ada.set(TONE, "formal", event_id="order-1")  # as the problem advises
    assert ada.value(TONE) == "friendly"


def test_writes_that_a_log_that_is_down_has_no_room_for_are_told_to_come_again() -> None:
    with InMemoryLastword(KEYS, max_in_flight=1) as lastword:
        ada = Person(lastword)
        with lastword.take_down("log"):
            ada.set(TONE, "brief")
            full = ada.set(TONE, "formal")
        assert problem(full) == (503, "backpressure")
        assert full.headers["Retry-After"] == "1"
        assert ada.value(TONE) == "brief"
        assert ada.set(TONE, "formal").status_code == 202


def test_while_the_store_is_down_nothing_is_answered_and_what_is_accepted_is_projected_later(
    ada: Person, lastword: InMemoryLastword
) -> None:
    ada.set(TONE, "brief")
    with lastword.take_down("store"):
        assert problem(ada.ask(TONE)) == (503, "store-unavailable")
        assert problem(ada.http.get("/v1/history", params={"owner": ADA})) == (503, "store-unavailable")
        assert ada.http.get("/readyz").status_code == 503
        receipt = receipt_of(ada.set(TONE, "formal"))
    assert ada.value(TONE, at_least=receipt) == "formal"


def test_while_the_projector_is_down_writes_are_accepted_and_old_answers_given_to_who_demands_nothing(
    ada: Person, lastword: InMemoryLastword
) -> None:
    with lastword.take_down("projector"):
        receipt = receipt_of(ada.set(TONE, "brief"))
        assert ada.value(TONE) == "absent"
        assert problem(ada.ask(TONE, at_least=receipt)) == (503, "not-projected-yet")
        with lastword.take_down("store"):
            assert problem(ada.ask(TONE)) == (503, "store-unavailable")
    assert ada.value(TONE) == "brief"


def test_clients_tell_what_is_wrong_by_its_name_and_do_not_wait_for_it() -> None:
    with InMemoryLastword(KEYS, max_in_flight=1) as lastword, lastword.client() as client:
        ada = client.user("ada")
        ada.set(TONE, "brief")
        began = time.perf_counter()
        with lastword.hold_projection():
            ada.set(TONE, "formal")
            with pytest.raises(NotProjectedYet):
                ada.get(TONE)
            assert lastword.client().user("ada").get(TONE).value == "brief"  # it has not seen the second
        with lastword.take_down("store"), pytest.raises(Unavailable):
            ada.get(TONE)
        with lastword.take_down("log"):
            with pytest.raises(UnknownOutcome) as caught:
                ada.set(TONE, "friendly")
            with pytest.raises(Backpressure):
                ada.set(TONE, "loud")
        assert time.perf_counter() - began < 10
        assert ada.get(TONE).value == "friendly"
        assert [event.envelope["event_id"] for event in lastword.events()][-1] == caught.value.event_id


def test_asynchronous_clients_read_their_own_writes(lastword: InMemoryLastword) -> None:
    async def live() -> Any:
        async with lastword.async_client(service="chat") as client:
            ada = client.user("ada")
            await ada.set(TONE, "brief")
            return (await ada.get(TONE)).value

    assert asyncio.run(live()) == "brief"
    assert lastword.events()[0].envelope["actor"]["service"] == "chat"


def test_changes_are_streamed_and_what_was_missed_comes_first(lastword: InMemoryLastword) -> None:
    ada = Person(lastword)
    begin = ada.say("Nothing yet.")
    ada.set(TONE, "missed")
    with ada.http.stream("GET", "/v1/changes", params={"owner": ADA, "after": begin}) as stream:
        changes = (line for line in stream.iter_lines() if "change_id" in line)
        assert '"effect":"added"' in next(changes)
        ada.set(TONE, "live")
        assert '"effect":"updated"' in next(changes)


def test_changes_are_streamed_in_any_event_loop(lastword: InMemoryLastword) -> None:
    async def follow(value: str) -> str:
        async with (
            httpx.AsyncClient(transport=lastword.async_transport, base_url=lastword.url) as http,
            http.stream("GET", "/v1/changes", params={"owner": ADA}) as stream,
        ):
            async for line in stream.aiter_lines():
                if line == "event: position":
                    await asyncio.to_thread(Person(lastword).set, TONE, value)
                elif "change_id" in line:
                    return line
        return ""

    assert '"effect":"added"' in asyncio.run(follow("brief"))
    assert '"effect":"updated"' in asyncio.run(follow("formal"))


def test_only_parts_that_there_are_can_be_taken_down(lastword: InMemoryLastword) -> None:
    with pytest.raises(ValueError, match="'network' is none of the parts"), lastword.take_down("network"):  # type: ignore[arg-type]
        pass
