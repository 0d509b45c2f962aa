"""Files of other systems become statements: whose, of which key, in which order, under which id."""

import io
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastword.transfer.files import is_whole, read_items
from lastword.transfer.langgraph import LANGGRAPH
from lastword.transfer.lines import OtherVersion
from lastword.transfer.mapping import Rule, read_mapping
from lastword.transfer.mem0 import MEM0
from lastword.transfer.own import LASTWORD
from lastword.transfer.planning import LeftOut, Statement, declarations, plan
from lastword.transfer.rows import Origin
from lastword.transfer.zep import ZEP
from lastword_schemas.drafts import EventDraft, read_draft, to_envelope
from lastword_schemas.errors import InvalidInput
from lastword_schemas.registry import parse_registry_file
from tests.support.logs import ADA, PUBLISHED_AT, Log, project

MEMORY = {
    "id": "5d3c7b1e-0001",
    "memory": "Prefers evening flights.",
    "user_id": "ada",
    "agent_id": "planner",
    "metadata": {"topic": "travel", "time": "evening"},
    "categories": ["travel", "preferences"],
    "created_at": "2025-01-05T10:00:00Z",
    "updated_at": "2025-02-05T10:00:00.123-08:00",
}
FACT = {
    "uuid": "9f2e1c00-0001",
    "name": "LIVES_IN",
    "fact": "Ada lives in Paris.",
    "source_node_uuid": "n1",
    "target_node_uuid": "n2",
    "created_at": "2025-01-05T10:00:00Z",
    "valid_at": "2024-06-01T00:00:00Z",
    "invalid_at": None,
    "expired_at": None,
}
ITEM = {
    "namespace": ["memories", "ada"],
    "key": "profile",
    "value": {"tone": "brief"},
    "created_at": "2025-01-05T10:00:00+00:00",
    "updated_at": "2025-01-06T10:00:00+00:00",
}
ENTRY = {
    "type": "entry",
    "owner": "main/user:ada",
    "scope": "project:{x}",
    "key": "mail.{tone}",
    "status": "set",
    "value": None,
    "authority": "stated",
    "actor": {"service": "settings", "role": "person"},
    "event_id": "01a22eb8-2e49-7f9a-823c-102c43810bbf",
    "position": {"partition": 3, "offset": 9, "sequence": 9},
    "source_sequence": 9,
    "occurred_at": "2024-12-31T10:00:00Z",
    "updated_at": "2025-01-05T10:00:00Z",
}


def planned(origin: Origin, document: Any, rules: list[Rule] | None = None, **usual: Any) -> list[Statement | LeftOut]:
    """What becomes of a document."""
    text = json.dumps(document, indent=1).encode()
    if origin.in_lines:
        text = b"\n".join(json.dumps(line).encode() for line in document)
    return list(plan(read_items(io.BytesIO(text), origin), origin, rules or [], Rule(**usual)))


def drafts(*arguments: Any, **usual: Any) -> list[dict[str, Any]]:
    """The drafts; fails where a row is not importable."""
    found = planned(*arguments, **usual)
    assert [one.reason for one in found if isinstance(one, LeftOut)] == []
    return [one.draft for one in found if isinstance(one, Statement)]


def reason(*arguments: Any, **usual: Any) -> str:
    """Why the only row is not importable."""
    (one,) = planned(*arguments, **usual)
    assert isinstance(one, LeftOut)
    return one.reason


# --- each origin


@pytest.mark.parametrize("wrap", [lambda m: [m], lambda m: {"results": [m]}, lambda m: m])
def test_a_memory_of_mem0_is_inferred_and_has_a_key_of_its_own(wrap: Any) -> None:
    (draft,) = drafts(MEM0, wrap(MEMORY))
    assert draft == {
        "operation": "set",
        "owner": "main/user:ada",
        "scope": "global",
        "key": "imported.mem0.5d3c7b1e-0001",
        "value": "Prefers evening flights.",
        "actor": {"service": "import-mem0", "role": "service"},
        "authority": "inferred",
        "occurred_at": "2025-02-05T18:00:00.123Z",
        "backfill": 220_026,
        "event_id": draft["event_id"],
    }


