"""Control records: genesis and registry. In every partition, written by lastword itself; they have no owner."""

from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from lastword_schemas import jsontext
from lastword_schemas.errors import InvalidInput
from lastword_schemas.model import Model
from lastword_schemas.positions import MAX_GENERATION, log_id_of
from lastword_schemas.registry import Registry

GENESIS_KEY: Final = "lastword/genesis"
REGISTRY_KEY: Final = "lastword/registry"
"""Kafka record keys of control records; no event has such a key (its first part always holds a percent sign)."""


class Genesis(Model):
    """The record at offset 0 of every partition: which log this is."""

    control: Literal["genesis"] = "genesis"
    v: Literal[1] = 1
    generation: int = Field(ge=0, le=MAX_GENERATION)
    """0 for the first log; the next one for every log that replaces another."""
    partition: int = Field(ge=0)
    partitions: int = Field(ge=1)
    """Partitions of the topic, fixed for the generation."""
    cluster_id: str
    topic_id: str
    restored_up_to: int | None = None
    """After a restore: the offset up to which records carry their original sequence in a header."""

    @property
    def log_id(self) -> str:
        """The log's id, the same in all its partitions."""
        return log_id_of(self.cluster_id, self.topic_id)


class RegistryRecord(Model):
    """The key registry that is in force from this position on."""

    control: Literal["registry"] = "registry"
    v: Literal[1] = 1
    registry: Registry


Control = Annotated[Genesis | RegistryRecord, Field(discriminator="control")]
_ADAPTER: TypeAdapter[Genesis | RegistryRecord] = TypeAdapter(Control)


def control_bytes(record: Genesis | RegistryRecord) -> bytes:
    """The record's value: canonical JSON in UTF-8, so that equal records have equal bytes."""
    data = record.model_dump(mode="json")
    if isinstance(record, RegistryRecord):  # without defaults: the limit on a registry's size is on that form
        data["registry"] = jsontext.parse(record.registry.to_canonical())
    return jsontext.canonical(data).encode("utf-8")


def parse_control(data: bytes) -> Genesis | RegistryRecord:
    """Read a control record. Raises InvalidInput where it is none that this build knows."""
    try:
        return _ADAPTER.validate_python(jsontext.parse(data))
    except ValidationError as error:
        raise InvalidInput(f"not a control record that this build knows: {error.errors()[0]['msg']}") from error
