"""How many values JSON has, counted in its bytes before anything is decoded."""

from __future__ import annotations

from typing import Final

#: Bytes that are split at a time.
_SLICE: Final = 1 << 16


def values_in(raw: bytes, *, most: int) -> int:
    """The number of values (texts, numbers, lists, objects, …, not the names of members) at all depths; an empty list
    or object counts twice. It is only sure whether it is more than `most`: below, the commas in texts may be counted
    too, and above, counting ends. Of bytes that are not JSON, any number.
    """
    about = _marks(raw) + 1
    return about if about <= most else _outside_texts(raw, most)


def _marks(raw: bytes) -> int:
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def _outside_texts(raw: bytes, most: int) -> int:
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    found, inside = 1, False
    for begin in range(0, len(plain), _SLICE):
        parts = plain[begin : begin + _SLICE].split(b'"')
        found += _marks(b"".join(parts[inside::2]))
        if found > most:
            break
        inside ^= len(parts) % 2 == 0
    return found