@pytest.mark.parametrize(
    ("date", "expires_at"),
    [("2026-12-31", "2027-01-01T00:00:00Z"), ("2026-12-31T10:00:00+01:00", "2026-12-31T09:00:00Z")],
)
def test_a_memory_of_mem0_applies_to_the_end_of_its_expiration_date(date: str, expires_at: str) -> None:
    (draft,) = drafts(MEM0, [MEMORY | {"expiration_date": date}])
    assert draft["expires_at"] == expires_at


@pytest.mark.parametrize(
    ("times", "expires_at"),
    [
        ({}, None),
        ({"invalid_at": "2025-03-01T00:00:00Z", "expired_at": "2025-04-01T00:00:00Z"}, "2025-03-01T00:00:00Z"),
        ({"expired_at": "2025-04-01 00:00:00+00:00"}, "2025-04-01T00:00:00Z"),
    ],
)
def test_a_fact_of_zep_expires_when_it_ended(times: dict[str, str], expires_at: str | None) -> None:
    (draft,) = drafts(ZEP, {"edges": [FACT | times], "user_id": "ada"})
    assert (draft["owner"], draft["value"]) == ("main/user:ada", "Ada lives in Paris.")
    assert (draft["occurred_at"], draft.get("expires_at")) == ("2024-06-01T00:00:00Z", expires_at)


def test_a_fact_of_zep_may_name_its_group_and_else_the_owner_must_be_given() -> None:
    assert drafts(ZEP, [FACT | {"group_id": "ada"}])[0]["owner"] == "main/user:ada"
    assert drafts(ZEP, [FACT], owner="user:grace")[0]["owner"] == "main/user:grace"
    assert "--owner" in reason(ZEP, [FACT])


def test_an_item_of_langgraph_is_stated_and_its_owner_stands_in_the_namespace() -> None:
    (draft,) = drafts(LANGGRAPH, {"items": [ITEM]}, owner="user:{namespace.1}", scope="kind:{namespace.0}")
    assert (draft["owner"], draft["scope"], draft["key"]) == (
        "main/user:ada",
        "kind:memories",
        "imported.langgraph.profile",
    )
    assert (draft["value"], draft["authority"]) == ({"tone": "brief"}, "stated")
    assert "--owner" in reason(LANGGRAPH, [ITEM])


def test_an_entry_of_lastword_keeps_its_place_whatever_braces_it_has_and_its_authority() -> None:
    (draft,) = drafts(LASTWORD, [ENTRY | {"authority": "confirmed"}])
    assert (draft["owner"], draft["scope"], draft["key"]) == ("main/user:ada", "project:{x}", "mail.{tone}")
    assert (draft["authority"], draft["actor"], draft["value"]) == ("confirmed", ENTRY["actor"], None)
    assert draft["occurred_at"] == "2024-12-31T10:00:00Z"


def test_a_tombstone_of_lastword_stays_one_and_what_an_extractor_read_is_a_statement() -> None:
    tombstone = {name: value for name, value in ENTRY.items() if name != "value"} | {"status": "deleted"}
    (draft,) = drafts(LASTWORD, [tombstone | {"actor": {"service": "reader", "role": "extractor"}}])
    assert (draft["operation"], draft["actor"]) == ("delete", {"service": "reader", "role": "service"})
    assert "value" not in draft


def test_of_a_lastword_export_only_entries_are_imported() -> None:
    header = {"type": "header", "schema": "lastword-export", "version": 1, "log_id": "0", "owners": None}
    header |= {"exported_at": "2025-01-05T10:00:00Z", "history": True}
    end = {"type": "end", "owners": 1, "entries": 1, "events": 1}
    found = planned(LASTWORD, [header, ENTRY, {"type": "event", "owner": "main/user:ada", "event": {}}, end])
    assert [(type(one).__name__, one.number) for one in found] == [("Statement", 2), ("LeftOut", 3)]
    assert [one.wanted for one in found if isinstance(one, LeftOut)] == [True]


def test_an_export_of_a_later_version_is_not_read() -> None:
    with pytest.raises(OtherVersion):
        planned(LASTWORD, [{"type": "header", "schema": "lastword-export", "version": 2, "more": 1}])


