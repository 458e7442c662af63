"""A bucket of known event ids: those first seen within one span of log time. Buckets expire as a whole (ADR 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamsched.codec.records.known_ids import (
    CELLS,
    DIGEST,
    ENTRY,
    OFFSETS,
    PART_BITS,
    SPAN,
    batch_key,
    cells_of,
    decode_part,
    encode_part,
    entries,
    part_key,
    parts_of,
)

#: Entries of a cell on average while a bucket grows; up to twice as many when it is sealed.
_CELL: Final = 40


class Bucket:
    """A hash table whose cells are `bytes` of entries; a lookup is one search in one cell.

    While it is open the table grows by one cell for every 40 entries (linear hashing), so that no single insertion is
    expensive. Sealing replaces the cells by *parts*, the values of changelog records, 64 cells at a time; a sealed
    bucket is read back as these values without touching the entries. At most one entry has a given digest.
    """

    __slots__ = (
        "_cells", "_limit", "_mask", "_split", "batches", "count", "newest_ms", "number", "opened_ms", "parts", "salt",
        "written",
    )  # fmt: skip

    def __init__(self, number: int, *, opened_ms: int, salt: int) -> None:
        """`opened_ms`: the log time at which it was opened. `salt`: the argument of `mixed`."""
        self.number = number
        self.opened_ms = opened_ms
        self.salt = salt
        #: The newest time of an entry; -1 while there is none.
        self.newest_ms = -1
        self.count = 0
        #: Numbers of the batches that are in the changelog.
        self.batches: set[int] = set()
        #: The parts sealed so far, in order; the other cells are in `_cells`.
        self.parts: list[bytes] = []
        #: Numbers of the parts that are in the changelog; after a recovery, possibly of parts that are sealed again.
        self.written: set[int] = set()
        self._cells: list[bytes] = [b""]
        self._mask = self._split = 0
        self._limit = _CELL

    @property
    def sealed(self) -> bool:
        return len(self.parts) == parts_of(self._mask.bit_length())

    def first_ms(self, digest: bytes, place: int) -> int:
        """The time of the entry with this digest, or -1. `place`: the digest `mixed` with this bucket's salt."""
        cell = place & self._mask
        number = cell >> PART_BITS
        if number < len(self.parts):
            held = self.parts[number]
            start, end = SPAN.unpack_from(held, OFFSETS + 4 * (cell & CELLS - 1))
        else:
            held = self._cells[place & 2 * self._mask + 1 if cell < self._split else cell]
            start, end = 0, len(held)
        at = held.find(digest, start, end)
        while at >= 0:
            if (at - start) % ENTRY == 0:
                return int.from_bytes(held[at + DIGEST : at + DIGEST + 6], "big")
            at = held.find(digest, at + 1, end)
        return -1

    def add(self, entry: bytes, place: int, first_ms: int) -> None:
        """Adds an entry whose digest is not in the bucket. `place`: as for `first_ms`."""
        cell = place & self._mask
        if cell < self._split:
            cell = place & 2 * self._mask + 1
        self._cells[cell] += entry
        self.count += 1
        self.newest_ms = max(self.newest_ms, first_ms)
        if self.count > self._limit:
            self._limit += _CELL
            self._grow()

    def make_cells(self, count: int) -> None:
        """Creates the cells for `count` entries in an empty bucket: as many as `count` calls of `add` would create."""
        cells = max(1, -(-count // _CELL))
        self._mask = (1 << cells.bit_length() - 1) - 1
        self._split = cells - self._mask - 1
        self._cells = [b""] * cells

    def fill(self, body: bytes) -> None:
        """Adds entries whose digests are not in the bucket, to cells created by `make_cells`."""
        cells, mask, wide, split, salt = self._cells, self._mask, 2 * self._mask + 1, self._split, self.salt
        newest = self.newest_ms
        for at in range(0, len(body), ENTRY):
            place = int.from_bytes(body[at : at + 8], "little") * salt >> 32
            cell = place & mask
            cells[place & wide if cell < split else cell] += body[at : at + ENTRY]
            first_ms = int.from_bytes(body[at + DIGEST : at + DIGEST + 6], "big")
            newest = max(newest, first_ms)
        self.newest_ms = newest
        self.count += len(body) // ENTRY
        self._limit = len(cells) * _CELL

    def _grow(self) -> None:
        """Adds one cell: moves about half the entries of the next cell to be split into it."""
        stay: list[bytes] = []
        go: list[bytes] = []
        held, bit, salt = self._cells[self._split], self._mask + 1 << 32, self.salt
        for at in range(0, len(held), ENTRY):  # `mixed`, without a call for each
            (go if int.from_bytes(held[at : at + 8], "little") * salt & bit else stay).append(held[at : at + ENTRY])
        self._cells[self._split] = b"".join(stay)
        self._cells.append(b"".join(go))
        self._split += 1
        if self._split > self._mask:
            self._mask, self._split = 2 * self._mask + 1, 0

    def seal(self) -> tuple[bytes, bytes]:
        """Turns the next cells into a part; returns the key and value of its record. No entries are added
        afterwards.
        """
        bits = self._mask.bit_length()
        number, count = len(self.parts), cells_of(bits)
        held: list[bytes] = []
        for cell in range(number * count, (number + 1) * count):
            held.append(
                self._cells[cell] + self._cells[cell + self._mask + 1] if cell < self._split else self._cells[cell]
            )
            self._cells[cell] = b""
            if cell < self._split:
                self._cells[cell + self._mask + 1] = b""
        part = encode_part(self.opened_ms, self.salt, self.newest_ms, bits, held)
        self.parts.append(part)
        self.written.add(number)
        if self.sealed:
            self._cells = []
        return part_key(self.number, number), part

    @classmethod
    def restore(cls, number: int, parts: list[bytes]) -> Bucket | None:
        """A sealed bucket from the values of all its parts, in order; None when parts are missing or do not match.

        Raises:
            DecodeError: one of the values is not a part.
        """
        heads = [decode_part(part) for part in parts]
        first = heads[0]
        if len(parts) != parts_of(first.bits) or any(head != first for head in heads):
            return None
        bucket = cls(number, opened_ms=first.opened_ms, salt=first.salt)
        bucket.newest_ms, bucket.parts, bucket._cells = first.newest_ms, parts, []
        bucket.written = set(range(len(parts)))
        bucket._mask = (1 << first.bits) - 1
        bucket.count = sum((len(part) - first.start) // ENTRY for part in parts)
        return bucket

    def records(self) -> Iterator[bytes]:
        """The keys of all its records in the changelog."""
        for number in sorted(self.written):
            yield part_key(self.number, number)
        for number in sorted(self.batches):
            yield batch_key(self.number, number)

    def entries(self) -> Iterator[bytes]:
        """All entries, in arbitrary order."""
        for part in self.parts:
            yield from entries(part, decode_part(part).start)
        for cell in self._cells:
            yield from entries(cell)
