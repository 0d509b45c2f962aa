"""What is withdrawn no longer counts, what is resolved stands alone; and both can be taken back."""

from typing import Any

import pytest

from lastword_projector.engine.decisions import standing_of
from lastword_query_api.answering import from_history
from lastword_query_api.versions import versions
from lastword_schemas.answers import Version
from lastword_schemas.positions import Receipt
from lastword_schemas.verdicts import Effect, Reason
from tests.support.logs import ADA, BEN, UNSET, Log, Stores, project, registry_of

PERSON: dict[str, Any] = {"role": "person", "authority": "confirmed"}
BRANCH = {"policy": "branch"}


@pytest.fixture
def log() -> Log:
    return Log(
        registry=registry_of(tone={}, size={}, employer=BRANCH, city=BRANCH, guess={"min_authority": "inferred"})
    )


def read(stores: Stores, key: str) -> Any:
    """The value; UNSET for a tombstone, None where nothing counts."""
    entry = stores.entry(ADA, key)
    return None if entry is None or entry.is_void else stores.value(ADA, key)


def verdict(log: Log, receipt: Receipt) -> str:
    """The verdict on it once the log is folded as far as it is now."""
    return project(log).verdict(receipt)


def values(stores: Stores, key: str) -> list[str]:
    """What stands, as JSON."""
    entry = stores.entry(ADA, key)
    assert entry is not None
    assert entry.state is not None
    return [(each.record.value or b"").decode() for each in entry.state.branches]


def told(log: Log, key: str) -> list[tuple[Any, str, int | None]]:
    """Value, status and what ended it (its sequence) of each version."""
    stores = project(log)
    records = stores.records(ADA)
    parts = [part for record in records if (part := record.part_of("global", key)) is not None]
    found: list[Version] = versions(
        ("global", key), parts, stores.policies(ADA)("global", key), 2**60, standing_of(records)
    )
    return [(one.value, one.status, None if one.ended is None else one.ended.sequence) for one in found]


