"""What people see: progress on standard error; the machine and the figures on standard output."""

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import confluent_kafka
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

SetDone = Callable[[int], None]
"""Told how much is done so far."""


def figure(text: str) -> None:
    """One line on standard output."""
    print(text, flush=True)


def note(text: str) -> None:
    """One line on standard error."""
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(text)


@contextmanager
def progress(text: str, total: int) -> Iterator[SetDone]:
    """A progress bar while the block runs."""
    columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task(text, total=total)
        yield lambda done: shown.update(task, completed=done)


def machine() -> str:
    """This machine and what runs on it, one line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    library = confluent_kafka.libversion()[0]
    return (
        f"machine: {_processor()}, {cores} cores, {platform.system()} {platform.release()}; "
        f"Python {platform.python_version()}, lastword {version('lastword')}, librdkafka {library}, "
        f"redis-py {version('redis')}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names and names[0] != "unknown" else platform.machine()
