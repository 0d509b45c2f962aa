"""Which commands there are. The module of a command is imported when the command is called.

Most of the time that a short command takes would else be the import of what the others need. So the list of the
commands is made of the summaries here; a test holds them equal to the docstrings.
"""

from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_group

PANELS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Run": {
        "up": (
            "serving",
            "Start all of lastword on this machine: broker, store, worker, API. In memory; Ctrl-C stops it.",
        ),
        "demo": ("serving", "Start lastword, show what it does by the walk-through, and leave it up to play with."),
        "worker": ("serving", "Run one projector worker. Settings: LASTWORD_ environment variables."),
        "api": ("serving", "Run the HTTP API. Settings: LASTWORD_ environment variables."),
        "auditor": (
            "serving",
            "Run the continuous auditor, beside the workers. Settings: LASTWORD_ environment variables.",
        ),
        "extractor": (
            "serving",
            "Run an extractor in the background, beside the workers. Settings: LASTWORD_ environment variables.",
        ),
        "reconciler": (
            "serving",
            "Run a reconciler, beside the workers. Settings: LASTWORD_ environment variables.",
        ),
    },
    "Write": {
        "publish": ("writing", "Publish a value, a deletion (--delete), a turn (--say) or a candidate (--reads)."),
        "replay": (
            "writing",
            "Publish a file of events: a line is what POST /v1/events takes, or with a source_event_id "
            "POST /v1/candidates.",
        ),
        "resolve": (
            "deciding",
            "Of the values of a key that stand side by side choose one: the others ended. It can be withdrawn.",
        ),
        "withdraw": (
            "deciding",
            "Say that earlier events were wrong: they, and what was read from them, no longer count. It can be "
            "withdrawn.",
        ),
    },
    "Read": {
        "get": ("reading", "What applies for a key, or for several at one moment."),
        "why": ("reading", "What applies for a key, since when, who said it, and why this is the answer."),
        "profile": ("reading", "Everything that applies for an owner."),
        "history": (
            "reading",
            "The versions of a key with what ended each; or an owner's events with their verdicts.",
        ),
        "search": ("reading", "The records nearest to a question, of those that apply."),
        "context": ("contexts", "The few cited records that a model needs for a task, as text for its prompt."),
        "check": ("contexts", "Whether a stored context still says what applies, and what to change in the prompt."),
        "changes": (
            "reading",
            "Changes of an owner's entries, as they come; Ctrl-C ends it. A change says that and where, not the value.",
        ),
    },
    "Move": {
        "export": (
            "transferring",
            "Write what applies for an owner, or for everybody, as JSON lines; tombstones and expired values too.",
        ),
        "import": (
            "transferring",
            "Publish what another system remembers, as statements from before this log.",
        ),
    },
    "Look after": {
        "audit": (
            "auditing",
            "Derive what Redis holds from the log again, and compare. Exit status 1 if something is not grounded.",
        ),
        "rebuild": (
            "rebuilding",
            "Project the whole log again, beside what is there; audit it, and only then put it in force.",
        ),
        "migrate": (
            "rebuilding",
            "Rebuild under other readings of the log. Halts, and changes nothing, where something is not settled.",
        ),
        "keys": ("admin", "The key registry: apply | show."),
        "topics": ("admin", "The log's topics: create | show | check-producer."),
    },
}
"""By heading of the list: each command's module and summary."""

_MODULES: Final = {name: module for listed in PANELS.values() for name, (module, _) in listed.items()}


def load(name: str) -> Any:
    """The command itself, from its module."""
    home = typer.Typer(add_completion=False, rich_markup_mode="rich")
    import_module(f"lastword.cli.{_MODULES[name]}").add_to(home)
    return get_group(home).commands[name]


class _Listed(TyperGroup):
    """The commands as they are listed; one that is called is loaded."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else load(name), rest


def _stands_for_another() -> None:
    """Never called: see `_Listed`."""


app = typer.Typer(
    name="lastword",
    cls=_Listed,
    help="The memory service for assistants that must not bring back an old preference.",
    epilog="Settings are environment variables: LASTWORD_URL for reads and writes; LASTWORD_KAFKA, LASTWORD_REDIS, "
    "LASTWORD_TOPIC, LASTWORD_NAMESPACE and more for the services. Without them everything is where `lastword up` "
    "puts it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for _panel, _commands in PANELS.items():
    for _name, (_, _summary) in _commands.items():
        app.command(_name, help=_summary, rich_help_panel=_panel)(_stands_for_another)
