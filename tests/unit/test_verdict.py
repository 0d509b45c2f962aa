"""The verdict on an event: every effect, every reason for a refusal, and which check comes first."""

import json
from pathlib import Path
from typing import Any

import pytest

from lastword_projector.engine.decode import LogRecord
from lastword_schemas import limits
from lastword_schemas.envelope import Envelope
from lastword_schemas.identity import record_key
from lastword_schemas.positions import Receipt
from lastword_schemas.verdicts import Effect, Reason
from tests.support.logs import ADA, BEN, UNSET, Log, Stores, event_id, project, registry_of

TEXT = "Mornings 🙂 – no, évenings."
SMILE = TEXT.index("🙂")


@pytest.fixture
def log() -> Log:
    return Log()


def verdict(log: Log, receipt: Receipt, owner: str = ADA) -> str:
    """The verdict on what was appended under that receipt; of a refused event the reason."""
    return project(log).verdict(receipt, owner)


class TestEffects:
    def test_a_turn_is_recorded_and_has_no_entry(self, log: Log) -> None:
        turn = log.say(ADA, TEXT)
        assert verdict(log, turn) == Effect.RECORDED

    def test_a_first_value_is_added(self, log: Log) -> None:
        assert verdict(log, log.set(ADA, "tone", "brief")) == Effect.ADDED

    def test_another_value_updates(self, log: Log) -> None:
        log.set(ADA, "tone", "brief")
        assert verdict(log, log.set(ADA, "tone", "long")) == Effect.UPDATED

    def test_the_same_value_restates(self, log: Log) -> None:
        log.set(ADA, "tone", {"a": 1, "b": 2})
        assert verdict(log, log.set(ADA, "tone", {"b": 2, "a": 1})) == Effect.RESTATED

    def test_a_delete_deletes_whether_or_not_there_is_something(self, log: Log) -> None:
        assert verdict(log, log.delete(ADA, "tone")) == Effect.DELETED
        log.set(ADA, "tone", "brief")
        assert verdict(log, log.delete(ADA, "tone")) == Effect.DELETED

    def test_null_is_a_value_and_no_delete(self, log: Log) -> None:
        assert verdict(log, log.set(ADA, "tone", None)) == Effect.ADDED
        assert project(log).value(ADA, "tone") is None

    def test_a_value_after_a_tombstone_is_added(self, log: Log) -> None:
        log.delete(ADA, "tone")
        assert verdict(log, log.set(ADA, "tone", "brief")) == Effect.ADDED

    def test_an_older_source_is_late_and_says_both_sequences(self, log: Log) -> None:
        older, newer = log.say(ADA, "brief"), log.say(ADA, "detailed")
        log.candidate(ADA, "tone", "detailed", source=newer, quote="detailed")
        late = log.candidate(ADA, "tone", "brief", source=older, quote="brief")
        record = project(log).record(late)
        assert (record.verdict, record.related) == (Effect.LATE, (newer.sequence, older.sequence))

    def test_another_value_of_the_same_mark_is_a_conflict(self, log: Log) -> None:
        turn = log.say(ADA, TEXT)
        log.candidate(ADA, "tone", "one", source=turn, quote="Mornings")
        conflict = log.candidate(ADA, "tone", "other", source=turn, quote="Mornings")
        assert verdict(log, conflict) == Effect.CONFLICT


