"""`lastword export` and `lastword import` on running lastwords."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from lastword.cli import main, patience
from lastword.cli.client import Api
from lastword_schemas.model import parse_instant
from lastword_schemas.registry import parse_registry_file
from tests.support.running import DECLARED, RunningLastword
from tests.support.services import shared_database

pytestmark = pytest.mark.real

KEYS = """
[keys."imported.mem0.m1"]
policy = "latest"
min_authority = "inferred"
"""


class Ran:
    """What a command did."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


def started(kafka: str, store: str) -> RunningLastword:
    return RunningLastword(kafka, shared_database(store), partitions=2, registry=parse_registry_file(DECLARED + KEYS))


@pytest.fixture(scope="module")
def here(real_kafka: str, store_url: str) -> Iterator[RunningLastword]:
    with started(real_kafka, store_url) as running:
        yield running


@pytest.fixture(scope="module")
def there(real_kafka: str, store_url: str) -> Iterator[RunningLastword]:
    """Another lastword."""
    with started(real_kafka, store_url) as running:
        yield running


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `lastword` with these arguments against a running one."""

    def run(lastword: RunningLastword, *arguments: str) -> Ran:
        for name, value in environment(lastword).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["lastword", *arguments])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


def environment(lastword: RunningLastword) -> dict[str, str]:
    api, worker = lastword.api_settings, lastword.worker_settings
    return {
        "LASTWORD_URL": f"http://{api.host}:{api.port}",
        "LASTWORD_REDIS": worker.redis.get_secret_value(),
        "LASTWORD_NAMESPACE": worker.namespace,
    }


@pytest.fixture
def name() -> str:
    """A person's name that nobody else has."""
    return str(uuid.uuid4())


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Any], str]:
    """Writes a file of JSON."""

    def write(document: Any) -> str:
        path = tmp_path / f"{uuid.uuid4()}.json"
        path.write_text(json.dumps(document))
        return str(path)

    return write


Write = Callable[[Any], str]


def memory(name: str, ident: str = "m1", text: str = "Likes it brief.", at: str = "2025-01-05") -> dict[str, Any]:
    return {"id": ident, "memory": text, "user_id": name, "updated_at": f"{at}T10:00:00Z"}


def mem0(lastword: RunningLastword, run: Run, file: str, *more: str) -> Ran:
    return run(lastword, "import", file, "--from", "mem0", "--json", *more)


def profile(lastword: RunningLastword, owner: str) -> list[dict[str, Any]]:
    """What applies and what does not any more, without where it stands and since when."""
    answer = lastword.get("/v1/profile", owner=owner, everything=True, limit=1000)
    assert answer.status_code == 200, answer.text
    return [
        {
            "at": (entry["identity"]["scope"], entry["identity"]["key"]),
            "service": entry["source"]["actor"]["service"],
            **{name: entry["state"].get(name) for name in ("status", "value", "authority", "expires_at")},
        }
        for entry in answer.json()["entries"]
    ]


# --- import


def test_an_import_fills_what_is_absent_and_twice_adds_nothing(
    here: RunningLastword, run: Run, write: Write, name: str
) -> None:
    file = write({"results": [memory(name)]})
    first, second = mem0(here, run, file), mem0(here, run, file)
    record = here.value(f"user:{name}", "imported.mem0.m1")
    assert (first.code, first.json["counts"]) == (0, {"added": 1})
    assert (second.code, second.json["counts"]) == (0, {"duplicate": 1})
    assert (record["state"]["value"], record["source"]["source_sequence"]) == ("Likes it brief.", 0)
    assert (record["source"]["updated_at"], record["source"]["occurred_at"]) == (None, "2025-01-05T10:00:00Z")


def test_an_import_is_late_for_what_was_said_since_and_for_what_was_deleted(
    here: RunningLastword, run: Run, write: Write, name: str
) -> None:
    owner = f"user:{name}"
    here.publisher.set(owner, "global", "theme", "dark")
    here.projected([here.publisher.delete(owner, "global", "guess")])
    file = write([memory(name, key, "light") | {"metadata": {"key": key}} for key in ("theme", "guess")])
    ran = mem0(here, run, file, "--key", "{metadata.key}", "--authority", "stated")
    assert (ran.code, ran.json["counts"]) == (0, {"late": 2})
    assert here.value(owner, "theme")["state"]["value"] == "dark"
    assert here.value(owner, "guess")["state"]["status"] == "deleted"


def test_a_later_export_updates_what_the_earlier_one_brought(
    here: RunningLastword, run: Run, write: Write, name: str
) -> None:
    mem0(here, run, write([memory(name)]))
    later = [memory(name, "m0", at="2024-01-01"), memory(name, text="Likes it long.", at="2025-02-05")]
    ran = mem0(here, run, write(later), "--key", "imported.mem0.m1")
    assert ran.json["counts"] == {"late": 1, "updated": 1}
    assert here.value(f"user:{name}", "imported.mem0.m1")["state"]["value"] == "Likes it long."
    history = run(here, "history", f"user:{name}", "imported.mem0.m1").out
    assert "before the log" in history


