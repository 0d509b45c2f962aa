"""Every command of the command line, on a running lastword."""

import io
import json
import sys
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import redis

from lastword.cli import main
from lastword.launcher import starter_text
from lastword.process import free_port
from lastword_projector.engine.keys import compile_registry
from lastword_projector.store.names import Names, field_of
from lastword_query_api.changes import Closing
from lastword_schemas.registry import parse_registry_file
from tests.support.running import DECLARED, RunningLastword

EXAMPLE = Path(__file__).parents[2] / "docs" / "keys.example.toml"


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `lastword` with these arguments."""

    def run(*arguments: str) -> Ran:
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


@pytest.fixture
def cli(run: Run, lastword: RunningLastword, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The same, told where the shared lastword is."""
    api, worker = lastword.api_settings, lastword.worker_settings
    variables = {
        "URL": f"http://{api.host}:{api.port}",
        "KAFKA": worker.kafka,
        "TOPIC": worker.topic,
        "DEAD_LETTER_TOPIC": worker.dead_letter_topic,
        "CHANGES_TOPIC": worker.changes_topic,
        "CONTEXTS_TOPIC": worker.contexts_topic,
        "REDIS": worker.redis.get_secret_value(),
        "NAMESPACE": worker.namespace,
    }
    for name, value in variables.items():
        monkeypatch.setenv(f"LASTWORD_{name}", value)
    return run


@pytest.fixture
def owner() -> str:
    """An owner that nobody else has."""
    return f"user:{uuid.uuid4()}"


def receipt_of(ran: Ran) -> str:
    assert ran.code == 0, ran.err
    return str(ran.json["receipt"]["receipt"])


def write_lines(path: Path, *lines: Any) -> str:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return str(path)


def test_a_published_value_is_told_with_its_reason(cli: Run, owner: str) -> None:
    published = cli("publish", owner, "theme", "dark", "--scope", "project:Comet", "--thread", "t1")
    why = cli("why", owner, "theme", "--scope", "project:Comet")

    assert published.code == 0
    assert published.out.startswith("added at sequence ")
    assert "receipt r1." in published.out
    for words in ("applies", "dark", "command-line as person, authority stated", "thread t1", "rule: exact"):
        assert words in why.out


@pytest.mark.parametrize(
    ("written", "value"),
    [("brief", "brief"), ('"12"', "12"), ("12", 12), ("true", True), ("[1, {}]", [1, {}]), ("null", None), ("{", "{")],
)
def test_a_value_is_json_if_it_parses_else_a_string(cli: Run, owner: str, written: str, value: Any) -> None:
    assert cli("publish", owner, "any", written).code == 0

    assert cli("get", owner, "any", "--json").json["state"]["value"] == value


def test_a_value_on_the_screen_can_be_typed_again(cli: Run, owner: str) -> None:
    cli("publish", owner, "any", '"12"')

    assert '"12"' in cli("get", owner, "any").out


def test_control_codes_in_a_value_do_not_reach_the_terminal(cli: Run, owner: str) -> None:
    cli("publish", owner, "any", '"\\u001b[2J\\u202eevil"')
    cli("publish", owner, "--say", "bell \x07 and \x1b[31mred", "--thread", "t")

    shown = cli("get", owner, "any").out + cli("history", owner).out
    assert "evil" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_several_keys_are_read_at_one_moment(cli: Run, owner: str) -> None:
    cli("publish", owner, "theme", "dark")
    cli("publish", owner, "any", "x", "-s", "project:Comet")

    several = cli("get", owner, "theme", "any", "falls", "-s", "project:Comet", "--json").json

    assert [value["selection"]["rule"] for value in several["values"]] == ["fallback", "exact", "absent"]
    alone = cli("get", owner, "theme", "any", "-s", "project:Comet", "--no-fallback")
    assert alone.out.count("absent") == 2  # status and rule of one line


