"""Options that several commands have."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, Final, get_type_hints

import typer

Owner = Annotated[str, typer.Argument(help="user:<id>, org:<id> or <tenant>/user:<id>.", show_default=False)]
Key = Annotated[str, typer.Argument(help="Such as mail.tone.", show_default=False)]
Scope = Annotated[str, typer.Option("--scope", "-s", help="global or <kind>:<name>, such as project:Comet.")]
NoFallback = Annotated[bool, typer.Option("--no-fallback", help="Ask this scope alone, not global after it.")]
Json = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="How many to show.")]

WAIT_MS: Final = 10_000
"""The longest wait for what a command demands."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """Options of every command that reads: what its answer takes into account."""

    as_of: Annotated[
        str | None,
        typer.Option(help="What had been said by then: a sequence, or an instant such as 2026-03-01T12:00:00Z."),
    ] = None
    known_at: Annotated[str | None, typer.Option(help="What the log held by then: a sequence.")] = None
    at_least: Annotated[
        str | None, typer.Option(help="Answer nothing older than this receipt or position; waits for it up to 10 s.")
    ] = None

    def asked(self) -> dict[str, Any]:
        """What the API is asked for, by parameter; only what was given."""
        given = {option.name: getattr(self, option.name) for option in fields(self)}
        asked = {name: value for name, value in given.items() if value is not None}
        return asked if self.at_least is None else asked | {"wait_ms": WAIT_MS}


@dataclass(frozen=True, slots=True)
class Pages(Boundary):
    """Options of those whose answer may be long."""

    limit: Limit = 100
    page: Annotated[str | None, typer.Option(help="Go on from the end of another answer.")] = None


@dataclass(frozen=True, slots=True)
class FewHits(Pages):
    """The same, of a search: the nearest are the first."""

    limit: Limit = 3


def ungrouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer wants it: each option of a group (a dataclass) is a parameter of its own."""
    groups: dict[str, Any] = {name: kind for name, kind in get_type_hints(command).items() if is_dataclass(kind)}

    @wraps(command)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{option.name: given.pop(option.name) for option in fields(kind)})
        command(**given)

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if (kind := groups.get(parameter.name)) is None:
            parameters.append(parameter)
            continue
        hints = get_type_hints(kind, include_extras=True)
        parameters += [
            parameter.replace(name=option.name, default=option.default, annotation=hints[option.name])
            for option in fields(kind)
        ]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run
