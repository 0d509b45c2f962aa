"""How far the replay of a file is: a small file beside it, there as long as the replay has not come to its end."""

import fcntl
import hashlib
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Final, Self

from lastword_schemas import jsontext
from lastword_schemas.errors import InvalidInput
from lastword_schemas.ids import uuid7

_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the file, and what the file holds up to its end."""

    line: int
    """From 1; 0 is before the first one."""
    end: int
    """Bytes up to the end of the line."""
    digest: str
    """SHA-256 of these bytes, in hexadecimal."""
    log_id: str | None = None
    """The log that has them."""


class Journal:
    """Appended to after every batch that is done; its last whole line counts, so that a kill leaves it whole.

    Only one replay has it at a time. It also makes the ids of events that bring none: the same for the same line until
    the replay is finished.
    """

    def __init__(self, journal: BinaryIO, path: Path, begun: str, place: Place) -> None:
        self._journal, self._path, self._begun = journal, path, begun
        self.place: Place = place
        """The last line that is done."""

    @classmethod
    def open(cls, file: Path) -> Self:
        """The journal of a file's replay, begun or found. Raises InvalidInput where it cannot be had."""
        path = file.with_name(f"{file.name}.replaying")
        try:
            journal = path.open("a+b")
        except OSError as error:
            raise InvalidInput(
                f"{path} cannot be written ({error.strerror}); it is to say how far the replay is. Copy {file.name} to "
                f"another folder, or do without: lastword replay - < {file}"
            ) from error
        try:
            fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(journal, path, *_read(journal, path))
        except BlockingIOError as error:
            journal.close()
            raise InvalidInput(f"{file} is being replayed by another process") from error
        except BaseException:
            journal.close()
            raise

    def event_id(self, line: int) -> str:
        """The id of the event at a line that brings none; later lines have greater ones."""
        begun_ms = int(self._begun.partition(".")[0])
        return uuid7(begun_ms + line, hashlib.sha256(f"{self._begun}.{line}".encode()).digest())

    def note(self, place: Place) -> None:
        """Everything up to there is done."""
        _append(self._journal, jsontext.dump(asdict(place)))
        self.place = place

    def begin_again(self) -> None:
        """Nothing is done, and events get other ids: another log does not have what was done."""
        self._journal.truncate(0)
        self._begun, self.place = _begin(self._journal)

    def finish(self) -> None:
        """The file was replayed to its end."""
        self._path.unlink()

    def check(self, file: BinaryIO) -> "hashlib._Hash":
        """Move the file to where the replay goes on; the digest of what is done.

        Raises InvalidInput where the file is no longer what it was.
        """
        digest, left = hashlib.sha256(), self.place.end
        while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
            digest.update(chunk)
            left -= len(chunk)
        if left or digest.hexdigest() != self.place.digest:
            raise InvalidInput(
                f"{self._path.stem} is not what it was when line {self.place.line} of it was replayed. Put it back; or "
                f"remove {self._path}, and all of it is replayed, as events of their own where they bring no event_id"
            )
        return digest

    def close(self) -> None:
        """Let others have it."""
        self._journal.close()


def _read(journal: BinaryIO, path: Path) -> tuple[str, Place]:
    journal.seek(0)
    lines = [line for line in journal if line.endswith(b"\n")]
    if not lines:
        journal.truncate(0)
        return _begin(journal)
    journal.truncate(sum(map(len, lines)))
    try:
        begun = str(jsontext.parse(lines[0])["begun"])
        return begun, Place(**jsontext.parse(lines[-1])) if len(lines) > 1 else _START
    except (InvalidInput, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} does not say how far a replay is: remove it, or name the file otherwise") from error


def _begin(journal: BinaryIO) -> tuple[str, Place]:
    begun = f"{time.time_ns() // 1_000_000}.{os.urandom(8).hex()}"
    _append(journal, jsontext.dump({"begun": begun}))
    return begun, _START


def _append(journal: BinaryIO, text: str) -> None:
    journal.write(text.encode() + b"\n")
    journal.flush()


_START: Final = Place(0, 0, hashlib.sha256().hexdigest())
