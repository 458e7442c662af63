"""The partition of an ordering id: that of Kafka's default partitioner for text keys, so all records of an ordering id
are in one partition, whichever client writes them.
"""

from __future__ import annotations

from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def partition_of_id(ordering_id: str, partitions: int) -> int:
    """The partition of an ordering id in a topic with so many partitions.

    >>> partition_of_id("incident-1", 1)
    0
    """
    return (murmur2(ordering_id.encode()) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Kafka's hash of a key, unsigned with 32 bits."""
    length = len(data)
    found = (_SEED ^ length) & _MASK
    whole = length - length % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _MASK
        word = (word ^ word >> 24) * _FACTOR & _MASK
        found = (found * _FACTOR & _MASK) ^ word
    if whole < length:
        found = (found ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    found = (found ^ found >> 13) * _FACTOR & _MASK
    return found ^ found >> 15