def test_boundaries_and_demands_are_passed_on(cli: Run, owner: str) -> None:
    cli("publish", owner, "theme", "dark")
    receipt = receipt_of(cli("publish", owner, "theme", "light", "--json"))
    sequence = int(receipt.split(".")[4])

    assert cli("get", owner, "theme", "--at-least", receipt, "--json").json["state"]["value"] == "light"
    assert cli("get", owner, "theme", "--as-of", str(sequence - 1), "--json").json["state"]["value"] == "dark"
    assert cli("why", owner, "theme", "--known-at", str(sequence - 1), "--json").json["state"]["value"] == "dark"
    assert "provisional" in cli("get", owner, "theme", "--as-of", str(sequence + 1000)).out
    assert "neither a sequence nor" in cli("get", owner, "theme", "--as-of", "tomorrow").err


def test_a_deleted_value_is_in_the_history_and_no_longer_in_the_profile(cli: Run, owner: str) -> None:
    cli("publish", owner, "theme", "dark")
    assert "dark" in cli("profile", owner).out

    cli("publish", owner, "theme", "--delete")

    assert "nothing applies" in cli("profile", owner).out
    assert "deleted" in cli("profile", owner, "--all").out
    assert [v["status"] for v in cli("history", owner, "theme", "--json").json["versions"]] == ["deleted", "current"]
    history = cli("history", owner, "theme").out
    assert "dark" in history
    assert "delete at" in history
    assert [event["effect"] for event in cli("history", owner, "--json").json["events"]] == ["added", "deleted"]


def test_a_value_is_published_only_if_nobody_changed_it(cli: Run, owner: str) -> None:
    assert cli("publish", owner, "theme", "dark", "--expected-sequence", "0").code == 0

    refused = cli("publish", owner, "theme", "light", "--expected-sequence", "0")

    assert refused.code != 0
    assert "expected_sequence is 0, the entry's source sequence is" in refused.err
    assert "dark" in cli("get", owner, "theme").out


def test_a_value_moves_to_another_scope_in_one_step(cli: Run, owner: str) -> None:
    cli("publish", owner, "theme", "dark")

    moved = cli("publish", owner, "theme", "dark", "-s", "project:My Comet", "--retires", "global theme")

    assert "global theme: deleted" in moved.out
    assert "set of project:My Comet · theme" in cli("why", owner, "theme").out
    assert "deleted by project:My" in cli("history", owner, "theme").out
    assert "one argument" in cli("publish", owner, "theme", "x", "--retires", "theme").err


def test_one_of_two_values_is_chosen_by_what_it_says_and_the_other_shown_as_ended(cli: Run, owner: str) -> None:
    for employer in ("Acme", "Globex"):
        cli("publish", owner, "employer", employer, "--authority", "inferred", "--role", "service")
    assert "lastword resolve OWNER KEY VALUE" in cli("why", owner, "employer").out
    assert cli("resolve", owner, "employer", "Initech").code == 1

    chosen = cli("resolve", owner, "employer", "Globex", "--why", "she says so")

    assert chosen.code == 0
    assert "resolved" in chosen.out
    assert cli("get", owner, "employer", "--json").json["state"]["value"] == "Globex"
    assert "ended by the resolve" in " ".join(cli("why", owner, "employer").out.split())
    decision = cli("history", owner, "--json").json["events"][-1]
    assert (decision["text"], decision["saw"]) == ("she says so", decision["position"]["sequence"] - 1)

    assert "withdrew" in cli("withdraw", owner, decision["event_id"]).out
    assert cli("get", owner, "employer", "--json").json["state"]["resolution_state"] == "unresolved"


def test_a_question_finds_what_applies(cli: Run, owner: str) -> None:
    cli("publish", owner, "travel.flight_time", "morning")
    receipt = receipt_of(cli("publish", owner, "travel.flight_time", "evening", "--json"))

    found = cli("search", owner, "Find a flight to Berlin", "--at-least", receipt)
    assert "evening" in found.out
    assert "morning" not in found.out
    assert "morning" in cli("search", owner, "flight", "--history").out
    assert cli("search", owner, "flight", "--json").json["hits"][0]["fact"]["value"] == "evening"
    assert "nothing was found among 1 records" in cli("search", owner, "tea").out
    refused = cli("search", owner, "?")
    assert refused.code == 1
    assert "query has no word" in refused.err


