"""`lastword topics check-producer` on topics of a real Kafka and on files. No Redis, no worker."""

import json
import sys
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lastword.cli import main
from lastword_producers.broker import KafkaSettings
from lastword_producers.kafka_log import apply_registry, create_log
from lastword_producers.publisher import CandidateClient, Publisher
from lastword_schemas.identity import record_key
from lastword_schemas.partitions import partition_for
from lastword_schemas.registry import parse_registry_file
from tests.support import topics
from tests.support.running import DECLARED

PARTITIONS = 2
Check = Callable[..., tuple[int, Any]]
"""Runs the command with `--json`; exit code and report."""


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    def check(*arguments: str) -> tuple[int, Any]:
        monkeypatch.setattr(sys, "argv", ["lastword", "topics", "check-producer", "--json", *arguments])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else err

    return check


@pytest.fixture(scope="module")
def log(real_kafka: str) -> KafkaSettings:
    """A log with a registry that lastword's own clients wrote to."""
    settings = topics.settings_for(real_kafka)
    identity = create_log(settings, PARTITIONS)
    apply_registry(settings, parse_registry_file(DECLARED))
    with (
        Publisher(settings, identity, service="app") as app,
        CandidateClient(settings, identity, service="reader") as reader,
    ):
        for number in range(20):
            owner = f"main/user:{number}"
            turn = app.say(owner, "t", "Brief, please.")
            app.set(owner, "global", "any", number)
            reader.set(owner, "global", "any", "brief", source_event_id=turn, span=(0, 5), quote="Brief")
    return settings


@pytest.fixture
def connected(log: KafkaSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LASTWORD_KAFKA", log.bootstrap_servers)
    monkeypatch.setenv("LASTWORD_TOPIC", log.topic)
    monkeypatch.setenv("LASTWORD_REDIS", "redis://127.0.0.1:1/0")


def envelope(owner: str, **changes: Any) -> dict[str, Any]:
    fields = {
        "v": 1,
        "event_id": str(uuid.uuid4()),
        "owner": owner,
        "scope": "global",
        "key": "any",
        "operation": "set",
    }
    return fields | {"actor": {"service": "bare"}, "body": {"value": 1}} | changes


def write(settings: KafkaSettings, partition: int, fields: dict[str, Any]) -> None:
    key = record_key(fields["owner"], fields["scope"], fields["key"])
    topics.append(settings, partition, key.encode(), json.dumps(fields).encode())


def found(report: Any) -> list[tuple[str, int, int]]:
    return [(finding["kind"], finding["partition"], finding["offset"]) for finding in report["findings"]]


@pytest.mark.real
@pytest.mark.usefixtures("connected")
class TestTopics:
    def test_lastwords_own_clients_write_right(self, check: Check) -> None:
        code, report = check("--from-offset", "0")

        assert code == 0, report
        assert (report["events"], report["findings"], report["unchecked"]) == (60, [], [])

    def test_a_part_of_the_log_is_read_by_count_or_time(self, check: Check) -> None:
        _, last = check("--last", "3")
        _, since = check("--since", datetime.fromtimestamp(time.time() + 60, UTC).isoformat())
        _, all_of_it = check("--since", "2020-01-01T00:00:00Z")

        assert (last["records"], last["events"]) == (6, 6)
        assert last["unchecked"][0] == "keys and values, because no registry is known"
        assert since["records"] == 0
        assert all_of_it["records"] == 60 + 2 * PARTITIONS

    def test_a_producer_that_writes_wrong_into_a_log_is_told_what_and_where(
        self, check: Check, real_kafka: str
    ) -> None:
        settings = topics.settings_for(real_kafka)
        create_log(settings, PARTITIONS)
        apply_registry(settings, parse_registry_file(DECLARED))
        owner = "main/user:ada"
        right = partition_for(owner, PARTITIONS)
        write(settings, right, envelope(owner))
        write(settings, right, envelope(owner, mood="good"))
        write(settings, 1 - right, envelope(owner))
        write(settings, right, envelope(owner, actor={"service": "another"}, v=2))

        code, report = check("--topic", settings.topic, "--service", "bare")

        assert code == 1
        assert sorted(found(report)) == [
            ("event-id-version", right, 2),
            ("malformed", right, 3),
            ("wrong-partition", 1 - right, 2),
        ]
        assert [finding["wrong"] for finding in report["findings"]] == [True, True, False]

    def test_a_topic_to_try_a_producer_on_needs_no_genesis(self, check: Check, real_kafka: str) -> None:
        settings = topics.settings_for(real_kafka)
        topics.create(settings, 24, {"message.timestamp.type": "LogAppendTime"})
        owner = "main/user:ada"
        write(settings, partition_for(owner, 24), envelope(owner, event_id=str(uuid.uuid5(uuid.NAMESPACE_URL, "1"))))
        assert check("--topic", settings.topic)[0] == 0

        write(settings, partition_for(owner, 24), envelope(owner, operation="frobnicate"))
        code, report = check("--topic", settings.topic)

        assert code == 1
        assert found(report) == [("newer-version", partition_for(owner, 24), 1)]

    def test_a_topic_that_does_not_exist_is_said_to_be_missing(self, check: Check) -> None:
        code, said = check("--topic", "nobody-made-this")

        assert code == 1
        assert "topic 'nobody-made-this' does not exist" in said


def line(**changes: Any) -> str:
    fields = envelope("main/user:ada", event_id=str(uuid.uuid5(uuid.NAMESPACE_URL, "1")))
    key = record_key(fields["owner"], fields["scope"], fields["key"])
    return json.dumps({"partition": 11, "key": key, "value": fields} | changes)


def test_a_file_is_checked_without_kafka_and_its_lines_are_named(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LASTWORD_KAFKA", "127.0.0.1:1")
    file, keys = tmp_path / "records.jsonl", tmp_path / "keys.toml"
    keys.write_text(DECLARED)
    right = json.loads(line())
    as_text = line(value=json.dumps(right["value"]))

    file.write_text(f"{line()}\n{as_text}\n")
    assert check("--file", str(file), "--keys", str(keys))[1]["findings"][0]["kind"] == "duplicate"

    file.write_text(f"{line()}\n{line(key=None)}\n{line(value=None)}\n")
    code, report = check("--file", str(file), "--keys", str(keys))
    assert code == 1
    assert found(report) == [("no-envelope", 11, 3), ("duplicate", 11, 2)]


@pytest.mark.parametrize("bad", ["{", "[]", '{"partition": "1"}', '{"key": "k"}'])
def test_a_line_that_holds_no_record_is_named(check: Check, tmp_path: Path, bad: str) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text(f"{line()}\n{bad}\n")

    code, said = check("--file", str(file))

    assert code == 1
    assert "line 2: " in said