class TestCopies:
    def test_a_copy_is_a_duplicate_and_points_to_the_first(self, log: Log) -> None:
        first = log.set(ADA, "tone", "brief")
        log.set(ADA, "tone", "long")
        copy = log.copy(first)
        stores = project(log)
        assert stores.record(copy).verdict == "duplicate"
        assert stores.record(copy).related == (first.sequence,)
        assert stores.value(ADA, "tone") == "long"

    def test_other_times_of_publishing_and_spacing_are_no_other_content(self, log: Log) -> None:
        common: dict[str, Any] = {"event_id": event_id(7), "published_at": "2026-03-01T12:00:00Z"}
        log.raw(**common, body={"value": {"a": 1, "b": 2}})
        other = common | {"published_at": "2026-03-02T12:00:00Z", "occurred_at": "2026-03-01T00:00:00Z"}
        assert verdict(log, log.raw(**other, body={"value": {"b": 2, "a": 1}})) == "duplicate"

    @pytest.mark.parametrize(
        "change",
        [
            {"body": {"value": "long"}},
            {"body": {"value": None}},
            {"scope": "project:Comet"},
            {"key": "theme"},
            {"operation": "delete", "body": {}},
            {"actor": {"service": "other"}},
            {"actor": {"service": "app", "role": "person"}},
            {"authority": "inferred"},
            {"confidence": 0.5},
            {"message": "m1"},
            {"expires_at": "2027-01-01T00:00:00Z"},
            {"expected_sequence": 0},
            {"retires": [{"scope": "global", "key": "theme"}]},
        ],
    )
    def test_other_content_under_the_same_id_is_refused(self, log: Log, change: dict[str, Any]) -> None:
        log.raw(event_id=event_id(7), body={"value": "brief"})
        again = log.raw(**{"event_id": event_id(7), "body": {"value": "brief"}} | change)
        assert verdict(log, again) == Reason.EVENT_ID_REUSED

    def test_another_text_or_thread_of_a_turn_is_other_content(self, log: Log) -> None:
        log.say(ADA, "yes", event_id=event_id(7))
        assert verdict(log, log.say(ADA, "no", event_id=event_id(7))) == Reason.EVENT_ID_REUSED
        assert verdict(log, log.say(ADA, "yes", thread="t2", event_id=event_id(7))) == Reason.EVENT_ID_REUSED
        assert verdict(log, log.say(ADA, "yes", event_id=event_id(7))) == "duplicate"

    def test_another_source_or_quote_of_a_candidate_is_other_content(self, log: Log) -> None:
        one, other = log.say(ADA, "no no"), log.say(ADA, "no no")
        log.candidate(ADA, "tone", "x", source=one, quote="no", event_id=event_id(70))
        for source, start in ((other, 0), (one, 3)):
            again = log.candidate(ADA, "tone", "x", source=source, quote="no", start=start, event_id=event_id(70))
            assert verdict(log, again) == Reason.EVENT_ID_REUSED
        by_receipt = log.candidate(ADA, "tone", "x", source=one, quote="no", event_id=event_id(70), by_receipt=True)
        assert verdict(log, by_receipt) == "duplicate"

    def test_a_refused_first_copy_owns_its_id(self, log: Log) -> None:
        first = log.set(ADA, "undeclared", "brief", event_id=event_id(7))
        assert verdict(log, first) == Reason.UNDECLARED_KEY
        assert verdict(log, log.set(ADA, "tone", "brief", event_id=event_id(7))) == Reason.EVENT_ID_REUSED
        log.apply(registry_of(undeclared={}, tone={}))
        assert verdict(log, log.copy(first)) == "duplicate"

    def test_a_malformed_first_copy_owns_its_id(self, log: Log) -> None:
        log.append(b"k", f'{{"v":1,"owner":"{ADA}","event_id":"{event_id(7)}"}}'.encode())
        assert verdict(log, log.set(ADA, "tone", "brief", event_id=event_id(7))) == Reason.EVENT_ID_REUSED

    def test_what_is_malformed_is_refused_under_its_owner(self, log: Log) -> None:
        log.append(b"k", f'{{"v":1,"owner":"{ADA}","event_id":"{event_id(7)}","scope":5}}'.encode())
        (record,) = project(log).records(ADA)
        assert (record.verdict, record.reason) == ("refused", Reason.MALFORMED)

    def test_a_reused_id_does_not_take_it_over(self, log: Log) -> None:
        first = log.set(ADA, "tone", "brief", event_id=event_id(7))
        other = log.set(ADA, "tone", "long", event_id=event_id(7))
        assert verdict(log, log.copy(other)) == Reason.EVENT_ID_REUSED
        assert verdict(log, log.copy(first)) == "duplicate"

    def test_ids_are_unique_per_owner_only(self, log: Log) -> None:
        log.set(ADA, "tone", "brief", event_id=event_id(7))
        assert verdict(log, log.set(BEN, "tone", "long", event_id=event_id(7)), BEN) == Effect.ADDED


