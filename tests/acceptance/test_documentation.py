"""Every page says what is true: its blocks are run, from top to bottom, against a lastword on this machine.

Python blocks of a page are one program; commands (`console`, after "$ ", and `sh`) are run after it in one folder. What
is not run is listed here, with the reason.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lastword.launcher import LocalLastword

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TESTED_BY_ITSELF = {"testing.md": "tests/integration/test_docs_testing.py: its blocks are tests"}
NOT_RUN = {
    "make": "has tests of its own (tests/acceptance/test_demo.py) or is what runs this",
    "docker": "tests/packaging",
    "pip": "installs from the network",
    "uvicorn": "goes on for ever; tests/acceptance/test_examples.py",
    "curl -N": "goes on for ever; the program of the same page follows the same stream",
    "lastword topics create": "was done when it was started",
    "lastword worker": "goes on for ever; it runs already",
    "lastword api": "goes on for ever; it runs already",
    "lastword extractor": "goes on for ever; tests/integration/test_stopping.py",
    "lastword reconciler": "goes on for ever; tests/integration/test_reconciler.py",
}
SECONDS = 60


class Page(NamedTuple):
    """The blocks of a page."""

    program: str
    commands: list[str]
    files: dict[str, str]
    """By name: `toml` blocks that begin with "# <name>"."""


def read(path: Path) -> Page:
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    commands: list[str] = []
    for kind, text in blocks:
        if kind == "sh":
            commands.append(text)
        elif kind == "console":
            commands += typed(text)
    files = {text.split()[1]: text for kind, text in blocks if kind == "toml" and text.startswith("# ")}
    return Page("\n".join(text for kind, text in blocks if kind == "python"), commands, files)


def typed(text: str) -> list[str]:
    """The commands of a console block, without what they print."""
    commands: list[str] = []
    goes_on = False
    for line in text.splitlines():
        if goes_on:
            commands[-1] += f"\n{line}"
        elif line.startswith("$ "):
            commands.append(line.removeprefix("$ "))
        else:
            continue
        goes_on = is_open(commands[-1])
    return commands


def is_open(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return True
    return command.endswith("\\")


def is_run(command: str) -> bool:
    return not any(command == start or command.startswith(f"{start} ") for start in NOT_RUN)


@pytest.fixture
def environment(embedded_lastword: LocalLastword, tmp_path: Path) -> dict[str, str]:
    """As where `make demo` has started it, at other ports."""
    (tmp_path / ".curlrc").write_text("fail-with-body\n")
    return (
        os.environ
        | embedded_lastword.worker_settings.environment()
        | {
            "LASTWORD_URL": embedded_lastword.url,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "CURL_HOME": str(tmp_path),
            "COLUMNS": "120",
        }
    )


def here(text: str, lastword: LocalLastword) -> str:
    """The addresses of the pages are those of `make demo`."""
    text = re.sub(r"(?:localhost|127\.0\.0\.1):7411", lastword.url.removeprefix("http://"), text)
    return re.sub(r"(?:localhost|127\.0\.0\.1):7412", lastword.connection.kafka, text)


def run(command: list[str], environment: dict[str, str], folder: Path) -> None:
    ran = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    assert ran.returncode == 0, f"{command[-1]}\n--- said:\n{ran.stdout[-2_000:]}{ran.stderr[-2_000:]}"


@pytest.mark.parametrize("path", [path for path in PAGES if path.name not in TESTED_BY_ITSELF], ids=lambda it: it.name)
def test_all_blocks_of_the_page_run(
    path: Path, embedded_lastword: LocalLastword, environment: dict[str, str], tmp_path: Path
) -> None:
    page = read(path)
    for name, text in page.files.items():
        (tmp_path / name).write_text(text)
    if page.program:
        program = tmp_path / f"{path.stem}.py"
        program.write_text(here(page.program, embedded_lastword))
        run([sys.executable, "-W", "error", str(program)], environment, tmp_path)
    for command in filter(is_run, page.commands):
        run(["bash", "-euo", "pipefail", "-c", here(command, embedded_lastword)], environment, tmp_path)


def test_what_is_not_run_stands_somewhere() -> None:
    commands = [command for path in PAGES for command in read(path).commands]
    for start in NOT_RUN:
        assert any(f"{command} ".startswith(f"{start} ") for command in commands), f"{start!r} is on no page any more"


def every_block() -> Iterator[str]:
    for path in PAGES:
        yield from re.findall(r"^```(.*)$", path.read_text("utf-8"), re.MULTILINE)


def test_every_block_says_what_it_is() -> None:
    opened = list(every_block())[::2]
    assert set(opened) <= {"python", "console", "sh", "toml", "json", "java", "js", "text", "yaml"}, opened
