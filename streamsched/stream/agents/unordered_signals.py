"""The signals that wait at a schedule's home for their order, in rows of the `triggers` table.

| key                             | value                                                                     |
|---------------------------------|---------------------------------------------------------------------------|
| `schedule:<ref>␟␟unordered.<n>` | its arrival time (ms, µs), its offset in `signals`, the bytes of the signal |

So they are committed with the turn, recovered with the table, and moved with the schedule when the installation is
resharded.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, MutableMapping, Sequence
from typing import Final, NamedTuple

from streamsched.codec.records.state import SEPARATOR
from streamsched.domain.signals.signal import ArrivalTime
from streamsched.ports.broker import Record

_UNORDERED: Final = SEPARATOR + SEPARATOR + b"unordered."


def is_unordered(row: bytes) -> bool:
    """Whether this row of the triggers table is a signal that waits."""
    return _UNORDERED in row


class _Place(NamedTuple):
    """The place of a signal in its schedule: by its arrival time, those of the same time as they came."""

    time: ArrivalTime
    number: int


class UnorderedSignals:
    """Signals by schedule key. Rows are written and removed at once; only times and numbers are in memory."""

    def __init__(self, triggers: MutableMapping[bytes, bytes]) -> None:
        """`triggers` may still be empty: it is read on first use."""
        self._table = triggers
        self._known: dict[bytes, list[_Place]] | None = None
        self._last: dict[bytes, int] = {}

    def places(self) -> dict[bytes, list[_Place]]:
        """The places by schedule key, ascending; no schedule without any. The live mapping, not a copy."""
        if self._known is None:
            self._known = {}
            for row in self._table:
                key, found, number = row.partition(_UNORDERED)
                if found:
                    logged_ms, happened_us, _ = self._table[row].split(b" ", 2)
                    place = _Place(ArrivalTime(int(logged_ms), int(happened_us)), int(number))
                    insort(self._known.setdefault(key, []), place)
                    self._last[key] = max(place.number, self._last.get(key, 0))
        return self._known

    @property
    def newest_ms(self) -> int:
        """The newest time of all that wait; 0 when none does."""
        return max((places[-1].time.logged_ms for places in self.places().values()), default=0)

    def add(self, key: bytes, time: ArrivalTime, record: Record) -> None:
        """Adds a signal with its time."""
        places = self.places().setdefault(key, [])
        number = self._last[key] = self._last.get(key, 0) + 1
        insort(places, _Place(time, number))
        self._table[_row(key, number)] = b"%d %d %d %b" % (*time, record.offset, record.value or b"")

    def due(self, key: bytes, until_ms: int, limit: int) -> Sequence[Record]:
        """The first `limit` signals of a schedule up to a time, as records with the log times of their arrival."""
        places = self.places().get(key, [])
        found: list[Record] = []
        for _, number in places[: min(bisect_right(places, until_ms, key=_logged_ms), limit)]:
            logged_ms, _, offset, value = self._table[_row(key, number)].split(b" ", 3)
            found.append(Record(int(offset), key, value, int(logged_ms)))
        return found

    def has_due(self, keys: Iterable[bytes], until_ms: int) -> bool:
        """Whether one of these schedules has a signal up to a time."""
        places = self.places()
        return any(key in places and places[key][0].time.logged_ms <= until_ms for key in keys)

    def remove(self, key: bytes, count: int) -> None:
        """Removes the first `count` signals of a schedule."""
        known = self.places()
        for _, number in known[key][:count]:
            del self._table[_row(key, number)]
        del known[key][:count]
        if not known[key]:
            del known[key], self._last[key]


def _logged_ms(place: _Place) -> int:
    return place.time.logged_ms


def _row(key: bytes, number: int) -> bytes:
    return key + _UNORDERED + b"%d" % number
