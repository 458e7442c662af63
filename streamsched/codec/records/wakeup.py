"""Wake-ups as records of topic `wakeups`.

{"schedule": text, "generation": n, "cell": text, "at": instant or null}

The key is `<schedule>␟<cell>`, so the newest record of a cell replaces earlier ones; `at` null cancels.
"""

from __future__ import annotations

from typing import Final

from streamsched.codec.events.native import dumps
from streamsched.codec.json.scalar import instant, integer, mapping, parse, schedule
from streamsched.domain.errors import DecodeError
from streamsched.domain.fold.effect import Wake

SEPARATOR: Final = "\x1f"


def encode(wake: Wake) -> tuple[bytes, bytes]:
    """Record key and value."""
    body = {"schedule": str(wake.schedule), "generation": wake.generation, "cell": wake.cell, "at": wake.at}
    return f"{wake.schedule}{SEPARATOR}{wake.cell}".encode(), dumps(body)


def decode(value: bytes) -> Wake:
    """Decodes a wake-up.

    Raises:
        DecodeError: the bytes are not a wake-up.
    """
    found = mapping(parse(value), "$")
    at = found.get("at")
    cell = found.get("cell")
    if not isinstance(cell, str):
        raise DecodeError("$.cell", "must be text")
    return Wake(
        schedule(found.get("schedule"), "$.schedule"),
        integer(found.get("generation"), "$.generation"),
        cell,
        None if at is None else instant(at, "$.at"),
    )
