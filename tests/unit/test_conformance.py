"""What the check of a producer finds: each kind, with its first record, and nothing of a right one."""

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from lastword.conformance import ADVICE, HINTS, Finding, Produced, ProducerCheck, Report, check
from lastword_projector.engine.decode import LogRecord
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import record_key
from lastword_schemas.ids import uuid7
from lastword_schemas.partitions import partition_for
from lastword_schemas.verdicts import Reason
from tests.support.logs import ADA, BEN, REGISTRY, START_MS, Log

MINUTE_MS = 60_000
ID = uuid7(START_MS, b"0123456789")


def envelope(**changes: Any) -> dict[str, Any]:
    """A right one with changes; None leaves a member out."""
    fields: dict[str, Any] = {
        "v": 1,
        "event_id": ID,
        "owner": ADA,
        "scope": "global",
        "key": "tone",
        "operation": "set",
        "actor": {"service": "mailer", "role": "service"},
        "published_at": "2026-03-01T12:00:00Z",
        "body": {"value": "brief"},
    }
    return {name: value for name, value in (fields | changes).items() if value is not None}


def produced(partition: int | None = None, kafka_key: str | None = None, **changes: Any) -> Produced:
    """A record of such an envelope, in the right place and under the right key unless said otherwise."""
    fields = envelope(**changes)
    owner = fields["owner"]
    right = record_key(owner, fields["scope"], fields.get("key"))
    return Produced(
        partition_for(owner, 24) if partition is None else partition,
        (kafka_key or right).encode(),
        json.dumps(fields).encode(),
    )


def kinds(report: Report) -> list[str]:
    return [finding.kind for finding in report.findings]


