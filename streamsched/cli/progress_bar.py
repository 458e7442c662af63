"""A bar of text that shows how much of a whole is in which part.

>>> bar({"#": 11, "!": 1, ">": 4}, 31, width=20)
'[######!>>..........]'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REST: Final = "."


def bar(parts: Mapping[str, int], whole: int, *, width: int) -> str:
    """A bar of `width` characters, at least 3: each part has the share of its number in `whole`, in order, the rest is
    `REST`. A part is never shown larger than it is, and is shown with at least one character when there is room.
    """
    room = width - 2
    shares = {mark: number * room // whole if whole else 0 for mark, number in parts.items()}
    for mark, number in parts.items():
        if number and not shares[mark] and sum(shares.values()) < room:
            shares[mark] = 1
    shown = "".join(mark * share for mark, share in shares.items())
    return f"[{shown.ljust(room, REST)}]"