class TestKeyAndValue:
    @pytest.mark.parametrize(
        ("owner", "scope", "key"),
        [
            (BEN, "global", "tone"),
            (ADA, "project:Comet", "tone"),
            (ADA, "global", "theme"),
            (ADA, "global", None),
        ],
    )
    def test_a_record_under_another_kafka_key_is_refused(
        self, log: Log, owner: str, scope: str, key: str | None
    ) -> None:
        envelope = Envelope.read(
            {"event_id": event_id(7), "owner": ADA, "scope": "global", "key": "tone", "operation": "delete"}
            | {"actor": {"service": "app"}}
        )
        offset = log.append(record_key(owner, scope, key).encode(), envelope.to_bytes())
        receipt = Receipt(log.genesis.log_id, 0, 0, offset, event_id(7))
        assert verdict(log, receipt) == Reason.KEY_MISMATCH

    def test_an_event_without_a_kafka_key_is_refused(self, log: Log) -> None:
        log.set(ADA, "tone", "brief")
        (bare,) = log.records[2:]
        log.records[2] = LogRecord(bare.offset, bare.recorded_at, None, bare.value)
        assert project(log).records(ADA)[-1].reason == Reason.KEY_MISMATCH

    def test_an_undeclared_key_is_refused(self, log: Log) -> None:
        assert verdict(log, log.set(ADA, "mood", "fine")) == Reason.UNDECLARED_KEY
        assert verdict(log, log.delete(ADA, "mood")) == Reason.UNDECLARED_KEY

    def test_everything_is_undeclared_before_the_first_registry(self) -> None:
        log = Log(registry=None)
        assert verdict(log, log.set(ADA, "tone", "brief")) == Reason.UNDECLARED_KEY
        assert verdict(log, log.say(ADA, TEXT)) == Effect.RECORDED

    def test_the_registry_in_force_at_the_position_decides(self) -> None:
        log = Log(registry=registry_of(tone={}))
        before = log.set(ADA, "mood", "fine")
        log.apply(registry_of(mood={}))
        after, gone = log.set(ADA, "mood", "fine"), log.set(ADA, "tone", "brief")
        assert verdict(log, before) == Reason.UNDECLARED_KEY
        assert verdict(log, after) == Effect.ADDED
        assert verdict(log, gone) == Reason.UNDECLARED_KEY

    @pytest.mark.parametrize(
        ("value", "fits"), [("small", True), (3, True), ("medium", False), ([], False), (None, False)]
    )
    def test_a_value_must_fit_its_schema(self, log: Log, value: Any, fits: bool) -> None:
        assert verdict(log, log.set(ADA, "size", value)) == (Effect.ADDED if fits else Reason.VALUE_SCHEMA)

    def test_the_detail_of_a_refusal_does_not_repeat_the_value(self, log: Log) -> None:
        receipt = log.set(ADA, "size", "secret-word")
        detail = project(log).record(receipt).detail
        assert detail is not None
        assert "secret-word" not in detail

    def test_a_delete_needs_no_value_that_fits(self, log: Log) -> None:
        assert verdict(log, log.delete(ADA, "size")) == Effect.DELETED


class TestActor:
    @pytest.mark.parametrize(
        ("role", "authority", "operation", "is_candidate", "allowed"),
        [
            ("service", "stated", "set", False, True),
            ("service", "inferred", "say", False, True),
            ("service", "confirmed", "set", False, False),
            ("person", "confirmed", "set", False, True),
            ("person", "confirmed", "delete", False, True),
            ("extractor", "stated", "set", False, False),
            ("extractor", "stated", "say", False, False),
            ("extractor", "inferred", "set", True, True),
            ("extractor", "confirmed", "set", True, False),
            ("service", "inferred", "set", True, False),
            ("person", "confirmed", "set", True, False),
        ],
    )
    def test_who_may_say_what(
        self, log: Log, role: str, authority: str, operation: str, is_candidate: bool, allowed: bool
    ) -> None:
        turn = log.say(ADA, TEXT)
        fields: dict[str, Any] = {"actor": {"service": "x", "role": role}, "authority": authority, "key": "guess"}
        if operation == "say":
            fields |= {"operation": "say", "key": None, "thread": "t1", "body": {"text": TEXT}}
        elif operation == "delete":
            fields |= {"operation": "delete", "body": {}}
        if is_candidate:
            fields |= {"source_event_id": turn.event_id}
        receipt = log.raw(**{"event_id": event_id(70)} | fields)
        assert (verdict(log, receipt) != Reason.ACTOR_NOT_ALLOWED) is allowed


