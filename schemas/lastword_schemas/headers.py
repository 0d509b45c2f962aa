"""The names of lastword's HTTP headers."""

from typing import Final

AT_LEAST: Final = "Lastword-At-Least"
"""Of a read: a receipt or position token; the same as the parameter `at_least`."""
POSITION: Final = "Lastword-Position"
"""Of an answer: the position token of a read, the receipt of one event that was published. Works as the next demand."""
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
"""Of a write of one event: the same as its `event_id`."""