def test_two_imports_of_one_time_that_disagree_are_unresolved(
    here: RunningLastword, run: Run, write: Write, name: str
) -> None:
    mem0(here, run, write([memory(name)]))
    ran = mem0(here, run, write([memory(name, text="Likes it long.")]), "--dry-run")
    assert ran.json["counts"] == {"conflict": 1}
    assert mem0(here, run, write([memory(name, text="Likes it long.")])).json["counts"] == {"conflict": 1}
    state = here.value(f"user:{name}", "imported.mem0.m1")["state"]
    assert state["resolution_reason"] == "equal_version_conflict"


def test_what_is_refused_or_cannot_be_imported_is_told_with_its_row_and_fails(
    here: RunningLastword, run: Run, write: Write, name: str
) -> None:
    rows = [memory(name, "unheard.of"), memory(name), {"id": "x"}, memory(name, "answer_detail")]
    map_file = Path(write([])).with_suffix(".toml")
    map_file.write_text('[[rule]]\nwhere = { id = "answer_detail" }\nkey = "answer_detail"\nauthority = "stated"\n')
    ran = mem0(here, run, write(rows), "--map", str(map_file))
    assert ran.code == 1
    assert ran.json["counts"] == {"added": 1, "refused": 2, "not importable": 1}
    assert [problem["row"] for problem in ran.json["problems"]] == [1, 3, 4]
    assert 'keys."imported.mem0.unheard.of"' in ran.json["declare"]


# --- dry run


def test_a_dry_run_says_what_would_become_what_and_the_import_does_that(
    here: RunningLastword, run: Run, write: Write, name: str
) -> None:
    owner = f"user:{name}"
    here.projected([here.publisher.set(owner, "global", "theme", "dark")])
    rows = [
        memory(name, "m1", "v1", at="2025-01-01"),
        memory(name, "any", "v2"),
        memory(name, "any", "v3", at="2025-02-01"),
        memory(name, "theme", "light"),
        memory(name, "unheard.of"),
        memory(name, "m2") | {"user_id": None},
    ]
    names = {row["id"]: "imported.mem0.m1" if row["id"] == "m1" else row["id"] for row in rows}
    document = write([row | {"key": names[row["id"]]} for row in rows])
    dry = mem0(here, run, document, "--dry-run", "--key", "{key}", "--authority", "stated")
    assert {(row["row"], row["becomes"]) for row in dry.json["rows"]} == {
        (1, "added"),
        (2, "superseded"),
        (3, "added"),
        (4, "late"),
        (5, "refused"),
        (6, "not importable"),
    }
    assert dry.code == 1
    assert here.value(owner, "any")["state"]["status"] == "absent"
    real = mem0(here, run, document, "--key", "{key}", "--authority", "stated")
    assert real.json["counts"] == {"added": 2, "updated": 1, "late": 1, "refused": 1, "not importable": 1}
    again = mem0(here, run, document, "--dry-run", "--key", "{key}", "--authority", "stated")
    assert [row["becomes"] for row in again.json["rows"] if row["row"] in (1, 3)] == ["there already"] * 2


def test_the_table_of_a_dry_run_has_each_row_the_totals_and_the_lines_that_declare_keys(
    here: RunningLastword, run: Run, write: Write, name: str
) -> None:
    file = write([memory(name), memory(name, "unheard.of")])
    ran = run(here, "import", file, "--from", "mem0", "--dry-run")
    assert "imported.mem0.m1" in ran.out
    assert "refused" in ran.out
    assert '[keys."imported.mem0.unheard.of"]\npolicy = "latest"\nmin_authority = "inferred"' in ran.out
    assert (ran.code, here.value(f"user:{name}", "imported.mem0.m1")["state"]["status"]) == (1, "absent")


# --- when parts of it are away


def test_what_had_no_room_is_sent_again(
    here: RunningLastword, run: Run, write: Write, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "_FIRST_S", 0.0)
    post, refused = Api.post, iter([True, True])

    def full(api: Api, path: str, body: Any, **more: Any) -> str:
        answer = json.loads(post(api, path, body, **more))
        if path == "/v1/events" and next(refused, False):  # the second of two was not sent
            answer["results"][-1] = {"outcome": "failed", "problem": {"detail": "full", "code": "backpressure"}}
        return json.dumps(answer)

    monkeypatch.setattr(Api, "post", full)
    ran = mem0(here, run, write([memory(name), memory(name, "any")]), "--key", "any")
    assert (ran.code, ran.json["counts"].get("refused")) == (0, None)
    assert sum(ran.json["counts"].values()) == 2


