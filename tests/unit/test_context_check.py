"""What has become of a context, case by case, on a lastword in memory."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from lastword import InvalidInput, Memory, NotProjectedYet, Unavailable, UnknownContext
from lastword.testing import InMemoryLastword
from lastword_schemas import limits
from lastword_schemas.contexts import ContextAnswer, ContextCheck

KEYS: dict[str, Any] = {
    "flight": {"description": "When the person likes to fly.", "min_authority": "inferred"},
    "seat": {"description": "Where the person likes to sit on a flight.", "group": "travel"},
    "tone": {},
    "falls": {"falls_through": True},
    "employer": {"policy": "branch"},
}
PROJECT = "project:Comet"


@pytest.fixture
def memory() -> Iterator[InMemoryLastword]:
    with InMemoryLastword(KEYS) as memory:
        yield memory


@pytest.fixture
def ada(memory: InMemoryLastword) -> Iterator[Memory]:
    with memory.client(service="chat") as client:
        yield client.user("ada")


def told(check: ContextCheck) -> list[tuple[str, str, int | None, int | None]]:
    return [(item.key, item.status, item.supplied_sequence, item.current_sequence) for item in check.items]


def changes(check: ContextCheck) -> dict[str, list[str]]:
    delta = check.delta
    return {
        name: [change.key for change in found]
        for name, found in {"replace": delta.replace, "remove": delta.remove, "add": delta.add}.items()
        if found
    }


def test_an_unchanged_context_is_not_stale(ada: Memory) -> None:
    sequence = ada.set("flight", "morning").sequence
    context = ada.context("flight")

    check = ada.check(context)

    assert (check.stale, told(check)) == (False, [("flight", "fresh", sequence, sequence)])
    assert (check.newer, changes(check), check.delta.prompt, check.id) == ([], {}, "", context.id)


def test_a_context_that_was_replaced_says_by_what_and_stays_as_it_was(ada: Memory) -> None:
    first = ada.set("flight", "morning")
    context = ada.context("flight")
    assert context.id is not None
    second = ada.set("flight", "evening")

    check = ada.check(context.id)

    assert (check.stale, told(check)) == (True, [("flight", "superseded", first.sequence, second.sequence)])
    (item,), (change,) = check.items, check.delta.replace
    assert item.by is not None
    assert (item.by.event_id, item.by.source_sequence, item.by.scope) == (second.event_id, second.sequence, "global")
    assert change.now is not None
    assert (change.item, change.now.value, change.now.source_sequence) == (0, "evening", second.sequence)
    assert change.line is not None
    assert change.line in ada.context("flight").prompt
    assert '"evening"' in check.delta.prompt
    assert ada.stored_context(context.id) == context


def test_a_restatement_is_fresh(ada: Memory) -> None:
    first = ada.set("flight", "morning")
    context, unstored = ada.context("flight"), ada.context("flight", store=False)
    again = ada.set("flight", "morning")

    for checked in (ada.check(context), ada.check(unstored)):
        assert (checked.stale, told(checked)) == (False, [("flight", "fresh", first.sequence, again.sequence)])
        assert (checked.items[0].restated, changes(checked)) == (True, {})


def test_a_value_that_came_back_is_fresh_where_the_value_is_known(ada: Memory) -> None:
    ada.set("flight", "morning")
    context, unstored = ada.context("flight"), ada.context("flight", store=False)
    for value in ("evening", "morning"):
        ada.set("flight", value)

    assert ada.check(context).items[0].status == "fresh"
    assert ada.check(unstored).items[0].status == "superseded"


def test_two_readings_of_the_same_words_are_told_apart(ada: Memory) -> None:
    turn = ada.say(thread="t1", text="At eight, no, at nine.")
    ada.suggest("flight", 8, source=turn, quote="eight", at=3)
    context, unstored = ada.context("flight"), ada.context("flight", store=False)
    ada.suggest("flight", 9, source=turn, quote="nine", at=17)

    for checked in (ada.check(context), ada.check(unstored)):
        assert told(checked) == [("flight", "superseded", turn.sequence, turn.sequence)]


def test_a_late_reading_changes_nothing(ada: Memory) -> None:
    turn = ada.say(thread="t1", text="I like mornings.")
    ada.set("flight", "evening")
    context = ada.context("flight")
    ada.suggest("flight", "morning", source=turn, quote="mornings", at=7)

    assert not ada.check(context).stale


def test_deleted_and_expired_are_removed(memory: InMemoryLastword, ada: Memory) -> None:
    ada.set("flight", "morning")
    ada.set("seat", "window", expires_at=memory.clock.now() + timedelta(hours=1))
    context = ada.context("flight")
    deleted = ada.delete("flight")
    memory.clock.advance(timedelta(hours=2))

    check = ada.check(context)

    assert {item.key: item.status for item in check.items} == {"flight": "deleted", "seat": "expired"}
    assert {item.key: item.by and item.by.event_id for item in check.items} == {
        "flight": deleted.event_id,
        "seat": None,
    }
    assert (check.stale, changes(check)) == (True, {"remove": [item.key for item in check.items]})
    assert "morning" not in check.delta.prompt
    assert ada.context("flight").items == []


def test_a_project_that_says_its_own_shadows_what_is_global(ada: Memory) -> None:
    ada.set("flight", "morning")
    in_project = ada.scope(PROJECT)
    contexts = in_project.context("flight"), in_project.context("flight", store=False)
    receipt = in_project.set("flight", "night")

    for context in contexts:
        check = in_project.check(context)
        assert [item.status for item in check.items] == ["shadowed"]
        assert check.items[0].by is not None
        assert (check.items[0].by.scope, check.items[0].current_sequence) == (PROJECT, receipt.sequence)
        assert check.delta.replace[0].now is not None
        assert (check.delta.replace[0].scope, check.delta.replace[0].now.scope) == ("global", PROJECT)
        assert '"instead_of_scope":"global"' in check.delta.prompt
    in_project.delete("flight")
    assert [item.status for item in in_project.check(contexts[0]).items] == ["deleted"]
    assert changes(in_project.check(contexts[0])) == {"remove": ["flight"]}
    assert not ada.check(ada.context("flight")).stale


def test_where_a_deleted_value_falls_through_the_next_scope_takes_its_place(ada: Memory) -> None:
    in_project = ada.scope(PROJECT)
    ada.set("falls", "of all")
    in_project.set("falls", "of the project")
    context = in_project.context(keys=["falls"], limit=0)
    in_project.delete("falls")

    check = in_project.check(context)

    assert [item.status for item in check.items] == ["deleted"]
    assert check.delta.replace[0].now is not None
    assert check.delta.replace[0].now.value == "of all"


def test_a_conflict_that_came_or_went_is_told(ada: Memory) -> None:
    first = ada.set("employer", "Acme")
    before = ada.context("employer")
    ada.set("employer", "Globex")
    during = ada.context("employer")

    check = ada.check(before)

    assert told(check) == [("employer", "unresolved", first.sequence, first.sequence)]
    assert '"unresolved":true' in check.delta.prompt
    assert not ada.check(during).stale
    assert ada.context("employer", unresolved=False).left_out_by_reason == {"unresolved": 1}
    ada.set("employer", "Acme", authority="confirmed", role="person")
    assert [item.status for item in ada.check(during).items] == ["resolved"]
    assert ada.check(during).stale


def test_what_came_since_and_would_be_chosen_is_newer(ada: Memory) -> None:
    ada.set("flight", "morning")
    context, unstored = ada.context("Find a flight"), ada.context("Find a flight", store=False)
    ada.set("tone", "brief")
    assert not ada.check(context).stale
    ada.scope(PROJECT).set("seat", "aisle")
    assert not ada.check(context).stale
    ada.set("seat", "window")

    for checked in (ada.check(context), ada.check(unstored)):
        assert (checked.stale, changes(checked)) == (True, {"add": ["seat"]})
        assert [(item.key, item.value) for item in checked.newer] == [("seat", "window")]
    assert ada.check(ada.context("Find a flight", limit=1)).newer == []


def test_what_came_since_and_would_not_be_chosen_is_not_newer(ada: Memory) -> None:
    ada.set("flight", "flight in the morning")
    first_of_one = ada.context("Find a flight", limit=1)
    ada.set("seat", "window")
    assert [item.key for item in ada.context("Find a flight").items] == ["flight", "seat"]

    assert not ada.check(first_of_one).stale


def test_what_was_left_out_is_not_newer(ada: Memory) -> None:
    ada.set("flight", "x" * 2_000)
    ada.set("seat", "window")
    context = ada.context("Find a flight", budget=300)
    assert context.left_out_by_reason == {"budget": 1}
    ada.set("tone", "a flight of fancy")

    assert [item.key for item in ada.check(context).newer] == ["tone"]


def test_without_a_task_what_was_said_last_is_newer_up_to_the_limit(ada: Memory) -> None:
    ada.set("flight", "morning")
    context, named = ada.context(limit=1), ada.context(keys=["tone"], limit=0)
    ada.set("tone", "brief")

    assert [item.key for item in ada.check(context).newer] == ["tone"]
    assert [item.key for item in ada.check(named).newer] == ["tone"]
    assert [item.key for item in ada.context(limit=1).items] == ["tone"]


def test_what_was_said_in_the_turn_is_laid_over_until_the_projection_has_it(
    memory: InMemoryLastword, ada: Memory
) -> None:
    ada.set("flight", "morning")
    reader = memory.client(service="reader")
    with memory.hold_projection():
        receipt = ada.set("flight", "evening")
        said = {"key": "flight", "value": "evening", "receipt": receipt}
        context = reader.user("ada").context("flight", overlay=[said])
        assert [(item.value, item.origin, item.source_sequence) for item in context.items] == [
            ("evening", "overlay", receipt.sequence)
        ]
        assert context.left_out_by_reason == {"overlaid": 1}
        check = reader.user("ada").check(context)
        assert (check.stale, [item.status for item in check.items]) == (False, ["pending"])
    check = ada.check(context)
    assert (check.stale, [item.status for item in check.items]) == (False, ["fresh"])
    later = ada.context("flight", overlay=[said | {"value": "what the projection knows better"}])
    assert [(item.value, item.origin) for item in later.items] == [("evening", "profile")]
    assert later.left_out_by_reason == {"projected": 1}
    ada.set("flight", "night")
    assert [item.status for item in ada.check(context).items] == ["superseded"]


def test_an_overlay_that_was_refused_or_contradicts_is_not_pending(memory: InMemoryLastword, ada: Memory) -> None:
    ada.set("employer", "Acme")
    ada.set("flight", "morning")
    reader = memory.client(service="reader").user("ada")
    with memory.hold_projection():
        second = ada.set("employer", "Globex")
        refused = ada.set("flight", "evening", expected_sequence=77)
        said: list[dict[str, Any]] = [
            {"key": "employer", "value": "Globex", "receipt": second},
            {"key": "flight", "value": "evening", "receipt": refused},
            {"key": "tone", "value": "warm"},
        ]
        context = reader.context("nothing", overlay=said)
        assert [item.status for item in reader.check(context).items] == ["pending"] * 3

    assert [item.status for item in reader.check(context, at_least=refused).items] == [
        "unresolved",
        "superseded",
        "pending",
    ]


def test_a_value_that_is_no_longer_the_first_of_those_that_contradict_is_unresolved(ada: Memory) -> None:
    early = ada.say(thread="t1", text="Acme it is.")
    ada.set("employer", "Globex")
    context = ada.context("employer")
    ada.suggest("employer", "Acme", source=early, quote="Acme", at=0)

    assert [item.status for item in ada.check(context).items] == ["unresolved"]
    assert [change.now and change.now.value for change in ada.check(context).delta.replace] == ["Acme"]


def test_an_overlay_stands_behind_a_nearer_scope(ada: Memory) -> None:
    in_project = ada.scope(PROJECT)
    in_project.set("flight", "night")

    context = in_project.context("flight", overlay=[{"key": "flight", "scope": "global", "value": "morning"}])

    assert [item.value for item in context.items] == ["night"]
    assert context.left_out_by_reason == {"shadowed": 1}


def test_what_is_left_out_is_told_with_its_reason(ada: Memory) -> None:
    ada.set("flight", "x" * 2_000)
    ada.set("seat", "flight: window")
    ada.set("tone", "brief")

    context = ada.context("flight", budget=300, limit=5)
    assert [item.key for item in context.items] == ["seat"]
    assert context.left_out_by_reason == {"budget": 1, "no-match": 1}
    assert [(left.key, left.reason) for left in context.left_out] == [("flight", "budget"), ("tone", "no-match")]
    assert (context.considered, context.tokens <= 300) == (3, True)
    assert ada.context("flight", limit=1).left_out_by_reason == {"rank": 1, "no-match": 1}
    assert ada.context("flight", groups=["travel"]).left_out_by_reason == {"group": 2}
    assert ada.context("flight", min_authority="confirmed").left_out_by_reason == {"authority": 3}
    assert [item.key for item in ada.context("flight", keys=["tone", "none"], limit=0).items] == ["tone"]


def test_authority_comes_first_where_there_is_no_task(ada: Memory) -> None:
    ada.set("seat", "window", authority="confirmed", role="person")
    turn = ada.say(thread="t1", text="Mornings.")
    ada.set("tone", "brief")
    ada.suggest("flight", "morning", source=turn)

    context = ada.context()

    assert ([item.key for item in context.items], context.ranker) == (["seat", "tone", "flight"], "authority-newest")
    assert [item.key for item in ada.context(" ?! ").items] == ["seat", "tone", "flight"]


def test_a_context_of_the_past_is_checked_against_now(ada: Memory) -> None:
    first = ada.set("flight", "morning")
    second = ada.set("flight", "evening")

    context = ada.context("flight", as_of=first.sequence)

    assert [(item.value, item.origin) for item in context.items] == [("morning", "history")]
    assert told(ada.check(context)) == [("flight", "superseded", first.sequence, second.sequence)]


def test_no_check_is_older_than_its_context(memory: InMemoryLastword, ada: Memory) -> None:
    ada.set("flight", "morning")
    other = memory.client(service="other").user("ada")
    context = ada.context("flight")
    with memory.hold_projection():
        position = ada.set("flight", "evening")
        assert not other.check(context).stale
        with pytest.raises(NotProjectedYet):
            other.check(context, at_least=position)
    assert other.check(context, at_least=position).stale


def test_what_cannot_be_kept_or_found_is_told(memory: InMemoryLastword, ada: Memory) -> None:
    ada.set("flight", "morning")
    context = ada.context("flight")
    assert context.id is not None
    with memory.take_down("log"):
        with pytest.raises(Unavailable):
            ada.context("flight")
        assert ada.context("flight", store=False).items == context.items
        assert not ada.check(context).stale
    made_up = f"{context.id[:-4]}0000"
    of_other_owner = ".".join((*context.id.split(".")[:2], "0" * 16, *context.id.split(".")[3:]))
    of_other_log = ".".join(("c1", "0" * 16, *context.id.split(".")[2:]))
    for ident in (made_up, context.id.replace(".0.", ".99."), of_other_owner, of_other_log):
        with pytest.raises(UnknownContext):
            ada.stored_context(ident)
    with pytest.raises(InvalidInput) as caught:
        memory.client().user("bob").check(context)
    assert caught.value.field == "owner"


def test_one_that_is_too_large_to_be_stored_says_what_to_do() -> None:
    with InMemoryLastword({f"key{number}": {} for number in range(70)}) as memory:
        ada = memory.client().user("ada")
        for number in range(70):
            quote = f"{number} " + "🙂" * (limits.MAX_QUOTE_LENGTH - 10)
            turn = ada.say(thread="t1", text=quote)
            ada.suggest(f"key{number}", number, source=turn, quote=quote, at=0)

        with pytest.raises(InvalidInput) as caught:
            ada.context(limit=70, budget=30_000)

        assert (caught.value.field, "store=false" in caught.value.message) == ("limit", True)
        assert len(ada.context(limit=70, budget=30_000, store=False).items) == 70


def test_a_stored_context_says_what_it_was_read_with(ada: Memory) -> None:
    receipt = ada.set("flight", "morning")
    context: ContextAnswer = ada.context("Find a flight", keys=["seat"], groups=["travel"], budget=500)

    assert (context.known_at, context.representation, context.ranker) == (receipt.sequence, "profile", "bm25")
    assert (context.task, context.scopes, context.keys) == ("Find a flight", ["global"], ["seat"])
    assert (context.groups, context.budget, context.counter) == (["travel"], 500, "runs")
    assert len(context.registry) == 16
