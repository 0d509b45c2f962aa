"""Which log this is. Knows no client library: whoever writes or reads a log is told by one of these."""

from dataclasses import dataclass, field

from lastword_schemas.control import Genesis
from lastword_schemas.positions import log_id_of


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """Which log this is: the live topic, and what its genesis records say."""

    cluster_id: str
    topic_id: str
    topic: str
    partitions: int
    """Fixed for a generation."""
    generation: int
    genesis: tuple[Genesis, ...] = field(repr=False)
    """Of each partition in turn."""

    @property
    def log_id(self) -> str:
        """16 hexadecimal digits that tell logs apart."""
        return log_id_of(self.cluster_id, self.topic_id)
