"""The table of known ids without a shard around it."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping


class IdTable(UserDict[bytes, bytes]):
    """In memory, with a changelog of which the newest value of each key is kept, as if it were compacted all the time.

    Attributes:
        changelog: what a shard would read back.
        records, bytes: how much was ever written to it.
    """

    def __init__(self, changelog: Mapping[bytes, bytes] = {}) -> None:
        super().__init__()
        self.data.update(changelog)
        self.changelog = dict(changelog)
        self.records = self.bytes = 0

    @property
    def entries(self) -> dict[bytes, bytes]:
        return self.data

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.write(key, value)
        self.data[key] = value

    def __delitem__(self, key: bytes) -> None:
        del self.data[key]
        self.write(key, None)

    def write(self, key: bytes, value: bytes | None) -> None:
        self.records += 1
        self.bytes += len(key) + len(value or b"")
        if value is None:
            self.changelog.pop(key, None)
        else:
            self.changelog[key] = value
