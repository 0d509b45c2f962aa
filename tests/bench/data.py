"""Data folders: JSON lines."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.bench.bench import BenchStopped


def check_folder(folder: Path | None, files: Iterable[str]) -> Path:
    """The folder if it holds all the files. Raises BenchStopped saying what is missing."""
    needed = ", ".join(files)
    if folder is None:
        raise BenchStopped(f"NO DATA: say where it is with --data FOLDER (make bench: DATA=FOLDER); it holds {needed}")
    if not folder.is_dir():
        raise BenchStopped(f"NO DATA: there is no folder {folder}; it should hold {needed}")
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        raise BenchStopped(f"NO DATA: {folder} lacks {', '.join(missing)}")
    return folder


def rows(folder: Path, name: str, fields: Iterable[str]) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines. Raises BenchStopped naming the line that is no object with those fields."""
    found = []
    with (folder / name).open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise BenchStopped(f"{name}, line {number}: not JSON ({error})") from error
            missing = [field for field in fields if field not in row] if isinstance(row, dict) else list(fields)
            if missing:
                raise BenchStopped(f"{name}, line {number}: lacks {', '.join(missing)}")
            found.append(row)
    return found