class TestCitation:
    def test_a_candidate_takes_its_place_and_thread_from_its_source(self, log: Log) -> None:
        turn = log.say(ADA, TEXT, thread="t9", message="m3")
        candidate = log.candidate(ADA, "tone", "x", source=turn, quote="🙂", start=SMILE)
        stores = project(log)
        record = stores.record(candidate)
        assert (record.source_sequence, record.source_recorded_at) == (turn.sequence, stores.record(turn).recorded_at)
        assert (record.thread, record.message, record.span) == ("t9", "m3", (SMILE, SMILE + 1))

    def test_a_candidate_may_cite_a_statement(self, log: Log) -> None:
        statement = log.set(ADA, "theme", "dark")
        candidate = log.candidate(ADA, "tone", "calm", source=statement, authority="stated")
        assert verdict(log, candidate) == Effect.ADDED

    @pytest.mark.parametrize("by_receipt", [False, True])
    def test_it_may_cite_a_delete(self, log: Log, by_receipt: bool) -> None:
        delete = log.delete(ADA, "theme")
        candidate = log.candidate(ADA, "guess", UNSET, source=delete, by_receipt=by_receipt)
        assert verdict(log, candidate) == Effect.DELETED

    def test_citing_nothing_that_is_there_is_refused(self, log: Log) -> None:
        assert verdict(log, log.candidate(ADA, "guess", 1, source=event_id(99))) == Reason.SOURCE_MISSING

    def test_citing_itself_is_citing_the_future(self, log: Log) -> None:
        candidate = log.candidate(ADA, "guess", 1, source=event_id(7), event_id=event_id(7))
        assert verdict(log, candidate) == Reason.SOURCE_LATER

    def test_a_receipt_of_the_future_is_refused(self, log: Log) -> None:
        source = Receipt(log.genesis.log_id, 0, 0, log.next_offset + 1, event_id(99))
        candidate = log.candidate(ADA, "guess", 1, source=source, by_receipt=True)
        assert log.say(ADA, TEXT, event_id=event_id(99)) == source
        assert verdict(log, candidate) == Reason.SOURCE_LATER

    def test_an_id_of_the_future_is_missing_and_stays_so(self, log: Log) -> None:
        candidate = log.candidate(ADA, "guess", 1, source=event_id(99))
        log.say(ADA, TEXT, event_id=event_id(99))
        stores = project(log)
        assert stores.verdict(candidate) == Reason.SOURCE_MISSING
        stores.set_back(log, candidate.offset)
        stores.project(log)
        assert stores.verdict(candidate) == Reason.SOURCE_MISSING

    def test_another_owners_event_is_missing_by_id_and_told_by_receipt(self, log: Log) -> None:
        source = log.say(BEN, TEXT)
        assert verdict(log, log.candidate(ADA, "guess", 1, source=source)) == Reason.SOURCE_MISSING
        by_receipt = log.candidate(ADA, "guess", 1, source=source, by_receipt=True)
        assert verdict(log, by_receipt) == Reason.SOURCE_OF_OTHER_OWNER

    def test_a_receipt_of_another_partition_is_of_another_owner(self, log: Log) -> None:
        turn = log.say(ADA, TEXT)
        source = Receipt(turn.log_id, 0, 5, turn.offset, turn.event_id)
        candidate = log.candidate(ADA, "guess", 1, source=source, by_receipt=True)
        assert verdict(log, candidate) == Reason.SOURCE_OF_OTHER_OWNER

    def test_a_receipt_of_another_log_is_missing(self, log: Log) -> None:
        log.say(ADA, TEXT, event_id=event_id(99))
        source = Log(topic_id="other").say(ADA, TEXT, event_id=event_id(99))
        candidate = log.candidate(ADA, "guess", 1, source=source, by_receipt=True)
        assert verdict(log, candidate) == Reason.SOURCE_MISSING

    def test_a_receipt_of_a_later_copy_is_of_the_same_event(self, log: Log) -> None:
        turn = log.say(ADA, TEXT)
        copy = log.copy(turn)
        candidate = log.candidate(ADA, "guess", 1, source=copy, by_receipt=True)
        record = project(log).record(candidate)
        assert (record.verdict, record.source_sequence) == (Effect.ADDED, turn.sequence)

    def test_a_receipt_before_its_event_is_missing(self, log: Log) -> None:
        turn = log.say(ADA, TEXT)
        source = Receipt(turn.log_id, 0, 0, turn.offset - 1, turn.event_id)
        candidate = log.candidate(ADA, "guess", 1, source=source, by_receipt=True)
        assert verdict(log, candidate) == Reason.SOURCE_MISSING

    def test_a_receipt_and_an_id_that_differ_are_refused(self, log: Log) -> None:
        one, other = log.say(ADA, TEXT), log.say(ADA, TEXT)
        candidate = log.raw(
            event_id=event_id(70),
            key="guess",
            actor={"service": "reader", "role": "extractor"},
            authority="inferred",
            source_event_id=one.event_id,
            source_receipt=str(other),
        )
        assert verdict(log, candidate) == Reason.SOURCE_MISSING

    def test_a_candidate_is_no_source(self, log: Log) -> None:
        reading = log.candidate(ADA, "guess", 1, source=log.say(ADA, TEXT))
        assert verdict(log, log.candidate(ADA, "guess", 2, source=reading)) == Reason.SOURCE_IS_CANDIDATE

    def test_a_refused_event_is_no_source(self, log: Log) -> None:
        refused = log.set(ADA, "undeclared", 1)
        assert verdict(log, log.candidate(ADA, "guess", 2, source=refused)) == Reason.SOURCE_REFUSED


