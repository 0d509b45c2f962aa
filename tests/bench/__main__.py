"""`python -m tests.bench NAME --data FOLDER`: measure on real input; exit 0 only if every figure holds."""

import argparse
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from lastword.process import LocalServiceError
from lastword_schemas.errors import LastwordError
from tests.bench import (
    audit,
    changes,
    cldr,
    client,
    context,
    extraction,
    hotpath,
    install,
    latency,
    projection,
    search_facts,
    search_latency,
    search_sgd,
    sgd,
    size,
)
from tests.bench.bench import BenchStopped, Options
from tests.bench.data import check_folder
from tests.bench.show import figure, machine, note

BENCHES = {
    "sgd": sgd.BENCH,
    "cldr": cldr.BENCH,
    "projection": projection.BENCH,
    "hotpath": hotpath.BENCH,
    "latency": latency.BENCH,
    "client": client.BENCH,
    "size": size.BENCH,
    "install": install.BENCH,
    "changes": changes.BENCH,
    "audit": audit.BENCH,
    "search-sgd": search_sgd.BENCH,
    "search-facts": search_facts.BENCH,
    "search-latency": search_latency.BENCH,
    "extraction": extraction.BENCH,
    "context": context.BENCH,
}

HELD, MISSED, STOPPED = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one bench. 0: every figure held; 1: one missed; 2: it could not be run."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.name is None:
        print(_list())
        return HELD
    if chosen.name not in BENCHES:
        note(f"there is no bench {chosen.name!r}.\n{_list()}")
        return STOPPED
    bench = BENCHES[chosen.name]
    began = time.perf_counter()
    try:
        if unknown := set(chosen.only) - set(bench.parts):
            raise BenchStopped(f"--only {min(unknown)}: the parts are {', '.join(bench.parts) or 'none'}")
        folder = check_folder(chosen.data, bench.files) if bench.files else chosen.data or Path()
        figure(machine())
        options = Options(
            folder, chosen.broker, chosen.seed, chosen.partitions, chosen.kill_every, only=tuple(chosen.only)
        )
        held = bench.run(options)
    except (BenchStopped, LastwordError, LocalServiceError) as error:
        note(f"bench {chosen.name} stopped: {error}")
        return STOPPED
    figure(f"{chosen.name}: {'every figure holds' if held else 'MISSED'}, {time.perf_counter() - began:.0f} s")
    return HELD if held else MISSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("tests.bench", description=__doc__)
    parser.add_argument("name", nargs="?", help="which bench; without it they are listed")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="the folder with its data")
    parser.add_argument(
        "--broker",
        choices=("auto", "kafka", "embedded"),
        default="auto",
        help="auto (default): the real Kafka where Java and Maven are, else the embedded one",
    )
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="repeats an order; default: any")
    parser.add_argument("--partitions", type=int, default=24, help="of the history topic; default: 24")
    parser.add_argument("--kill-every", type=int, default=1_000, help="records between two kills; default: 1000")
    parser.add_argument("--only", action="append", default=[], metavar="PART", help="only this part; more than once")
    return parser


def _list() -> str:
    lines = ["benches (make bench NAME=... DATA=FOLDER):"]
    for name, bench in BENCHES.items():
        lines.append(f"  {name:<14} {bench.summary}")
        if bench.parts:
            lines.append(f"                 parts: {', '.join(bench.parts)}")
    return "\n".join(lines)


def _leave(number: int, _: object) -> NoReturn:
    """End as after an error, so that what was started is stopped and removed."""
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)
    sys.exit(main())
