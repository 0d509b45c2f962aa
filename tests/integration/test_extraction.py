"""Extraction in the background and on the hot path, on each broker."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from lastword import AsyncClient
from lastword.extraction import (
    Candidate,
    Extracted,
    Extraction,
    ExtractionFailed,
    Extractor,
    ExtractorUnavailable,
    Message,
    RuleExtractor,
    extract_now,
)
from lastword.extraction.running import extract
from lastword.extraction.status import ExtractorStatus
from lastword.following.checkpoints import Checkpoints, InForce
from lastword.settings import ExtractorSettings
from lastword_producers.kafka_log import apply_registry
from lastword_schemas.authority import Authority
from lastword_schemas.positions import Receipt
from lastword_schemas.registry import Registry, parse_registry_file
from tests.support.running import DECLARED, RunningLastword

LASTING, PASSING = "I prefer detailed answers.", "Keep this one answer short."
Make = Callable[[Registry], Extractor]


class Scripted:
    """Proposes `theme = "dark"` for every turn; on a turn of one text it first raises what its script says."""

    def __init__(self, name: str, breaks_on: str = "", *script: Exception) -> None:
        self.name = name
        self.texts: list[str] = []
        self._breaks_on, self._script = breaks_on, list(script)

    def __call__(self, registry: Registry) -> "Scripted":
        return self

    async def extract(self, message: Message) -> Extraction:
        """See `Extractor`."""
        self.texts.append(message.text)
        if self._script and message.text == self._breaks_on:
            raise self._script.pop(0)
        quote = message.text[:5]
        return Extraction((Candidate("theme", "dark", (0, 5), quote, Authority.STATED, 1.0),))


class Renamed:
    """The rules under a name that no other test's checkpoint has."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.texts: list[str] = []

    def __call__(self, registry: Registry) -> "Renamed":
        self._rules = RuleExtractor(registry)
        return self

    async def extract(self, message: Message) -> Extraction:
        """See `Extractor`."""
        self.texts.append(message.text)
        return self._rules.read(message)


def settings_of(lastword: RunningLastword, **changed: Any) -> ExtractorSettings:
    common = lastword.worker_settings.model_dump(include=set(ExtractorSettings.model_fields))
    session_s = (
        2 if lastword.log.cluster_id.startswith("lastword-") else 6
    )  # Kafka allows no less; to join takes so long
    group = {"extractor_group": f"extractor-{uuid.uuid4()}", "extractor_session_s": session_s}
    return ExtractorSettings.model_validate(common | group | changed)


def run(lastword: RunningLastword, make: Make, until: Callable[[ExtractorStatus], bool], **changed: Any) -> Any:
    """Extract in the background until something holds, and all that was read is finished; the status."""

    async def go() -> ExtractorStatus:
        status, stop = ExtractorStatus(), asyncio.Event()
        running = asyncio.create_task(extract(settings_of(lastword, **changed), lastword.log, make, status, stop))
        async with asyncio.timeout(60):
            while not (until(status) and status.next_offsets and is_finished(lastword, status)):
                assert not running.done(), running.exception()
                await asyncio.sleep(0.05)
        stop.set()
        await running
        return status

    return asyncio.run(go())


def is_finished(lastword: RunningLastword, status: ExtractorStatus) -> bool:
    """Whether its checkpoints are at what the worker has projected."""
    projected = lastword.worker.status.partitions
    return all(status.next_offsets.get(number, 0) >= one.next_offset for number, one in projected.items())


def person() -> str:
    return f"main/user:{uuid.uuid4()}"


def counting(lastword: RunningLastword, owner: str) -> list[str]:
    """The outcomes of an owner's candidates."""
    events = lastword.get("/v1/history", owner=owner, view="events", limit=1_000).json()["events"]
    return [event["outcome"] for event in events if event["operation"] != "say"]


@contextmanager
def name() -> Iterator[str]:
    yield f"extractor-{uuid.uuid4().hex[:12]}"


def test_turns_are_read_in_the_background_and_read_once(lastword: RunningLastword) -> None:
    owners = [person() for _ in range(20)]
    for owner in owners:
        lastword.publisher.say(owner, "t", PASSING)
        lastword.publisher.say(owner, "t", LASTING)
    with name() as own:
        first, second = Renamed(own), Renamed(own)
        status = run(lastword, first, lambda status: status.candidates >= len(owners))
        for owner in owners:
            lastword.until(lambda owner=owner: counting(lastword, owner) == ["counts"], "one candidate")  # type: ignore[misc]
            answer = lastword.value(owner, "answer_detail")
            assert (answer["state"]["value"], answer["state"]["authority"]) == ("detailed", "stated")
            assert answer["source"]["actor"] == {"service": own, "role": "extractor"}
        assert status.refused["one-off"] >= len(owners)
        assert status.healthy
        run(lastword, second, lambda status: True)
        assert not second.texts, "what the checkpoint is beyond is not read again"


def test_a_lost_checkpoint_costs_time_and_adds_nothing_twice(lastword: RunningLastword) -> None:
    owner = person()
    lastword.publisher.say(owner, "t", LASTING)
    with name() as own:
        run(lastword, Renamed(own), lambda status: status.turns > 0)
        with redis.Redis.from_url(lastword.worker_settings.redis.get_secret_value()) as store:
            for key in store.scan_iter("lw-follower:*"):
                store.delete(key)
        again = Renamed(own)
        run(lastword, again, lambda status: status.turns > 0)
    assert LASTING in again.texts
    lastword.until(lambda: len(counting(lastword, owner)) == 2, "both copies to be judged")
    assert counting(lastword, owner) == ["counts", "duplicate"]


