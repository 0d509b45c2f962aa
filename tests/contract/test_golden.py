"""What earlier builds wrote is read for ever: the corpus in `tests/golden`, each item with what it means.

| file | of each line |
|---|---|
| `records.jsonl` | a record of the log, by which build (its commit) or by another producer, and what it decodes to |
| `log.jsonl`, `log-entries.jsonl` | the records of a whole log with their verdicts; the entries at its end |
| `log-branch.jsonl`, `log-branch-entries.jsonl` | the same under policy `branch`; the entries also as they are stored |
| `changes.jsonl` | what `lastword.changes` tells of that log |
| `tokens.jsonl` | receipts and position tokens |
| `export.jsonl`, `export-rows.jsonl` | an export; what an import makes of each of its lines that holds something |
| `history.jsonl`, `entries.jsonl` | packed history records and entries, by which build |
| `log-decisions.jsonl`, `log-decisions-entries.jsonl` | a log with decisions; each entry and the ledger, with bytes |
| `namespace.jsonl` | all keys of Redis after that log was projected |

The last two rows of the table hold under one fold version: a build with another projects anew. Texts of more than 500
characters are given as their SHA-256. The corpus only grows: what is new goes into files of its own, each with a line
in `SHA256SUMS`.
"""

import hashlib
import json
import uuid
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import redis

from lastword.transfer.lines import HeaderLine, line_text
from lastword.transfer.own import LASTWORD
from lastword.transfer.rows import Row
from lastword_projector.engine.changes import changes_of, told
from lastword_projector.engine.decode import Decoded, Event, LogRecord, Malformed
from lastword_projector.engine.known import EventRef, KeyRef, Needs
from lastword_projector.engine.projection import FOLD_VERSION
from lastword_projector.engine.reading import RecordReader
from lastword_projector.engine.records import Entry, Record, unpack_record
from lastword_projector.store.names import Names
from lastword_projector.store.packing import unpack_entry
from lastword_projector.store.redis import RedisStore
from lastword_schemas.changes import Change
from lastword_schemas.control import Genesis, RegistryRecord
from lastword_schemas.envelope import Actor, Body, Envelope, ScopedKey
from lastword_schemas.positions import parse_demand
from lastword_schemas.verdicts import Effect, Reason
from tests.support.logs import Log, Stores, project
from tests.unit.test_asyncapi import EVENTS

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
LONGEST = 500


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / name).read_text("utf-8").splitlines()]


RECORDS = lines("records.jsonl")
LOG = lines("log.jsonl")
ENTRIES = lines("log-entries.jsonl")
BRANCH_LOG = lines("log-branch.jsonl")
BRANCH_ENTRIES = lines("log-branch-entries.jsonl")
DECIDING_LOG = lines("log-decisions.jsonl")
DECIDING_ENTRIES = lines("log-decisions-entries.jsonl")
READ_BY_NOW = {
    "a planned member: withdraws": "event",
    "a planned operation: withdraw": "malformed",
    "a planned operation: resolve": "malformed",
    "a planned member: names": "malformed",
}
"""What builds before there were decisions wait at, and this one reads. Nobody who knew the rest of their form wrote the
last three: they name nothing, or are sets."""


def named(items: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(item, id=f"{item['name']}, by {item['by']}") for item in items]


def test_no_file_of_the_corpus_has_changed_and_each_is_in_the_list() -> None:
    found = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in GOLDEN.glob("*.jsonl")]

    assert set((GOLDEN / "SHA256SUMS").read_text("utf-8").splitlines()) == set(found), (
        "the corpus only grows: put what is new into a file of its own and list that"
    )


def read(record: dict[str, Any]) -> Decoded:
    reader = RecordReader(Genesis(generation=0, partition=0, partitions=1, cluster_id="c", topic_id="t"))
    found = reader.read(LogRecord(1, 0, record["key"].encode(), record["value"].encode()))
    assert found.made is None or found.key_matches
    return found.item


