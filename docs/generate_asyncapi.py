"""Writes asyncapi.json: the contract of the topics, from the models, limits and settings that the code has.

`make docs` runs it; a test fails when the file is not what it would write.
"""

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import models_json_schema

from lastword_producers.kafka_log import CHANGES_AT_FIRST, DEAD_LETTER_SETTINGS, HISTORY_SETTINGS
from lastword_projector.worker.dead_letters import HEADERS
from lastword_schemas import limits
from lastword_schemas.changes import Change
from lastword_schemas.control import GENESIS_KEY, REGISTRY_KEY, Genesis, RegistryRecord
from lastword_schemas.envelope import VERSION, Envelope

PAGE = Path(__file__).parent / "asyncapi.json"

Json = dict[str, Any]
UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
NO_CONTROL = r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]+$"
SCOPE: Json = {"pattern": "^(global|[a-z][a-z0-9_-]*:.+)$", "maxLength": limits.MAX_SCOPE_BYTES}
KEY: Json = {"pattern": NO_CONTROL, "maxLength": limits.MAX_KEY_BYTES}
NAME: Json = {"pattern": NO_CONTROL, "maxLength": limits.MAX_SERVICE_LENGTH}
ABSENT: Json = {"type": "null"}
"""In a message: a member that it does not have. A null counts as absent everywhere but in `body.value`."""

WIRE: dict[str, dict[str, Json]] = {
    "Envelope": {
        "event_id": {
            "pattern": UUID,
            "description": "A UUID in lower case, one for each event; a retry has the same. Version 7 is best",
        },
        "owner": {
            "pattern": f"^[a-z0-9][a-z0-9._-]{{0,{limits.MAX_TENANT_LENGTH - 1}}}/(user|org):.+$",
            "description": "Canonical: `<tenant>/user:<id>` or `<tenant>/org:<id>`; the default tenant is `main`",
            "examples": ["main/user:ada"],
        },
        "scope": SCOPE,
        "key": KEY,
        "source_event_id": {"pattern": UUID, "description": "The id of that event"},
        "thread": NAME,
        "message": NAME,
        "span": {"minItems": 2, "maxItems": 2},
        "names": {"items": {"type": "string", "pattern": UUID}},
        "withdraws": {"items": {"type": "string", "pattern": UUID}},
        "kid": {"const": ""},
    },
    "Actor": {"service": NAME},
    "ScopedKey": {"scope": SCOPE, "key": KEY},
    "Body": {
        "text": {"minLength": 1, "maxLength": limits.MAX_TEXT_LENGTH},
        "quote": {"minLength": 1, "maxLength": limits.MAX_QUOTE_LENGTH},
    },
}
"""What stands in the log is narrower than what a draft may say: a canonical owner, ids that are UUIDs already."""

RULES = {
    "Record key": "owner/scope/key, each part percent-encoded (RFC 3986: all but its unreserved characters), joined by "
    "/. A turn (`say`) and a `withdraw` have no key: theirs ends in /. A record under another key is refused: "
    "key-mismatch.",
    "Partition": "(murmur2(owner) & 0x7fffffff) % N, over the UTF-8 bytes of the canonical owner alone, with Kafka's "
    "seed. N stands in the genesis record of every partition. No client's partitioner does this: choose it "
    "explicitly. docs/partition-vectors.json has examples. A record in another partition is a dead letter.",
    "Producer": "acks=all and enable.idempotence=true. An event that was not acknowledged is unknown, not lost: write "
    "the same envelope again, with the same event_id, before the next event of its owner. No transactions are needed.",
    "Headers": "None are read on the history topic; what somebody adds is kept and ignored.",
    "Timestamps": "The topic has message.timestamp.type=LogAppendTime: the broker's time replaces the producer's. "
    "published_at and occurred_at are the publisher's and decide nothing. Instants are RFC 3339 with an offset.",
    "Size": f"A record's value has at most {limits.MAX_EVENT_BYTES} bytes, body.value {limits.MAX_VALUE_BYTES} as "
    f"compact JSON, nested at most {limits.MAX_VALUE_DEPTH} levels. docs/reference.md lists every limit.",
    "Control records": f"They stand under the record keys {GENESIS_KEY} and {REGISTRY_KEY} in every partition; "
    "lastword alone writes them. Offset 0 of every partition is its genesis record.",
    "Versions": f"`v` is {VERSION}. A higher one, an operation that a reader does not know and a `kid` make it wait, "
    "for everybody in that partition: never write what the running workers do not know. Any other unknown member is "
    "refused: malformed.",
}
"""What no schema says."""