# --- where it goes


RULES = """
[[rule]]
where = { categories = "pref*", metadata.topic = "travel" }
key = "travel.flight_time"
scope = "agent:{agent_id}"
value = "metadata.time"
authority = "stated"

[[rule]]
where = { memory = "*password*" }
skip = true
"""


def test_the_first_rule_that_fits_says_where_a_row_goes() -> None:
    rules = read_mapping(RULES, name="map.toml")
    (draft,) = drafts(MEM0, [MEMORY], rules, scope="project:Comet")
    assert (draft["scope"], draft["key"]) == ("agent:planner", "travel.flight_time")
    assert (draft["value"], draft["authority"], draft["owner"]) == ("evening", "stated", "main/user:ada")


def test_what_no_rule_says_is_as_usual() -> None:
    rules = read_mapping(RULES, name="map.toml")
    (draft,) = drafts(MEM0, [MEMORY | {"categories": []}], rules, scope="project:Comet")
    assert (draft["scope"], draft["key"], draft["authority"]) == (
        "project:Comet",
        "imported.mem0.5d3c7b1e-0001",
        "inferred",
    )


def test_a_rule_leaves_rows_out() -> None:
    (one,) = planned(MEM0, [MEMORY | {"memory": "The password is x", "categories": []}], read_mapping(RULES, name="m"))
    assert isinstance(one, LeftOut)
    assert one.wanted


@pytest.mark.parametrize(
    ("text", "field"), [("[[rule]]\nkye = 'x'", "rule.0.kye"), ("[[rule]]\nskip = 1", "rule.0.skip"), ("[", None)]
)
def test_a_mapping_that_is_wrong_is_refused_by_its_name(text: str, field: str | None) -> None:
    with pytest.raises(InvalidInput, match=r"^map\.toml") as caught:
        read_mapping(text, name="map.toml")
    assert caught.value.field == field


# --- what cannot be imported


@pytest.mark.parametrize(
    ("origin", "item", "told"),
    [
        (MEM0, MEMORY | {"id": None}, "no id"),
        (MEM0, MEMORY | {"expiration_date": 20261231}, "expiration_date is no time"),
        (ZEP, [], "not a JSON object"),
        (MEM0, MEMORY | {"memory": ""}, "no memory"),
        (MEM0, MEMORY | {"user_id": None}, "no user_id"),
        (MEM0, MEMORY | {"updated_at": "lately"}, "updated_at is no time"),
        (MEM0, MEMORY | {"memory": "x" * 70_000}, "at most 65536"),
        (MEM0, MEMORY | {"user_id": "a\nb"}, "control character"),
        (MEM0, "words", "not a JSON object"),
        (LANGGRAPH, ITEM | {"namespace": []}, "namespace"),
        (LANGGRAPH, {name: ITEM[name] for name in ("namespace", "key")}, "no value"),
        (LASTWORD, {"type": "entity"}, "not a line of an export"),
        (LASTWORD, ENTRY | {"authority": "certain"}, "authority"),
    ],
)
def test_a_row_that_cannot_be_imported_says_why(origin: Origin, item: Any, told: str) -> None:
    assert told in reason(origin, [item])


def test_a_file_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(InvalidInput, match="line 2 is not JSON"):
        list(read_items(io.BytesIO(b'{"type":"end","owners":0,"entries":0,"events":0}\n{"type'), LASTWORD))
    with pytest.raises(InvalidInput, match="neither a list"):
        list(read_items(io.BytesIO(b"5"), MEM0))
    with pytest.raises(InvalidInput, match="not JSON"):
        list(read_items(io.BytesIO(b""), MEM0))


def test_json_lines_are_read_too() -> None:
    lines = b"\n".join(json.dumps(MEMORY | {"id": name}).encode() for name in "ab")
    assert [(number, item["id"]) for number, item in read_items(io.BytesIO(lines), MEM0)] == [(1, "a"), (2, "b")]


# --- order and ids


