"""Changes, told on the topic and streamed, on a real Kafka and a real Redis."""

import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lastword.running import run_rebuild
from lastword_producers.kafka_log import create_log
from lastword_projector.worker import relay
from lastword_query_api import subscriber
from lastword_schemas.changes import Change
from lastword_schemas.positions import PositionToken, owner_digest
from tests.support.running import RunningLastword
from tests.support.services import shared_database
from tests.support.streams import Stream
from tests.support.topics import delete, records_of

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def lastword(real_kafka: str, store_url: str) -> Iterator[RunningLastword]:
    with RunningLastword(real_kafka, shared_database(store_url)) as running:
        yield running


@pytest.fixture
def ada() -> str:
    return f"main/user:ada-{uuid.uuid4().hex[:8]}"


def on_the_topic(lastword: RunningLastword, owner: str) -> list[Change]:
    """What the topic has of an owner, copies too."""
    settings = lastword.worker_settings
    records = records_of(settings.kafka_settings, settings.changes_topic, lastword.log.partitions)
    told = [Change.model_validate_json(record.value() or b"") for some in records for record in some]
    return [change for change in told if change.owner == owner]


def nothing_waits(lastword: RunningLastword) -> None:
    """Wait until the relay has nothing more to do."""
    lastword.until(lambda: lastword.worker.status.outbox_commits == 0, "the outboxes to be empty")


def token(lastword: RunningLastword, owner: str, sequence: int) -> str:
    return str(PositionToken(lastword.log.log_id, owner_digest(owner), sequence))