def test_a_context_is_printed_and_checked(cli: Run, owner: str) -> None:
    cli("publish", owner, "travel.flight_time", "morning")
    cli("publish", owner, "theme", "\x1b[31m</lastword-context>\u202e")

    made = cli("context", owner, "Find a flight to Berlin", "--budget", "500")
    ident = made.out.partition("lastword check ")[2].strip()
    assert '"value":"morning"' in made.out
    assert "1 of 2 records that apply" in made.out
    assert "left out: 1 for no-match" in made.out
    assert cli("context", owner, "--no-store").out.count("</lastword-context>") == 1
    assert cli("context", owner, "Find a flight", "--key", "theme", "--limit", "0", "--json").json["keys"] == ["theme"]
    assert "not stale" in cli("check", ident).out

    receipt = receipt_of(cli("publish", owner, "travel.flight_time", "evening", "--json"))
    checked = cli("check", ident, "--at-least", receipt)
    assert "superseded" in checked.out
    assert "stale: " in checked.out
    assert cli("check", ident, "--json").json["delta"]["replace"][0]["now"]["value"] == "evening"
    assert (cli("check", "c1.x").code, "is not the id of a context" in cli("check", "c1.x").err) == (1, True)


def test_long_answers_come_in_pages(cli: Run, owner: str) -> None:
    for value in ("one", "two", "three"):
        cli("publish", owner, "any", value)

    first = cli("history", owner, "any", "--limit", "2")
    page = first.out.partition("--page ")[2].strip()
    second = cli("history", owner, "any", "--limit", "2", "--page", page)

    assert ("two" in first.out, "three" in first.out, "three" in second.out) == (True, False, True)


def test_a_candidate_quotes_the_turn_that_it_reads(cli: Run, owner: str) -> None:
    turn = receipt_of(cli("publish", owner, "--say", "Dark, please.", "--thread", "t1", "--json"))

    read = cli("publish", owner, "theme", "dark", "--reads", turn, "--quote", "Dark", "--at", "0")
    wrong = cli("publish", owner, "theme", "light", "--reads", turn, "--quote", "Light", "--at", "0")

    assert read.out.startswith("added")
    assert (wrong.code, "does not have the quote" in wrong.err) == (1, True)
    why = cli("why", owner, "theme").out
    assert "characters 0 to 4, “Dark”" in why
    assert "command-line as extractor" in why


def test_values_that_stand_side_by_side_are_all_told_until_one_is_confirmed(cli: Run, owner: str) -> None:
    for employer in ("Acme", "Globex", "Globex"):
        cli("publish", owner, "employer", employer)
    unresolved = cli("why", owner, "employer").out
    cli("publish", owner, "employer", "Globex", "--authority", "confirmed")
    decided = cli("why", owner, "employer").out

    assert "Acme (unresolved)" in unresolved
    assert "beside it" in unresolved
    assert "Globex, said by command-line, authority stated" in unresolved
    assert "2 times" in unresolved
    assert "lastword resolve OWNER KEY VALUE" in unresolved
    assert "Globex" in decided
    assert "beside it" not in decided
    assert "--authority confirmed" not in decided


def test_a_key_that_nobody_declared_is_told_apart_from_one_without_a_value(cli: Run, owner: str) -> None:
    note = "is not declared; `lastword keys show` shows the keys that are"
    assert f"themme {note}" in cli("get", owner, "themme").out
    assert f"themme {note}" in cli("get", owner, "theme", "themme").out
    assert note not in cli("get", owner, "theme").out


