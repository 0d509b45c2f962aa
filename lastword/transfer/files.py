"""Reading files: their items, each with its number."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from lastword.transfer.lines import EndLine, read_line
from lastword.transfer.rows import Origin
from lastword_schemas import jsontext
from lastword_schemas.errors import InvalidInput

_LONGEST_END: Final = 1024


def read_items(file: BinaryIO, origin: Origin) -> Iterator[tuple[int, Any]]:
    """The items of one JSON document, or of JSON lines, counted from 1; of lines the line is the number.

    A file of lines is read line by line, a document at once. Raises InvalidInput where it is neither.
    """
    first = file.readline()
    if not origin.in_lines:
        try:
            jsontext.parse(first)
        except InvalidInput:  # one document over several lines
            yield from enumerate(origin.items(jsontext.parse(first + file.read())), 1)
            return
    number, line = 1, first
    while line:
        if line.strip():
            try:
                document = jsontext.parse(line)
            except InvalidInput as error:
                raise InvalidInput(f"line {number} is not JSON: {error.message}") from error
            listed = list(origin.items(document))
            whole = listed == [document] and isinstance(document, dict)
            yield from ((number, item) for item in listed) if whole else enumerate(listed, number)
        number, line = number + 1, file.readline()


def is_whole(path: Path) -> bool:
    """Whether an export has its last line: else it was cut off."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST_END))
        last = file.read().rstrip().rpartition(b"\n")[2]
    try:
        return isinstance(read_line(jsontext.parse(last)), EndLine)
    except InvalidInput:
        return False