class TestQuotes:
    @pytest.mark.parametrize("words", ["Mornings", "🙂", "– no, é", TEXT])
    def test_a_quote_at_its_span_in_code_points_may_claim_stated(self, log: Log, words: str) -> None:
        turn = log.say(ADA, TEXT)
        candidate = log.candidate(ADA, "tone", "x", source=turn, quote=words, start=TEXT.index(words))
        assert verdict(log, candidate) == Effect.ADDED

    @pytest.mark.parametrize(
        ("span", "words"),
        [
            ([0, 7], "Morning!"),
            ([1, 9], "Mornings"),
            ([SMILE + 1, SMILE + 2], "🙂"),
            ([len(TEXT) - 1, len(TEXT) + 1], "."),
            ([len(TEXT) - 10, len(TEXT) + 90], TEXT[-10:]),
            ([900, 901], "x"),
            ([16, 18], "e\u0301"),
        ],
    )
    def test_a_quote_that_is_not_at_its_span_is_refused(self, log: Log, span: list[int], words: str) -> None:
        turn = log.say(ADA, TEXT)
        candidate = log.candidate(ADA, "tone", "x", source=turn, quote=words, span=span)
        assert verdict(log, candidate) == Reason.QUOTE_NOT_AT_SPAN

    def test_a_wrong_quote_is_refused_even_of_a_guess(self, log: Log) -> None:
        turn = log.say(ADA, TEXT)
        candidate = log.candidate(ADA, "guess", "x", source=turn, quote="nope", authority="inferred")
        assert verdict(log, candidate) == Reason.QUOTE_NOT_AT_SPAN

    def test_a_statement_has_no_words_to_quote(self, log: Log) -> None:
        statement = log.set(ADA, "tone", "brief")
        candidate = log.candidate(ADA, "theme", "x", source=statement, quote="brief")
        assert verdict(log, candidate) == Reason.QUOTE_NOT_AT_SPAN

    def test_claiming_stated_on_a_turn_needs_a_quote(self, log: Log) -> None:
        candidate = log.candidate(ADA, "tone", "x", source=log.say(ADA, TEXT), authority="stated")
        assert verdict(log, candidate) == Reason.QUOTE_MISSING

    def test_the_ordinal_is_the_start_of_the_span(self, log: Log) -> None:
        turn = log.say(ADA, "at 8, no, 9")
        log.candidate(ADA, "tone", 9, source=turn, quote="9", start=10)
        earlier = log.candidate(ADA, "tone", 8, source=turn, quote="8", start=3)
        assert verdict(log, earlier) == Effect.LATE
        assert project(log).value(ADA, "tone") == 9


class TestBranch:
    @pytest.fixture
    def log(self) -> Log:
        return Log(registry=registry_of(employer={"policy": "branch"}))

    def test_another_value_of_the_same_authority_branches(self, log: Log) -> None:
        log.set(ADA, "employer", "Acme")
        assert verdict(log, log.set(ADA, "employer", "Globex")) == Effect.BRANCHED
        entry = project(log).entry(ADA, "employer")
        assert entry is not None
        assert (entry.unresolved, entry.record.value) == (True, b'"Acme"')

    def test_more_authority_settles_it(self, log: Log) -> None:
        log.set(ADA, "employer", "Acme")
        log.set(ADA, "employer", "Globex")
        assert verdict(log, log.set(ADA, "employer", "Globex", authority="confirmed", role="person")) == Effect.UPDATED
        assert project(log).value(ADA, "employer") == "Globex"

    def test_a_value_that_stands_is_restated(self, log: Log) -> None:
        log.set(ADA, "employer", "Acme")
        assert verdict(log, log.set(ADA, "employer", "Acme")) == Effect.RESTATED

    def test_a_guess_below_what_was_said_later_is_late(self, log: Log) -> None:
        turn = log.say(ADA, TEXT)
        log.set(ADA, "employer", "Acme")
        guess = log.candidate(ADA, "employer", "Globex", source=turn, authority="inferred")
        assert verdict(log, guess) == Effect.LATE

    def test_a_delete_of_less_authority_leaves_it_unresolved(self, log: Log) -> None:
        log.set(ADA, "employer", "Acme")
        assert verdict(log, log.delete(ADA, "employer", authority="inferred")) == Effect.BRANCHED
        assert project(log).value(ADA, "employer") == "Acme"


