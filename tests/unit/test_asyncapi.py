"""The contract document of the topics, and their page, say what the code does."""

import gzip
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from lastword.conformance import Produced, check
from lastword_projector.engine.decode import Event, actor_problem
from lastword_schemas.envelope import Envelope
from lastword_schemas.identity import record_key
from lastword_schemas.partitions import partition_for
from tests.unit.test_decode import ODD, SHAPES, read

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = Path(__file__).parents[1] / "support" / "asyncapi-3.0.0.schema.json.gz"
"""AsyncAPI's own, from the npm package @asyncapi/specs 6.11.1 (schemas/3.0.0-without-$id.json, Apache-2.0)."""
DOCUMENT: dict[str, Any] = json.loads((DOCS / "asyncapi.json").read_text("utf-8"))
EVENTS = ["set", "delete", "say", "candidate", "withdraw", "resolve"]


def payload_schema(message: str) -> jsonschema_rs.Draft7Validator:
    """The validator of a message's payload."""
    payload = DOCUMENT["components"]["messages"][message]["payload"]
    return jsonschema_rs.Draft7Validator({"allOf": [payload], "components": DOCUMENT["components"]})


def example(message: str) -> dict[str, Any]:
    (found,) = DOCUMENT["components"]["messages"][message]["examples"]
    return dict(found["payload"])


def test_it_is_what_the_code_gives() -> None:
    spec = importlib.util.spec_from_file_location("generate_asyncapi", DOCS / "generate_asyncapi.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    assert module.render() == (DOCS / "asyncapi.json").read_text("utf-8"), "run `make docs`"


def test_it_is_valid_asyncapi() -> None:
    schema = json.loads(gzip.decompress(SCHEMA.read_bytes()))

    errors = [f"{list(error.instance_path)}: {error.message}" for error in _errors(schema)]

    assert errors == []


def _errors(schema: Any) -> list[jsonschema_rs.ValidationError]:
    return list(jsonschema_rs.Draft7Validator(schema).iter_errors(DOCUMENT))


def test_its_examples_are_right_events_in_the_order_in_which_they_stand() -> None:
    payloads = [example(message) for message in EVENTS]
    for number, payload in enumerate(payloads):
        payload["event_id"] = f"0190b3c8-1f2e-7abc-8def-00000000000{number}"
    *_, delete, turn, candidate, withdrawal, choice = payloads
    candidate["source_event_id"] = turn["event_id"]
    withdrawal["names"] = [candidate["event_id"]]
    said = [
        example("set") | {"key": "work.employer", "event_id": f"0190b3c8-1f2e-7abc-8def-0000000000a{n}"} for n in (1, 2)
    ]
    choice["names"] = [event["event_id"] for event in said]
    payloads[5:5] = said
    assert delete["operation"] == "delete"
    records = [
        Produced(
            partition_for(payload["owner"], 24),
            record_key(payload["owner"], payload["scope"], payload.get("key")).encode(),
            json.dumps(payload).encode(),
        )
        for payload in payloads
    ]

    report = check(records)

    assert report.events == 8
    assert report.findings == ()


@pytest.mark.parametrize("message", EVENTS)
def test_the_example_of_a_message_fits_it_and_no_other(message: str) -> None:
    fitting = [other for other in EVENTS if payload_schema(other).is_valid(example(message))]

    assert fitting == [message]


@pytest.mark.parametrize(
    "change",
    [
        {"mood": "good"},
        {"v": 2},
        {"v": None},
        {"owner": "user:ada"},
        {"owner": "main/group:ada"},
        {"event_id": "an-id-of-my-own"},
        {"event_id": "0190B3C8-1F2E-7ABC-8DEF-0123456789AB"},
        {"scope": "Comet"},
        {"key": ""},
        {"key": "a\u0000b"},
        {"operation": "upsert"},
        {"actor": {}},
        {"actor": {"service": "x", "role": "god"}},
        {"authority": "certain"},
        {"confidence": 1.5},
        {"body": {}},
        {"body": {"value": 1, "text": "x"}},
        {"body": {"value": 1, "mood": "good"}},
        {"span": [1, 2]},
        {"retires": [{"scope": "global"}]},
        {"backfill": -1},
        {"kid": "k1"},
    ],
)
def test_what_the_reader_does_not_take_does_not_fit(change: dict[str, Any]) -> None:
    payload = {name: value for name, value in (example("set") | change).items() if value is not None}
    key = record_key(payload["owner"], payload["scope"], payload["key"])

    assert not payload_schema("set").is_valid(payload)
    assert not check([Produced(11, key.encode(), json.dumps(payload).encode())]).ok


def test_a_change_as_it_is_told_fits_its_message() -> None:
    golden = DOCS.parent / "tests" / "golden" / "changes.jsonl"

    for line in golden.read_text("utf-8").splitlines():
        assert payload_schema("change").is_valid(json.loads(line))
    assert not payload_schema("change").is_valid({"kind": "change"})


PAGE = (DOCS / "topics.md").read_text("utf-8")


def test_the_example_on_the_page_is_a_right_event() -> None:
    (text,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)

    assert check([Produced(11, b"main%2Fuser%3Aada/global/mail.tone", text.encode())]).findings == ()


def test_the_hashes_and_partitions_on_the_page_are_those_of_the_table_for_other_languages() -> None:
    vectors = json.loads((DOCS / "partition-vectors.json").read_text("utf-8"))["vectors"]
    rows = re.findall(r"^\| `(.+)` \| (-?\d+) \| (\d+) \|$", PAGE, re.MULTILINE)

    assert len(rows) == 5
    assert {(owner, int(murmur2), int(partition)) for owner, murmur2, partition in rows} <= {
        (vector["owner"], vector["murmur2"], vector["partition"]) for vector in vectors
    }


NOT_INSTANTS = Envelope.model_fields.keys() - {"occurred_at", "published_at", "expires_at"}
"""Of instants the reader takes more forms than RFC 3339 has, which is what the contract asks for."""


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape['operation']}-{len(shape)}")
def test_whatever_the_reader_takes_fits_exactly_one_message(shape: dict[str, Any]) -> None:
    components = DOCUMENT["components"]
    kinds = [components["messages"][message]["payload"] for message in EVENTS]
    validator = jsonschema_rs.Draft7Validator({"oneOf": kinds, "components": components})
    changed = [shape, *(shape | {name: value} for name in NOT_INSTANTS for value in ODD)]

    events = [(data, read(json.dumps(data).encode())) for data in changed]
    taken = [data for data, event in events if isinstance(event, Event) and actor_problem(event) is None]

    assert len(taken) > len(NOT_INSTANTS)
    assert [data for data in taken if not validator.is_valid(data)] == []