class TestWithdrawing:
    def test_what_was_before_applies_again(self, log: Log) -> None:
        log.set(ADA, "tone", "brief")
        wrong = log.set(ADA, "tone", "rude")
        decision = log.withdraw(ADA, wrong, text="a slip")
        stores = project(log)
        assert stores.verdict(decision) == Effect.WITHDREW
        assert read(stores, "tone") == "brief"
        entry = stores.entry(ADA, "tone")
        assert entry is not None
        assert entry.record.sequence == entry.record.source_sequence

    def test_where_nothing_else_counts_there_is_nothing(self, log: Log) -> None:
        decision = log.withdraw(ADA, log.set(ADA, "tone", "rude"))
        stores = project(log)
        assert read(stores, "tone") is None
        assert stores.record(decision).decision is not None
        assert told(log, "tone") == [("rude", "withdrawn", decision.sequence)]
        assert from_history(stores.records(ADA), stores.policies(ADA), as_of=None, known_at=2**50) == {}

    def test_what_is_said_after_that_is_added(self, log: Log) -> None:
        log.withdraw(ADA, log.set(ADA, "tone", "rude"))
        later = log.set(ADA, "tone", "brief", expected_sequence=0)
        stores = project(log)
        assert stores.verdict(later) == Effect.ADDED
        assert read(stores, "tone") == "brief"

    def test_a_deletion_that_was_wrong_brings_the_value_back(self, log: Log) -> None:
        log.set(ADA, "tone", "brief")
        log.withdraw(ADA, log.delete(ADA, "tone"))
        assert read(project(log), "tone") == "brief"

    def test_with_a_turn_goes_all_that_reads_it_also_what_comes_later(self, log: Log) -> None:
        joke = log.say(ADA, "call me Zeus")
        log.candidate(ADA, "guess", "Zeus", source=joke)
        log.withdraw(ADA, joke)
        late = log.candidate(ADA, "size", "divine", source=joke, quote="Zeus", start=8)
        stores = project(log)
        assert read(stores, "guess") is None
        assert read(stores, "size") is None
        assert stores.verdict(late) == Effect.LATE
        assert stores.record(late).related == (log.next_offset - 2, joke.sequence)

    def test_a_withdrawal_that_is_withdrawn_restores_everything(self, log: Log) -> None:
        turn = log.say(ADA, "call me Zeus")
        log.candidate(ADA, "guess", "Zeus", source=turn)
        decision = log.withdraw(ADA, turn)
        late = log.candidate(ADA, "size", "divine", source=turn, quote="Zeus", start=8)
        undone = log.withdraw(ADA, decision)
        stores = project(log)
        assert read(stores, "guess") == "Zeus"
        assert read(stores, "size") == "divine"
        assert stores.verdict(late) == Effect.LATE
        log.withdraw(ADA, undone)
        stores = project(log)
        assert read(stores, "guess") is None
        assert read(stores, "size") is None

    def test_with_a_set_go_the_deletes_that_it_brought(self, log: Log) -> None:
        log.set(ADA, "size", 1)
        move = log.set(ADA, "tone", "brief", retires=[{"scope": "global", "key": "size"}])
        assert read(project(log), "size") is UNSET
        log.withdraw(ADA, move)
        stores = project(log)
        assert read(stores, "size") == 1
        assert read(stores, "tone") is None

    def test_a_set_can_withdraw_what_it_corrects(self, log: Log) -> None:
        log.set(ADA, "tone", "formal")
        wrong = log.set(ADA, "tone", "rude")
        right = log.set(ADA, "tone", "brief", withdraws=[wrong.event_id])
        stores = project(log)
        assert read(stores, "tone") == "brief"
        assert told(log, "tone") == [
            ("formal", "superseded", right.sequence),
            ("rude", "withdrawn", right.sequence),
            ("brief", "current", None),
        ]

    def test_what_was_known_before_is_answered_as_it_was(self, log: Log) -> None:
        log.set(ADA, "tone", "brief")
        wrong = log.set(ADA, "tone", "rude")
        decision = log.withdraw(ADA, wrong)
        stores = project(log)

        def value(known_at: int, as_of: int | None = None) -> object:
            found = from_history(stores.records(ADA), stores.policies(ADA), as_of=as_of, known_at=known_at)
            return found["global", "tone"].entry.record.value

        assert value(decision.sequence - 1) == b'"rude"'
        assert value(decision.sequence) == b'"brief"'
        assert value(decision.sequence, as_of=wrong.sequence) == b'"brief"'

    def test_the_changes_of_other_keys_are_told_with_it(self, log: Log) -> None:
        wrong = [log.set(ADA, key, "x") for key in ("tone", "size")]
        decision = log.withdraw(ADA, *wrong)
        changed = project(log).record(decision).decision
        assert changed is not None
        assert set(changed.changed) == {("global", "tone", "absent"), ("global", "size", "absent")}


class TestWhoMayWithdraw:
    def test_only_an_earlier_event_of_the_owner(self, log: Log) -> None:
        of_ben = log.set(BEN, "tone", "brief")
        assert verdict(log, log.withdraw(ADA, of_ben)) == Reason.NAMED_MISSING

    def test_nothing_that_was_refused(self, log: Log) -> None:
        refused = log.set(ADA, "nobody-declared", 1)
        assert verdict(log, log.withdraw(ADA, refused)) == Reason.NAMED_REFUSED

    def test_nobody_of_less_authority(self, log: Log) -> None:
        sure = log.set(ADA, "tone", "brief", **PERSON)
        assert verdict(log, log.withdraw(ADA, sure)) == Reason.AUTHORITY_BELOW_NAMED
        assert verdict(log, log.withdraw(ADA, sure, **PERSON)) == Effect.WITHDREW
        assert read(project(log), "tone") is None

    def test_a_candidate_withdraws_candidates_alone(self, log: Log) -> None:
        turn = log.say(ADA, "brief, no, long")
        first = log.candidate(ADA, "tone", "brief", source=turn, quote="brief")
        again = log.candidate(
            ADA, "tone", "long", source=turn, quote="long", start=11, withdraws=[first.event_id], event_id="again"
        )
        stores = project(log)
        assert stores.verdict(again) == Effect.ADDED
        assert read(stores, "tone") == "long"
        said = log.set(ADA, "size", 3)
        bold = log.candidate(ADA, "guess", 1, source=turn, withdraws=[said.event_id], quote="brief")
        assert project(log).verdict(bold) == Reason.NAMED_NOT_ALLOWED


