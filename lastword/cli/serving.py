"""Commands that run something: up, demo, worker, api, auditor, extractor, reconciler."""

import contextlib
import logging
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import httpx
import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from lastword.cli import render
from lastword.launcher import LocalLastword, Ports
from lastword.settings import DEFAULT_API_PORT, ConnectionSettings
from lastword.walkthrough import Check, Part, Walkthrough, store_hooks
from lastword_schemas.errors import LastwordError

DIRECTORY = Path(".lastword")

_WATCH_S = 0.5
_WIDTH = 100
_LEGEND = (
    "The walk-through: every line was asked of the API just now. “at 15” asks what had been said as of sequence 15, "
    "“now” what applies now. “brief@10” is the value brief, said at sequence 10; “detailed@20 over 10” is detailed, "
    "superseding what was said at 10."
)

_NEW_GENERATION = (
    "This is generation {} of the log. The broker keeps nothing, so it began a new and empty log, in a namespace of "
    "its own ({}). What was said to earlier generations is not answered any more; their receipts and position tokens "
    "are refused as those of another log."
)

FirstPort = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=1,
        max=65_532,
        help=f"The API's port; Kafka, Redis and the worker take the three after it. [default: {DEFAULT_API_PORT}]",
        show_default=False,
    ),
]


_log = logging.getLogger(__name__)


class _Stopped(BaseException):
    """Ctrl-C or SIGTERM."""


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(up)
    app.command()(demo)
    app.command()(worker)
    app.command()(api)
    app.command()(auditor)
    app.command()(extractor)
    app.command()(reconciler)


def up(
    port: FirstPort = None,
    directory: Annotated[Path, typer.Option(help="Where the parts write their logs.")] = DIRECTORY,
    redis_url: Annotated[
        str | None,
        typer.Option("--redis", metavar="URL", help="A Redis that runs already, instead of one in memory."),
    ] = None,
) -> None:
    """Start all of lastword on this machine: broker, store, worker, API. In memory; Ctrl-C stops it."""
    out = render.console()
    ports = Ports() if port is None else Ports.starting_at(port)
    with _stopped_by_signals(out), _started(out, directory, ports, redis_url) as running:
        _say_what_runs(out, running, f"{_program()} why user:ada mail.tone")
        _keep_up(running)


def demo(
    exit_: Annotated[
        bool, typer.Option("--exit", help="Stop when it is shown; exit status 0 only if every value held.")
    ] = False,
    port: FirstPort = None,
) -> None:
    """Start lastword, show what it does by the walk-through, and leave it up to play with."""
    out = render.console()
    default = Ports.free if exit_ else Ports
    ports = default() if port is None else Ports.starting_at(port)
    held = False
    with contextlib.ExitStack() as stack:
        stack.enter_context(_stopped_by_signals(out))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lastword-"))) if exit_ else DIRECTORY
        running = stack.enter_context(_started(out, directory, ports))
        held = _show(out, running)
        if not exit_:
            _say_what_runs(out, running, f"{_program()} history user:traveller travel.flight_time")
            _keep_up(running)
    if not held:
        raise typer.Exit(1)


def worker() -> None:
    """Run one projector worker. Settings: LASTWORD_ environment variables."""
    from lastword.running import run_worker
    from lastword.settings import WorkerSettings

    settings = WorkerSettings()
    with _logged(settings):
        run_worker(settings)


def auditor() -> None:
    """Run the continuous auditor, beside the workers. Settings: LASTWORD_ environment variables."""
    from lastword.running import run_auditor
    from lastword.settings import AuditorSettings

    settings = AuditorSettings()
    with _logged(settings):
        run_auditor(settings)


def extractor() -> None:
    """Run an extractor in the background, beside the workers. Settings: LASTWORD_ environment variables."""
    from lastword.extraction.running import run_extractor
    from lastword.settings import ExtractorSettings

    settings = ExtractorSettings()
    with _logged(settings):
        run_extractor(settings)


def reconciler() -> None:
    """Run a reconciler, beside the workers. Settings: LASTWORD_ environment variables."""
    from lastword.reconciliation.running import run_reconciler
    from lastword.settings import ReconcilerSettings

    settings = ReconcilerSettings()
    with _logged(settings):
        run_reconciler(settings)


def api() -> None:
    """Run the HTTP API. Settings: LASTWORD_ environment variables."""
    from lastword.running import run_api
    from lastword.settings import ApiSettings

    settings = ApiSettings()
    with _logged(settings):
        run_api(settings)


@contextlib.contextmanager
def _logged(settings: ConnectionSettings) -> Iterator[None]:
    """Logs as the settings ask for them; the refusal that ends a part is their last line, its exit status 1."""
    from lastword.logs import set_up_logging

    set_up_logging(settings.log_level, settings.log_format)
    try:
        yield
    except LastwordError as refusal:
        _log.error("ended: %s", refusal, extra={"code": refusal.code})
        raise typer.Exit(1) from None


