"""Known event ids in format 2 of the previous release: one row per id, event key ␟ source ␟ id → time as text.

Rows are written while a worker of that release is alive (ADR 0055), and converted to digests afterwards. An id takes
about 600 bytes of memory. Remove this module when no supported release writes format 2.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, MutableMapping
from typing import Final

import structlog

from streamsched.codec.records.state import SEPARATOR

log = structlog.get_logger()

#: The most ids removed per new id, so that expiry keeps up without making a turn long.
_FORGET_PER_NEW: Final = 2
#: Recovery yields to other tasks after so many rows.
_RECALLED: Final = 5_000


class IdRows:
    """The rows, indexed by their times."""

    def __init__(self, table: MutableMapping[bytes, bytes], horizon_ms: int) -> None:
        self._table = table
        self._horizon_ms = horizon_ms
        self._oldest_first: deque[tuple[int, bytes]] = deque()
        self._unreadable: list[bytes] = []

    def __len__(self) -> int:
        return len(self._table)

    def __bool__(self) -> bool:
        """Whether there may be any."""
        return bool(self._oldest_first or self._unreadable)

    async def rebuild_index(self) -> None:
        """Sorts the rows of the table by time, yielding to the loop: millions of rows take seconds. A row whose value
        is not a time is removed with the next new id.
        """
        ages: list[tuple[int, bytes]] = []
        for nth, (row, time) in enumerate(list(self._table.items()), 1):
            try:
                ages.append((int(time), row))
            except ValueError:
                log.error("known_ids.unreadable", key=repr(row[:80]), error=f"is not a time: {time[:80]!r}")
                self._unreadable.append(row)
            if nth % _RECALLED == 0:
                await asyncio.sleep(0)
        ages.sort()
        self._oldest_first = deque(ages)

    def first_ms(self, row: bytes) -> int | None:
        found = self._table.get(row)
        return None if found is None else _time(found)

    def add(self, row: bytes, time_ms: int) -> None:
        """Adds an id, and removes up to two that are as old as the horizon."""
        self.expire(time_ms)
        self._table[row] = b"%d" % time_ms
        self._oldest_first.append((time_ms, row))

    def expire(self, now_ms: int) -> None:
        """Removes up to two rows that are as old as the horizon."""
        for row in self._unreadable:
            del self._table[row]
        self._unreadable = []
        for _ in range(_FORGET_PER_NEW):
            if not self._oldest_first or self._oldest_first[0][0] > now_ms - self._horizon_ms:
                break
            self._taken()

    def take(self, limit: int) -> Iterator[tuple[bytes, int]]:
        """Removes up to `limit` of the oldest rows; yields each with its time. A row whose id or source contains the
        separator cannot be split into its parts and stays until it expires.
        """
        stay: list[tuple[int, bytes]] = []
        for _ in range(min(limit, len(self._oldest_first))):
            if self._oldest_first[0][1].count(SEPARATOR) != 2:
                stay.append(self._oldest_first.popleft())
            elif (row := self._taken()) is not None:
                yield row
        self._oldest_first.extendleft(reversed(stay))

    def _taken(self) -> tuple[bytes, int] | None:
        time_ms, row = self._oldest_first.popleft()
        if self.first_ms(row) != time_ms:  # a newer time was written since
            return None
        del self._table[row]
        return row, time_ms


def _time(value: bytes) -> int | None:
    try:
        return int(value)
    except ValueError:
        return None
