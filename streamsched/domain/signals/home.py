"""The home of a key: the partition (shard) that owns it.

Every producer of `signals` must use this partitioner: a key has one home, and the order of its partition decides.

A schedule lives at the home of one of the event keys it listens to, so that its events are judged in the turn that
reads them (ADR 43): its *affinity* is the hash of that event key, and its record key ends with it,
`schedule:<ref>@<affinity>`. It is chosen when a schedule is created, and stays. A schedule without one lives at the
home of its own name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final
from zlib import crc32

from streamsched.domain.errors import InvalidError
from streamsched.domain.events.event import schedule_key
from streamsched.domain.names import ScheduleRef

SCHEDULE_PREFIX: Final = b"schedule:"
#: The most schedules with the affinity of one event key. Others that listen to it are spread over the shards.
MOST_OF_ONE_KEY: Final = 4

_WITH_AFFINITY: Final = re.compile(rb"schedule:([^@]+)@([0-9a-f]{8})")


def home(key: str | bytes, shards: int) -> int:
    """The shard that owns `key`: stable over processes, machines and versions.

    >>> home("schedule:default.app.nightly", 4) == home(b"schedule:default.app.nightly", 4)
    True
    >>> home(f"schedule:default.app.nightly@{key_hash('event:a.b'):08x}", 4) == home("event:a.b", 4)
    True
    """
    return home_of(key_hash(key), shards)


def key_hash(key: str | bytes) -> int:
    """A 32-bit hash of a key, from which its home follows for any number of shards; that of a schedule is its affinity,
    if it has one.
    """
    raw = key.encode() if isinstance(key, str) else key
    if raw.startswith(SCHEDULE_PREFIX) and (found := _WITH_AFFINITY.fullmatch(raw)):
        return int(found[2], 16)
    return crc32(raw)


def home_of(hashed: int, shards: int) -> int:
    """The shard that owns a key of this `key_hash`."""
    return hashed % shards


def schedule_of(key: bytes) -> tuple[ScheduleRef, int | None]:
    """The schedule of a record key, and its affinity.

    Raises:
        InvalidError: it is no key of a schedule.
    """
    found = _WITH_AFFINITY.fullmatch(key)
    name, affinity = (key.removeprefix(SCHEDULE_PREFIX), None) if found is None else (found[1], int(found[2], 16))
    try:
        schedule = ScheduleRef.parse(name.decode())
    except UnicodeDecodeError as exc:
        raise InvalidError("$key", f"is not UTF-8: {exc}") from exc
    if schedule_key(schedule, affinity).encode() != key:
        raise InvalidError("$key", "is not how the key of a schedule is written")
    return schedule, affinity


def choose_affinity(keys: Iterable[str], taken: Counter[int]) -> int | None:
    """The affinity of a new schedule that listens to these event keys: that of the key with the fewest schedules, the
    first of several; None without keys, or when each has `MOST_OF_ONE_KEY`. `taken`: how many there are, by affinity.
    """
    affinities = [key_hash(key) for key in sorted(keys)]
    affinity = min(affinities, key=lambda each: taken[each], default=None)
    return None if affinity is None or taken[affinity] >= MOST_OF_ONE_KEY else affinity
