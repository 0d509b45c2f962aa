"""`lastword replay` is stopped in the middle, in several ways, and run again."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lastword.process import free_port
from tests.support.running import RunningLastword

LINES = 600
BATCH = 20
SECONDS = 60.0


@pytest.fixture
def owner() -> str:
    return f"main/user:{uuid.uuid4()}"


@pytest.fixture
def file(owner: str, tmp_path: Path) -> Path:
    """Events without ids of their own, a blank line and one that is no event among them."""
    lines = [json.dumps(statement(owner, number)) for number in range(LINES)]
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join([*lines[:5], "", "no event", *lines[5:]]))
    return path


def statement(owner: str, value: Any) -> dict[str, Any]:
    fields = {"operation": "set", "scope": "global", "key": "any", "actor": {"service": "tests"}}
    return {"owner": owner, "value": value} | fields


def environment(lastword: RunningLastword) -> Mapping[str, str]:
    api = lastword.api_settings
    return {**os.environ, "LASTWORD_URL": f"http://{api.host}:{api.port}"}


def command(file: Path) -> Sequence[str]:
    return [sys.executable, "-m", "lastword.cli", "replay", str(file), "--batch", str(BATCH), "--json"]


def replay(lastword: RunningLastword, file: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(file), env=environment(lastword), capture_output=True, text=True, timeout=SECONDS)


def heed_interrupts() -> None:
    """As a terminal starts a program; a shell starts what runs in its background with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def stop_in_the_middle(lastword: RunningLastword, file: Path, kind: signal.Signals) -> tuple[int, str]:
    """Start a replay and send it a signal as soon as a batch is done; exit code and what was said."""
    journal = file.with_name(f"{file.name}.replaying")
    started = subprocess.Popen(
        command(file),
        env=environment(lastword),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    deadline = time.monotonic() + SECONDS
    while not journal.exists() or journal.read_bytes().count(b"\n") < 3:
        assert time.monotonic() < deadline
        assert started.poll() is None, "it came to its end before it could be stopped"
        time.sleep(0.001)
    started.send_signal(kind)
    _, errors = started.communicate(timeout=SECONDS)
    assert journal.exists()
    return started.returncode, errors


def values_of(lastword: RunningLastword, owner: str) -> list[Any]:
    """The values of the owner's events in the order of the log, copies left out."""
    found: list[Any] = []
    page: str | None = None
    while True:
        answer = lastword.get("/v1/history", owner=owner, limit=1000, page=page)
        assert answer.status_code == 200, answer.text
        found += [event["value"] for event in answer.json()["events"] if event["outcome"] != "duplicate"]
        if (page := answer.json()["next_page"]) is None:
            return found


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT])
def test_a_replay_that_was_stopped_goes_on_where_it_was_and_adds_nothing_twice(
    lastword: RunningLastword, owner: str, file: Path, kind: signal.Signals
) -> None:
    code, said = stop_in_the_middle(lastword, file, kind)
    again = replay(lastword, file)

    told = json.loads(again.stdout)
    assert values_of(lastword, owner) == list(range(LINES))
    assert 2 * BATCH <= told["done_before"] < LINES
    assert told["total"] < LINES
    assert told["counts"].keys() <= {"added", "updated", "duplicate"}
    assert again.returncode == 0, again.stderr
    assert not list(file.parent.glob("*.replaying"))
    if kind is signal.SIGINT:
        assert code == 1
        assert "stopped: interrupted. Lines up to " in said
        assert "Traceback" not in said


def test_the_stops_of_a_replay_may_be_many(lastword: RunningLastword, owner: str, file: Path) -> None:
    journal = file.with_name(f"{file.name}.replaying")
    stop_in_the_middle(lastword, file, signal.SIGKILL)
    notes = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(notes[:-1]) + notes[-1][:9])  # as if it had been killed before the last was written

    unreachable = {**environment(lastword), "LASTWORD_URL": f"http://127.0.0.1:{free_port()}"}
    failed = subprocess.run(command(file), env=unreachable, capture_output=True, text=True, timeout=SECONDS)
    assert failed.returncode == 1
    assert "no lastword answers" in failed.stderr
    replay(lastword, file)

    assert values_of(lastword, owner) == list(range(LINES))


def test_a_file_that_was_changed_meanwhile_is_not_gone_on_with(
    lastword: RunningLastword, owner: str, file: Path
) -> None:
    stop_in_the_middle(lastword, file, signal.SIGKILL)
    text = file.read_text()
    file.write_text(text.replace('"value": 3,', '"value": 33,'))

    changed = replay(lastword, file)
    file.write_text(text)
    same = replay(lastword, file)

    assert changed.returncode == 1
    assert "events.jsonl is not what it was" in changed.stderr
    assert same.returncode == 0, same.stderr
    assert values_of(lastword, owner) == list(range(LINES))


def test_into_another_log_a_file_is_replayed_from_its_first_line(
    lastword: RunningLastword, owner: str, file: Path
) -> None:
    stop_in_the_middle(lastword, file, signal.SIGKILL)
    journal = file.with_name(f"{file.name}.replaying")
    journal.write_text(journal.read_text().replace(lastword.log.log_id, "0123456789abcdef"))

    again = json.loads(replay(lastword, file).stdout)

    assert (again["done_before"], again["total"]) == (0, LINES + 1)


def test_a_file_is_replayed_by_one_process_at_a_time(lastword: RunningLastword, file: Path) -> None:
    first = subprocess.Popen(command(file), env=environment(lastword), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    journal = file.with_name(f"{file.name}.replaying")
    while not journal.exists() or not journal.read_bytes():
        assert first.poll() is None
        time.sleep(0.001)
    first.send_signal(signal.SIGSTOP)

    second = replay(lastword, file)

    first.send_signal(signal.SIGCONT)
    first.communicate(timeout=SECONDS)
    assert second.returncode == 1
    assert "another process" in second.stderr


def test_standard_input_keeps_no_journal(lastword: RunningLastword, owner: str, file: Path) -> None:
    with file.open("rb") as lines:
        piped = [*command(Path("-"))]
        ran = subprocess.run(piped, env=environment(lastword), stdin=lines, capture_output=True, timeout=SECONDS)

    assert ran.returncode == 1  # for the line that is no event
    assert values_of(lastword, owner) == list(range(LINES))
    assert not list(file.parent.glob("*.replaying"))