def test_what_goes_wrong_for_now_is_done_later_and_what_cannot_be_read_holds_nobody_up(
    lastword: RunningLastword, caplog: pytest.LogCaptureFixture
) -> None:
    owner, text = person(), f"Hello {uuid.uuid4()}"
    lastword.publisher.say(owner, "t", text)
    lastword.publisher.say(person(), "t", "Hello")
    with name() as own:
        now = [ExtractorUnavailable(), ExtractorUnavailable(), RuntimeError(text), ExtractorUnavailable()]
        wrong = Scripted(own, text, *now)
        status = run(lastword, wrong, lambda status: wrong.texts.count(text) == 5)
        assert (status.given_up, status.problem) == (0, None)
    lastword.until(lambda: counting(lastword, owner) == ["counts"], "its reading")
    for never, code in (
        ((ExtractionFailed(),), "extraction-failed"),
        ((ExtractorUnavailable(), *[KeyError(text)] * 3), "KeyError"),
    ):
        with name() as own:
            status = run(lastword, Scripted(own, text, *never), lambda status: status.given_up > 0)
            assert [one["code"] for one in status.last_given_up] == [code]
            assert status.turns > 0, "the others are read"
    assert text not in caplog.text


def test_only_turns_of_the_services_that_are_named_are_read(lastword: RunningLastword) -> None:
    owner = person()
    lastword.publisher.say(owner, "t", LASTING)
    with name() as own:
        other = Renamed(own)
        run(lastword, other, lambda status: True, extractor_services="chat, mail")
    assert not other.texts
    with name() as own:
        named = Renamed(own)
        run(lastword, named, lambda status: status.turns > 0, extractor_services="chat, tests")
    assert LASTING in named.texts


def test_a_key_that_is_declared_while_it_runs_is_proposed_from_then_on(broker: Any, redis_url: str) -> None:
    added = DECLARED + '[keys."diet"]\npolicy = "latest"\nschema = { enum = ["vegan"] }\n'
    with RunningLastword(broker.bootstrap_servers, redis_url) as running, name() as own:
        owner = person()
        first = running.publisher.say(owner, "t", "I'm vegan.")
        apply_registry(running.worker_settings.kafka_settings, parse_registry_file(added))
        running.projected([first])
        running.publisher.say(owner, "t", "By the way, I'm vegan.")
        status = run(running, Renamed(own), lambda status: status.turns == 2)
        assert status.candidates >= 1
        running.until(lambda: running.value(owner, "diet")["state"]["status"] == "set", "the new key")
        third = running.publisher.say(owner, "t", "I'm vegan, remember.")
        running.projected([third])
        assert run(running, Renamed(own), lambda status: status.turns == 1).candidates == 1, "after a restart, too"


def test_checkpoints_and_registry_never_go_back_whoever_stores_them_last(redis_url: str) -> None:
    older, newer = (
        InForce(parse_registry_file(f'[keys.{key}]\npolicy = "latest"\n'), at) for key, at in (("a", 1), ("b", 2))
    )

    async def go() -> None:
        one, other = (Checkpoints(redis_url, "log", "rules-1") for _ in range(2))
        assert (await one.load(), await one.load_registry()) == ({}, None)
        await one.advance({0: 7, 1: 3})
        await other.advance({0: 5, 1: 4})
        await one.store_registry(newer)
        await other.store_registry(older)
        assert (await one.load(), await one.load_registry()) == ({0: 7, 1: 4}, newer)
        await one.close()
        await other.close()

    asyncio.run(go())


def test_on_the_hot_path_the_value_applies_when_the_call_returns(lastword: RunningLastword) -> None:
    owner = person()
    rules = RuleExtractor(lastword.registry)

    async def hear(text: str) -> tuple[Extracted, Any, Receipt]:
        url = f"http://{lastword.api_settings.host}:{lastword.api_settings.port}"
        async with AsyncClient(url, service="chat") as client:
            memory = client.owner(owner)
            turn = await memory.say(thread="t", text=text)
            extracted = await extract_now(client, rules, Message(text, owner, source=str(turn)))
            return extracted, (await memory.get("answer_detail")).value, turn

    extracted, value, turn = asyncio.run(hear(f"{LASTING} My boss prefers brief answers."))
    assert (value, [one.value for one in extracted.applied]) == ("detailed", ["detailed"])
    assert [str(one.why) for one in extracted.refused] == ["other-person"]
    again = asyncio.run(extract_again(lastword, rules, Message(LASTING, owner, source=turn.event_id)))
    assert [result.outcome for _, result in again.published] == ["applied"]
    lastword.until(lambda: counting(lastword, owner) == ["counts", "duplicate"], "the copy to be judged")


def test_on_the_hot_path_a_candidate_that_does_not_count_says_why(lastword: RunningLastword) -> None:
    owner = person()
    turn = lastword.publisher.say(owner, "t", "Hello there")
    with name() as own:
        claimed = Scripted(own)
        message = Message("Other words", owner, source=str(turn))
        extracted = asyncio.run(extract_again(lastword, claimed, message))
    ((_, result),) = extracted.published
    assert (result.outcome, getattr(result.error, "reason", None)) == ("refused", "quote-not-at-span")
    assert not extracted.applied


async def extract_again(lastword: RunningLastword, extractor: Extractor, message: Message) -> Extracted:
    url = f"http://{lastword.api_settings.host}:{lastword.api_settings.port}"
    async with AsyncClient(url, service="chat") as client:
        return await extract_now(client, extractor, message)


def test_where_nothing_is_found_nothing_is_sent(lastword: RunningLastword, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    message = Message("Good morning!", person(), source=str(uuid.uuid4()))
    extracted = asyncio.run(extract_again(lastword, RuleExtractor(lastword.registry), message))
    assert extracted == Extracted((), ())
    assert "/v1/candidates" not in caplog.text
