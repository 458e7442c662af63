"""Quarantine: failed items are skipped for a time that doubles with each failure, so that other items are processed.

    >>> noon = datetime.fromisoformat("2013-01-08T12:00:00Z")
    >>> rows = Quarantine[str]()
    >>> rows.add("bad", noon).isoformat(), rows.held_keys(noon), rows.held_keys(noon + timedelta(minutes=1))
    ('2013-01-08T12:01:00+00:00', ['bad'], [])

For loops that process rows of a table in batches: rows that raise are added, and the next query excludes them. Held in
memory only: another process, or this one after a restart, tries them again.
"""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from streamsched.domain.backoff import double_pause
from streamsched.domain.limits import add_duration

FIRST: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(hours=1)
#: Most keys held; beyond that the oldest are released.
_MOST: Final = 10_000

K = TypeVar("K", bound=Hashable)


class Quarantine(Generic[K]):
    """Keys of failed items. Times UTC."""

    def __init__(self) -> None:
        self._failed: dict[K, tuple[int, datetime]] = {}

    def __bool__(self) -> bool:
        return bool(self._failed)

    def add(self, key: K, now: datetime) -> datetime:
        """Records a failure at `now`; returns the time of the next attempt."""
        failures, _ = self._failed.pop(key, (0, now))
        retry_at = add_duration(now, double_pause(FIRST, failures, longest=LONGEST))
        self._failed[key] = failures + 1, retry_at
        while len(self._failed) > _MOST:
            del self._failed[next(iter(self._failed))]
        return retry_at

    def held_keys(self, now: datetime) -> list[K]:
        """The keys that may not be tried at `now`."""
        return [key for key, (_, retry_at) in self._failed.items() if retry_at > now]

    def release(self, key: K) -> None:
        """Removes a key after a success."""
        self._failed.pop(key, None)