def test_an_import_without_a_lastword_says_so_at_once(here: RunningLastword, run: Run, write: Write, name: str) -> None:
    began = time.monotonic()
    away = {**os.environ, "LASTWORD_URL": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "lastword.cli", "import", write([memory(name)]), "--from", "mem0"]
    ran = subprocess.run(command, env=away, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, "no lastword answers" in ran.stderr) == (1, True)
    assert time.monotonic() - began < 30


# --- export


def fill(lastword: RunningLastword, owner: str) -> None:
    """Values, tombstones, values whose time is over, in two scopes; one was read by an extractor."""
    publish = lastword.publisher
    publish.set(owner, "global", "theme", "light")
    publish.set(owner, "global", "theme", {"night": "dark", "big": 2**70, "float": 0.1})
    publish.set(owner, "project:{p} é", "theme", None)
    publish.set(owner, "global", "falls", "over", expires_at=parse_instant("2026-01-01T00:00:00Z"))
    publish.set(owner, "global", "answer_detail", "brief")
    publish.delete(owner, "global", "answer_detail")
    turn = publish.say(owner, "t1", "She may fly in the evening.")
    last = lastword.candidates.set(owner, "global", "guess", "evening", source_event_id=turn)
    lastword.projected([last])


def test_an_export_imported_into_another_lastword_gives_the_same_profile(
    here: RunningLastword, there: RunningLastword, run: Run, tmp_path: Path, name: str
) -> None:
    owner, file, second = f"user:{name}", str(tmp_path / "export.jsonl"), str(tmp_path / "second.jsonl")
    fill(here, owner)
    exported = run(here, "export", "--owner", owner, "--history", "-o", file)
    tried = run(there, "import", file, "--from", "lastword", "--dry-run")
    imported = run(there, "import", file, "--from", "lastword", "--json")
    assert (exported.code, imported.code) == (0, 0), exported.err + imported.err
    assert imported.json["counts"] == {"added": 4, "deleted": 1, "left out": 8}
    assert profile(here, owner) == profile(there, owner)
    assert len(profile(there, owner)) == 5
    rows = [line.split()[0] for line in tried.out.splitlines() if line[:1].isdigit()]
    assert rows == ["3", "4", "5", "6", "7", "8…15"]  # in the order of the file, its history in one row

    run(there, "export", "--owner", owner, "-o", second)
    assert run(here, "import", second, "--from", "lastword", "--json").json["counts"] == {"late": 5}
    assert profile(here, owner) == profile(there, owner)


def test_the_lines_of_an_export_are_of_the_schema_and_of_one_moment(
    here: RunningLastword, run: Run, tmp_path: Path, name: str
) -> None:
    owner, file = f"user:{name}", tmp_path / "export.jsonl"
    fill(here, owner)
    run(here, "export", "--owner", owner, "--history", "-o", str(file))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    schema = jsonschema_rs.validator_for(run(here, "export", "--schema").json)
    assert [error.message for line in lines for error in schema.iter_errors(line)] == []
    assert [line["type"] for line in lines] == ["header", "owner", *["entry"] * 5, *["event"] * 8, "end"]
    assert lines[0]["log_id"] == here.log.log_id
    assert lines[-1] == {"type": "end", "owners": 1, "entries": 5, "events": 8}
    assert not list(tmp_path.glob("*.partial"))
    expired = next(line for line in lines if line.get("status") == "expired")
    assert expired["value"] == "over"


def test_an_export_of_everybody_has_each_owner(here: RunningLastword, run: Run, tmp_path: Path, name: str) -> None:
    owners = [f"main/user:{name}:{number}/é" for number in range(5)]
    here.projected([here.publisher.set(owner, "global", "theme", "dark") for owner in owners])
    here.projected([here.publisher.say(f"main/user:{name}:silent", "t1", "Hello.")])
    file = tmp_path / "all.jsonl"
    assert run(here, "export", "--all", "-o", str(file)).code == 0
    found = [json.loads(line) for line in file.read_text().splitlines()]
    assert set(owners) <= {line["owner"] for line in found if line["type"] == "entry"}
    assert f"main/user:{name}:silent" not in {line.get("owner") for line in found}
    printed = run(here, "export", "--all", "--history")
    assert f"main/user:{name}:silent" in printed.out


def test_an_export_that_was_cut_off_is_told(here: RunningLastword, run: Run, tmp_path: Path, name: str) -> None:
    file = tmp_path / "export.jsonl"
    here.projected([here.publisher.set(f"user:{name}", "global", "theme", "dark")])
    run(here, "export", "--owner", f"user:{name}", "-o", str(file))
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    assert "cut off" in run(here, "import", str(file), "--from", "lastword").err


@pytest.mark.parametrize("arguments", [[], ["--all", "--owner", "user:ada"]])
def test_an_export_is_of_named_owners_or_of_everybody(here: RunningLastword, run: Run, arguments: list[str]) -> None:
    ran = run(here, "export", *arguments)
    assert (ran.code, "--owner user:ada, or --all" in ran.err) == (1, True)
