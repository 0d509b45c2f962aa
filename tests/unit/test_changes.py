"""What is a change, what it is called, and what it says."""

import uuid

import pytest

from lastword_projector.engine.changes import Changed, changes_of, key_of, pack_changes, told, unpack_changes
from lastword_schemas.changes import CHANGE_NAMESPACE, Change, change_id
from lastword_schemas.identity import record_key
from lastword_schemas.positions import PositionToken, Receipt, owner_digest
from tests.support.logs import ADA, BEN, Log, Stores, event_id, project


def changes(stores: Stores, said: Receipt, owner: str = ADA) -> list[tuple[str, str, str]]:
    """Scope, key and effect of each change that an event made."""
    return [(one.scope, one.key, one.effect) for one in changes_of(owner, stores.record(said, owner))]


def documents(log: Log, said: Receipt) -> list[Change]:
    record = project(log).record(said)
    return [Change.model_validate_json(told(log.genesis.log_id, one)) for one in changes_of(ADA, record)]


def test_a_first_value_another_one_a_delete_and_a_value_after_it_are_changes() -> None:
    log = Log()
    said = [
        log.set(ADA, "tone", "brief"),
        log.set(ADA, "tone", "warm"),
        log.delete(ADA, "tone"),
        log.set(ADA, "tone", "warm"),
    ]
    stores = project(log)
    effects = ["added", "updated", "deleted", "added"]
    assert [changes(stores, one) for one in said] == [[("global", "tone", effect)] for effect in effects]


def test_a_delete_of_what_is_not_there_is_a_change_for_the_answer_is_no_longer_absent() -> None:
    log = Log()
    said = log.delete(ADA, "tone")
    assert changes(project(log), said) == [("global", "tone", "deleted")]


def test_what_leaves_the_answer_as_it_was_is_none() -> None:
    log = Log()
    turn = log.say(ADA, "I like it brief.")
    first = log.set(ADA, "tone", "brief")
    unchanging = [
        turn,
        log.set(ADA, "tone", "brief"),
        log.candidate(ADA, "tone", "long", source=turn, quote="brief", start=10),
        log.set(ADA, "size", "huge"),
        log.set(ADA, "tone", "warm", expected_sequence=first.sequence + 99),
        log.copy(first),
    ]
    stores = project(log)
    assert [stores.record(said).verdict for said in unchanging] == [
        "recorded", "restated", "late", "refused", "refused", "duplicate",
    ]  # fmt: skip
    assert [changes(stores, said) for said in unchanging] == [[]] * 6


def test_a_decision_tells_of_every_entry_that_it_made_another_one_and_how_that_reads_since() -> None:
    log = Log()
    log.set(ADA, "tone", "brief")
    wrong = [log.set(ADA, "tone", "rude"), log.set(ADA, "theme", "pink")]
    withdrawal = log.withdraw(ADA, *wrong)
    correction = log.set(ADA, "tone", "warm", withdraws=[withdrawal.event_id])

    told_of = [(one.key, one.effect, one.status, one.part, one.parts) for one in documents(log, withdrawal)]
    assert told_of == [("tone", "withdrew", "set", 1, 2), ("theme", "withdrew", "absent", 2, 2)]
    assert [(one.key, one.effect, one.status) for one in documents(log, correction)] == [
        ("tone", "updated", "set"),
        ("theme", "withdrew", "set"),
    ]


def test_two_values_with_the_very_same_mark_leave_the_entry_unresolved_until_another_one() -> None:
    log = Log()
    turn = log.say(ADA, "Brief or warm.")
    log.candidate(ADA, "guess", "brief", source=turn)
    conflict = log.candidate(ADA, "guess", "warm", source=turn)
    settled = log.set(ADA, "guess", "warm")
    assert [(one.effect, one.status) for one in documents(log, conflict)] == [("conflict", "unresolved")]
    assert [(one.effect, one.status) for one in documents(log, settled)] == [("updated", "set")]


def test_each_retired_key_is_a_change_but_those_that_the_delete_is_late_for() -> None:
    log = Log()
    turn = log.say(ADA, "I like it brief.")
    log.set(ADA, "theme", "dark", scope="project:Comet")
    said = log.candidate(
        ADA, "tone", "brief", source=turn, quote="brief", start=10,
        retires=[{"scope": "project:Comet", "key": "theme"}, {"scope": "global", "key": "theme"}],
    )  # fmt: skip
    told = [(one.scope, one.key, one.effect.value, one.status, one.part, one.parts) for one in documents(log, said)]
    assert told == [("global", "tone", "added", "set", 1, 2), ("global", "theme", "deleted", "deleted", 2, 2)]


def test_a_document_says_where_and_never_what() -> None:
    log = Log()
    turn = log.say(ADA, "I like it brief.")
    said = log.candidate(ADA, "tone", "brief", source=turn, quote="brief", start=10)
    (change,) = documents(log, said)
    (changed,) = changes_of(ADA, project(log).record(said))
    assert b"brief" not in told(log.genesis.log_id, changed)
    assert change.position_token == str(PositionToken(log.genesis.log_id, owner_digest(ADA), said.sequence))
    assert (change.event_id, change.sequence, change.source_sequence) == (said.event_id, said.sequence, turn.sequence)


def test_an_id_is_of_the_log_the_place_and_the_entry() -> None:
    entry = record_key(ADA, "global", "tone")
    expected = uuid.uuid5(CHANGE_NAMESPACE, f"0123456789abcdef/7/{entry}")
    assert change_id("0123456789abcdef", 7, entry) == str(expected)
    others = {
        change_id("0123456789abcdef", 8, entry),
        change_id("0123456789abcdee", 7, entry),
        change_id("0123456789abcdef", 7, record_key(BEN, "global", "tone")),
        change_id("0123456789abcdef", 7, record_key(ADA, "project:Comet", "tone")),
    }
    assert len(others | {str(expected)}) == 5


def test_every_id_is_what_the_library_makes_of_the_same_name() -> None:
    for number in range(200):
        assert change_id("log", number, "a/b/c") == str(uuid.uuid5(CHANGE_NAMESPACE, f"log/{number}/a/b/c"))


@pytest.mark.parametrize("owner", [ADA, "acme/org:a b/c", "main/user:Zoë"])
def test_a_record_key_is_that_of_the_history_topic(owner: str) -> None:
    assert key_of(owner, "project:Comet", "mail.tone") == record_key(owner, "project:Comet", "mail.tone")


def test_the_outbox_gives_back_what_was_put_in() -> None:
    kept = [Changed(ADA, "global", "tone", "added", 2**52, 7, uuid.UUID(event_id(3)).bytes, 1_796_000_000_000, 2, 3)]
    assert unpack_changes(pack_changes(kept)) == kept