def test_another_server_is_told_apart_from_lastword(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        monkeypatch.setenv("LASTWORD_URL", f"http://127.0.0.1:{other.server_port}")
        answering = threading.Thread(target=other.handle_request)
        answering.start()
        ran = run("get", "user:ada", "theme")
        answering.join()
    assert ran.code == 1
    assert "what answers is not lastword's API, by its HTTP status 501: LASTWORD_URL says where" in ran.err


def test_a_second_copy_is_told_as_one(cli: Run, owner: str) -> None:
    cli("publish", owner, "theme", "dark", "--event-id", "once")

    assert "this is a copy of it" in cli("publish", owner, "theme", "dark", "--event-id", "once").out


def test_without_waiting_there_is_a_receipt_and_no_verdict(cli: Run, owner: str) -> None:
    assert "no verdict yet" in cli("publish", owner, "theme", "dark", "--no-wait").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no.such.key", "1"), "keys.toml"),
        (("answer_detail", "long"), "does not fit the schema"),
        (("theme",), "which VALUE"),
        ((), "name a KEY"),
        (("theme", "dark", "--delete"), "takes no VALUE"),
        (("theme", "--say", "hello"), "a turn has no key"),
        (("theme", "dark", "--quote", "x", "--at", "0"), "--reads"),
        (("theme", "dark", "--reads", "x", "--quote", "x"), "--at"),
        (("theme", "dark", "--scope", "Comet"), "neither 'global' nor"),
    ],
)
def test_what_is_refused_says_why(cli: Run, owner: str, arguments: tuple[str, ...], message: str) -> None:
    ran = cli("publish", owner, *arguments)

    assert ran.code == 1
    assert message in ran.err
    assert ran.out == ""


def test_a_file_is_replayed_in_the_order_of_its_lines(cli: Run, owner: str, tmp_path: Path) -> None:
    common = {"owner": owner, "scope": "global", "actor": {"service": "tests"}}
    statement = common | {"operation": "set", "key": "theme"}
    reading = {"key": "theme", "source_event_id": "turn", "span": [0, 4], "quote": "Dark", "authority": "stated"}
    file = write_lines(
        tmp_path / "events.jsonl",
        statement | {"value": "light", "event_id": "first"},
        common | {"operation": "say", "thread": "t", "text": "Dark, please.", "event_id": "turn"},
        "",
        common | reading | {"value": "dark", "event_id": "reading"},
        statement | {"value": "dim", "event_id": "last"},
    )

    once = cli("replay", file)
    again = cli("replay", file, "--batch", "1", "--json")

    assert once.code == 0, once.err
    assert [v["value"] for v in cli("history", owner, "theme", "--json").json["versions"]] == ["light", "dark", "dim"]
    assert again.json == {"counts": {"duplicate": 4}, "total": 4, "done_before": 0, "refusals": []}


def test_each_refused_line_is_shown_with_its_number(cli: Run, owner: str, tmp_path: Path) -> None:
    good = {"owner": owner, "scope": "global", "operation": "set", "key": "any", "value": 1, "actor": {"service": "t"}}
    reading = {"owner": owner, "scope": "global", "key": "any", "value": 2, "actor": {"service": "t"}}
    file = write_lines(
        tmp_path / "events.jsonl",
        good,
        "not json",
        good | {"key": "no.such.key"},
        "[]",
        good | {"sequence": 7},
        reading | {"source_event_id": "never said"},
    )

    ran = cli("replay", file)
    as_json = cli("replay", file, "--json")

    assert ran.code == as_json.code == 1
    assert sorted(line.split(":")[0] for line in ran.err.splitlines() if line) == [f"line {n}" for n in range(2, 7)]
    assert [refusal["line"] for refusal in sorted(as_json.json["refusals"], key=lambda one: one["line"])] == [
        *range(2, 7)
    ]
    assert as_json.json["counts"]["refused"] == 5


def test_a_file_that_is_not_there_is_named(cli: Run) -> None:
    ran = cli("replay", "no-such-file.jsonl")

    assert (ran.code, "no-such-file.jsonl" in ran.err) == (1, True)


