"""What a model reads: the preference that applies, cited; then the corrected one; then nothing. Whatever is lost."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from lastword import Client, Memory
from lastword.embedded import EmbeddedStore
from lastword.running import run_rebuild, run_replacement
from lastword_producers.log_identity import LogIdentity
from lastword_schemas.contexts import ContextAnswer
from lastword_schemas.positions import Receipt
from tests.support.running import RunningLastword
from tests.support.services import Broker

USUALLY, BETTER_NOW = "I usually prefer morning flights.", "Evening flights work better now."
TASK = "Find a flight to Berlin"
KEY = "travel.flight_time"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(tmp_path) as store:
        yield store


@pytest.fixture
def lastword(broker: Broker, store: EmbeddedStore) -> Iterator[RunningLastword]:
    with RunningLastword(broker.bootstrap_servers, store.url) as running:
        yield running


@pytest.fixture
def ada(lastword: RunningLastword) -> Iterator[Memory]:
    with Client(str(lastword.http.base_url), service="assistant", timeout=60) as client:
        yield client.user(f"ada-{uuid.uuid4()}")


def hears(ada: Memory, thread: str, text: str, value: str) -> Receipt:
    """The person says something, and an extractor reads it; the receipt of the turn."""
    turn = ada.say(thread=thread, text=text, message="m1")
    quote = f"{value} flights" if f"{value} flights" in text else f"{value.capitalize()} flights"
    ada.suggest(KEY, value, source=turn, quote=quote, at=text.index(quote), applied=True)
    return turn


def read_by_the_model(context: ContextAnswer) -> list[Any]:
    """The records in the prompt."""
    return [json.loads(line) for line in context.prompt.splitlines()[2:-1]]


def test_a_new_thread_is_handed_what_applies_with_its_source_and_an_old_context_notices_what_changed(
    ada: Memory,
) -> None:
    usually = hears(ada, "t1", USUALLY, "morning")

    first = ada.context(TASK)

    (record,) = read_by_the_model(first)
    assert (record["value"], record["source_sequence"], record["authority"]) == ("morning", usually.sequence, "stated")
    assert record["source"] == {"event_id": usually.event_id, "thread": "t1", "message": "m1"}
    assert first.items[0].source is not None
    assert first.items[0].source.quote == "morning flights"
    assert not ada.check(first).stale

    better_now = hears(ada, "t2", BETTER_NOW, "evening")

    second = ada.context(TASK)
    assert [record["value"] for record in read_by_the_model(second)] == ["evening"]
    assert "morning" not in second.prompt
    check = ada.check(first)
    (item,) = check.items
    assert (check.stale, item.status) == (True, "superseded")
    assert (item.supplied_sequence, item.current_sequence) == (usually.sequence, better_now.sequence)
    assert first.id is not None
    assert ada.stored_context(first.id) == first
    assert not ada.check(second).stale


def test_what_was_withdrawn_is_told_from_what_was_replaced(ada: Memory) -> None:
    hears(ada, "t1", USUALLY, "morning")
    joke = hears(ada, "t2", BETTER_NOW, "evening")
    context = ada.context(TASK)

    ada.withdraw(joke)

    check = ada.check(context)
    assert [(item.status, item.supplied_sequence) for item in check.items] == [("withdrawn", joke.sequence)]
    assert [change.now and change.now.value for change in check.delta.replace] == ["morning"]
    (record,) = read_by_the_model(ada.context(TASK))
    assert record["value"] == "morning"


def test_what_was_said_to_be_wrong_with_nothing_before_it_leaves_the_prompt(ada: Memory) -> None:
    only = hears(ada, "t1", USUALLY, "morning")
    context = ada.context(TASK)

    ada.withdraw(only)

    check = ada.check(context)
    assert [(item.status, item.current_sequence) for item in check.items] == [("withdrawn", None)]
    assert [change.item for change in check.delta.remove] == [0]
    assert ada.context(TASK).items == []


def test_a_late_reading_of_the_old_words_reaches_no_prompt(ada: Memory) -> None:
    usually = ada.say(thread="t1", text=USUALLY, message="m1")
    hears(ada, "t2", BETTER_NOW, "evening")
    context = ada.context(TASK)
    ada.suggest(KEY, "morning", source=usually, quote="morning flights", at=17, applied=True)

    assert [record["value"] for record in read_by_the_model(ada.context(TASK))] == ["evening"]
    assert not ada.check(context).stale


def test_what_was_deleted_is_in_no_search_and_no_new_context_after_any_loss(
    lastword: RunningLastword, store: EmbeddedStore, ada: Memory
) -> None:
    hears(ada, "t1", USUALLY, "morning")
    theme = ada.set("theme", "dark colours for flight plans")
    before = ada.context(TASK)
    assert {item.key for item in before.items} == {KEY, "theme"}
    ada.delete(KEY, applied=True)

    def is_gone() -> None:
        assert [hit.fact.key for hit in ada.search(f"{TASK} {USUALLY}", limit=10).hits] == ["theme"]
        for context in (ada.context(TASK), ada.context(), ada.context(keys=[KEY])):
            assert [item.key for item in context.items] == ["theme"]
            assert "morning" not in context.prompt
        check = ada.check(before)
        assert [(item.key, item.status) for item in check.items if item.key == KEY] == [(KEY, "deleted")]
        assert [change.key for change in check.delta.remove] == [KEY]
        assert "morning" not in check.delta.prompt
        assert before.id is not None
        assert ada.stored_context(before.id) == before

    is_gone()
    _replayed(lastword, store, theme)
    is_gone()
    _rebuilt(lastword, lastword.log)
    is_gone()


def _replayed(lastword: RunningLastword, store: EmbeddedStore, receipt: Receipt) -> None:
    """All of Redis is lost, and projected again from the log."""
    lastword.stop_worker()
    with redis.Redis.from_url(store.url) as client:
        client.flushall()
    lastword.start_worker()
    lastword.projected([receipt])


def _rebuilt(lastword: RunningLastword, log: LogIdentity) -> None:
    """Beside the projection in force, and in its place."""
    run_replacement(lastword.worker_settings, log, grace_s=0)
    lastword.stop_worker()
    run_rebuild(lastword.worker_settings, log, lambda partition, offset: None)
    lastword.start_worker()
