"""Wake-ups as they travel on topic `wakeups`.

{"schedule": text, "generation": n, "cell": text, "at": instant or null}

The key is `<schedule>␟<cell>`, so of one accumulation the newest record tells all; `at` null asks for none any more.
"""

from __future__ import annotations

from typing import Final

from streamsched.codec.native import dumps
from streamsched.codec.scalar import instant, integer, mapping, parsed, schedule
from streamsched.domain.effect import Wake
from streamsched.domain.errors import DecodeError

SEPARATOR: Final = "\x1f"


def encode(wake: Wake) -> tuple[bytes, bytes]:
    """Record key and value."""
    body = {"schedule": str(wake.schedule), "generation": wake.generation, "cell": wake.cell, "at": wake.at}
    return f"{wake.schedule}{SEPARATOR}{wake.cell}".encode(), dumps(body)


def decode(value: bytes) -> Wake:
    """The wake-up of a record.

    Raises:
        DecodeError: these bytes are none.
    """
    found = mapping(parsed(value), "$")
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