def only(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


def checked(log: Log, **more: Any) -> Report:
    """The check of all of a log."""
    check = ProducerCheck(1, genesis=[log.genesis], **more)
    for record in log.records:
        check.take(0, record)
    return check.report()


def test_of_a_right_producer_nothing_is_found() -> None:
    turn: dict[str, Any] = {"operation": "say", "key": None, "thread": "t1", "body": {"text": "Brief, please."}}
    delete: dict[str, Any] = {"operation": "delete", "body": None}
    records = [produced(), produced(event_id=uuid7(START_MS + 1, b"x" * 10), **turn)]
    records.append(produced(event_id=str(uuid.uuid5(uuid.NAMESPACE_URL, "3")), owner=BEN, **delete))

    report = check(records, registry=REGISTRY)

    assert report == Report(records=3, events=3, findings=(), unchecked=())
    assert report.ok


GENESIS = Log(partition=3, partitions=24, topic_id="another").records[0].value

WRONG: dict[str, list[Produced]] = {
    "no-envelope": [Produced(0, b"k", b"\xff")],
    "wrong-partition": [produced(partition=0)],
    "newer-version": [produced(v=2)],
    "wrong-genesis": [Produced(3, b"lastword/genesis", GENESIS)],
    "malformed": [produced(mood="good")],
    "key-mismatch": [produced(kafka_key="main/user:ada/global/tone")],
    "event-id-reused": [produced(body={"value": "long"})],
    "undeclared-key": [produced(key="nobody.declared.this")],
    "value-schema": [produced(key="size", body={"value": "huge"})],
    "actor-not-allowed": [produced(authority="confirmed")],
    "authority-too-low": [produced(authority="inferred")],
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_with_a_record_is_found_with_its_place_and_what_to_do(kind: str) -> None:
    right = produced()
    (bad,) = WRONG[kind]
    if kind != "event-id-reused":
        right = produced(event_id=uuid7(START_MS - 1, b"x" * 10))

    report = check([right, bad], registry=REGISTRY)

    finding = only(report)
    assert not report.ok
    assert (finding.kind, finding.wrong, finding.count) == (kind, True, 1)
    assert (finding.partition, finding.offset) == (bad.partition, 2)
    assert finding.detail
    assert finding.advice == ADVICE[kind]
    assert kind in str(report)


def _cites(log: Log, source: Any, quote: str | None = None, **more: Any) -> None:
    log.candidate(ADA, "guess", 1, source=source, quote=quote, **more)


CITATIONS: dict[str, Callable[[Log], None]] = {
    "source-missing": lambda log: _cites(log, str(uuid.uuid4())),
    "source-later": lambda log: _cites(log, ID, event_id=ID),
    "source-is-candidate": lambda log: _cites(log, log.candidate(ADA, "guess", 1, source=log.say(ADA, "x"))),
    "source-refused": lambda log: _cites(log, log.raw(authority="confirmed")),
    "source-of-other-owner": lambda log: _cites(log, log.say(BEN, "x"), by_receipt=True),
    "quote-not-at-span": lambda log: _cites(log, log.say(ADA, "🦊 brief"), quote="brief", start=4),
    "quote-missing": lambda log: _cites(log, log.say(ADA, "x"), authority="stated"),
    "authority-above-source": lambda log: _cites(
        log, log.set(ADA, "guess", 1, authority="inferred"), authority="stated"
    ),
    "expected-sequence": lambda log: void(log.set(ADA, "tone", 1, expected_sequence=7)),
    "named-missing": lambda log: void(log.withdraw(ADA, str(uuid.uuid4()))),
    "named-refused": lambda log: void(log.withdraw(ADA, log.set(ADA, "nobody.declared.this", 1))),
    "named-not-allowed": lambda log: void(log.resolve(ADA, "tone", log.set(ADA, "tone", 1), log.set(ADA, "tone", 2))),
    "authority-below-named": lambda log: void(log.withdraw(ADA, log.set(ADA, "tone", 1), authority="inferred")),
}


def void(_: object) -> None: ...


@pytest.mark.parametrize("kind", CITATIONS)
def test_what_needs_the_events_before_is_found_in_a_log_that_is_read_from_its_beginning(kind: str) -> None:
    log = Log()
    CITATIONS[kind](log)

    assert kind in kinds(checked(log))


@pytest.mark.parametrize("kind", ["source-missing", "source-of-other-owner", "expected-sequence", "named-missing"])
def test_it_is_no_finding_where_they_are_not_known_and_the_report_says_so(kind: str) -> None:
    log = Log()
    CITATIONS[kind](log)
    log.records = log.records[2:]

    report = checked(log, registry=REGISTRY)

    assert kind not in kinds(report)
    assert report.unchecked == ("citations and conditions on events before those that were read",)


def test_a_citation_is_checked_wherever_its_source_is_among_what_was_read() -> None:
    log = Log()
    CITATIONS["quote-not-at-span"](log)
    log.records = log.records[2:]

    assert "quote-not-at-span" in kinds(checked(log, registry=REGISTRY))


def test_every_reason_of_a_refusal_is_a_kind_of_finding() -> None:
    assert {reason.value for reason in Reason} <= ADVICE.keys()
    assert {*WRONG, *CITATIONS} == ADVICE.keys() - (HINTS - {"expected-sequence"})


def logged(fields: dict[str, Any], recorded_at: int = START_MS, *, stamped: bool = True) -> Report:
    check = ProducerCheck(24, registry=REGISTRY)
    record = produced(**fields)
    check.take(record.partition, LogRecord(0, recorded_at, record.key, record.value, stamped))
    return check.report()


HINTED: dict[str, Callable[[], Report]] = {
    "expected-sequence": lambda: checked(expecting()),
    "duplicate": lambda: check([produced(), produced(published_at="2026-03-01T12:00:01Z")]),
    "event-id-version": lambda: check([produced(event_id=str(uuid.uuid4()))]),
    "out-of-order": lambda: check(
        [produced(), produced(event_id=uuid7(START_MS + 1, b"x" * 10), published_at="2026-03-01T11:59:59Z")]
    ),
    "clock-ahead": lambda: logged({}, START_MS - 2 * MINUTE_MS),
    "expired-at-birth": lambda: logged({"expires_at": "2026-03-01T11:00:00Z"}),
    "not-stamped": lambda: logged({}, stamped=False),
}


def expecting() -> Log:
    log = Log()
    log.set(ADA, "tone", 1, expected_sequence=7, event_id=ID)
    return log


@pytest.mark.parametrize("kind", HINTED)
def test_what_a_right_producer_may_do_is_a_hint_and_not_wrong(kind: str) -> None:
    report = HINTED[kind]()

    assert (only(report).kind, only(report).wrong, report.ok) == (kind, False, True)


def test_every_hint_is_one_that_can_be_found() -> None:
    assert HINTED.keys() == HINTS


def test_findings_of_one_kind_are_counted_and_what_is_wrong_comes_first() -> None:
    hint, wrong = produced(event_id=str(uuid.uuid4())), produced(v=2)

    report = check([hint, wrong, wrong])

    assert [(finding.kind, finding.count, finding.offset) for finding in report.findings] == [
        ("newer-version", 2, 2),
        ("event-id-version", 1, 1),
    ]
    assert report.as_json()["findings"][0]["kind"] == "newer-version"
    assert not report.as_json()["ok"]


def test_the_registry_of_the_log_is_in_force_from_its_place_on() -> None:
    log = Log(registry=None)
    log.raw(key="size", body={"value": "huge"}, event_id=ID)
    log.apply(REGISTRY)
    log.raw(key="size", body={"value": "vast"}, event_id=uuid7(START_MS + 1, b"x" * 10))

    report = checked(log)

    assert (only(report).kind, only(report).offset) == ("value-schema", 3)
    assert report.unchecked == ("keys and values, because no registry is known",)


def test_only_one_service_is_told_of_and_what_may_be_its_own() -> None:
    mine, others = {"service": "mine"}, {"service": "others"}
    records = [
        produced(actor=others, mood="good"),
        produced(actor=others, v=2),
        Produced(0, None, b"whose?"),
        produced(actor=mine, partition=0),
    ]

    report = check(records, service="mine")

    assert [(finding.kind, finding.offset) for finding in report.findings] == [
        ("no-envelope", 3),
        ("wrong-partition", 4),
    ]
    assert (report.records, report.events) == (4, 0)


def test_another_services_turn_is_known_to_the_candidate_that_cites_it() -> None:
    log = Log()
    turn = log.say(ADA, "Brief, please.")
    log.candidate(ADA, "guess", "brief", source=turn, quote="Brief", start=1, event_id=ID)

    assert only(checked(log, service="reader")).kind == "quote-not-at-span"


def test_a_partition_that_the_topic_does_not_have_is_said_at_once() -> None:
    with pytest.raises(InvalidInput, match="there is no partition 24 of 24"):
        check([produced(partition=24)])


def test_no_detail_repeats_a_value() -> None:
    report = check([produced(key="size", body={"value": "a secret"})], registry=REGISTRY)

    assert "secret" not in str(report)
