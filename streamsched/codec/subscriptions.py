"""Who listens to an event key, as it is kept in the changelog: `{"v": 1, "listeners": {schedule: generation, …}}`.

The record's key is the event key.
"""

from __future__ import annotations

from typing import Final

from streamsched.codec.native import dumps
from streamsched.codec.scalar import integer, loads, mapping, schedule
from streamsched.domain.errors import DecodeError
from streamsched.domain.subscription import Subscriptions

VERSION: Final = 1


def encode(subscriptions: Subscriptions) -> bytes:
    """The value of the record; `decode` with the same key gives back an equal one."""
    listeners = {str(ref): generation for ref, generation in subscriptions.listeners.items()}
    return dumps({"v": VERSION, "listeners": listeners})


def decode(key: str, raw: bytes) -> Subscriptions:
    """The subscriptions of event key `key`.

    Raises:
        DecodeError: these bytes are none of a version we know.
    """
    found = mapping(loads(raw), "$")
    if (version := integer(found.get("v"), "$.v", minimum=1)) != VERSION:
        raise DecodeError("$.v", f"is version {version}; this code knows {VERSION}")
    listeners = mapping(found.get("listeners"), "$.listeners")
    where = "$.listeners"
    return Subscriptions(
        key,
        {schedule(ref, where): integer(known, f"{where}['{ref}']") for ref, known in listeners.items()},
    )
