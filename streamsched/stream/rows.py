"""The rows of a shard's table, as they are in its changelog."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, MutableMapping
from typing import Final

#: Shorter values gain nothing by being compressed.
_LONG: Final = 1_024
#: Of zlib: a page of 32 events takes 60 µs and a sixth of its length.
_LEVEL: Final = 1


class _Compressed(bytes):
    """The bytes of a compressed value."""

    __slots__ = ()


class MemoryRows(MutableMapping[bytes, bytes]):
    """In memory. Long values that are `put` with `cold` are compressed: those that are rarely read."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}

    def put(self, key: bytes, value: bytes, *, cold: bool) -> None:
        """Sets a row; `cold`: it will rarely be read."""
        long = cold and len(value) > _LONG
        self._rows[key] = _Compressed(zlib.compress(value, _LEVEL)) if long else value

    def __getitem__(self, key: bytes) -> bytes:
        value = self._rows[key]
        return zlib.decompress(value) if type(value) is _Compressed else value

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._rows[key] = value

    def __delitem__(self, key: bytes) -> None:
        del self._rows[key]

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def clear(self) -> None:
        self._rows.clear()
