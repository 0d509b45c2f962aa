"""What it takes to begin: an installation in a fresh environment, its import, and `make demo` from a fresh clone.

Packages come from pip's cache where it has them, so that this measures the machine and not the network.
"""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.bench.bench import Bench, BenchStopped, Options
from tests.bench.show import figure, note

ROOT = Path(__file__).parents[2]
IMPORTS = 11
BASE_IMPORT_MS = 150.0
BASE_MB = 25.0
DEMO_S = 120.0
_LIMIT_S = 600
_EXTRAS = {"base": "", "testing": "[testing]", "server": "[server]", "embedded": "[server,embedded]"}


class Installed(NamedTuple):
    """A fresh environment with lastword in it."""

    python: Path
    seconds: float
    packages: int
    """lastword itself counted, pip and setuptools not."""
    size_mb: float


def run(options: Options) -> bool:
    """Print the figures; whether all are within their bars."""
    chosen = options.only or BENCH.parts
    held = []
    for name, extras in _EXTRAS.items():
        if name in chosen:
            with _installed(extras) as found:
                figure(
                    f"pip install 'lastword{extras}': {found.packages} packages, {found.size_mb:.1f} MB, "
                    f"{found.seconds:.1f} s" + (f"; at most {BASE_MB:.0f} MB" if name == "base" else "")
                )
                if name == "base":
                    held += [found.size_mb <= BASE_MB, _import(found.python)]
    if "demo" in chosen:
        held.append(_demo())
    return all(held)


@contextmanager
def _installed(extras: str) -> Iterator[Installed]:
    with tempfile.TemporaryDirectory(prefix="lastword-bench-") as name:
        note(f"installing lastword{extras}")
        _call([sys.executable, "-m", "venv", name], Path(name))
        python = Path(name) / "bin" / "python"
        before, at_first = _packages(python), _megabytes(Path(name))
        began = time.perf_counter()
        _call([str(python), "-m", "pip", "install", "-q", "--no-compile", f"{ROOT}{extras}"], Path(name))
        seconds = time.perf_counter() - began
        size_mb = _megabytes(Path(name)) - at_first
        yield Installed(python, seconds, len(_packages(python) - before), size_mb)


def _import(python: Path) -> bool:
    """Milliseconds of the import in fresh processes, over those of one that does nothing."""
    times = []
    for number in range(IMPORTS + 1):
        told = "import time; began = time.perf_counter(); import lastword; print(time.perf_counter() - began)"
        taken = float(_call([str(python), "-c", told], python.parent)) * 1_000
        if number:  # the first one compiles
            times.append(taken)
    median = statistics.median(times)
    figure(f"import lastword: {median:.1f} ms [{min(times):.1f} - {max(times):.1f}], at most {BASE_IMPORT_MS:.0f}")
    return median <= BASE_IMPORT_MS


def _demo() -> bool:
    """`make demo` from a fresh clone of what is committed, until everything was shown."""
    with tempfile.TemporaryDirectory(prefix="lastword-bench-") as name:
        note("make demo in a fresh clone")
        clone = Path(name) / "lastword"
        _call(["git", "clone", "-q", str(ROOT), str(clone)], Path(name))
        began = time.perf_counter()
        _call(["make", "demo", "ARGS=--exit", f"PYTHON={sys.executable}"], clone)
        seconds = time.perf_counter() - began
    figure(f"make demo from a fresh clone: {seconds:.0f} s with its walk-through, at most {DEMO_S:.0f}")
    return seconds <= DEMO_S


def _packages(python: Path) -> set[str]:
    found = json.loads(_call([str(python), "-m", "pip", "list", "--format=json"], python.parent))
    return {package["name"] for package in found}


def _megabytes(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()) / 1_000_000


def _call(command: list[str], folder: Path) -> str:
    if shutil.which(command[0]) is None:
        raise BenchStopped(f"{command[0]} is not there")
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    if ran.returncode:
        raise BenchStopped(f"`{' '.join(command)}` ended with {ran.returncode}: {ran.stderr.strip()[-500:]}")
    return ran.stdout


BENCH = Bench(
    "an installation: packages, megabytes, seconds; the import; `make demo` from a fresh clone",
    (),
    (*_EXTRAS, "demo"),
    run,
)
