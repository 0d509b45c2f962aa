"""Where the index has an event's id.

Ids that publishers make are in the order of their time (UUID version 7), so nearly all of them are greater than every
id before: such an id is new without a look, and many of them are appended to one string, a *run*. All other ids are in
hashed buckets.

A client that sends an id of the far future makes its partition slower, not wrong: what follows is looked up one by one.
"""

import hashlib
from typing import Final

RUN_LENGTH: Final = 128
"""Ids of a run, at most: one look-up reads all of it."""
SEQUENCE_BYTES: Final = 7
"""A sequence is below 2**53."""
_DIGEST_BYTES: Final = 16
_UNKNOWN: Final = b"\xff" * 16


class EventIds:
    """Of one partition: how far the index has come, with the commits that have been sent.

    It depends on the log alone, not on how that was cut into commits.
    """

    __slots__ = ("count", "greatest", "run")

    def __init__(self, greatest: bytes = b"", run: bytes = b"", count: int = 0) -> None:
        self.greatest = greatest
        """The greatest time-ordered id so far; empty if there is none."""
        self.run = run
        """The first id of the last run; empty if there is none."""
        self.count = count
        """Ids in the last run."""

    @classmethod
    def unknown(cls) -> "EventIds":
        """Nothing is known: every id is looked up, every new one goes into a bucket."""
        return cls(_UNKNOWN)

    def is_new(self, event_id: bytes) -> bool:
        """Whether the id is surely not in the index."""
        return event_id > self.greatest and is_time_ordered(event_id)

    def place(self, event_id: bytes) -> bytes | None:
        """The run that a new id is to be appended to, by its first id; None if it goes into a bucket.

        A run that begins with the id itself is a new one.
        """
        if not is_time_ordered(event_id):
            return None
        if event_id > self.greatest:
            self.greatest = event_id
            if not self.run or self.count >= RUN_LENGTH:
                self.run, self.count = event_id, 0
        elif self.count >= RUN_LENGTH or not self.run or event_id < self.run:
            return None
        self.count += 1
        return self.run


def is_time_ordered(event_id: bytes) -> bool:
    """Whether it is a UUID of version 7, which begins with its time."""
    return event_id[6] >> 4 == 7


def event_digest(owner: str, event_id: bytes) -> bytes:
    """16 bytes that tell the events of all owners apart (BLAKE2b): ids are unique per owner only."""
    return hashlib.blake2b(event_id + owner.encode(), digest_size=_DIGEST_BYTES).digest()


def run_item(digest: bytes, sequence: int) -> bytes:
    """What a run has of an event: its digest and the sequence of its first copy, in 23 bytes."""
    return digest + sequence.to_bytes(SEQUENCE_BYTES, "big")


def run_sequences(items: bytes) -> dict[bytes, int]:
    """What a run has: sequences by digest."""
    length = _DIGEST_BYTES + SEQUENCE_BYTES
    return {
        items[at : at + _DIGEST_BYTES]: int.from_bytes(items[at + _DIGEST_BYTES : at + length], "big")
        for at in range(0, len(items), length)
    }
