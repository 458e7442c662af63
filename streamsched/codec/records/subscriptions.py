"""Subscriptions of an event key as stored in the changelog: `{"v": 2, "listeners": {schedule: generation, …},
"affinities": {schedule: affinity, …}}`; of version 1, without `affinities`, when none of the schedules has one.

The record's key is the event key.
"""

from __future__ import annotations

from typing import Final

from streamsched.codec.events.native import dumps
from streamsched.codec.json.scalar import integer, loads, mapping, schedule
from streamsched.domain.errors import DecodeError
from streamsched.domain.signals.subscription import SubscribedSchedule, Subscriptions

VERSION: Final = 2
#: Without affinities.
_BEFORE: Final = 1


def encode(subscriptions: Subscriptions) -> bytes:
    """The value of the record; `decode` with the same key returns an equal one."""
    listeners = {str(ref): each.generation for ref, each in subscriptions.listeners.items()}
    affinities = {str(ref): each.affinity for ref, each in subscriptions.listeners.items() if each.affinity is not None}
    if not affinities:
        return dumps({"v": _BEFORE, "listeners": listeners})
    return dumps({"v": VERSION, "listeners": listeners, "affinities": affinities})


def decode(key: str, raw: bytes) -> Subscriptions:
    """Decodes the subscriptions of event key `key`.

    Raises:
        DecodeError: the bytes are not subscriptions of a known version.
    """
    found = mapping(loads(raw), "$")
    if (version := integer(found.get("v"), "$.v", minimum=1)) not in (_BEFORE, VERSION):
        raise DecodeError("$.v", f"is version {version}; this code knows {VERSION}")
    listeners = mapping(found.get("listeners"), "$.listeners")
    affinities = mapping(found.get("affinities", {}), "$.affinities")
    return Subscriptions(
        key,
        {
            schedule(ref, "$.listeners"): SubscribedSchedule(
                integer(known, f"$.listeners['{ref}']"),
                integer(affinities[ref], f"$.affinities['{ref}']") if ref in affinities else None,
            )
            for ref, known in listeners.items()
        },
    )