class TestAuthority:
    def test_a_candidate_has_at_most_the_authority_of_the_statement_it_cites(self, log: Log) -> None:
        guess = log.set(ADA, "guess", 1, authority="inferred")
        assert verdict(log, log.candidate(ADA, "guess", 2, source=guess)) == Effect.CONFLICT  # of the very same mark
        above = log.candidate(ADA, "guess", 2, source=guess, authority="stated")
        assert verdict(log, above) == Reason.AUTHORITY_ABOVE_SOURCE

    @pytest.mark.parametrize(
        ("key", "authority", "allowed"),
        [
            ("tone", "inferred", False),
            ("tone", "stated", True),
            ("guess", "inferred", True),
            ("vow", "stated", False),
            ("vow", "confirmed", True),
        ],
    )
    def test_a_key_takes_its_min_authority_or_higher(self, log: Log, key: str, authority: str, allowed: bool) -> None:
        role = "person" if authority == "confirmed" else "service"
        receipt = log.set(ADA, key, 1, authority=authority, role=role)
        assert verdict(log, receipt) == (Effect.ADDED if allowed else Reason.AUTHORITY_TOO_LOW)

    def test_a_delete_needs_it_too(self, log: Log) -> None:
        assert verdict(log, log.delete(ADA, "tone", authority="inferred")) == Reason.AUTHORITY_TOO_LOW


def scoped(*keys: str, scope: str = "global") -> list[dict[str, str]]:
    return [{"scope": scope, "key": key} for key in keys]


class TestConditions:
    def test_the_source_sequence_of_the_entry_is_what_is_expected(self, log: Log) -> None:
        first = log.set(ADA, "tone", "brief", expected_sequence=0)
        log.set(ADA, "theme", "dark")
        log.set(ADA, "tone", "other", scope="project:Comet")
        second = log.set(ADA, "tone", "long", expected_sequence=first.sequence)
        third = log.delete(ADA, "tone", expected_sequence=second.sequence)
        fourth = log.set(ADA, "tone", "brief", expected_sequence=third.sequence)
        assert [verdict(log, receipt) for receipt in (first, second, third, fourth)] == [
            Effect.ADDED,
            Effect.UPDATED,
            Effect.DELETED,
            Effect.ADDED,
        ]

    @pytest.mark.parametrize("expected", [0, 1, 5, 2**53 - 1])
    def test_any_other_sequence_is_refused_and_both_are_told(self, log: Log, expected: int) -> None:
        log.set(ADA, "tone", "brief", at=9)
        refused = log.delete(ADA, "tone", expected_sequence=expected)
        record = project(log).record(refused)
        assert record.reason == Reason.EXPECTED_SEQUENCE
        assert record.detail == f"expected_sequence is {expected}, the entry's source sequence is 9"
        assert project(log).value(ADA, "tone") == "brief"

    def test_an_entry_that_is_not_there_is_none_however_far_the_log_is(self, log: Log) -> None:
        theme = log.set(ADA, "theme", "dark")
        refused = log.set(ADA, "tone", "brief", expected_sequence=theme.sequence)
        assert project(log).record(refused).detail == f"expected_sequence is {theme.sequence}, there is no entry (0)"
        assert verdict(log, log.set(ADA, "tone", "brief", expected_sequence=0)) == Effect.ADDED

    def test_a_tombstone_is_an_entry(self, log: Log) -> None:
        tombstone = log.delete(ADA, "tone")
        assert verdict(log, log.set(ADA, "tone", 1, expected_sequence=0)) == Reason.EXPECTED_SEQUENCE
        assert verdict(log, log.set(ADA, "tone", 1, expected_sequence=tombstone.sequence)) == Effect.ADDED

    def test_of_an_entry_from_a_reading_it_is_the_sequence_of_what_was_read(self, log: Log) -> None:
        turn = log.say(ADA, TEXT)
        reading = log.candidate(ADA, "tone", "x", source=turn, quote=TEXT)
        assert verdict(log, log.set(ADA, "tone", 1, expected_sequence=reading.sequence)) == Reason.EXPECTED_SEQUENCE
        assert verdict(log, log.set(ADA, "tone", 1, expected_sequence=turn.sequence)) == Effect.UPDATED

    def test_an_unresolved_entry_is_never_the_expected_one(self, log: Log) -> None:
        turn = log.say(ADA, TEXT)
        for value in ("one", "other"):
            log.candidate(ADA, "tone", value, source=turn, quote="Mornings")
        refused = log.set(ADA, "tone", "third", expected_sequence=turn.sequence)
        record = project(log).record(refused)
        assert record.reason == Reason.EXPECTED_SEQUENCE
        assert "unresolved" in (record.detail or "")

    def test_a_copy_has_the_verdict_of_the_first_whatever_happened_since(self, log: Log) -> None:
        first = log.set(ADA, "tone", "brief", expected_sequence=0)
        refused = log.set(ADA, "tone", "long", expected_sequence=0)
        copies = [log.copy(first), log.copy(refused)]
        stores = project(log)
        assert [stores.record(copy).related for copy in copies] == [(first.sequence,), (refused.sequence,)]

    def test_it_is_the_last_of_the_checks(self, log: Log) -> None:
        too_low = log.set(ADA, "tone", 1, authority="inferred", expected_sequence=99)
        assert verdict(log, too_low) == Reason.AUTHORITY_TOO_LOW

    @pytest.mark.parametrize("operation", ["set", "delete", "say"])
    def test_only_a_statement_can_be_conditional(self, log: Log, operation: str) -> None:
        turn = log.say(ADA, TEXT)
        data: dict[str, Any] = {
            "owner": ADA,
            "scope": "global",
            "event_id": event_id(70),
            "v": 1,
            "authority": "stated",
        }
        if operation == "say":
            data |= {"actor": {"service": "app"}, "thread": "t", "body": {"text": "x"}}
        else:
            data |= {"actor": {"service": "x", "role": "extractor"}, "key": "guess", "source_event_id": turn.event_id}
            data |= {"body": {"value": 1} if operation == "set" else {}}
        log.append(b"k", json.dumps(data | {"operation": operation, "expected_sequence": 0}).encode())
        (_, record) = project(log).records(ADA)
        assert record.reason == Reason.MALFORMED


