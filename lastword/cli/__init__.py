"""The command line: `lastword`."""

import io
import sys
from typing import NoReturn

from lastword.process import LocalServiceError
from lastword_schemas.errors import LastwordError

_HINTS = {
    "broker-unavailable": ". `lastword up` starts one on this machine; LASTWORD_KAFKA says where another one is",
    "store-unavailable": ". `lastword up` starts one on this machine; LASTWORD_REDIS says where another one is",
}


def main() -> None:
    """Run the command line. What went wrong is said on standard error in one message; the exit code is 1 then."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without some character shows another one
    try:
        from lastword.cli.commands import app  # here, because the base install has the command and not its packages

        app()
    except LastwordError as error:
        _fail(error.message + _HINTS.get(error.code, ""), error.field)
    except LocalServiceError as error:
        _fail(str(error))
    except ValueError as error:
        _fail(_settings_problem(error))
    except ModuleNotFoundError as error:
        sys.exit(_missing(error))
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        sys.exit(1)


def _fail(message: str, field: str | None = None) -> NoReturn:
    from lastword.cli import render

    render.fail(message, field)
    sys.exit(1)


def _settings_problem(error: ValueError) -> str:
    """What is wrong with the settings. Raises the error where it is about something else."""
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    if isinstance(error, SettingsError):
        return f"a LASTWORD_ environment variable cannot be read: {error}"
    if not isinstance(error, ValidationError):
        raise error
    first = error.errors(include_url=False, include_input=False)[0]
    name = "_".join(str(part) for part in first["loc"]).upper()
    return f"the environment variable LASTWORD_{name} is not usable: {first['msg']}"


def _missing(error: ModuleNotFoundError) -> str:
    """What to install. Raises the error where it is one of lastword's own modules that is not there."""
    name = error.name or ""
    if name.startswith("lastword"):
        raise error
    return f"lastword: this command needs more of lastword ({name}): pip install 'lastword[server,embedded]'"
