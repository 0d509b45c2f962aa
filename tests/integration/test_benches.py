"""The benches on made-up data of the right shape: they run to the end, and a wrong answer is not passed over."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.bench import client, context, hotpath, latency, projection, search_latency, size
from tests.bench.bench import Options
from tests.support.services import require_local_kafka

REPOSITORY = Path(__file__).parents[2]
DATA = Path(os.environ.get("LASTWORD_DATA", REPOSITORY.parent / "shared" / "data"))
EMBEDDED = ("--broker", "embedded", "--partitions", "1")
Said = tuple[str, str, str, str | None]
"""Scope, key, operation, value."""
Play = Mapping[str, Sequence[Said]]

PLAY: dict[str, list[Said]] = {
    "ada": [
        ("Hotels_1", "city", "set", "Oslo"),
        ("Hotels_1", "stars", "set", "3"),
        ("Hotels_1", "city", "set", "Bergen"),
        ("Hotels_1", "stars", "delete", None),
        ("Hotels_1", "city", "set", "Bergen"),
        ("Hotels_1", "stars", "set", "4"),
    ],
    "ben": [
        ("Hotels_1", "city", "set", "Rome"),
        ("Alarm_1", "time", "set", "7 am"),
        ("Alarm_1", "time", "delete", None),
    ],
}
SLOTS = {("Hotels_1", "city"): "City", ("Hotels_1", "stars"): "Stars", ("Alarm_1", "time"): "Time of the alarm"}


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.bench", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def write(folder: Path, name: str, rows: Iterable[dict[str, Any]]) -> None:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def dialogue_events(play: Play) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for user, said in play.items():
        for seq, (scope, key, op, value) in enumerate(said, 1):
            row = {"stream_seq": len(rows) + 1, "user": user, "seq": seq, "turn": 2 * seq, "scope": scope, "key": key}
            rows.append(row | {"op": op} | ({} if value is None else {"value": value}))
    return rows


def state_after(said: Sequence[Said], scope: str) -> dict[str, str]:
    state: dict[str, str] = {}
    for where, key, _, value in said:
        if where == scope:
            state.pop(key, None)
            state |= {} if value is None else {key: value}
    return state


def dialogue_queries(play: Play) -> list[dict[str, Any]]:
    rows = []
    for user, said in play.items():
        for seq in range(1, len(said) + 1):
            for scope, key in SLOTS:
                value = state_after(said[:seq], scope).get(key)
                known = any(place == (scope, key) for place in ((at[0], at[1]) for at in said[:seq]))
                status = "current" if value is not None else "deleted" if known else "absent"
                mode = "current" if seq == len(said) else "as_of"
                row: dict[str, Any] = {
                    "qid": f"{user}|{key}|{seq}",
                    "user": user,
                    "scope": scope,
                    "key": key,
                    "mode": mode,
                }
                rows.append(row | {"as_of_seq": seq, "status": status, "value": value})
    return rows


def write_dialogues(folder: Path, play: Play) -> None:
    """A folder of the shape of `sgd_state`."""
    write(folder, "events.jsonl", dialogue_events(play))
    write(folder, "queries.jsonl", dialogue_queries(play))
    slots = [{"scope": scope, "key": key, "description": text} for (scope, key), text in SLOTS.items()]
    write(folder, "schema_slots.jsonl", slots)
    states = [
        {"user": user, "turn": 2 * seq, "after_seq": seq, "state": {"Hotels_1": state_after(said[:seq], "Hotels_1")}}
        for user, said in play.items()
        for seq in range(len(said) + 1)
    ]
    write(folder, "states.jsonl", states)


@pytest.fixture
def dialogues(tmp_path: Path) -> Path:
    """Two dialogues."""
    write_dialogues(tmp_path, PLAY)
    return tmp_path


@pytest.fixture
def currencies(tmp_path: Path) -> Path:
    """A folder of the shape of `cldr_currency`."""
    changes = [
        ("AA", "1900-01-01", "AAA"),
        ("BB", "1950-06-30", "BBB"),
        ("AA", "1960-01-01", "AAN"),
        ("BB", "1970-01-01", None),
    ]
    events = [
        {"key": key, "op": "set" if value else "delete", "valid_from": day, "stream_seq": number}
        | ({"value": value} if value else {})
        for number, (key, day, value) in enumerate(changes, 1)
    ]
    asked = [
        ("AA", "1899-12-31", "absent", None),
        ("AA", "1959-12-31", "current", "AAA"),
        ("AA", "1960-01-01", "current", "AAN"),
        ("BB", "1950-06-29", "absent", None),
        ("BB", "1969-12-31", "current", "BBB"),
        ("BB", "2026-01-01", "deleted", None),
    ]
    queries = [
        {"qid": f"{key}|{day}", "key": key, "as_of": day, "status": status, "value": value}
        for key, day, status, value in asked
    ]
    write(tmp_path, "events.jsonl", events)
    write(tmp_path, "queries.jsonl", queries)
    return tmp_path


def change_row(folder: Path, name: str, number: int, **changes: Any) -> None:
    rows = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    rows[number] |= changes
    write(folder, name, rows)


@pytest.mark.parametrize("part", ["twice", "shuffled"])
def test_sgd_holds_with_candidates_that_come_twice_or_late(dialogues: Path, part: str) -> None:
    ran = bench("sgd", "--data", str(dialogues), *EMBEDDED, "--seed", "1", "--only", part)

    assert ran.returncode == 0, ran.stderr
    assert "seed 1;" in ran.stdout
    (line, *_) = [line for line in ran.stdout.splitlines() if line.startswith(f"sgd {part}: ")]
    assert "current 6 of 6 (3 current, 1 deleted, 2 absent)" in line
    assert "as_of 21 of 21 (10 current, 2 deleted, 9 absent)" in line
    assert "states 11 of 11 (12 current, 2 deleted, 8 absent)" in line


def test_sgd_holds_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    play = {f"{user} {number}": said for number in range(60) for user, said in PLAY.items()}
    write_dialogues(tmp_path, play)  # some commits' worth, so that there is a moment to kill the worker at

    ran = bench("sgd", "--data", str(tmp_path), *EMBEDDED, "--only", "killed", "--kill-every", "250")

    assert ran.returncode == 0, ran.stderr
    assert "current 360 of 360" in ran.stdout
    assert re.search(r"worker killed [1-9]\d* times", ran.stdout)
    expected = "entries 240 of 240, event ids 1,080 of 1,080, histories 1,080 of 1,080, checkpoints 1 of 1"
    assert f"byte-equal to the fold of the log: {expected}" in ran.stdout


def test_sgd_fails_on_wrong_answers_and_names_them(dialogues: Path) -> None:
    change_row(dialogues, "queries.jsonl", 0, value="Bergen")
    change_row(dialogues, "queries.jsonl", 1, status="deleted")
    change_row(dialogues, "queries.jsonl", 10, status="absent")
    change_row(dialogues, "states.jsonl", 4, state={"Hotels_1": {"city": "Bergen", "stars": "3"}})

    ran = bench("sgd", "--data", str(dialogues), *EMBEDDED, "--only", "statements")

    assert ran.returncode == 1, ran.stderr
    assert "as_of 18 of 21" in ran.stdout
    assert "current 6 of 6" in ran.stdout
    assert "states 10 of 11" in ran.stdout
    assert "MISSED" in ran.stdout
    assert "as_of ada|city|1, key city, as_of 2: expected current 'Bergen', got set 'Oslo'" in ran.stderr
    assert "as_of ada|stars|1, key stars, as_of 2: expected deleted None, got absent None" in ran.stderr
    assert "as_of ada|stars|4, key stars, as_of 5: expected absent None, got deleted None" in ran.stderr
    assert "states of ada Hotels_1 after turn 8, key stars, as_of 5: expected current '3', got deleted" in ran.stderr


def test_cldr_holds(currencies: Path) -> None:
    ran = bench("cldr", "--data", str(currencies), *EMBEDDED)

    assert ran.returncode == 0, ran.stderr
    assert "as_of 6 of 6 (3 current, 1 deleted, 2 absent)" in ran.stdout


def test_cldr_fails_on_a_wrong_answer(currencies: Path) -> None:
    change_row(currencies, "queries.jsonl", 1, value="AAN")

    ran = bench("cldr", "--data", str(currencies), *EMBEDDED)

    assert ran.returncode == 1, ran.stderr
    assert "cldr: wrong: as_of AA|1959-12-31" in ran.stderr
    assert "expected current 'AAN', got set 'AAA'" in ran.stderr


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """A folder of the shape of `sgd_state`, for searches; its files have other names."""
    write(tmp_path, "a.jsonl", dialogue_events(PLAY))
    asked = [
        {"qid": "city", "user": "ada", "scope": "Hotels_1", "key": "city", "mode": "current", "as_of_seq": 6}
        | {"status": "current", "value": "Bergen", "stale": ["Oslo"], "future": [], "changed": True},
        {"qid": "stars", "user": "ada", "scope": "Hotels_1", "key": "stars", "mode": "as_of", "as_of_seq": 3}
        | {"status": "current", "value": "3", "stale": [], "future": ["4"], "changed": True},
        {"qid": "time", "user": "ben", "scope": "Alarm_1", "key": "time", "mode": "as_of", "as_of_seq": 3}
        | {"status": "deleted", "value": None, "stale": ["7 am"], "future": [], "changed": True},
    ]
    write(tmp_path, "b.jsonl", asked)
    slots = [
        {"scope": scope, "key": key, "description": text, "paraphrases": [f"the {key}", "", "", "", f"which {key}?"]}
        for (scope, key), text in SLOTS.items()
    ]
    write(tmp_path, "c.jsonl", slots)
    return tmp_path


def test_searches_in_dialogues_hold(questions: Path) -> None:
    ran = bench("search-sgd", "--data", str(questions), *EMBEDDED, "--only", "words")

    assert ran.returncode == 0, ran.stderr
    for wording in ("description", "paraphrase 1", "paraphrase 5"):
        assert f"search-sgd words, {wording}: all hit@1 100.0 % of 2" in ran.stdout
    assert "stale@5 0, future@5 0" in ran.stdout


def test_searches_in_dialogues_fail_on_a_hit_that_must_never_be(questions: Path) -> None:
    change_row(questions, "b.jsonl", 0, as_of_seq=1, stale=["Bergen"])  # all that was said later is untrue then

    ran = bench("search-sgd", "--data", str(questions), *EMBEDDED, "--only", "words")

    assert ran.returncode == 1, ran.stderr
    assert "stale@5 1" in ran.stdout
    assert "must never be found: city: rank 1 is ('service:Hotels_1', 'Hotels_1.city') = 'Bergen'" in ran.stderr


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    """A folder of the shape of `factconsolidation`."""
    said = [("sport", "Ada", "chess"), ("capital", "Norway", "Oslo"), ("sport", "Ada", "rugby"), ("sport", "Ben", "go")]
    rows = [
        {"pool": "tiny", "seq": seq, "text": f"The {scope} of {key} is {value}.", "scope": scope, "key": key}
        | {"value": value}
        for seq, (scope, key, value) in enumerate(said)
    ]
    write(tmp_path, "said.jsonl", rows)
    asked = [
        {"qid": "ada", "question": "Which sport does Ada play?", "answers": ["rugby"], "current_seq": 2}
        | {"slot": {"scope": "sport", "key": "Ada"}, "stale_seqs": [0]},
        {"qid": "norway", "question": "What is the capital of Norway?", "answers": ["Oslo"], "current_seq": 1}
        | {"slot": {"scope": "capital", "key": "Norway"}, "stale_seqs": []},
    ]
    write(
        tmp_path, "asked.jsonl", [{"pool": "tiny", "hops": "single", "latest_equals_gold": True} | row for row in asked]
    )
    return tmp_path


def test_searches_in_facts_hold(facts: Path) -> None:
    ran = bench("search-facts", "--data", str(facts), *EMBEDDED)

    assert ran.returncode == 0, ran.stderr
    assert (
        "search-facts tiny: 4 facts, 3 apply; by key: now 2 of 2 (2 current); before 1 of 1 (1 current)" in ran.stdout
    )
    assert "the fact that applies comes first: 100.0 % of 2, bar 98.0" in ran.stdout
    assert re.search(r"over HTTP, one at a time, 3 records of one owner: p50 [\d.]+ ms, p95 [\d.]+ ms", ran.stdout)


def test_searches_in_facts_fail_where_the_right_one_does_not_come_first(facts: Path) -> None:
    change_row(facts, "asked.jsonl", 1, question="Which sport does Ben play?")

    ran = bench("search-facts", "--data", str(facts), *EMBEDDED)

    assert ran.returncode == 1, ran.stderr
    assert "comes first: 50.0 % of 2, bar 98.0" in ran.stdout


def test_a_search_is_timed_over_http(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, number in {"RECORDS": 20, "REQUESTS": 10, "CHANGES": 2, "P95_MS": 1e9}.items():
        monkeypatch.setattr(search_latency, name, number)
    assert search_latency.run(Options(Path(), broker="embedded", partitions=1))
    assert re.search(r"20 records: p50 [\d.]+ ms, .*; the first after a change: p50 [\d.]+ ms", capsys.readouterr().out)

    monkeypatch.setattr(search_latency, "P95_MS", 0.0)
    assert not search_latency.run(Options(Path(), broker="embedded", partitions=1))


def test_contexts_are_timed_over_http(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, number in {"RECORDS": 20, "REQUESTS": 10, "ROUNDS": 2, "P95_MS": 1e9}.items():
        monkeypatch.setattr(context, name, number)
    assert context.run(Options(Path(), broker="embedded", partitions=1))
    assert re.search(r"check by id: p50 [\d.]+ ms \[.*\], p95 [\d.]+ ms \[.*\], at most", capsys.readouterr().out)

    monkeypatch.setattr(context, "P95_MS", 0.0)
    assert not context.run(Options(Path(), broker="embedded", partitions=1))


def test_missing_data_is_named(currencies: Path) -> None:
    (currencies / "queries.jsonl").unlink()

    none, nowhere, partly = bench("cldr"), bench("cldr", "--data", "nowhere"), bench("cldr", "--data", str(currencies))

    assert [ran.returncode for ran in (none, nowhere, partly)] == [2, 2, 2]
    assert "NO DATA: say where it is with --data FOLDER" in none.stderr
    assert "there is no folder nowhere" in nowhere.stderr
    assert "lacks queries.jsonl" in partly.stderr


def test_an_unknown_name_lists_the_benches() -> None:
    ran = bench("nothing")

    assert ran.returncode == 2
    assert "sgd " in ran.stderr
    assert "cldr " in ran.stderr


@pytest.mark.data
def test_cldr_holds_on_the_real_data() -> None:
    folder = DATA / "cldr_currency"
    if not folder.is_dir():
        pytest.skip(f"NO DATA: {folder} is not there; name the folder above it in LASTWORD_DATA")

    ran = bench("cldr", "--data", str(folder), "--broker", "embedded")

    assert ran.returncode == 0, ran.stderr
    assert "as_of 1,277 of 1,277 (1,031 current, 30 deleted, 216 absent)" in ran.stdout


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The bench of size, so small that no figure says anything; bars that are always held."""
    numbers = {"EVENTS": 300, "LONG": 700, "READS": 20, "SHORT_HISTORY": 20, "LONG_HISTORY": 200, "BLOCK": 20}
    for name, number in (numbers | {"BLOCKS": 2, "READ_P95_MS": 1e9, "COMMIT_MEAN_MS": 1e9, "COST": 1e9}).items():
        monkeypatch.setattr(size, name, number)
    monkeypatch.setattr(size, "READ_BLOCK_MS", 1e6)
    monkeypatch.setattr(size, "SIZES", {1: 10.0, 8: 10.0})
    return monkeypatch