class TestRetiredKeys:
    def test_each_key_is_deleted_together_with_the_set(self, log: Log) -> None:
        log.set(ADA, "tone", "brief")
        moved = log.set(ADA, "tone", "brief", scope="project:Comet", retires=scoped("tone", "theme"))
        stores = project(log)
        assert stores.value(ADA, "tone", "project:Comet") == "brief"
        for key in ("tone", "theme"):
            entry = stores.entry(ADA, key)
            assert entry is not None
            assert (entry.record.is_delete, entry.record.sequence) == (True, moved.sequence)
            assert entry.record.retired_by == ("project:Comet", "tone")
        assert stores.record(moved).retired == (Effect.DELETED, Effect.DELETED)

    @pytest.mark.parametrize(
        ("more", "reason"),
        [
            ({"retires": scoped("theme", "undeclared")}, Reason.UNDECLARED_KEY),
            ({"retires": scoped("theme", "vow")}, Reason.AUTHORITY_TOO_LOW),
            ({"retires": scoped("theme"), "expected_sequence": 99}, Reason.EXPECTED_SEQUENCE),
            ({"retires": scoped("theme"), "key": "size", "value": "medium"}, Reason.VALUE_SCHEMA),
        ],
    )
    def test_a_set_that_is_refused_retires_nothing(self, log: Log, more: dict[str, Any], reason: Reason) -> None:
        log.set(ADA, "theme", "dark")
        log.set(ADA, "vow", "kept", authority="confirmed", role="person")
        before = project(log)
        key, value = more.pop("key", "tone"), more.pop("value", "brief")
        refused = log.set(ADA, key, value, **more)
        after = project(log)
        assert after.verdict(refused) == reason
        assert after.record(refused).retired is None
        for untouched in (key, "theme", "vow"):
            assert after.entry(ADA, untouched) == before.entry(ADA, untouched)

    def test_the_refusal_names_the_key_whose_authority_is_higher(self, log: Log) -> None:
        refused = log.set(ADA, "tone", "brief", retires=scoped("theme", "vow"))
        assert (project(log).record(refused).detail or "").startswith("'vow' takes authority 'confirmed'")
        guess = log.candidate(ADA, "guess", 1, source=log.say(ADA, TEXT), retires=scoped("tone"))
        assert (project(log).record(guess).detail or "").startswith("'tone' takes authority 'stated'")

    def test_of_a_late_set_the_deletes_apply_at_its_mark(self, log: Log) -> None:
        log.set(ADA, "theme", "old")
        turn = log.say(ADA, TEXT)
        log.set(ADA, "tone", "new")
        answered = log.set(ADA, "answer_detail", "new")
        late = log.candidate(
            ADA, "tone", "x", source=turn, quote="Mornings", retires=scoped("theme", "answer_detail", "size")
        )
        stores = project(log)
        record = stores.record(late)
        assert (record.verdict, record.retired) == (Effect.LATE, (Effect.DELETED, Effect.LATE, Effect.DELETED))
        assert stores.value(ADA, "tone") == "new"
        assert stores.value(ADA, "theme") is UNSET
        entry = stores.entry(ADA, "answer_detail")
        assert entry is not None
        assert entry.record.sequence == answered.sequence

    def test_a_retired_key_is_conditional_on_the_sequence_of_what_retired_it(self, log: Log) -> None:
        log.set(ADA, "theme", "dark")
        moved = log.set(ADA, "tone", "brief", retires=scoped("theme"))
        assert verdict(log, log.set(ADA, "theme", 1, expected_sequence=moved.sequence)) == Effect.ADDED

    def test_a_copy_retires_nothing_again(self, log: Log) -> None:
        moved = log.set(ADA, "tone", "brief", retires=scoped("theme"))
        log.set(ADA, "theme", "dark")
        copy = log.copy(moved)
        assert project(log).record(copy).retired is None
        assert project(log).value(ADA, "theme") == "dark"

    @pytest.mark.parametrize(
        "retires",
        [
            scoped("tone"),
            scoped("theme", "guess", "theme"),
            scoped(*(f"k{number}" for number in range(limits.MAX_RETIRES + 1))),
            [{"scope": "nowhere", "key": "theme"}],
            [{"key": "theme"}],
            ["theme"],
        ],
    )
    def test_its_own_key_a_key_twice_and_too_many_are_malformed(self, log: Log, retires: list[Any]) -> None:
        data: dict[str, Any] = {"owner": ADA, "scope": "global", "event_id": event_id(70), "v": 1, "operation": "set"}
        data |= {"actor": {"service": "app"}, "key": "tone", "body": {"value": 1}, "retires": retires}
        log.append(b"k", json.dumps(data).encode())
        (record,) = project(log).records(ADA)
        assert record.reason == Reason.MALFORMED