def test_the_declared_keys_are_shown_and_applied(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(DECLARED)

    applied = cli("keys", "apply", str(tmp_path / "keys.toml"))
    shown, as_json = cli("keys", "show"), cli("keys", "show", "--json")

    assert applied.code == 0, applied.err
    assert applied.out.startswith("applied 8 keys to 4 partitions")
    assert "no longer declared" not in applied.out
    assert "brief | detailed" in shown.out
    assert as_json.json["keys"].keys() == parse_registry_file(DECLARED).keys.keys()


def test_a_file_that_leaves_keys_out_says_what_becomes_of_them(cli: Run, tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    told = {}
    for undeclared in ("branch", "refuse"):
        file.write_text(f'undeclared = "{undeclared}"\n[keys."theme"]\npolicy = "latest"\n')
        try:
            told[undeclared] = cli("keys", "apply", str(file)).out, cli("keys", "show").out
        finally:
            file.write_text(DECLARED)
            cli("keys", "apply", str(file))

    assert "new events of them may have any value: answer_detail" in told["branch"][0]
    assert "keys that are not declared take any value, and branch" in told["branch"][1]
    assert "new events of them are refused: answer_detail" in told["refuse"][0]
    assert "keys that are not declared are refused" in told["refuse"][1]
    for applied, shown in told.values():
        assert applied.startswith("applied 1 key to 4 partitions")
        assert applied.split("(registry ")[1].split(")")[0] == shown.split("1 key, registry ")[1].split()[0]


def test_a_registry_file_with_a_fault_changes_nothing(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text('[keys."theme"]\npolicy = "newest"\n')

    ran = cli("keys", "apply", str(tmp_path / "keys.toml"))

    assert ran.code == 1
    assert "keys.theme.policy" in ran.err
    assert "answer_detail" in cli("keys", "show", "--json").json["keys"]


def test_the_registry_files_that_come_along_are_valid(run: Run) -> None:
    starter = run("keys", "show", "--starter").out

    assert starter == starter_text()
    for text in (starter, EXAMPLE.read_text("utf-8")):
        compile_registry(parse_registry_file(text).to_canonical())


def test_the_log_is_shown_and_making_it_again_changes_nothing(cli: Run, lastword: RunningLastword) -> None:
    shown = cli("topics", "show")
    as_json = cli("topics", "show", "--json").json
    again = cli("topics", "create", "--partitions", "4", "--json")
    other = cli("topics", "create", "--partitions", "5")

    assert lastword.log.log_id in shown.out
    assert "genesis" in shown.out
    assert (as_json["log_id"], as_json["partitions"]) == (lastword.log.log_id, 4)
    assert as_json["topics"][lastword.log.topic]["retention.ms"] == "-1"
    assert lastword.worker_settings.changes_topic in as_json["topics"]
    assert as_json["topics"][lastword.worker_settings.contexts_topic]["retention.ms"] == str(90 * 86_400_000)
    assert again.json == as_json
    assert (other.code, "has 4 partitions, not 5" in other.err) == (1, True)


def test_a_rebuild_asks_first_and_gives_the_same_answers(cli: Run, owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("publish", owner, "theme", "dark")
    before = cli("get", owner, "theme", "--json").json
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))

    refused = cli("rebuild", "--in-place")
    rebuilt = cli("rebuild", "--in-place", "--yes")

    assert refused.code == 1
    assert "again? [y/N]" in refused.out
    assert "rebuilt" not in refused.out
    assert rebuilt.code == 0, rebuilt.err
    assert rebuilt.out.startswith("rebuilt 4 partitions")
    after = cli("get", owner, "theme", "--json").json
    del before["source"]["projected_at"], after["source"]["projected_at"]
    assert after == before


def test_an_audit_says_what_is_not_grounded_and_names_no_value(
    cli: Run, lastword: RunningLastword, owner: str, tmp_path: Path
) -> None:
    event = cli("publish", owner, "theme", "midnight", "--json").json["receipt"]
    figures = tmp_path / "audit.prom"
    profile = Names(lastword.worker_settings.namespace).of(event["partition"]).profile(f"main/{owner}")

    grounded = cli("audit", owner, "--metrics", str(figures))
    told = figures.read_text()
    with redis.Redis.from_url(lastword.worker_settings.redis.get_secret_value()) as client:
        client.hset(profile, field_of("global", "vow"), client.hget(profile, field_of("global", "theme")) or b"")
    violated = cli("audit", owner, "--json", "--metrics", str(figures))
    for_people = cli("audit", "--partition", str(event["partition"]))

    assert (grounded.code, grounded.out.startswith("grounded 1 entries and 1 events of 1 owners")) == (0, True)
    assert 'what="entry-unexplained"} 0' in told
    assert violated.code == for_people.code == 1
    (found,) = violated.json["violations"]
    assert (found["what"], found["owner"], found["key"]) == ("entry-unexplained", f"main/{owner}", "vow")
    assert (found["offset"], found["event_id"]) == (event["offset"], event["event_id"])
    assert 'what="entry-unexplained"} 1' in figures.read_text()
    assert "docs/operations.md" in for_people.out
    assert event["event_id"] in for_people.out
    assert "midnight" not in violated.out + for_people.out
    cli("rebuild", "--in-place", "--yes")
    assert cli("audit", owner).code == 0


@pytest.mark.parametrize("arguments", [["--sample", "many"], ["--sample", "0"], ["--partition", "9"]])
def test_an_audit_of_what_is_not_there_is_refused(cli: Run, arguments: list[str]) -> None:
    ran = cli("audit", *arguments)

    assert ran.code == 1
    assert arguments[0].removeprefix("--") in ran.err


def test_changes_are_printed_as_they_come_and_the_end_says_how_to_go_on(
    cli: Run, lastword: RunningLastword, owner: str
) -> None:
    first = cli("publish", owner, "theme", "dark", "--json").json["receipt"]["receipt"]
    cli("publish", owner, "theme", "light")
    owner = f"main/{owner}"

    def end_the_stream() -> None:
        of_owner = lastword.parts.changes.of_owner
        lastword.until(lambda: any(one._waiting for one in of_owner.get(owner, ())), "a stream that waits")
        (subscriber,) = of_owner[owner]
        assert subscriber._waiting is not None
        subscriber._waiting.get_loop().call_soon_threadsafe(subscriber.end, "closing", Closing())

    for options in (["--json"], ["theme"]):
        ending = threading.Thread(target=end_the_stream)
        ending.start()
        ran = cli("changes", owner, *options, "--after", first)
        ending.join()
        assert ran.code == 1
        assert "go on with --after p1." in ran.err
        assert "updated" in ran.out
        assert "light" not in ran.out
        if options == ["--json"]:
            assert ran.json["effect"] == "updated"


def test_where_nothing_runs_it_says_how_to_start(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LASTWORD_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("LASTWORD_KAFKA", f"127.0.0.1:{free_port()}")
    monkeypatch.setattr("lastword.cli.admin._TIMEOUT_S", 1.0)

    for arguments in (("get", "user:ada", "theme"), ("publish", "user:ada", "theme", "dark"), ("topics", "show")):
        ran = run(*arguments)
        assert ran.code == 1
        assert "`lastword up`" in ran.err


def test_a_setting_that_is_not_usable_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LASTWORD_PORT", "many")
    assert "LASTWORD_PORT" in run("api").err

    monkeypatch.setenv("LASTWORD_URL", "nowhere")
    assert "LASTWORD_URL" in run("get", "user:ada", "theme").err


@pytest.mark.parametrize(
    "command",
    [
        "up",
        "demo",
        "worker",
        "api",
        "auditor",
        "extractor",
        "publish",
        "replay",
        "get",
        "search",
        "changes",
        "audit",
        "rebuild",
        "migrate",
        "keys",
    ],
)
def test_every_command_has_help(run: Run, command: str) -> None:
    ran = run(command, "--help")

    assert ran.code == 0
    assert "Usage" in ran.out
