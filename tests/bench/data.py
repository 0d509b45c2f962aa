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


def shaped(folder: Path | None, fields: Iterable[str]) -> list[dict[str, Any]]:
    """The rows of all files of JSON lines in the folder whose first row has these fields, whatever the files' names.

    Raises BenchStopped where there is none, or where one has a line that lacks some.
    """
    if folder is None or not folder.is_dir():
        raise BenchStopped(
            f"NO DATA: there is no folder {folder}; say which with --data FOLDER (make bench: DATA=FOLDER)"
        )
    wanted = set(fields)
    found = [path.name for path in sorted(folder.glob("*.jsonl")) if wanted <= _first(path).keys()]
    if not found:
        raise BenchStopped(f"NO DATA: no file of {folder} has rows with {', '.join(sorted(wanted))}")
    return [row for name in found for row in rows(folder, name, sorted(wanted))]


def _first(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8") as lines:
        try:
            row = json.loads(next(lines, "{}"))
        except ValueError:
            return {}
    return row if isinstance(row, dict) else {}


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