def shown(item: Decoded) -> dict[str, Any]:
    """What an item says, without what is absent or empty."""
    if isinstance(item, Event):
        members = json.loads(msgspec.json.encode(item))
        body = members.pop("body") | ({} if item.value is None else {"value": item.value.decode()})
        members |= {f"body.{name}": _short(text) for name, text in body.items() if text is not None}
        return {name: member for name, member in members.items() if member not in (None, "", [])}
    if isinstance(item, Malformed):
        return {"owner": item.owner, "event_id": str(uuid.UUID(bytes=item.event_id))}
    if isinstance(item, Genesis | RegistryRecord):
        found: dict[str, Any] = json.loads(item.model_dump_json(exclude_none=True))
        for declared in found.get("registry", {}).get("keys", {}).values():
            if not declared["aliases"]:  # builds before search knew none
                del declared["aliases"]
            if declared["extraction"] == "allowed":  # builds before extraction knew nothing else
                del declared["extraction"]
            if declared["reconcile"] == "human":  # builds before the reconciler knew nobody else
                del declared["reconcile"]
        return found
    return {}


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


class TestLog:
    @pytest.mark.parametrize("record", named(RECORDS))
    def test_a_record_decodes_to_what_it_meant(self, record: dict[str, Any]) -> None:
        item = read(record)

        kind = {"RegistryRecord": "registry"}.get(type(item).__name__, type(item).__name__.lower())
        assert kind == READ_BY_NOW.get(record["name"], record["is"])
        assert record["is"] == "newer" or shown(item) == record["decoded"]

    @pytest.mark.parametrize("record", named([record for record in RECORDS if record["is"] == "event"]))
    def test_an_event_fits_the_contract_document(self, record: dict[str, Any]) -> None:
        document = json.loads((ROOT / "docs" / "asyncapi.json").read_text("utf-8"))
        components = document["components"]
        kinds = [components["messages"][name]["payload"] for name in EVENTS]

        validator = jsonschema_rs.Draft7Validator({"oneOf": kinds, "components": components})

        assert [error.message[:200] for error in validator.iter_errors(json.loads(record["value"]))] == []

    @pytest.mark.parametrize("log", [LOG, BRANCH_LOG, DECIDING_LOG], ids=["latest", "branch", "decisions"])
    def test_every_verdict_on_a_log_is_the_one_that_was_given_first(self, log: list[dict[str, Any]]) -> None:
        stores = project(golden_log(log))
        records = {record.sequence: record for owner in owners() for record in stores.records(owner)}
        dead = {letter.record.offset for letter in stores.dead.letters}

        for line in log:
            if (record := records.get(line["offset"])) is not None:
                given = {
                    "verdict": record.verdict,
                    "reason": record.reason,
                    "related": record.related and list(record.related),
                    "retired": record.retired and list(record.retired),
                    "source_sequence": None if record.cited_sequence is None else record.source_sequence,
                    "changed": _changed(record),
                }
                assert given == {name: line.get(name) for name in given}, line["offset"]
            else:
                assert line.get("verdict") == ("dead letter" if line["offset"] in dead else None), line["offset"]

    def test_it_folds_to_the_same_entries(self) -> None:
        stores = project(golden_log())

        for entry in ENTRIES:
            found = stores.entry(entry["owner"], entry["key"], entry["scope"])
            assert found is not None
            assert entry_shown(found) == {name: entry[name] for name in entry if name not in ("owner", "scope", "key")}

    @pytest.mark.parametrize(
        ("log", "entries"),
        [(BRANCH_LOG, BRANCH_ENTRIES), (DECIDING_LOG, DECIDING_ENTRIES)],
        ids=["branch", "decisions"],
    )
    def test_it_folds_to_the_same_entries_which_unpack_to_what_they_meant(
        self, log: list[dict[str, Any]], entries: list[dict[str, Any]]
    ) -> None:
        stores = project(golden_log(log))

        for line in entries:
            entry = stores.entry(line["owner"], line["key"], line["scope"])
            assert entry is not None
            shown = entry_shown(entry) | {"policy": entry.policy}
            assert shown == {name: line[name] for name in shown}
            assert unpack_entry(bytes.fromhex(line["packed"])).entry == entry

    def test_it_has_every_effect_and_every_reason(self) -> None:
        told = {line.get("reason") or line.get("verdict") for line in LOG + BRANCH_LOG + DECIDING_LOG}

        assert told >= {*(effect.value for effect in Effect), *(reason.value for reason in Reason)}

    def test_it_tells_the_same_changes_under_the_same_ids(self) -> None:
        log = golden_log()
        stores = project(log)
        records = sorted((record.sequence, owner) for owner in owners() for record in stores.records(owner))
        by_place = {(record.sequence, owner): record for owner in owners() for record in stores.records(owner)}

        changes = [change for at in records for change in changes_of(at[1], by_place[at])]

        told_first = lines("changes.jsonl")
        assert [json.loads(told(log.genesis.log_id, change)) for change in changes] == told_first
        for line in told_first:
            read = Change.model_validate_json(json.dumps(line | {"a member of a later version": 1}))
            assert json.loads(read.model_dump_json()) == line

    @pytest.mark.parametrize("token", lines("tokens.jsonl"), ids=lambda token: token["text"][:2])
    def test_receipts_and_position_tokens_mean_the_same_and_are_written_alike(self, token: dict[str, Any]) -> None:
        demand = parse_demand(token["text"])

        assert {name: getattr(demand, name) for name in token["means"]} == token["means"]
        assert str(demand) == token["text"]