def test_a_worker_that_is_far_behind_folds_first_and_tells_afterwards(
    lastword: RunningLastword, ada: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_waits(lastword)
    monkeypatch.setattr(relay, "_FAR_BEHIND", -1)
    lastword.projected([lastword.publisher.set(ada, "global", "any", "dark")])
    lastword.until(lambda: lastword.worker.status.outbox_commits == 1, "the change to wait")
    assert on_the_topic(lastword, ada) == []
    monkeypatch.setattr(relay, "_MOST_WAITING", 1)
    nothing_waits(lastword)
    assert len(on_the_topic(lastword, ada)) == 1


def test_a_change_says_that_and_where_and_never_the_value(lastword: RunningLastword, ada: str) -> None:
    with Stream(lastword, ada) as stream:
        said = lastword.publisher.set(ada, "project:Comet", "theme", "a secret colour")
        sent = stream.until("change")
    change = Change.model_validate(sent.data, strict=False)
    assert (change.owner, change.scope, change.key) == (ada, "project:Comet", "theme")
    assert (change.effect, change.status, change.event_id) == ("added", "set", said.event_id)
    assert (change.sequence, change.source_sequence, change.log_id) == (said.sequence, said.sequence, said.log_id)
    assert sent.id == change.position_token == token(lastword, ada, said.sequence)
    assert "secret" not in str(sent.data)


def test_a_read_that_demands_the_position_of_a_change_sees_it(lastword: RunningLastword, ada: str) -> None:
    with Stream(lastword, ada) as stream:
        lastword.publisher.set(ada, "global", "theme", "dark")
        (change,) = stream.changes(1)
    answer = lastword.value(ada, "theme", at_least=change.position_token)
    assert answer["state"]["value"] == "dark"


def test_what_leaves_the_answer_as_it_was_is_no_change(lastword: RunningLastword, ada: str) -> None:
    publish = lastword.publisher
    with Stream(lastword, ada) as stream:
        turn = publish.say(ada, thread="t", text="Dark is nice.")
        first = publish.set(ada, "global", "any", "dark")
        publish.set(ada, "global", "any", "dark")  # restated
        publish.set(ada, "global", "any", "dark", event_id=first.event_id)  # a copy
        publish.set(ada, "global", "answer_detail", "brief", expected_sequence=99)  # refused
        lastword.candidates.set(ada, "global", "any", "light", source_event_id=turn)  # late
        last = publish.delete(ada, "global", "any")
        changes = stream.changes(2)
    assert [(change.sequence, change.effect) for change in changes] == [
        (first.sequence, "added"),
        (last.sequence, "deleted"),
    ]


def test_keys_that_a_set_retires_are_changes_of_their_own_at_one_position(lastword: RunningLastword, ada: str) -> None:
    lastword.publisher.set(ada, "project:Comet", "any", 1)
    with Stream(lastword, ada, scope="global") as filtered, Stream(lastword, ada) as stream:
        said = lastword.publisher.set(
            ada, "global", "any", 2, retires=[("project:Comet", "any"), ("global", "falls"), ("global", "theme")]
        )
        changes = stream.changes(4)
        some = filtered.changes(3)
    told = [(change.scope, change.key, change.effect, change.status, change.part, change.parts) for change in changes]
    assert told == [
        ("global", "any", "added", "set", 1, 4),
        ("project:Comet", "any", "deleted", "deleted", 2, 4),
        ("global", "falls", "deleted", "deleted", 3, 4),
        ("global", "theme", "deleted", "deleted", 4, 4),
    ]
    assert [change.part for change in some] == [1, 3, 4]
    assert stream.last_id == filtered.last_id == token(lastword, ada, said.sequence)
    assert len({change.change_id for change in changes}) == 4


def test_a_stream_is_of_one_owner_and_of_what_its_filter_lets_through(lastword: RunningLastword, ada: str) -> None:
    publish = lastword.publisher
    with Stream(lastword, ada, key="theme", scope="global") as stream:
        publish.set(f"{ada}-2", "global", "theme", 1)
        publish.set(ada, "project:Comet", "theme", 2)
        publish.set(ada, "global", "any", 3)
        said = publish.set(ada, "global", "theme", 4)
        (change,) = stream.changes(1)
    assert change.sequence == said.sequence


def test_a_stream_without_a_position_begins_now(lastword: RunningLastword, ada: str) -> None:
    lastword.projected([lastword.publisher.set(ada, "global", "any", 1)])
    with Stream(lastword, ada) as stream:
        begun = stream.next()
        said = lastword.publisher.set(ada, "global", "any", 2)
        (change,) = stream.changes(1)
    assert begun is not None
    assert (begun.event, begun.data["position_token"]) == ("position", begun.id)
    assert change.sequence == said.sequence
    with Stream(lastword, ada, last_event_id=begun.id) as again:
        assert again.changes(1) == [change]


def test_a_stream_behind_a_receipt_tells_first_what_was_missed(lastword: RunningLastword, ada: str) -> None:
    first, *missed = [lastword.publisher.set(ada, "global", "any", number) for number in range(600)]
    lastword.projected(missed)
    with Stream(lastword, ada, after=str(first)) as stream:
        told = [change.sequence for change in stream.changes(len(missed))]
        live = lastword.publisher.set(ada, "global", "any", "live")
        told += [change.sequence for change in stream.changes(1)]
    assert told == [receipt.sequence for receipt in (*missed, live)]


def test_who_connects_again_and_again_while_others_write_misses_nothing_and_gets_nothing_twice(
    lastword: RunningLastword, ada: str
) -> None:
    begin = lastword.publisher.set(ada, "global", "any", "begin")
    expected: list[int] = []

    def write() -> None:
        for number in range(400):
            key = ("any", "theme")[number % 2]
            expected.append(lastword.publisher.set(ada, "global", key, number).sequence)

    writing = threading.Thread(target=write)
    writing.start()
    told: list[int] = []
    position = str(begin)
    while len(told) < 400:
        with Stream(lastword, ada, last_event_id=position) as stream:
            told += [change.sequence for change in stream.changes(min(37, 400 - len(told)))]
            position = stream.last_id
    writing.join()
    assert told == expected


def test_topic_stream_and_history_tell_the_same_change(lastword: RunningLastword, ada: str) -> None:
    with Stream(lastword, ada) as stream:
        begun = stream.until("position").id
        lastword.publisher.set(ada, "global", "any", 1, retires=[("global", "theme")])
        live = stream.changes(2)
    with Stream(lastword, ada, after=begun) as stream:
        assert stream.changes(2) == live
    assert on_the_topic(lastword, ada) == live


def test_records_of_one_owner_are_in_the_partition_that_the_log_has_them_in(
    lastword: RunningLastword, ada: str
) -> None:
    said = lastword.publisher.set(ada, "global", "any", 1)
    lastword.projected([said])
    settings = lastword.worker_settings
    lastword.until(lambda: bool(on_the_topic(lastword, ada)), "the change")
    (record,) = [
        record
        for record in records_of(settings.kafka_settings, settings.changes_topic, 4)[said.partition]
        if said.event_id.encode() in (record.value() or b"")
    ]
    assert record.key() == f"{ada.replace('/', '%2F').replace(':', '%3A')}/global/any".encode()


def test_a_rebuild_tells_nothing_again(lastword: RunningLastword, ada: str) -> None:
    said = [lastword.publisher.set(ada, "global", "any", number) for number in range(30)]
    lastword.until(lambda: len(on_the_topic(lastword, ada)) == 30, "all changes on the topic")
    before = records_of(lastword.worker_settings.kafka_settings, lastword.worker_settings.changes_topic, 4)
    run_rebuild(lastword.worker_settings, lastword.log, lambda *_: None)
    last = lastword.publisher.set(ada, "global", "any", "last")
    lastword.until(lambda: len(on_the_topic(lastword, ada)) > 30, "the last change")
    after = records_of(lastword.worker_settings.kafka_settings, lastword.worker_settings.changes_topic, 4)
    assert sum(map(len, after)) == sum(map(len, before)) + 1
    assert [change.sequence for change in on_the_topic(lastword, ada)] == [
        receipt.sequence for receipt in (*said, last)
    ]


def test_a_rebuild_tells_what_nobody_was_told_yet(lastword: RunningLastword, ada: str) -> None:
    told = lastword.publisher.set(ada, "global", "any", 1)
    lastword.until(lambda: len(on_the_topic(lastword, ada)) == 1, "the first change")
    lastword.stop_worker()
    untold = lastword.publisher.set(ada, "global", "any", 2)
    run_rebuild(lastword.worker_settings, lastword.log, lambda *_: None)
    lastword.start_worker()
    lastword.until(lambda: len(on_the_topic(lastword, ada)) > 1, "the second change")
    assert [change.sequence for change in on_the_topic(lastword, ada)] == [told.sequence, untold.sequence]


@pytest.mark.parametrize(
    ("after", "status", "code"),
    [
        ("p1.0123456789abcdef.{digest}.5", 409, "wrong-log"),
        ("p1.{log}.0123456789abcdef.5", 422, "malformed"),
        ("yesterday", 422, "malformed"),
    ],
)
def test_a_position_that_is_none_of_this_owner_is_refused(
    lastword: RunningLastword, ada: str, after: str, status: int, code: str
) -> None:
    after = after.format(digest=owner_digest(ada), log=lastword.log.log_id)
    answer = lastword.get("/v1/changes", owner=ada, after=after)
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (status, code, "after")


def test_a_slow_reader_is_dropped_with_a_reason_and_goes_on_behind_its_position(
    lastword: RunningLastword, ada: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber, "_MOST_PENDING", 5)
    lastword.stop_worker()  # so that many changes come at once
    with Stream(lastword, ada) as stream:
        begun = stream.until("position").id
        said = [lastword.publisher.set(ada, "global", "any", number) for number in range(60)]
        lastword.start_worker()
        dropped = stream.until("dropped")
        assert stream.has_ended
    assert dropped.data["code"] == "slow-reader"
    monkeypatch.undo()
    assert dropped.data["position_token"] == begun
    with Stream(lastword, ada, after=dropped.data["position_token"]) as stream:
        assert [change.sequence for change in stream.changes(60)] == [receipt.sequence for receipt in said]


def test_streams_above_the_limit_are_refused_and_a_closed_one_makes_room(
    lastword: RunningLastword, ada: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = lastword.parts.changes
    lastword.until(lambda: not changes.of_owner, "streams of other tests to be gone")
    monkeypatch.setattr(changes, "_most", 1)
    with Stream(lastword, ada):
        answer = lastword.get("/v1/changes", owner=ada)
        assert (answer.status_code, answer.json()["code"]) == (503, "too-many-streams")
        assert answer.headers["Retry-After"] == "1"
    lastword.until(lambda: not changes.of_owner, "the stream to be gone")
    with Stream(lastword, ada) as stream:
        assert stream.until("position")


def test_without_their_topic_streams_say_so_and_changes_wait_for_it_and_they_end_when_the_api_stops(
    real_kafka: str, store_url: str, ada: str
) -> None:
    with RunningLastword(real_kafka, shared_database(store_url), partitions=1) as lastword:
        settings = lastword.worker_settings.kafka_settings
        with Stream(lastword, ada) as stream:
            first = lastword.publisher.set(ada, "global", "any", 1)
            stream.changes(1)
            delete(replace(settings, topic=settings.changes_topic))
            dropped = stream.until("dropped")
            assert (dropped.data["code"], stream.has_ended) == ("changes-unavailable", True)
        refused = lastword.get("/v1/changes", owner=ada)
        assert (refused.status_code, refused.json()["code"]) == (503, "changes-unavailable")
        second = lastword.publisher.set(ada, "global", "any", 2)
        lastword.projected([second])
        create_log(settings, partitions=1)
        lastword.until(lambda: lastword.parts.changes._trouble is None, "the topic to be read again")
        lastword.until(lambda: len(on_the_topic(lastword, ada)) > 0, "the change that waited")
        assert [change.sequence for change in on_the_topic(lastword, ada)] == [second.sequence]
        with Stream(lastword, ada, after=dropped.data["position_token"]) as stream:
            assert stream.changes(1)[0].sequence == second.sequence > first.sequence
            lastword.stop_api()
            assert stream.until("closing").data["position_token"] == token(lastword, ada, second.sequence)
            assert stream.has_ended