def test_the_first_check_that_fails_gives_the_reason() -> None:
    """One event that is wrong in everything, mended step by step, each time under a new id."""
    log = Log()
    turn = log.say(ADA, TEXT)
    guess = log.candidate(ADA, "guess", 1, source=turn)
    used = log.set(ADA, "theme", "dark")
    wrong: dict[str, Any] = {
        "event_id": used.event_id,
        "key": "mood",
        "actor": {"service": "x", "role": "service"},
        "authority": "inferred",
        "source_event_id": guess.event_id,
        "span": [0, 4],
        "body": {"value": "medium", "quote": "nope"},
    }
    steps: tuple[dict[str, Any], ...] = (
        {},
        {"event_id": None},
        {"key": "size"},
        {"body": {"value": "small", "quote": "nope"}},
        {"actor": {"service": "x", "role": "extractor"}},
        {"source_event_id": turn.event_id},
        {"body": {"value": "small", "quote": TEXT[:4]}},
        {"authority": "stated"},
    )
    found = []
    for number, mended in enumerate(steps):
        wrong |= mended
        found.append(verdict(log, log.raw(**wrong | {"event_id": wrong["event_id"] or event_id(1000 + number)})))
    assert found == [
        Reason.EVENT_ID_REUSED,
        Reason.UNDECLARED_KEY,
        Reason.VALUE_SCHEMA,
        Reason.ACTOR_NOT_ALLOWED,
        Reason.SOURCE_IS_CANDIDATE,
        Reason.QUOTE_NOT_AT_SPAN,
        Reason.AUTHORITY_TOO_LOW,
        Effect.ADDED,
    ]


def test_what_is_refused_changes_no_entry() -> None:
    log = Log()
    log.set(ADA, "size", "small")
    before = project(log)
    for number in (4, 5, 6):
        log.set(ADA, "size", number)
    log.delete(ADA, "size", authority="inferred")
    after: Stores = project(log)
    assert after.entry(ADA, "size") == before.entry(ADA, "size")
    assert [record.counts for record in after.records(ADA)] == [True, False, False, False, False]


def test_every_effect_and_reason_is_tested_here_or_beside() -> None:
    text = "".join(
        Path(__file__).with_name(name).read_text("utf-8") for name in ("test_verdict.py", "test_decisions.py")
    )
    named = {f"{type(item).__name__}.{item.name}" for item in (*Effect, *Reason)}
    assert {name for name in named if name not in text} == set()