class TestExport:
    def test_an_import_reads_from_an_export_what_it_read_first(self) -> None:
        items = [item for line in lines("export.jsonl") for item in LASTWORD.items(line)]

        rows = [row_shown(row) for row in map(LASTWORD.row, items) if row is not None]

        assert rows == lines("export-rows.jsonl")

    def test_each_line_fits_its_schema_and_the_header_says_of_which_version_it_is(self) -> None:
        schema = json.loads((ROOT / "docs" / "export.schema.json").read_text("utf-8"))
        written = HeaderLine(log_id="80e8279cb2c5d0a4", exported_at=datetime.now(UTC), owners=None, history=False)

        for line in [*lines("export.jsonl"), json.loads(line_text(written))]:
            jsonschema_rs.validate(schema, line)
            if line["type"] == "header":
                assert (line["schema"], line["version"]) == ("lastword-export", 1)


class TestVersion1:
    """Members are frozen: an older reader would refuse for ever what has another one, and wait for none of it."""

    def test_its_members_are_those_and_no_others(self) -> None:
        """`saw` came with the decisions, and is on nothing else: a reader that does not know them waits at them."""
        members = (
            "v event_id owner scope key operation actor authority confidence source_event_id source_receipt span "
            "thread message occurred_at published_at expires_at expected_sequence retires names "
            "withdraws saw backfill kid body"
        )

        assert Envelope.model_fields.keys() == {*members.split()}
        assert Actor.model_fields.keys() == {"service", "role"}
        assert Body.model_fields.keys() == {"value", "text", "quote"}
        assert ScopedKey.model_fields.keys() == {"scope", "key"}

    def test_an_event_with_another_member_is_refused_and_the_next_one_counts(self) -> None:
        log = Log()
        log.append(b"main%2Fuser%3Aada/global/tone", record_of("an unknown member")["value"].encode())
        right = log.set("main/user:ada", "tone", "brief")
        stores = project(log)

        (refused, _) = stores.records("main/user:ada")
        assert (refused.verdict, refused.reason) == ("refused", "malformed")
        assert "mood" in (refused.detail or "")
        assert stores.verdict(right) == "added"


