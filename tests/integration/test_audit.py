"""The grounding audit on the real Kafka and a real Redis: what is tampered with is found, and nothing else."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import httpx
import pytest
import redis
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from lastword.auditing import AuditorStatus, audit_for_ever
from lastword.running import make_auditor
from lastword.settings import AuditorSettings, ConnectionSettings
from lastword_projector.audit.auditor import Sample
from lastword_projector.audit.log_reader import AuditStopped
from lastword_projector.audit.recompute import MOST_RECORDS
from lastword_projector.audit.report import Report
from lastword_projector.audit.violations import GroundingInvariantViolation, What
from lastword_projector.engine.records import Entry, Record, pack_record, unpack_record
from lastword_projector.store.names import Names, field_of
from lastword_projector.store.packing import StoredEntry, pack_head, unpack_entry
from lastword_projector.store.plans import SLICE
from lastword_projector.worker.health import HealthServer
from lastword_schemas.partitions import partition_for
from lastword_schemas.positions import Receipt
from tests.support import services
from tests.support.running import RunningLastword

pytestmark = pytest.mark.real

PARTITIONS = 4


def owner_in(partition: int, name: str) -> str:
    """An owner whose events are in that partition."""
    numbered = (f"main/user:{name}-{number}" for number in itertools.count())
    return next(owner for owner in numbered if partition_for(owner, PARTITIONS) == partition)


ADA, BEN, LONG = owner_in(1, "ada"), owner_in(1, "ben"), owner_in(2, "long")
WIDE = owner_in(3, "wide")
"""Has more entries than one call gives."""
CROWD = [owner_in(1, f"crowd-{number}") for number in range(20)]
HIDDEN = "a value that no report may show"


class Told(NamedTuple):
    """A lastword in which people have said all sorts of things."""

    running: RunningLastword
    said: dict[str, Receipt]
    """By what it is."""


@pytest.fixture(scope="module")
def told(real_kafka: str, store_url: str) -> Iterator[Told]:
    with RunningLastword(real_kafka, services.shared_database(store_url), partitions=PARTITIONS) as running:
        publisher, candidates = running.publisher, running.candidates
        said = {
            "first": publisher.set(ADA, "global", "theme", HIDDEN),
            "old": publisher.set(ADA, "global", "any", 1),
            "turn": publisher.say(ADA, "t1", "Brief is fine, detailed too."),
        }
        for value in ("brief", "detailed"):  # of one mark
            said[value] = candidates.set(ADA, "global", "guess", value, source_event_id=said["turn"])
        said["refused"] = candidates.set(ADA, "global", "theme", "guessed", source_event_id=said["turn"])
        said["new"] = publisher.set(ADA, "project:Comet", "theme", "dark")
        said["retiring"] = publisher.set(BEN, "global", "theme", "light", retires=[("global", "any")])
        said["deleted"] = publisher.delete(BEN, "global", "answer_detail")
        for number in range(SLICE + 40):
            said["long"] = publisher.set(LONG, "global", "any" if number % 2 else "theme", number)
        for number in range(150):
            said["wide"] = publisher.set(WIDE, f"project:p{number}", "any", "x" * 4_000)
        for owner in CROWD:
            said[owner] = publisher.set(owner, "global", "any", owner)
        producer = Producer({"bootstrap.servers": real_kafka})
        producer.produce(running.log.topic, b"garbage", b"foreign", partition_for(ADA, PARTITIONS))
        assert producer.flush(40) == 0
        said["last"] = publisher.set(ADA, "global", "falls", True)
        running.projected(said.values())
        yield Told(running, said)


class Tampering:
    """Redis, as somebody finds it who may write there. What was changed is put back at the end of the test."""

    def __init__(self, told: Told) -> None:
        self.client: Any = redis.Redis.from_url(told.running.worker_settings.redis.get_secret_value())
        self.names = Names(told.running.worker_settings.namespace)
        self._before = self._all()

    def put_back(self) -> None:
        now = self._all()
        for name in now.keys() | self._before.keys():
            if now.get(name) != self._before.get(name):
                self.client.delete(name)
                if name in self._before:
                    self.client.restore(name, 0, self._before[name])

    def partition(self, owner: str) -> int:
        return partition_for(owner, PARTITIONS)

    def entry(self, owner: str, scope: str, key: str, change: Callable[[Record], Record]) -> None:
        """Change the record of a stored entry."""
        name, field = self.profile(owner), field_of(scope, key)
        stored = unpack_entry(self.client.hget(name, field))
        self.store_entry(name, field, stored, replace(stored.entry, record=change(stored.entry.record)))

    def store_entry(self, name: str, field: str, stored: StoredEntry, entry: Entry) -> None:
        head = pack_head(entry, f"{stored.projected_at:013d}")
        self.client.hset(name, field, head + pack_record(entry.record))

    def item(self, owner: str, receipt: Receipt, change: Callable[[Record], Record]) -> None:
        """Change an item of a history."""
        place, item = self.find(owner, receipt)
        self.client.lset(self.history(owner), place, item[:16] + pack_record(change(unpack_record(item[16:]))))

    def find(self, owner: str, receipt: Receipt) -> tuple[int, bytes]:
        for place, item in enumerate(self.client.lrange(self.history(owner), 0, -1)):
            if int(item[:16]) == receipt.sequence:
                return place, item
        raise AssertionError("no such event")

    def profile(self, owner: str) -> str:
        return self.names.of(self.partition(owner)).profile(owner)

    def history(self, owner: str) -> str:
        return self.names.of(self.partition(owner)).history(owner)

    def _all(self) -> dict[bytes, bytes]:
        names = self.client.scan_iter(f"lw:{self.names.namespace}:*", count=1_000)
        return {name: self.client.dump(name) for name in names}


@pytest.fixture
def tampering(told: Told) -> Iterator[Tampering]:
    made = Tampering(told)
    yield made
    made.put_back()
    made.client.close()


def audit(told: Told, most_records: int = MOST_RECORDS) -> Report:
    settings, log = told.running.worker_settings, told.running.log
    return make_auditor(settings, log, most_records=most_records).audit()


def named(report: Report) -> set[tuple[str, str | None, str | None, int | None]]:
    """What was found: what, owner, key, sequence."""
    assert HIDDEN not in json.dumps(report.members())
    return {(found.what.value, found.owner, found.key, found.sequence) for found in report.violations}


def test_what_a_worker_has_projected_is_grounded(told: Told) -> None:
    report = audit(told)

    assert report.violations == []
    assert (report.owners, report.entries) == (24, 180)
    assert report.events == SLICE + 40 + 30 + 150
    assert report.partitions == PARTITIONS
    report.check()


def test_a_log_that_does_not_fit_into_memory_is_read_several_times_and_everybody_is_audited_once(told: Told) -> None:
    report = audit(told, most_records=5)

    assert report.violations == []
    assert (report.owners, report.entries) == (24, 180)
    assert report.records > sum(report.checkpoints.values())


def test_a_value_that_was_changed_is_found(told: Told, tampering: Tampering) -> None:
    tampering.entry(ADA, "global", "theme", lambda record: replace(record, value=b'"else"'))

    report = audit(told)

    first = told.said["first"]
    assert named(report) == {("entry-differs", ADA, "theme", first.sequence)}
    (found,) = report.violations
    assert found.event == first.event_id
    assert found.detail == "differs in record.value"
    with pytest.raises(GroundingInvariantViolation, match="global theme at sequence") as caught:
        report.check()
    assert first.event_id in caught.value.message
    assert "else" not in caught.value.message


def test_a_history_entry_that_is_lost_is_found(told: Told, tampering: Tampering) -> None:
    _, item = tampering.find(ADA, told.said["old"])
    tampering.client.lrem(tampering.history(ADA), 1, item)

    assert named(audit(told)) == {("history-missing", ADA, "any", told.said["old"].sequence)}


def test_a_key_of_an_old_event_that_was_rewritten_is_found(told: Told, tampering: Tampering) -> None:
    tampering.item(ADA, told.said["old"], lambda record: replace(record, key="theme"))

    report = audit(told)

    assert named(report) == {("history-differs", ADA, "any", told.said["old"].sequence)}
    assert report.violations[0].detail == "differs in key"


def test_an_old_event_that_was_given_to_another_owner_is_found_at_both(told: Told, tampering: Tampering) -> None:
    _, item = tampering.find(ADA, told.said["old"])
    tampering.client.lrem(tampering.history(ADA), 1, item)
    tampering.client.rpush(tampering.history(BEN), item)

    sequence = told.said["old"].sequence
    assert named(audit(told)) == {
        ("history-missing", ADA, "any", sequence),
        ("history-unexplained", BEN, "any", sequence),
        ("history-differs", BEN, None, sequence),  # it stands behind later ones
    }


def test_a_verdict_that_was_flipped_is_found(told: Told, tampering: Tampering) -> None:
    tampering.item(ADA, told.said["refused"], lambda record: replace(record, verdict="updated", reason=None))

    report = audit(told)

    assert named(report) == {("verdict-differs", ADA, "theme", told.said["refused"].sequence)}
    assert report.violations[0].detail == "refused authority-too-low by the log, updated in the history"


def test_an_entry_that_no_event_explains_is_found(told: Told, tampering: Tampering) -> None:
    value = tampering.client.hget(tampering.profile(ADA), field_of("global", "theme"))
    tampering.client.hset(tampering.profile(ADA), field_of("global", "vow"), value)
    stranger = "main/user:nobody-said-anything"
    tampering.client.hset(tampering.profile(stranger), field_of("global", "theme"), value)

    sequence = told.said["first"].sequence
    assert named(audit(told)) == {
        ("entry-unexplained", ADA, "vow", sequence),
        ("entry-unexplained", stranger, "theme", sequence),
    }


@pytest.mark.parametrize(("owner", "key", "event"), [(BEN, "answer_detail", "deleted"), (BEN, "any", "retiring")])
def test_a_tombstone_that_was_removed_is_found(
    told: Told, tampering: Tampering, owner: str, key: str, event: str
) -> None:
    tampering.client.hdel(tampering.profile(owner), field_of("global", key))

    report = audit(told)

    assert named(report) == {("entry-missing", owner, key, told.said[event].sequence)}
    assert report.violations[0].detail == "a tombstone"


def test_an_unresolved_entry_that_was_settled_quietly_is_found(told: Told, tampering: Tampering) -> None:
    name, field = tampering.profile(ADA), field_of("global", "guess")
    stored = unpack_entry(tampering.client.hget(name, field))
    assert stored.entry.unresolved
    tampering.store_entry(name, field, stored, replace(stored.entry, unresolved=False))

    report = audit(told)

    pointer = min(told.said["brief"], told.said["detailed"], key=lambda receipt: receipt.event_id)
    assert named(report) == {("entry-differs", ADA, "guess", pointer.sequence)}
    assert report.violations[0].detail == "differs in unresolved"


def test_an_event_id_index_that_was_lost_is_found(told: Told, tampering: Tampering) -> None:
    own = tampering.names.of(tampering.partition(BEN))
    lost = [*tampering.client.scan_iter(f"{own.prefix}r:*"), *tampering.client.scan_iter(f"{own.prefix}e:*")]
    tampering.client.delete(own.runs, *lost)

    found = named(audit(told))

    assert ("event-id-missing", BEN, None, told.said["retiring"].sequence) in found
    assert ("event-id-missing", BEN, None, told.said["deleted"].sequence) in found
    assert {what for what, *_ in found} == {"event-id-missing"}


def test_an_event_id_that_would_be_taken_for_new_is_found(told: Told, tampering: Tampering) -> None:
    own = tampering.names.of(tampering.partition(ADA))
    tampering.client.hset(own.written, "greatest", "00" * 16)

    found = {what for what, *_ in named(audit(told))}

    assert found == {"event-ids-behind"}


@pytest.mark.parametrize("how", ["lost", "rescored", "added"])
def test_a_key_index_that_is_wrong_is_found(told: Told, tampering: Tampering, how: str) -> None:
    own = tampering.names.of(tampering.partition(LONG))
    name = own.key_index(LONG, field_of("global", "theme"))
    assert int(tampering.client.get(own.indexed(LONG))) > 100
    match how:
        case "lost":
            tampering.client.delete(name)
        case "rescored":
            tampering.client.zadd(name, {"0": 999_999})
        case "added":
            tampering.client.zadd(name, {"1": 1})

    found = {(what, owner, key) for what, owner, key, _ in named(audit(told))}

    assert found == {("key-index-differs", LONG, "theme")}


def test_what_is_of_nobody_is_audited_too(told: Told, tampering: Tampering) -> None:
    partition = tampering.partition(ADA)
    own = tampering.names.of(partition)
    tampering.client.delete(own.dead)
    tampering.client.hset(own.checkpoint, mapping={"registry": '{"keys":{},"v":1}', "clock": "publisher"})

    report = audit(told)

    found = {(violation.what, violation.partition) for violation in report.violations}
    assert found == {
        (What.DEAD_LETTER_MISSING, partition),
        (What.REGISTRY_DIFFERS, partition),
        (What.CLOCK_DIFFERS, partition),
    }


def test_bytes_that_are_nothing_are_found_and_do_not_stop_the_audit(told: Told, tampering: Tampering) -> None:
    tampering.client.hset(tampering.profile(ADA), field_of("global", "theme"), b"\xff\xfe")
    place, _ = tampering.find(BEN, told.said["retiring"])
    tampering.client.lset(tampering.history(BEN), place, b"%016d" % told.said["retiring"].sequence + b"\xc1")

    report = audit(told)

    assert named(report) == {
        ("entry-differs", ADA, "theme", told.said["first"].sequence),
        ("history-differs", BEN, "theme", told.said["retiring"].sequence),
    }


def test_a_profile_that_is_read_in_parts_is_compared_as_a_whole(told: Told, tampering: Tampering) -> None:
    name = tampering.profile(WIDE)
    entry = tampering.client.hget(name, field_of("project:p0", "any"))
    tampering.client.hset(name, field_of("project:p1", "any"), entry)
    tampering.client.hset(name, field_of("project:p2", "vow"), entry)
    tampering.client.hdel(name, field_of("project:p3", "any"))

    found = {(violation.what, violation.scope) for violation in audit(told).violations}

    assert found == {
        (What.ENTRY_DIFFERS, "project:p1"),
        (What.ENTRY_UNEXPLAINED, "project:p2"),
        (What.ENTRY_MISSING, "project:p3"),
    }


def test_one_owner_is_audited_alone(told: Told, tampering: Tampering) -> None:
    tampering.entry(ADA, "global", "theme", lambda record: replace(record, value=b"1"))
    settings, log = told.running.worker_settings, told.running.log

    ada, ben = make_auditor(settings, log).audit_owner(ADA), make_auditor(settings, log).audit_owner(BEN)
    nobody = make_auditor(settings, log).audit_owner("main/user:nobody")

    assert (ada.count, ada.owners, ada.partitions) == (1, 1, 1)
    assert (ben.count, ben.entries) == (0, 3)
    assert (nobody.count, nobody.entries) == (0, 0)


def test_a_sample_has_the_size_that_was_asked_for_and_comes_again_with_its_seed(told: Told) -> None:
    settings, log = told.running.worker_settings, told.running.log

    for seed in range(5):
        two = make_auditor(settings, log, seed=seed).audit(Sample(owners=PARTITIONS))
        again = make_auditor(settings, log, seed=seed).audit(Sample(owners=PARTITIONS))
        assert two.violations == []
        assert 1 <= two.owners <= PARTITIONS
        assert (two.owners, two.entries) == (again.owners, again.entries)
        assert make_auditor(settings, log, seed=seed).audit(Sample(owners=1)).owners == 1
    none = make_auditor(settings, log, seed=1).audit(Sample(share=1e-9))
    assert (none.owners, none.violations) == (0, [])


def test_what_a_worker_writes_meanwhile_is_no_violation(told: Told) -> None:
    """Two owners change their minds all the time; every audit compares them at exactly the checkpoint that it read."""
    running, stop = told.running, threading.Event()
    talkers = ["main/user:talks-1", "main/user:talks-2"]
    said: list[Receipt] = []

    def talk() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            for owner in talkers:
                said.append(running.publisher.set(owner, "global", "any" if number % 3 else "theme", number))

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        before = audit(told).checkpoints
        reports = [audit(told) for _ in range(8)]
    finally:
        stop.set()
        thread.join()
    assert [report.violations for report in reports] == [[]] * len(reports)
    assert sum(reports[-1].checkpoints.values()) > sum(before.values())
    running.projected(said)


def test_a_checkpoint_that_goes_back_stops_the_audit_and_blames_nobody(told: Told, tampering: Tampering) -> None:
    running = told.running
    own = tampering.names.of(tampering.partition(ADA))

    def set_back(report: Report) -> None:
        tampering.client.hset(own.checkpoint, "next", f"{3:016d}")

    running.stop_worker()
    try:
        auditor = make_auditor(running.worker_settings, running.log, on_progress=set_back)
        with pytest.raises(AuditStopped, match="run the audit again"):
            auditor.audit_owner(ADA)
        assert auditor.report.violations == []
    finally:
        tampering.put_back()
        running.start_worker()


def test_a_log_that_lacks_its_beginning_is_a_violation_not_a_guess(real_kafka: str, redis_url: str) -> None:
    with RunningLastword(real_kafka, redis_url, partitions=1) as running:
        last = [running.publisher.set(ADA, "global", "any", number) for number in range(3)][-1]
        running.projected([last])
        cut = TopicPartition(running.log.topic, 0, last.offset)
        admin = AdminClient({"bootstrap.servers": real_kafka})
        admin.delete_records([cut])[cut].result(40)

        report = make_auditor(running.worker_settings, running.log).audit()

    (found,) = report.violations
    assert (found.what, found.detail) == (What.LOG_CUT, f"it begins at offset {last.offset}")


def test_an_audit_holds_its_rate(told: Told) -> None:
    settings, log = told.running.worker_settings, told.running.log
    began = time.monotonic()

    report = make_auditor(settings, log, rate=1_000).audit_owner(LONG)

    items = report.records + report.events + report.entries
    assert time.monotonic() - began >= 0.8 * items / 1_000
    assert report.violations == []


class Auditing:
    """A continuous auditor that never rests, in a thread. A context manager."""

    def __init__(self, told: Told, **settings: Any) -> None:
        connection = told.running.worker_settings.model_dump(include=set(ConnectionSettings.model_fields))
        given = {"auditor_rate": 1e6, "auditor_round_s": 0} | settings
        self.settings = AuditorSettings.model_validate(connection | given)
        self.status, self.stop = AuditorStatus(), threading.Event()
        self.health = HealthServer(self.status, "127.0.0.1", 0, metrics=self.status.metrics)
        arguments = (self.settings, told.running.log, self.status, self.stop)
        self.thread = threading.Thread(target=audit_for_ever, args=arguments)

    def __enter__(self) -> Self:
        self.health.__enter__()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()
        self.health.__exit__(None, None, None)

    def rounds(self, count: int) -> None:
        """Wait for so many more whole rounds."""
        goal, deadline = self.status.rounds + count + 1, time.monotonic() + 60
        while self.status.rounds < goal:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.health.port}{path}")


def test_the_auditor_tells_a_violation_by_log_health_and_metric_and_its_end_too(
    told: Told, tampering: Tampering, caplog: pytest.LogCaptureFixture
) -> None:
    with Auditing(told) as auditing:
        auditing.rounds(1)
        grounded, figures = auditing.get("/healthz"), auditing.get("/metrics").text
        tampering.entry(ADA, "global", "theme", lambda record: replace(record, value=b"1"))
        auditing.rounds(1)
        violated, violated_figures = auditing.get("/healthz"), auditing.get("/metrics").text
        tampering.put_back()
        auditing.rounds(1)
        mended = auditing.get("/healthz")

    receipt = told.said["first"]
    assert grounded.status_code == 200, grounded.text
    assert grounded.json()["entries"] >= 180
    assert 'what="entry-differs"} 0' in figures
    assert violated.status_code == 503
    assert violated.json()["problem"] == "1 violations"
    (found,) = violated.json()["violations"]
    assert (found["what"], found["offset"], found["event_id"]) == ("entry-differs", receipt.offset, receipt.event_id)
    assert 'what="entry-differs"} 1' in violated_figures
    assert mended.status_code == 200
    lines = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert f"not grounded: entry-differs at partition 1, offset {receipt.offset}" in lines[0]
    for text in (violated.text, violated_figures, *lines):
        assert ADA not in text
        assert "theme" not in text


def test_the_auditor_says_what_keeps_it_from_auditing_and_stops_at_once(told: Told) -> None:
    with Auditing(told, redis="redis://127.0.0.1:1/0") as auditing:
        deadline = time.monotonic() + 60
        while "Redis does not answer" not in (auditing.status.problem or ""):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        answer = auditing.get("/healthz")
        began = time.monotonic()

    assert answer.status_code == 503
    assert "Redis does not answer" in answer.json()["problem"]
    assert time.monotonic() - began < 5
    with Auditing(told, auditor_rate=1) as slow:
        began = time.monotonic()
        while slow.status.problem is not None:
            time.sleep(0.01)
    assert time.monotonic() - began < 5
