"""How far the turns of a partition have been read. No I/O."""


class Progress:
    """One partition, whose records are begun in the order of the log and ended in any.

    What is below `checkpoint` is finished for good, whoever finished it; so the greatest checkpoint that anybody ever
    had of a partition holds.
    """

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        """The *next* offset to begin with."""
        self._open: set[int] = set()

    @property
    def checkpoint(self) -> int:
        """The lowest offset that is not finished."""
        return min(self._open, default=self.next_offset)

    def begin(self, offset: int) -> bool:
        """Note that a record is worked on; False where it was begun already, and nothing is to be done."""
        if offset < self.next_offset:
            return False
        self._open.add(offset)
        self.next_offset = offset + 1
        return True

    def end(self, offset: int) -> None:
        """Note that everything that follows from a record is in the log."""
        self._open.remove(offset)

    def resume(self, checkpoint: int) -> int:
        """Where to go on when the partition is given to this process again: others may have been further."""
        self.next_offset = max(self.next_offset, checkpoint)
        return self.next_offset
