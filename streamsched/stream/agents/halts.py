"""The schedules of a shard that are in error, and their parked signals.

Both are rows of the `triggers` table, so they are committed with the turn, recovered with the table, and moved with the
schedule when the installation is resharded.

| key                            | value                                                        |
|--------------------------------|--------------------------------------------------------------|
| `schedule:<ref>␟␟error`        | the reason (`codec.records.halt`)                            |
| `schedule:<ref>␟␟parked.<n>`   | log time in milliseconds, a space, the bytes of the signal   |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from typing import Final

from streamsched.codec.records import halt as halt_codec
from streamsched.codec.records.state import SEPARATOR
from streamsched.domain.errors import DecodeError
from streamsched.domain.fold.halt import Halt
from streamsched.ports.broker import Record

_ERROR: Final = SEPARATOR + SEPARATOR + b"error"
_PARKED: Final = SEPARATOR + SEPARATOR + b"parked."


def is_halt(row: bytes) -> bool:
    """Whether this row of the triggers table belongs to a halt."""
    return row.endswith(_ERROR) or _PARKED in row


def read_halts(rows: Mapping[bytes, bytes | None]) -> dict[bytes, Halt]:
    """The halts among the rows of the triggers table, by schedule key."""
    return {
        row.removesuffix(_ERROR): halt_codec.decode(value)
        for row in rows
        if row.endswith(_ERROR) and (value := rows[row]) is not None
    }


class Halts:
    """Halts by schedule key. Parked signals are written immediately, the halt itself by `store`."""

    def __init__(self, triggers: MutableMapping[bytes, bytes]) -> None:
        """`triggers` may still be empty: it is read on first use."""
        self._table = triggers
        self._known: dict[bytes, Halt] | None = None
        self._changed: set[bytes] = set()

    def open(self) -> dict[bytes, Halt]:
        """All halts by schedule key: the live mapping, not a copy."""
        if self._known is None:
            self._known = read_halts(self._table)
        return self._known

    def put(self, key: bytes, halt: Halt) -> None:
        """Sets or replaces the halt of a schedule."""
        self.open()[key] = halt
        self._changed.add(key)

    def park(self, key: bytes, record: Record) -> None:
        """Appends a signal to the parked ones."""
        halt = self.open()[key]
        self._table[_parked_key(key, halt.next_number)] = b"%d %b" % (record.time_ms, record.value or b"")
        self.put(key, replace(halt, parked=halt.parked + 1))

    def parked_signals(self, key: bytes, limit: int) -> Iterator[Record]:
        """The first `limit` parked signals as records; their offsets are their numbers.

        Raises:
            DecodeError: a row is missing.
        """
        halt = self.open()[key]
        for number in range(halt.first, min(halt.next_number, halt.first + limit)):
            raw = self._table.get(_parked_key(key, number))
            if raw is None:
                raise DecodeError("$", f"parked signal {number} is missing")
            time_ms, _, value = raw.partition(b" ")
            yield Record(number, key, value, int(time_ms))

    def unpark(self, key: bytes) -> None:
        """Removes the first parked signal."""
        halt = self.open()[key]
        del self._table[_parked_key(key, halt.first)]
        self.put(key, replace(halt, first=halt.first + 1, parked=halt.parked - 1))

    def end(self, key: bytes) -> None:
        """Removes the halt and all parked signals."""
        halt = self.open().pop(key)
        for number in range(halt.first, halt.next_number):
            del self._table[_parked_key(key, number)]
        self._changed.add(key)

    def store(self) -> None:
        """Writes the halts that changed since the last call."""
        known = self.open()
        for key in sorted(self._changed):
            row, halt = key + _ERROR, known.get(key)
            if halt is not None:
                self._table[row] = halt_codec.encode(halt)
            elif row in self._table:
                del self._table[row]
        self._changed.clear()


def _parked_key(key: bytes, number: int) -> bytes:
    return key + _PARKED + b"%d" % number