def document() -> Json:
    """The AsyncAPI document. The application that it describes is lastword: it receives events from others."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "lastword: topics",
            "version": str(VERSION),
            "description": "The topics of lastword for services that use Kafka directly. docs/topics.md tells how.\n\n"
            + "\n\n".join(f"**{name}.** {text}" for name, text in RULES.items()),
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {
            "history": _channel(
                "lastword.events",
                "Every event of every owner, in accepted order, and the control records.",
                HISTORY_SETTINGS,
                [*EVENTS, *CONTROL],
            ),
            "deadLetters": _channel(
                "lastword.dead-letters",
                "Records of the history topic that cannot be given to any owner, with their original bytes.",
                DEAD_LETTER_SETTINGS,
                ["deadLetter"],
            ),
            "changes": _channel(
                "lastword.changes",
                "That an entry became another one, and where; never the value. Told at least once, under one "
                "change_id, in the owner's partition and in the order of the log. docs/changes.md tells more.",
                CHANGES_AT_FIRST,
                ["change"],
            ),
        },
        "operations": {
            "receiveEvents": _operation("receive", "history", EVENTS, "Write these."),
            "sendControl": _operation("send", "history", CONTROL, "Read these, never write them."),
            "sendDeadLetters": _operation("send", "deadLetters", ["deadLetter"], "Watch these."),
            "sendChanges": _operation(
                "send", "changes", ["change"], "Read these; ignore members that you do not know."
            ),
        },
        "components": {"messages": _messages(), "schemas": _schemas()},
    }


EVENTS = ["set", "delete", "say", "candidate", "withdraw", "resolve"]
CONTROL = ["genesis", "registry"]
_OF_CANDIDATES: Json = dict.fromkeys(("source_event_id", "source_receipt", "span"), ABSENT)
_OF_DECISIONS: Json = dict.fromkeys(("names", "saw"), ABSENT)
_ONLY_OF_SETS: Json = {"expires_at": ABSENT, "retires": {"maxItems": 0}, "withdraws": ABSENT}
_ONLY_OF_STATEMENTS: Json = {"expected_sequence": ABSENT, "backfill": ABSENT}
_WHY: Json = {"properties": {"quote": ABSENT}, "not": {"required": ["value"]}}
_DECIDING: Json = _OF_CANDIDATES | _ONLY_OF_SETS | _ONLY_OF_STATEMENTS
_ID = "0190b3c8-1f2e-7abc-8def-0123456789ab"


def _messages() -> Json:
    envelope = {"v": 1, "event_id": _ID, "owner": "main/user:ada", "scope": "global"}
    actor = {"actor": {"service": "settings"}}
    return {
        "set": _event(
            "A statement: a value.",
            {"operation": {"const": "set"}, "body": _body("value")} | _OF_CANDIDATES | _OF_DECISIONS,
            ["key", "body"],
            envelope | {"key": "mail.tone", "operation": "set"} | actor | {"body": {"value": "brief"}},
        ),
        "delete": _event(
            "A statement: a tombstone.",
            {"operation": {"const": "delete"}, "body": _body()} | _OF_CANDIDATES | _OF_DECISIONS | _ONLY_OF_SETS,
            ["key"],
            envelope | {"key": "mail.tone", "operation": "delete"} | actor,
        ),
        "say": _event(
            "A turn of a thread: the words that candidates cite.",
            {"operation": {"const": "say"}, "key": ABSENT, "body": _body("text")}
            | _ONLY_OF_STATEMENTS
            | _OF_CANDIDATES
            | _OF_DECISIONS
            | _ONLY_OF_SETS,
            ["thread", "body"],
            envelope | {"operation": "say"} | actor | {"thread": "t1", "body": {"text": "Keep my mails brief."}},
        ),
        "candidate": _event(
            "Somebody's reading of an earlier event of the owner: a set or a delete with its source.",
            {"operation": {"enum": ["set", "delete"]}, "actor": {"properties": {"role": {"const": "extractor"}}}}
            | dict.fromkeys(("thread", "message"), ABSENT)
            | _ONLY_OF_STATEMENTS
            | _OF_DECISIONS
            | {"source_event_id": {"type": "string"}, "body": {"properties": {"text": ABSENT}}},
            ["key", "source_event_id"],
            envelope
            | {"event_id": f"{_ID[:-1]}c", "key": "mail.tone", "operation": "set"}
            | {"actor": {"service": "reader", "role": "extractor"}, "authority": "stated", "source_event_id": _ID}
            | {"span": [14, 19], "body": {"value": "brief", "quote": "brief"}},
        ),
        "withdraw": _event(
            "A decision: the named events of the owner were wrong and no longer count.",
            {"operation": {"const": "withdraw"}, "key": ABSENT, "body": _WHY} | _DECIDING,
            ["names"],
            envelope | {"operation": "withdraw"} | actor | {"names": [f"{_ID[:-1]}c"]},
        ),
        "resolve": _event(
            "A decision: of the named assertions of a key the first stands, the others ended.",
            {"operation": {"const": "resolve"}, "body": _WHY, "names": {"minItems": 2}} | _DECIDING,
            ["key", "names"],
            envelope
            | {"key": "work.employer", "operation": "resolve"}
            | actor
            | {"names": [_ID, f"{_ID[:-1]}c"], "body": {"text": "she says so"}},
        ),
        "genesis": _control("The first record of every partition: which log this is.", "Genesis", GENESIS_KEY),
        "registry": _control("The declared keys, in force from here on.", "RegistryRecord", REGISTRY_KEY),
        "change": {
            "name": "change",
            "summary": "One entry became another one by one event.",
            "payload": {"$ref": "#/components/schemas/Change"},
            "bindings": _key({"type": "string", "description": "owner/scope/key, as in the history topic."}),
        },
        "deadLetter": {
            "name": "deadLetter",
            "summary": "Key and value are the original bytes.",
            "contentType": "application/octet-stream",
            "headers": {
                "type": "object",
                "required": list(HEADERS),
                "properties": {name: {"type": "string", "description": text} for name, text in HEADERS.items()},
            },
            "payload": {},
        },
    }


def _event(summary: str, properties: Json, required: list[str], example: Json) -> Json:
    operation = properties["operation"]
    return {
        "name": operation.get("const", "candidate"),
        "summary": summary,
        "payload": {
            "allOf": [
                {"$ref": "#/components/schemas/Envelope"},
                {"type": "object", "properties": properties, "required": required},
            ]
        },
        "bindings": _key({"type": "string", "description": RULES["Record key"]}),
        "examples": [{"payload": example}],
    }


def _body(member: str | None = None) -> Json:
    """Of the body's members only this one, which is required; `value` may be null, the others count as absent then."""
    others: Json = {name: ABSENT for name in ("text", "quote") if name != member}
    if member is None:
        return {"properties": others, "not": {"required": ["value"]}}
    if member == "value":
        return {"properties": others, "required": [member]}
    return {"properties": others | {member: {"type": "string"}}, "required": [member], "not": {"required": ["value"]}}