def test_statements_of_one_key_have_the_order_of_their_times_also_within_an_hour() -> None:
    times = ("2025-01-05T10:40:00Z", "2025-01-05T10:10:00Z", "2025-01-05T10:20:00Z", "2025-01-09T10:00:00Z")
    memories = [MEMORY | {"id": time, "memory": time, "updated_at": time} for time in times]
    made = drafts(MEM0, memories, key="one")
    assert [draft["value"] for draft in made] == sorted(times)
    places = [draft["backfill"] for draft in made]
    assert [place - places[0] for place in places] == [0, 1, 2, 96]


@pytest.mark.parametrize(("said", "place"), [(None, 0), ("1999-01-01T00:00:00Z", 0), ("2999-01-01T00:00:00Z", 999_999)])
def test_a_time_that_is_missing_or_far_away_has_the_first_or_the_last_place(said: str | None, place: int) -> None:
    assert drafts(MEM0, [MEMORY | {"updated_at": said, "created_at": said}])[0]["backfill"] == place


def test_what_has_no_place_left_is_not_importable() -> None:
    far = MEMORY | {"updated_at": "2999-01-01T00:00:00Z"}
    found = planned(MEM0, [far, far | {"id": "2"}], key="one")
    assert [type(one).__name__ for one in found] == ["Statement", "LeftOut"]


def test_the_same_row_has_the_same_id_in_every_file_and_another_when_it_has_changed() -> None:
    other = MEMORY | {"id": "other", "updated_at": "2025-02-05T10:00:00-08:00"}
    alone, later = drafts(MEM0, [MEMORY], key="one"), drafts(MEM0, [other, MEMORY], key="one")
    assert alone[0]["event_id"] == later[1]["event_id"]
    assert alone[0]["backfill"] != later[1]["backfill"]
    changed = {"memory": "Prefers morning flights."}, {"user_id": "grace"}, {"updated_at": "2025-03-01T00:00:00Z"}
    ids = {drafts(MEM0, [MEMORY | change], key="one")[0]["event_id"] for change in ({}, *changed)}
    assert len(ids) == 4


@given(
    st.lists(
        st.tuples(st.integers(0, 400), st.sampled_from("abc")), min_size=1, max_size=8, unique_by=lambda row: row[0]
    ),
    st.randoms(use_true_random=False),
)
@settings(max_examples=50, deadline=None)
def test_overlapping_exports_in_any_order_leave_what_was_said_last(
    said: list[tuple[int, str]], order: random.Random
) -> None:
    first = datetime(2025, 1, 1, tzinfo=UTC)
    rows = [
        {"id": str(hour), "memory": text, "user_id": "ada", "updated_at": str(first + timedelta(hours=hour))}
        for hour, text in said
    ]
    files = [order.sample(rows, order.randint(1, len(rows))) for _ in range(3)] + [rows]
    order.shuffle(files)
    log = Log()
    for file in files:
        for draft in drafts(MEM0, file, key="guess"):
            log.put(to_envelope(read_draft(draft, EventDraft), event_id="", published_at=PUBLISHED_AT))
    stores = project(log)
    entry = stores.entry(ADA, "guess")
    assert entry is not None
    assert not entry.unresolved
    assert stores.value(ADA, "guess") == max(said)[1]
    assert {record.verdict for record in stores.records(ADA)} <= {"added", "updated", "restated", "late", "duplicate"}


# --- declarations and whole files


def test_the_lines_that_declare_keys_are_a_registry() -> None:
    found = [*planned(MEM0, [MEMORY, MEMORY | {"id": 'a"b.c'}]), *planned(LANGGRAPH, [ITEM], owner="user:ada")]
    registry = parse_registry_file(declarations(one for one in found if isinstance(one, Statement)))
    assert {key: declared.min_authority.value for key, declared in registry.keys.items()} == {
        "imported.mem0.5d3c7b1e-0001": "inferred",
        'imported.mem0.a"b.c': "inferred",
        "imported.langgraph.profile": "stated",
    }


def test_an_export_without_its_last_line_is_not_whole(tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    file.write_text('{"type":"owner"}\n{"type":"end","owners":0,"entries":0,"events":0}\n')
    assert is_whole(file)
    file.write_text(file.read_text()[:-9])
    assert not is_whole(file)
    file.write_text("")
    assert not is_whole(file)