class TestStored:
    @pytest.mark.parametrize("stored", named(lines("history.jsonl")))
    def test_a_history_record_unpacks_to_what_it_meant(self, stored: dict[str, Any]) -> None:
        assert record_shown(unpack_record(bytes.fromhex(stored["packed"]))) == stored["record"]

    @pytest.mark.parametrize("stored", named(lines("entries.jsonl")))
    def test_an_entry_unpacks_to_what_it_meant(self, stored: dict[str, Any]) -> None:
        found, projected_at = unpack_entry(bytes.fromhex(stored["packed"]))

        shown = {name: getattr(found, name) for name in ("mark", "start", "started_at", "previous", "unresolved")}
        assert shown | {"projected_at": projected_at, "record": record_shown(found.record)} == stored["entry"]

    def test_a_checkpoint_says_how_far_of_which_log_under_which_registry(self, filled: RedisStore) -> None:
        checkpoint = filled.checkpoint(0)
        registry = json.loads(LOG[41]["value"])["registry"]

        assert checkpoint is not None
        assert (checkpoint.next_sequence, checkpoint.clock) == (len(LOG), "broker")
        assert checkpoint.genesis == golden_log().genesis
        assert checkpoint.registry.keys.keys() == registry["keys"].keys()
        assert checkpoint.fold_version == FOLD_VERSION == 1, "another fold version projects anew: keep this one's file"

    def test_entries_and_event_ids_of_a_filled_namespace_are_found(self, filled: RedisStore) -> None:
        stores = project(golden_log())
        refs = {owner: [EventRef(owner, record.event_id) for record in stores.records(owner)] for owner in owners()}
        keys = [KeyRef(entry["owner"], entry["scope"], entry["key"]) for entry in ENTRIES]
        needs = Needs(events=[ref for found in refs.values() for ref in found], entries=keys)

        filled.checkpoint(0)
        loaded = filled.load(0, needs).result()

        assert loaded == stores.store.load(0, needs).result()

    def test_a_worker_goes_on_in_a_filled_namespace_and_knows_what_it_had(self, filled: RedisStore) -> None:
        log = golden_log()
        copied = next(line["offset"] for line in LOG if line.get("verdict") == "updated")
        log.append(log.records[copied].key, log.records[copied].value)
        log.set("main/user:ada", "tone", "long", event_id=str(uuid.uuid4()))
        stores = Stores(filled)  # type: ignore[arg-type]
        worker = stores.open(log)

        worker.project(log.records)

        duplicate, updated = len(LOG), len(LOG) + 1
        history = filled.key_history(0, KeyRef("main/user:ada", "global", "tone"), below=updated + 1)
        assert worker.next_offset == updated + 1
        assert (history[-1].sequence, history[-1].value, history[-1].verdict) == (updated, b'"long"', "updated")
        assert duplicate not in [record.sequence for record in history]


def golden_log(lines: list[dict[str, Any]] = LOG) -> Log:
    log = Log(registry=None)
    log.records = [
        LogRecord(line["offset"], line["recorded_at"], line["key"] and line["key"].encode(), line["value"].encode())
        for line in lines
    ]
    return log


def owners() -> list[str]:
    return sorted({entry["owner"] for entry in ENTRIES})


def record_of(name: str) -> dict[str, Any]:
    (found,) = (record for record in RECORDS if record["name"] == name)
    return found


def _changed(record: Record) -> list[list[str]] | None:
    """What a decision made of other entries."""
    found = [] if record.decision is None else [list(each) for each in record.decision.changed]
    return found or None


def entry_shown(entry: Entry) -> dict[str, Any]:
    shown = {name: getattr(entry, name) for name in ("mark", "start", "started_at", "previous", "unresolved")}
    value = entry.record.value
    return shown | {"sequence": entry.record.sequence, "value": None if value is None else value.decode()}


def row_shown(row: Row) -> dict[str, Any]:
    """What an import takes from a line, without what is absent."""
    shown = {name: part for name, part in asdict(row).items() if part is not None and name != "fields"}
    times = {name: part.isoformat() for name, part in shown.items() if isinstance(part, datetime)}
    found: dict[str, Any] = json.loads(json.dumps(shown | times))
    return found


def record_shown(record: Record) -> dict[str, Any]:
    """What a record says, without what is absent."""
    shown = {}
    for name in record.__struct_fields__:
        field = getattr(record, name)
        if isinstance(field, bytes):
            field = field.decode() if name == "value" else field.hex()
        if field is not None:
            shown[name] = field
    found: dict[str, Any] = json.loads(json.dumps(shown))
    return found


@pytest.fixture
def filled(redis_url: str) -> RedisStore:
    """A namespace as an earlier build left it."""
    with redis.Redis.from_url(redis_url) as client:
        for line in lines("namespace.jsonl"):
            key, value = bytes.fromhex(line["key"]), line["value"]
            match line["type"]:
                case "hash":
                    client.hset(
                        key, mapping={bytes.fromhex(name): bytes.fromhex(field) for name, field in value.items()}
                    )
                case "list":
                    client.rpush(key, *map(bytes.fromhex, value))
                case "string":
                    client.set(key, bytes.fromhex(value))
                case "zset":
                    client.zadd(key, {bytes.fromhex(member): score for member, score in value})
    return RedisStore(redis_url, Names("golden"))