def _control(summary: str, schema: str, key: str) -> Json:
    return {
        "name": key.rpartition("/")[2],
        "summary": summary,
        "payload": {"$ref": f"#/components/schemas/{schema}"},
        "bindings": _key({"type": "string", "const": key}),
    }


def _key(schema: Json) -> Json:
    return {"kafka": {"key": schema, "bindingVersion": "0.5.0"}}


def _channel(address: str, summary: str, settings: dict[str, str], messages: list[str]) -> Json:
    numbers = {name: int(value) for name, value in settings.items() if value.lstrip("-").isdigit()}
    configuration = settings | numbers | {"cleanup.policy": [settings["cleanup.policy"]]}
    return {
        "address": address,
        "summary": summary,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
        "bindings": {"kafka": {"topicConfiguration": configuration, "bindingVersion": "0.5.0"}},
    }


def _operation(action: str, channel: str, messages: list[str], summary: str) -> Json:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "summary": summary,
        "messages": [{"$ref": f"#/channels/{channel}/messages/{name}"} for name in messages],
    }


def _schemas() -> Json:
    models = [(model, "validation") for model in (Envelope, Genesis, RegistryRecord, Change)]
    _, made = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    schemas: Json = made["$defs"]
    for name, members in WIRE.items():
        for member, more in members.items():
            _narrow(schemas[name]["properties"][member], more)
    schemas["Envelope"]["required"] += ["v"]
    for name, always in {"Genesis": "control v", "RegistryRecord": "control v", "Change": "kind version"}.items():
        schemas[name]["required"] = [*always.split(), *schemas[name].get("required", [])]
    return {name: _without_titles(schema) for name, schema in sorted(schemas.items())}


def _narrow(schema: Json, more: Json) -> None:
    """Add what holds in the log, to the part of a schema that is not about null."""
    choices = [choice for choice in schema.get("anyOf", []) if choice != ABSENT]
    part = choices[0] if choices else schema
    part.update(more)


def _without_titles(schema: Any) -> Any:
    """Pydantic gives every member its own name as a title."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without_titles(part) for name, part in schema.items() if not (name == "title" and isinstance(part, str))
    }


def render() -> str:
    """The file's text."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), "utf-8")
