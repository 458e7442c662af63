"""The index of the partitions of one accumulation: which event names each of them last.

Few keys are in a dict. More than that are in a table of *cells*, each the bytes of its entries, so that a million keys
take 25 MB instead of 250; a lookup is one search in one cell, 40 entries on average. The table grows by one cell for
every 40 entries (linear hashing), so no single insertion is expensive.

An entry is 16 bytes for the key, 6 for the number of the event and 8 for the amount, big-endian. The first 8 are the
hash of the process, by which keys cannot be chosen to fill one cell; the other 8 are BLAKE2b. Two keys of one process
that are equal in both are taken for one: among a million, once in 10^26.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple

#: Most keys in the dict.
_FEW: Final = 512
#: Entries of a cell on average.
_CELL: Final = 40
_KEY: Final = 16
_NUMBER: Final = 22
_ENTRY: Final = 30
_SEEDED: Final = 1 << 64


class Place(NamedTuple):
    """The number of the newest event that names a key, and what the partition adds there (at least 0)."""

    number: int
    amount: int


class PartitionIndex:
    """Mutable; a key has at most one place."""

    __slots__ = ("_cells", "_count", "_few", "_mask", "_split")

    def __init__(self) -> None:
        self._few: dict[str, Place] = {}
        #: Cells; none while the keys are few.
        self._cells: list[bytes] = []
        self._count = self._mask = self._split = 0

    def __len__(self) -> int:
        return len(self._few) or self._count

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def get(self, key: str) -> Place | None:
        """The place of a key; None when it has none."""
        if not self._cells:
            return self._few.get(key)
        entry = _entry_key(key)
        cell = self._cells[self._cell(entry)]
        at = _find(cell, entry)
        return None if at < 0 else _place(cell, at)

    def put(self, key: str, place: Place) -> Place | None:
        """Sets the place of a key; returns the one that it had."""
        if not self._cells:
            before = self._few.get(key)
            self._few[key] = place
            if len(self._few) > _FEW:
                self._use_cells()
            return before
        entry = _entry_key(key)
        number = self._cell(entry)
        cell = self._cells[number]
        at = _find(cell, entry)
        value = place.number.to_bytes(_NUMBER - _KEY, "big") + place.amount.to_bytes(_ENTRY - _NUMBER, "big")
        if at >= 0:
            self._cells[number] = cell[: at + _KEY] + value + cell[at + _ENTRY :]
            return _place(cell, at)
        self._cells[number] = cell + entry + value
        self._count += 1
        if self._count > len(self._cells) * _CELL:
            self._grow()
        return None

    def pop(self, key: str) -> None:
        """Removes a key, if it is there."""
        if not self._cells:
            self._few.pop(key, None)
            return
        entry = _entry_key(key)
        number = self._cell(entry)
        cell = self._cells[number]
        at = _find(cell, entry)
        if at >= 0:
            self._cells[number] = cell[:at] + cell[at + _ENTRY :]
            self._count -= 1
            if not self._count:
                self._cells, self._mask, self._split = [], 0, 0

    def _use_cells(self) -> None:
        few, self._few, self._cells = self._few, {}, [b""]
        for key, place in few.items():
            self.put(key, place)

    def _cell(self, entry: bytes) -> int:
        place = int.from_bytes(entry[:8], "big")
        cell = place & self._mask
        return place & 2 * self._mask + 1 if cell < self._split else cell

    def _grow(self) -> None:
        """Adds one cell: moves about half the entries of the next cell to be split into it."""
        held, bit = self._cells[self._split], self._mask + 1
        parts: tuple[list[bytes], list[bytes]] = [], []
        for at in range(0, len(held), _ENTRY):
            parts[int.from_bytes(held[at : at + 8], "big") & bit != 0].append(held[at : at + _ENTRY])
        self._cells[self._split] = b"".join(parts[0])
        self._cells.append(b"".join(parts[1]))
        self._split += 1
        if self._split > self._mask:
            self._mask, self._split = 2 * self._mask + 1, 0


def _entry_key(key: str) -> bytes:
    return (hash(key) % _SEEDED).to_bytes(8, "big") + blake2b(
        key.encode(errors="surrogatepass"), digest_size=8
    ).digest()


def _find(cell: bytes, key: bytes) -> int:
    """Where the entry of a key begins; -1 without one."""
    at = cell.find(key)
    while at >= 0 and at % _ENTRY:
        at = cell.find(key, at + 1)
    return at


def _place(cell: bytes, at: int) -> Place:
    return Place(
        int.from_bytes(cell[at + _KEY : at + _NUMBER], "big"), int.from_bytes(cell[at + _NUMBER : at + _ENTRY], "big")
    )