@contextlib.contextmanager
def _started(out: Console, directory: Path, ports: Ports, redis_url: str | None = None) -> Iterator[LocalLastword]:
    def started(part: str, where: str, seconds: float) -> None:
        out.print(Text.assemble("  ", ("✓ ", "green"), f"{part:<8}{where:<34}", (f"{seconds:4.1f} s", "dim")))

    out.print(Text("Starting lastword on this machine, in memory", style="bold"))
    with LocalLastword(directory, ports, redis_url=redis_url, on_started=started) as running:
        yield running


def _show(out: Console, running: LocalLastword) -> bool:
    """Walk through all parts; whether every value held."""
    from lastword.stories import PARTS

    began = time.monotonic()
    checks: list[Check] = []
    out.print()
    out.print(Text(_LEGEND, style="dim"), width=min(out.width, _WIDTH))
    with httpx.Client(base_url=running.url, timeout=60, trust_env=False) as http:
        walkthrough = Walkthrough(http, running.log, store_hooks(running.connection, running.log))
        for number, part in enumerate(PARTS, 1):
            found = walkthrough.run(part)
            _tell_part(out, number, part, found)
            checks += found
    held = sum(check.ok for check in checks)
    seconds = time.monotonic() - began
    style = "bold green" if held == len(checks) else "bold red"
    out.print()
    out.print(Text(f"{held} of {len(checks)} values held ({seconds:.1f} s)", style=style))
    return held == len(checks)


def _tell_part(out: Console, number: int, part: Part, checks: list[Check]) -> None:
    out.print()
    out.print(Text(f"{number}. {part.title}", style="bold"))
    out.print(Padding(Text(part.story), (0, 0, 1, 3)), width=min(out.width, _WIDTH))
    table = render.table("question", "expected", "got", "")
    table.columns[0].no_wrap = True
    for check in checks:
        mark = Text("✓", style="green") if check.ok else Text("✗", style="bold red")
        table.add_row(check.name, check.expected, Text(check.got, style="" if check.ok else "red"), mark)
    out.print(Padding(table, (0, 0, 0, 3)))


def _say_what_runs(out: Console, running: LocalLastword, also: str) -> None:
    log, ports, program = running.log, running.ports, _program()
    out.print()
    out.print(Text("lastword is up", style="bold green"))
    namespace = running.connection.namespace
    redis_at = f"127.0.0.1:{ports.redis}" if running.owns_redis else "your own"
    for name, where in (
        ("API", f"{running.url}  (its page: {running.url}/docs)"),
        ("Kafka", f"127.0.0.1:{ports.kafka}, topic {log.topic}, {log.partitions} partitions, log {log.log_id}"),
        ("Redis", f"{redis_at}, namespace {namespace}"),
        ("worker", f"{running.worker_url}/healthz"),
        ("logs", f"{running.directory}/*.log"),
    ):
        out.print(Text.assemble((f"  {name:<8}", "dim"), where), soft_wrap=True)
    if log.generation:
        out.print()
        out.print(Text(_NEW_GENERATION.format(log.generation, namespace), style="yellow"), width=min(out.width, _WIDTH))
    out.print()
    out.print(Text("Try in another terminal", style="bold"))
    if ports != Ports():
        _print_line(out, f"export LASTWORD_URL={running.url} LASTWORD_KAFKA=127.0.0.1:{ports.kafka}")
    if not running.owns_redis:
        _print_line(out, f"export LASTWORD_REDIS=<what you gave as --redis> LASTWORD_NAMESPACE={namespace}")
    elif ports != Ports():
        _print_line(out, f"export LASTWORD_REDIS=redis://127.0.0.1:{ports.redis}/0")
    _print_line(out, f"{program} publish user:ada mail.tone friendly")
    _print_line(out, f"curl '{running.url}/v1/value?owner=user:ada&scope=global&key=mail.tone'")
    _print_line(out, also)
    _print_line(out, f"{program} keys show")
    out.print()
    kept = "all of it is in memory" if running.owns_redis else "the log is in memory, and Redis is nothing without it"
    out.print(Text(f"Stop: Ctrl-C. Reset: stop, and start again. Nothing survives a stop: {kept}."))


def _program() -> str:
    """How to call this program from the current folder."""
    name = Path(sys.argv[0]).absolute()
    found = shutil.which("lastword")
    if found is not None and Path(found).absolute() == name:
        return "lastword"
    if name.name != "lastword":
        return f"{sys.executable} -m lastword.cli"
    return str(name.relative_to(Path.cwd())) if name.is_relative_to(Path.cwd()) else str(name)


def _print_line(out: Console, command: str) -> None:
    out.print(Text(f"  {command}", style="cyan"), soft_wrap=True)


def _keep_up(running: LocalLastword) -> NoReturn:
    """Wait for the signal that stops. Raises PartEndedError if a part ends by itself."""
    while True:
        time.sleep(_WATCH_S)
        running.check()


@contextlib.contextmanager
def _stopped_by_signals(out: Console) -> Iterator[None]:
    """Ctrl-C and SIGTERM leave the block, whatever it does, so that everything started in it is stopped."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Stopped

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except _Stopped:
        out.print("Stopped.")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