def test_hotpath_says_where_the_time_goes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(projection, "EVENTS", 500)
    assert hotpath.run(Options(Path(), partitions=4))
    said = capsys.readouterr().out
    assert re.search(r"hotpath: Python [\d.]+ us/event \(take [\d.]+, fold [\d.]+, settle [\d.]+\); Redis [\d.]+", said)
    assert re.search(r"evalsha [\d.]+ us/event in \d+ calls", said)


def test_size_counts_all_keys_and_holds_within_its_bars(
    small: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert size.run(Options(Path()))
    said = capsys.readouterr().out
    assert re.search(r"size: 8 events an owner: 1\.\d\d of the payload", said)
    assert "as-of on one owner with 700 events" in said
    assert re.search(r"ratio \d+\.\d\d, at most", said)


def test_size_fails_above_a_bar(small: pytest.MonkeyPatch) -> None:
    small.setattr(size, "SIZES", {1: 0.5})
    assert not size.run(Options(Path()))


def test_the_import_of_the_client_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client, "IMPORTS", 1)
    monkeypatch.setattr(client, "IMPORT_MS", 0.0)

    assert not client.run(Options(Path(), only=("import",)))
    assert re.search(r"`import lastword`: \d+ \[\d+ - \d+\] ms", capsys.readouterr().out)


