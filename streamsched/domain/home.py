"""Where things live: the partition (shard) that owns a key.

Every producer of `signals` must use this function: a key has one home, and the order of its partition decides all.
"""

from __future__ import annotations

from zlib import crc32


def home(key: str | bytes, shards: int) -> int:
    """The shard that owns `key`: stable over processes, machines and versions.

    >>> home("schedule:default.app.nightly", 4) == home(b"schedule:default.app.nightly", 4)
    True
    """
    return crc32(key.encode() if isinstance(key, str) else key) % shards
