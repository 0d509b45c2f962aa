"""The partition of an owner. Stated and computed here, because the clients' default partitioners differ."""

from typing import Final

_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 of `data` with Kafka's seed, unsigned.

    Source: Apache Kafka, `org.apache.kafka.common.utils.Utils.murmur2`; the same as `murmur2` in librdkafka.
    """
    length = len(data)
    hashed = _SEED ^ length
    body = length & ~3
    for i in range(0, body, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        hashed = hashed * _M & _MASK ^ k
    if tail := data[body:]:
        hashed = (hashed ^ int.from_bytes(tail, "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    return hashed ^ hashed >> 15


def partition_for(owner: str, partitions: int) -> int:
    """The partition of an owner's canonical text (`main/user:ada`) among `partitions`.

    All events of one owner, whatever their scope and key, are in one partition and so in one order.
    """
    return (murmur2(owner.encode("utf-8")) & 0x7FFFFFFF) % partitions