@pytest.mark.real
def test_latency_runs_to_its_end_and_fails_above_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """So small that no figure says anything; one bar that nothing can hold."""
    numbers = {
        "PUBLISHES": 20,
        "BLOCK": 10,
        "RATE": 50,
        "SECONDS": 1,
        "WARM_S": 1,
        "REQUESTS": 40,
        "CONNECTIONS": 2,
        "ROUNDS": 1,
    }
    bars = {"PUBLISH_RATIO": 1e9, "VISIBLE_P50_MS": 1e9, "VISIBLE_P99_MS": 1e9, "WOKEN_P50_MS": 1e9, "STORM": 1e9}
    for name, number in (numbers | bars | {"READERS": 6, "QUIET_S": 0.2, "LOOKUP_RATIO": 1e9}).items():
        monkeypatch.setattr(latency, name, number)
    require_local_kafka()

    assert not latency.run(Options(Path(), broker="kafka", partitions=4))

    said = capsys.readouterr().out
    assert re.search(r"publish acknowledged: p50 [\d.]+ ms, p99 [\d.]+ ms; the bare client", said)
    assert re.search(r"publish to visible at [\d.]+ events/s: p50", said)
    assert re.search(r"look-up over HTTP, one at a time: p50", said)
    assert re.search(r"woken after the announcement, 6 waiting: p50", said)
