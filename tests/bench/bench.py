"""What a bench is: a name, the data that it reads, and a run that says whether every figure held."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

BrokerChoice = Literal["auto", "kafka", "embedded"]


class BenchStopped(Exception):
    """The bench could not be run to its end; no figure says anything."""


class Options(NamedTuple):
    """What a run was asked for."""

    data: Path
    broker: BrokerChoice = "auto"
    seed: int = 0
    """Of everything that is shuffled; the same seed gives the same orders."""
    partitions: int = 24
    kill_every: int = 1_000
    """Records that a worker projects before it is killed, about; where a bench kills workers."""
    only: tuple[str, ...] = ()
    """The parts to run; empty = all."""


class Bench(NamedTuple):
    """One named bench."""

    summary: str
    files: tuple[str, ...]
    """What its data folder must hold."""
    parts: tuple[str, ...]
    """What `--only` can choose from; empty where it is one piece."""
    run: Callable[[Options], bool]
    """Prints its figures on standard output, one a line; whether all of them held."""
