"""What a command imports, and that the list of the commands says what they say."""

import subprocess
import sys

import pytest

from lastword.cli.commands import PANELS, load

SERVERS = {"confluent_kafka", "fastapi", "faust", "jsonschema_rs", "msgspec", "redis", "starlette", "uvicorn"}
"""Packages that only who runs a part of lastword needs."""
MODELS = {"httpx", "pydantic", "pydantic_settings"}
READING = ("get user:ada theme", "why user:ada theme", "profile user:ada", "history user:ada", "search user:ada theme")
SUMMARIES = {name: summary for listed in PANELS.values() for name, (_, summary) in listed.items()}

RUN = """
import sys
sys.argv = ["lastword", *{arguments!r}]
{before}
from lastword.cli import main
try:
    main()
finally:
    print("imported", *sorted({{name.partition(".")[0] for name in sys.modules}}))
"""


def run(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """The command in a process of its own; nobody listens where it asks."""
    command = [sys.executable, "-c", RUN.format(arguments=list(arguments), before=before)]
    environment = {"LASTWORD_URL": "http://127.0.0.1:9"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def imported(done: subprocess.CompletedProcess[str]) -> set[str]:
    """Top-level packages that it had imported by its end."""
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_the_list_of_commands_imports_no_model_and_no_server() -> None:
    done = run("--help")
    assert "What applies for a key" in done.stdout
    assert "typer" in imported(done)
    assert imported(done) & (SERVERS | MODELS) == set()


@pytest.mark.parametrize("command", [*READING, "publish user:ada theme dark"])
def test_a_command_that_asks_the_api_imports_no_server(command: str) -> None:
    done = run(*command.split())
    assert "no lastword answers at" in done.stderr
    assert "httpx" in imported(done)
    assert imported(done) & SERVERS == set()


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_list_says_what_the_command_says(name: str) -> None:
    told = load(name).help.split("\n\n")[0]
    assert " ".join(told.split()) == SUMMARIES[name]


def test_without_its_packages_a_command_says_what_to_install() -> None:
    done = run("why", "user:ada", "theme", before='sys.modules["typer"] = None')
    assert done.returncode == 1
    assert done.stderr == (
        "lastword: this command needs more of lastword (typer): pip install 'lastword[server,embedded]'\n"
    )
