"""Subscriptions of an event key as stored in the changelog: `{"v": 1, "listeners": {schedule: generation, …}}`.

The record's key is the event key.
"""

from __future__ import annotations

from typing import Final

from streamsched.codec.events.native import dumps
from streamsched.codec.json.scalar import integer, loads, mapping, schedule
from streamsched.domain.errors import DecodeError
from streamsched.domain.signals.subscription import Subscriptions

VERSION: Final = 1


def encode(subscriptions: Subscriptions) -> bytes:
    """The value of the record; `decode` with the same key returns an equal one."""
    listeners = {str(ref): generation for ref, generation in subscriptions.listeners.items()}
    return dumps({"v": VERSION, "listeners": listeners})


def decode(key: str, raw: bytes) -> Subscriptions:
    """Decodes the subscriptions of event key `key`.

    Raises:
        DecodeError: the bytes are not subscriptions of a known version.
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
