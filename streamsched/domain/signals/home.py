"""The home of a key: the partition (shard) that owns it.

Every producer of `signals` must use this partitioner: a key has one home, and the order of its partition decides.
"""

from __future__ import annotations

from zlib import crc32


def home(key: str | bytes, shards: int) -> int:
    """The shard that owns `key`: stable over processes, machines and versions.

    >>> home("schedule:default.app.nightly", 4) == home(b"schedule:default.app.nightly", 4)
    True
    """
    return crc32(key.encode() if isinstance(key, str) else key) % shards


def key_hash(key: str | bytes) -> int:
    """A 32-bit hash of a key, from which its home follows for any number of shards."""
    return crc32(key.encode() if isinstance(key, str) else key)


def home_of(hashed: int, shards: int) -> int:
    """The shard that owns a key of this `key_hash`."""
    return hashed % shards
