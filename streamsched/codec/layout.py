"""A layout as the log keeps it: {"v": 1, "generation": n, "shards": n, "outlets": n}."""

from __future__ import annotations

from typing import Final

from streamsched.codec.native import dumps
from streamsched.codec.scalar import integer, loads, mapping
from streamsched.domain.errors import DecodeError
from streamsched.domain.layout import Layout

VERSION: Final = 1


def encode(layout: Layout) -> bytes:
    """The value of the record; `decode` gives back an equal layout."""
    return dumps({"v": VERSION, "generation": layout.generation, "shards": layout.shards, "outlets": layout.outlets})


def decode(raw: bytes) -> Layout:
    """The layout that was encoded.

    Raises:
        DecodeError: these bytes are none of a version we know.
    """
    found = mapping(loads(raw), "$")
    if (version := integer(found.get("v"), "$.v")) != VERSION:
        raise DecodeError("$.v", f"is version {version}; this release knows {VERSION}")
    return Layout(
        integer(found.get("generation"), "$.generation", minimum=1),
        integer(found.get("shards"), "$.shards", minimum=1),
        integer(found.get("outlets"), "$.outlets", minimum=1),
    )