class TestResolving:
    def employed(self, log: Log) -> tuple[Receipt, Receipt]:
        said = [log.say(ADA, text, thread=text) for text in ("I am at Acme", "I am at Globex")]
        acme = log.candidate(ADA, "employer", "Acme", source=said[0])
        return acme, log.candidate(ADA, "employer", "Globex", source=said[1])

    def test_the_chosen_one_stands_alone_with_the_authority_of_who_chose(self, log: Log) -> None:
        acme, globex = self.employed(log)
        decision = log.resolve(ADA, "employer", globex, acme, **PERSON)
        stores = project(log)
        assert stores.verdict(decision) == Effect.RESOLVED
        assert read(stores, "employer") == "Globex"
        entry = stores.entry(ADA, "employer")
        assert entry is not None
        assert not entry.unresolved
        assert entry.record.authority == 3
        assert entry.state is not None
        assert [each.branch.record.value for each in entry.state.ended] == [b'"Acme"']

    def test_acme_ended_when_globex_began_whoever_settled_that_and_when(self, log: Log) -> None:
        acme, globex = self.employed(log)
        globex_began = project(log).record(globex).source_sequence
        log.resolve(ADA, "employer", globex, acme, **PERSON)
        assert told(log, "employer") == [("Acme", "ended", globex_began), ("Globex", "current", None)]

    def test_a_confirmed_set_answers_the_same(self, log: Log) -> None:
        _, globex = self.employed(log)
        globex_began = project(log).record(globex).source_sequence
        log.set(ADA, "employer", "Globex", **PERSON)
        assert told(log, "employer") == [("Acme", "superseded", globex_began), ("Globex", "current", None)]

    def test_what_is_read_late_of_the_ended_value_ended_too_and_what_is_said_later_does_not(self, log: Log) -> None:
        early = log.say(ADA, "Acme is nice", thread="t9")
        acme, globex = self.employed(log)
        log.resolve(ADA, "employer", globex, acme)
        late = log.candidate(ADA, "employer", "Acme", source=early)
        stores = project(log)
        assert stores.verdict(late) == Effect.LATE
        assert values(stores, "employer") == ['"Globex"']
        back = log.say(ADA, "back at Acme", thread="t10")
        assert verdict(log, log.candidate(ADA, "employer", "Acme", source=back)) == Effect.BRANCHED
        assert values(project(log), "employer") == ['"Globex"', '"Acme"']

    def test_of_two_opposite_ones_the_later_counts_and_without_it_the_earlier(self, log: Log) -> None:
        acme, globex = self.employed(log)
        log.resolve(ADA, "employer", globex, acme)
        second = log.resolve(ADA, "employer", acme, globex)
        assert values(project(log), "employer") == ['"Acme"']
        log.withdraw(ADA, second)
        assert values(project(log), "employer") == ['"Globex"']

    def test_where_the_chosen_one_is_withdrawn_the_others_stand_again(self, log: Log) -> None:
        acme, globex = self.employed(log)
        log.resolve(ADA, "employer", globex, acme)
        log.withdraw(ADA, globex)
        stores = project(log)
        assert values(stores, "employer") == ['"Acme"']
        assert told(log, "employer")[0] == ("Acme", "current", None)

    def test_a_person_s_choice_is_not_undone_by_a_service(self, log: Log) -> None:
        acme, globex = self.employed(log)
        log.resolve(ADA, "employer", globex, acme, **PERSON)
        assert verdict(log, log.resolve(ADA, "employer", acme, globex)) == Reason.AUTHORITY_BELOW_NAMED
        assert verdict(log, log.withdraw(ADA, globex)) == Reason.AUTHORITY_BELOW_NAMED

    def test_it_acts_once_the_chosen_one_is_in_range(self, log: Log) -> None:
        acme, globex = self.employed(log)
        log.resolve(ADA, "employer", globex, acme)
        stores = project(log)
        record = stores.record(globex)
        for as_of, expected in ((record.source_sequence - 1, b'"Acme"'), (record.source_sequence, b'"Globex"')):
            found = from_history(stores.records(ADA), stores.policies(ADA), as_of=as_of, known_at=2**50)
            assert found["global", "employer"].entry.record.value == expected

    def test_only_sets_of_a_branching_key_are_chosen_among(self, log: Log) -> None:
        acme, _ = self.employed(log)
        city = log.set(ADA, "city", "Rome")
        assert verdict(log, log.resolve(ADA, "employer", acme, city)) == Reason.NAMED_NOT_ALLOWED
        tones = [log.set(ADA, "tone", value) for value in ("brief", "long")]
        assert verdict(log, log.resolve(ADA, "tone", *tones)) == Reason.NAMED_NOT_ALLOWED
