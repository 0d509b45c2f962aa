"""The command line: `lastword`."""

import io
import sys
from typing import NoReturn

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError

import lastword.cli.admin as admin
import lastword.cli.reading as reading
import lastword.cli.render as render
import lastword.cli.serving as serving
import lastword.cli.transferring as transferring
import lastword.cli.writing as writing
from lastword.process import LocalServiceError
from lastword_schemas.errors import LastwordError

_HINTS = {
    "broker-unavailable": ". `lastword up` starts one on this machine; LASTWORD_KAFKA says where another one is",
    "store-unavailable": ". `lastword up` starts one on this machine; LASTWORD_REDIS says where another one is",
}

app = typer.Typer(
    name="lastword",
    help="The memory service for assistants that must not bring back an old preference.",
    epilog="Settings are environment variables: LASTWORD_URL for reads and writes; LASTWORD_KAFKA, LASTWORD_REDIS, "
    "LASTWORD_TOPIC, LASTWORD_NAMESPACE and more for the services. Without them everything is where `lastword up` "
    "puts it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
serving.add_to(app)
writing.add_to(app)
reading.add_to(app)
transferring.add_to(app)
admin.add_to(app)


def main() -> None:
    """Run the command line. What went wrong is said on standard error in one message; the exit code is 1 then."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without some character shows another one
    try:
        app()
    except LastwordError as error:
        _fail(error.message + _HINTS.get(error.code, ""), error.field)
    except LocalServiceError as error:
        _fail(str(error))
    except (SettingsError, ValidationError) as error:
        _fail(_settings_problem(error))
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        sys.exit(1)


def _fail(message: str, field: str | None = None) -> NoReturn:
    render.fail(message, field)
    sys.exit(1)


def _settings_problem(error: SettingsError | ValidationError) -> str:
    if isinstance(error, SettingsError):
        return f"a LASTWORD_ environment variable cannot be read: {error}"
    first = error.errors(include_url=False, include_input=False)[0]
    name = "_".join(str(part) for part in first["loc"]).upper()
    return f"the environment variable LASTWORD_{name} is not usable: {first['msg']}"
