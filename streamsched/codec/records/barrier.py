"""Barriers as records of topic `signals`: the key is `barrier:<asker>`, the value is JSON.

{"signal": "barrier", "stage": text, "asker": n, "round": n, "homes": [n, …], "frontier": milliseconds}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from streamsched.codec.json.scalar import integer, loads, mapping, sequence, text
from streamsched.domain.errors import DecodeError
from streamsched.domain.signals.barrier import Barrier, Stage

#: The prefix of the record keys of barriers; no event key has it.
PREFIX: Final = b"barrier:"


def encode(barrier: Barrier) -> tuple[bytes, bytes]:
    """Record key and value."""
    return b"%b%d" % (PREFIX, barrier.asker), orjson.dumps({"signal": "barrier", **to_json(barrier)})


def decode(value: bytes, *, shards: int) -> Barrier:
    """Decodes the value of a record.

    Raises:
        DecodeError: it is no barrier of an installation with so many shards.
    """
    return from_json(mapping(loads(value), "$"), "$", shards=shards)


def to_json(barrier: Barrier) -> dict[str, Any]:
    """Its fields."""
    stage, asker, number, homes, frontier_ms = barrier
    return {"stage": stage, "asker": asker, "round": number, "homes": homes, "frontier": frontier_ms}


def from_json(found: Mapping[str, Any], path: str, *, shards: int) -> Barrier:
    """As `decode`, from the fields at a path."""
    given = text(found.get("stage"), path, ".stage")
    if given not in list(Stage):
        raise DecodeError(f"{path}.stage", f"must be one of {', '.join(Stage)} but is {given!r}")
    homes = tuple(integer(each, path, ".homes") for each in sequence(found.get("homes"), path, ".homes"))
    asker = integer(found.get("asker"), path, ".asker")
    if max(asker, *homes, 0) >= shards:
        raise DecodeError(path, f"names shard {max(asker, *homes)} of {shards}")
    number, frontier_ms = integer(found.get("round"), path, ".round"), integer(found.get("frontier"), path, ".frontier")
    return Barrier(Stage(given), asker, number, homes, frontier_ms)
