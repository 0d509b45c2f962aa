"""Upcasters: the log is read otherwise, and stays as it is."""

import pytest

from lastword_projector.audit.choice import Range
from lastword_projector.audit.recompute import Recomputed
from lastword_projector.engine.upcasting import AS_WRITTEN, ChangePolicy, MoveKey, Upcasters
from lastword_schemas.control import RegistryRecord
from lastword_schemas.errors import InvalidInput
from tests.support.logs import ADA, REGISTRY, Log, registry_of


def entries(log: Log, upcasters: Upcasters) -> dict[tuple[str, str], bytes | None]:
    """Ada's, as the log reads under the upcasters."""
    recomputed = Recomputed(log.genesis, Range(1), upcasters)
    recomputed.take(log.records)
    return {at: entry.record.value for at, entry in recomputed.of(ADA).entries.items()}


def test_the_events_of_a_key_are_read_as_those_of_another_with_its_declaration() -> None:
    log = Log()
    log.set(ADA, "size", "small")
    log.set(ADA, "size", "huge")  # does not fit the schema, which is that of both
    log.set(ADA, "tone", "brief")

    read = entries(log, Upcasters([MoveKey(key="size", to="extent")]))

    assert read == {("global", "extent"): b'"small"', ("global", "tone"): b'"brief"'}


def test_moved_keys_are_retired_under_their_new_name() -> None:
    log = Log()
    log.set(ADA, "tone", "brief")
    log.set(ADA, "theme", "dark", retires=[{"scope": "global", "key": "tone"}])

    read = entries(log, Upcasters([MoveKey(key="tone", to="manner")]))

    assert read == {("global", "manner"): None, ("global", "theme"): b'"dark"'}


def test_events_of_two_keys_that_become_one_fold_in_the_order_of_the_log() -> None:
    log = Log()
    log.set(ADA, "tone", 1)
    log.set(ADA, "theme", 2)
    log.set(ADA, "tone", 3)

    assert entries(log, Upcasters([MoveKey(key="theme", to="tone")])) == {("global", "tone"): b"3"}


def test_a_copy_of_a_moved_event_is_still_a_duplicate() -> None:
    log = Log()
    first = log.set(ADA, "tone", 1)
    log.copy(first)
    recomputed = Recomputed(log.genesis, Range(1), Upcasters([MoveKey(key="tone", to="manner")]))
    recomputed.take(log.records)

    verdicts = [recomputed.of(ADA).record(sequence).verdict for sequence in recomputed.of(ADA).records]
    assert verdicts == ["added", "duplicate"]


def test_moves_follow_on_each_other_in_their_order() -> None:
    steps = Upcasters([MoveKey(key="tone", to="manner")]).and_then(Upcasters([MoveKey(key="manner", to="style")]))
    log = Log()
    log.set(ADA, "tone", 1)

    assert entries(log, steps) == {("global", "style"): b"1"}
    assert steps.touched == {"tone", "manner", "style"}


def test_the_other_key_is_declared_wherever_the_one_is_unless_it_is_so_already() -> None:
    record = RegistryRecord(registry=registry_of(tone={"description": "old"}, manner={"description": "new"}))

    read = Upcasters([MoveKey(key="tone", to="manner")]).registry(record).registry

    assert {key: declared.description for key, declared in read.keys.items()} == {"tone": "old", "manner": "new"}
    later = RegistryRecord(registry=registry_of(theme={}))
    assert Upcasters([MoveKey(key="tone", to="manner")]).registry(later) == later


def test_a_policy_that_this_build_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidInput):
        Upcasters([ChangePolicy(key="tone", policy="loudest")]).registry(RegistryRecord(registry=REGISTRY))


def test_upcasters_are_the_same_after_they_were_kept_as_text() -> None:
    steps = Upcasters([MoveKey(key="a", to="b"), ChangePolicy(key="b", policy="latest")])

    assert Upcasters.read(steps.to_canonical()) == steps
    assert Upcasters.read(AS_WRITTEN.to_canonical()) == AS_WRITTEN
    assert not AS_WRITTEN
    with pytest.raises(InvalidInput, match="this build does not know"):
        Upcasters.read('[{"upcaster":"later"}]')
