"""The schedules of a shard that are in error, and their parked signals: rows of the triggers table, so they are
committed with the turn, read back with it, and go where the schedule goes.

| key                            | value                                                        |
|--------------------------------|--------------------------------------------------------------|
| `schedule:<ref>␟␟error`        | why (`codec.halt`)                                           |
| `schedule:<ref>␟␟parked.<n>`   | log time in milliseconds, a space, the signal as it came     |
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import replace
from typing import Final

from streamsched.codec import halt as halt_codec
from streamsched.codec.state import SEPARATOR
from streamsched.domain.errors import DecodeError
from streamsched.domain.halt import Halt
from streamsched.ports.broker import Record

_ERROR: Final = SEPARATOR + SEPARATOR + b"error"
_PARKED: Final = SEPARATOR + SEPARATOR + b"parked."


def is_halt(row: bytes) -> bool:
    """Whether this row of the triggers table is one of ours."""
    return row.endswith(_ERROR) or _PARKED in row


class Halts:
    """Schedule key → its halt. Signals are written as they are parked, the halt itself once, by `store`."""

    def __init__(self, triggers: MutableMapping[bytes, bytes]) -> None:
        """The table may still be empty: it is read when it is first asked."""
        self._table = triggers
        self._known: dict[bytes, Halt] | None = None
        self._changed: set[bytes] = set()

    def open(self) -> dict[bytes, Halt]:
        """All there are: the very mapping, which stays right."""
        if self._known is None:
            rows = [row for row in self._table if row.endswith(_ERROR)]
            self._known = {row.removesuffix(_ERROR): halt_codec.decode(self._table[row]) for row in rows}
        return self._known

    def put(self, key: bytes, halt: Halt) -> None:
        """This schedule is in error, or is so for another reason."""
        self.open()[key] = halt
        self._changed.add(key)

    def park(self, key: bytes, record: Record) -> None:
        """One signal more waits, behind the others."""
        halt = self.open()[key]
        self._table[_parked(key, halt.after)] = b"%d %b" % (record.time_ms, record.value or b"")
        self.put(key, replace(halt, parked=halt.parked + 1))

    def parked(self, key: bytes, limit: int) -> Iterator[Record]:
        """The first signals that wait, as records; their offsets are their numbers.

        Raises:
            DecodeError: one is not there.
        """
        halt = self.open()[key]
        for number in range(halt.first, min(halt.after, halt.first + limit)):
            raw = self._table.get(_parked(key, number))
            if raw is None:
                raise DecodeError("$", f"wants parked signal {number}, which is not there")
            time_ms, _, value = raw.partition(b" ")
            yield Record(number, key, value, int(time_ms))

    def unpark(self, key: bytes) -> None:
        """The first signal that waits does so no longer."""
        halt = self.open()[key]
        del self._table[_parked(key, halt.first)]
        self.put(key, replace(halt, first=halt.first + 1, parked=halt.parked - 1))

    def end(self, key: bytes) -> None:
        """The schedule is well again, and nothing waits."""
        halt = self.open().pop(key)
        for number in range(halt.first, halt.after):
            del self._table[_parked(key, number)]
        self._changed.add(key)

    def store(self) -> None:
        """Writes what has changed since."""
        known = self.open()
        for key in sorted(self._changed):
            row, halt = key + _ERROR, known.get(key)
            if halt is not None:
                self._table[row] = halt_codec.encode(halt)
            elif row in self._table:
                del self._table[row]
        self._changed.clear()


def _parked(key: bytes, number: int) -> bytes:
    return key + _PARKED + b"%d" % number
