"""Which partition an owner is in. The numbers are fixed: another function would scatter every owner's events."""

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from lastword_schemas.partitions import murmur2, partition_for

# Apache Kafka's own vectors (its UtilsTest), as the signed numbers that Java has.
KAFKA_VECTORS = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}

OWNERS = {
    "main/user:ada": (11, 11, 0),
    "main/user:ben": (22, 70, 0),
    "main/org:world": (9, 57, 0),
    "acme/user:ada": (6, 78, 0),
    "main/user:Ünï": (12, 12, 0),
    "main/user:a/b": (19, 67, 0),
    "main/user:🦊": (7, 79, 0),
}


@pytest.mark.parametrize("text", KAFKA_VECTORS)
def test_the_hash_is_that_of_apache_kafka(text: str) -> None:
    assert murmur2(text.encode()) == KAFKA_VECTORS[text] % 2**32


@given(st.binary(max_size=64))
def test_the_hash_is_that_of_aiokafka_for_any_bytes(data: bytes) -> None:
    assert murmur2(data) == aiokafka_murmur2(data) % 2**32


@pytest.mark.parametrize("owner", OWNERS)
def test_an_owner_keeps_its_partition_in_every_release(owner: str) -> None:
    assert tuple(partition_for(owner, partitions) for partitions in (24, 96, 1)) == OWNERS[owner]


@given(st.text(max_size=40), st.integers(min_value=1, max_value=999))
def test_every_owner_has_a_partition_of_the_log(owner: str, partitions: int) -> None:
    assert 0 <= partition_for(owner, partitions) < partitions


def test_owners_spread_over_all_partitions() -> None:
    taken = [partition_for(f"main/user:{number}", 24) for number in range(2400)]

    assert {taken.count(partition) for partition in range(24)} <= set(range(60, 141))
