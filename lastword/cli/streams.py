"""Files that commands read and write; `-` is standard input and output."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, TextIO

from lastword_schemas.errors import InvalidInput

STDIO: Final = Path("-")


@contextmanager
def written(path: Path) -> Iterator[TextIO]:
    """The file, which is there under its name only once it is whole."""
    if path == STDIO:
        yield sys.stdout
        return
    partial = path.with_name(f"{path.name}.partial")
    try:
        file = partial.open("w", encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{partial} cannot be written ({error.strerror})", field="--output") from error
    try:
        with file:
            yield file
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes."""
    if path == STDIO:
        yield sys.stdin.buffer
    else:
        with path.open("rb") as file:
            yield file
