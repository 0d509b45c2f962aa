"""`lastword demo` and `lastword up`, as a new user runs them."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx
import pytest

from lastword.embedded import EmbeddedStore
from lastword.launcher import LocalLastword, PartEndedError, Ports, PortsTakenError
from lastword.process import HOST, free_port

SECONDS = 60


def lastword(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "lastword.cli", *arguments]


@pytest.fixture
def first_port() -> int:
    """The first of four free ports in a row."""
    while True:
        first = free_port()
        try:
            Ports.starting_at(first).check()
        except PortsTakenError:
            continue
        return first


@pytest.fixture
def up(first_port: int, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A started `lastword up`."""
    with subprocess.Popen(
        lastword("up", "--port", str(first_port)),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(output: IO[str] | None, what: str) -> str:
    assert output is not None
    read = ""
    for line in output:
        read += line
        if what in line:
            return read
    raise AssertionError(f"it ended without {what!r}:\n{read}")


@pytest.mark.parametrize("time_", ["once", "again"])
def test_the_demo_shows_that_every_value_holds_and_ends(time_: str, tmp_path: Path) -> None:
    began = time.monotonic()

    demo = subprocess.run(lastword("demo", "--exit"), cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)

    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "37 of 37 values held" in demo.stdout
    assert "✗" not in demo.stdout
    assert demo.stderr == ""
    assert list(tmp_path.iterdir()) == [], "it leaves something behind"
    assert time.monotonic() - began < 50


def test_it_stays_up_until_it_is_told_to_stop(up: "subprocess.Popen[str]", first_port: int, tmp_path: Path) -> None:
    said = read_until(up.stdout, "Nothing survives a stop")
    url = f"http://{HOST}:{first_port}"
    assert f"{url}/docs" in said
    assert "Ctrl-C" in said
    assert httpx.get(f"{url}/readyz").status_code == 200
    assert "swagger" in httpx.get(f"{url}/docs").text
    assert (tmp_path / ".lastword" / "worker.log").exists()

    second = subprocess.run(lastword("up", "--port", str(first_port)), capture_output=True, text=True, timeout=SECONDS)
    assert second.returncode == 1
    assert f"{first_port} (API)" in second.stderr
    assert "--port N" in second.stderr

    up.send_signal(signal.SIGTERM)
    stopped = time.monotonic()
    assert up.wait(SECONDS) == 0
    assert time.monotonic() - stopped < 10
    Ports.starting_at(first_port).check()


def test_under_a_redis_that_goes_on_each_start_is_another_generation_and_says_what_that_means(
    first_port: int, tmp_path: Path
) -> None:
    with EmbeddedStore(tmp_path / "redis") as store:
        said = []
        for _ in range(2):
            command = lastword("up", "--port", str(first_port), "--redis", store.url)
            with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
                said.append(read_until(process.stdout, "Nothing survives a stop"))
                process.send_signal(signal.SIGTERM)
                assert process.wait(SECONDS) == 0
        assert store.running

    assert "generation" not in said[0]
    assert "LASTWORD_NAMESPACE=main\n" in said[0]
    assert "This is generation 1 of the log" in said[1]
    assert "receipts and position tokens are refused" in " ".join(said[1].split())
    assert "LASTWORD_NAMESPACE=main-1\n" in said[1]
    assert store.url not in said[0] + said[1], "a URL may hold a password"


def test_a_part_that_ends_is_named_with_its_log(tmp_path: Path) -> None:
    with LocalLastword(tmp_path, Ports.free(), partitions=2) as running:
        running.check()
        worker = next(part for part in running.parts if part.name == "worker")

        worker.kill()

        with pytest.raises(PartEndedError, match=rf"the worker ended by itself.*{worker.log_path}"):
            running.check()
