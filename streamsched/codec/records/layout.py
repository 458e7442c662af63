"""The layout as stored in the log: {"v": 1, "generation": n, "shards": n, "outlets": n}."""

from __future__ import annotations

from typing import Final

from streamsched.codec.events.native import dumps
from streamsched.codec.json.scalar import integer, loads, mapping
from streamsched.domain.errors import DecodeError
from streamsched.domain.signals.layout import Layout

VERSION: Final = 1


def encode(layout: Layout) -> bytes:
    """The value of the record; `decode` returns an equal layout."""
    return dumps(
        {"v": VERSION, "generation": layout.generation, "shards": layout.shards, "outlets": layout.unkeyed_partitions}
    )


def decode(raw: bytes) -> Layout:
    """Decodes a layout.

    Raises:
        DecodeError: the bytes are not a layout of a known version.
    """
    found = mapping(loads(raw), "$")
    if (version := integer(found.get("v"), "$.v")) != VERSION:
        raise DecodeError("$.v", f"is version {version}; this release knows {VERSION}")
    return Layout(
        integer(found.get("generation"), "$.generation", minimum=1),
        integer(found.get("shards"), "$.shards", minimum=1),
        integer(found.get("outlets"), "$.outlets", minimum=1),
    )
