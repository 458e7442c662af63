"""Known event ids in the changelog `seen`: digests, many to a record (ADR 2).

An *entry* is 26 bytes: 16 of digest, 6 of the log time when the event was first seen (milliseconds, unsigned), 4 of the
event key's hash (`domain.signals.home.key_hash`), from which its home follows for another number of shards.

Entries belong to a numbered *bucket* of a shard, which is removed as a whole. Two kinds of records hold them:

| key                      | value                                                                                    |
|--------------------------|------------------------------------------------------------------------------------------|
| `ids/<bucket>/batch/<n>` | version, opened, salt, entries: what one turn added, or several such records merged      |
| `ids/<bucket>/part/<n>`  | version, opened, salt, newest, cell bits, offsets, entries: a part of a sealed bucket    |

All numbers are big-endian. A sealed bucket has 2^bits *cells*; the low bits of an entry's `mix` are its cell.
Part n holds the cells from n × 64 on, at most 64 of them, each from its offset in the record to the next offset. A
bucket with all its parts is complete; remaining batches of it are copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from streamsched.codec.records.state import SEPARATOR
from streamsched.domain.errors import DecodeError

DIGEST: Final = 16
ENTRY: Final = 26
_TIME: Final = slice(DIGEST, DIGEST + 6)
#: The largest time an entry can hold, in ms: the year 10889.
_LATEST: Final = (1 << 48) - 1

#: Cells of one part, as a power of two.
PART_BITS: Final = 6
CELLS: Final = 1 << PART_BITS
#: Most entries of one batch: 208 KiB, where Kafka takes records of 1 MiB.
BATCH: Final = 8_192

_VERSION: Final = 1
_ENTRY: Final = Struct(">16sHII")
_BATCH: Final = Struct(">BQQ")
_PART: Final = Struct(">BQQQB")
#: Where the offsets of a part begin, and the layout of two adjacent ones.
OFFSETS: Final = _PART.size
SPAN: Final = Struct(">II")


def digest(key: bytes, source: bytes, event_id: bytes) -> bytes:
    """Identifies an event: 128-bit BLAKE2b over its key, source and id, with length prefixes."""
    return blake2b(b"%d,%d,%b%b%b" % (len(key), len(source), key, source, event_id), digest_size=DIGEST).digest()


def mix(digest: bytes, salt: int) -> int:
    """A number whose low bits are an entry's cell. `salt`, odd and below 2^64, is private to the shard, so that ids
    cannot be chosen to collide.
    """
    return int.from_bytes(digest[:8], "little") * salt >> 32 & 0xFFFFFFFF


def entry(digest: bytes, first_ms: int, key_hash: int) -> bytes:
    """`first_ms`: as `clamp` gives it."""
    return _ENTRY.pack(digest, first_ms >> 32, first_ms & 0xFFFFFFFF, key_hash)


def clamp(time_ms: int) -> int:
    """A time in the range of an entry."""
    return min(max(time_ms, 0), _LATEST)


def first_ms(entry: bytes) -> int:
    """When the id was first seen, in milliseconds since 1970."""
    return int.from_bytes(entry[_TIME], "big")


def key_hash(entry: bytes) -> int:
    """The hash of the event key, from which the id's home follows."""
    return int.from_bytes(entry[22:ENTRY], "big")


def entries(body: bytes, start: int = 0) -> Iterator[bytes]:
    """The entries of `body` from an offset on."""
    return (body[at : at + ENTRY] for at in range(start, len(body), ENTRY))


class Batch(NamedTuple):
    """Some entries of a bucket, in order of arrival. `opened_ms`: when the bucket was opened."""

    opened_ms: int
    salt: int
    body: bytes


class Part(NamedTuple):
    """The header of a part. `newest_ms` and `bits` are those of the bucket; `start` is the offset of the entries."""

    opened_ms: int
    salt: int
    newest_ms: int
    bits: int
    start: int


class RecordKey(NamedTuple):
    """A parsed record key."""

    bucket: int
    part: bool
    number: int


def batch_key(bucket: int, number: int) -> bytes:
    """The record key of a batch of a bucket."""
    return b"ids/%d/batch/%d" % (bucket, number)


def part_key(bucket: int, number: int) -> bytes:
    """The record key of a part of a sealed bucket."""
    return b"ids/%d/part/%d" % (bucket, number)


def place(key: bytes) -> RecordKey:
    """Parses a record key.

    Raises:
        DecodeError: it is not a key of these records.
    """
    try:
        ids, bucket, kind, number = key.split(b"/")
        if ids == b"ids" and kind in (b"batch", b"part"):
            return RecordKey(int(bucket), kind == b"part", int(number))
    except ValueError:
        pass
    raise DecodeError("$key", f"is no key of known ids: {key[:80]!r}")


def is_row(key: bytes) -> bool:
    """Whether a key has the form of those before release 0.1.0: event key, source and id."""
    return key.count(SEPARATOR) == 2


def parts_of(bits: int) -> int:
    """The number of parts of a sealed bucket with 2^bits cells."""
    return 1 << max(0, bits - PART_BITS)


def cells_of(bits: int) -> int:
    """The number of cells in each of its parts."""
    return min(CELLS, 1 << bits)


def encode_batch(opened_ms: int, salt: int, body: bytes) -> bytes:
    """A batch of entries, which `decode_batch` reads. `opened_ms`: when its bucket was opened."""
    return _BATCH.pack(_VERSION, clamp(opened_ms), salt) + body


def decode_batch(raw: bytes) -> Batch:
    """Decodes a batch.

    Raises:
        DecodeError: the bytes are not a batch of a known version.
    """
    if len(raw) < _BATCH.size or raw[0] != _VERSION or (len(raw) - _BATCH.size) % ENTRY:
        raise DecodeError("$", f"is no batch of known ids: {raw[:20]!r}, {len(raw)} bytes")
    _, opened_ms, salt = _BATCH.unpack_from(raw)
    return Batch(opened_ms, salt, raw[_BATCH.size :])


def encode_part(opened_ms: int, salt: int, newest_ms: int, bits: int, cells: Sequence[bytes]) -> bytes:
    """`cells`: the entries of each cell, `cells_of(bits)` of them."""
    at = OFFSETS + 4 * (len(cells) + 1)
    offsets = [at]
    for cell in cells:
        offsets.append(at := at + len(cell))
    head = _PART.pack(_VERSION, clamp(opened_ms), salt, clamp(newest_ms), bits)
    return b"".join((head, Struct(f">{len(offsets)}I").pack(*offsets), *cells))


def decode_part(raw: bytes) -> Part:
    """Decodes the header of a part.

    Raises:
        DecodeError: the bytes are not a part of a known version.
    """
    if len(raw) > OFFSETS and raw[0] == _VERSION and raw[OFFSETS - 1] <= 32:
        _, opened_ms, salt, newest_ms, bits = _PART.unpack_from(raw)
        count = cells_of(bits)
        start = OFFSETS + 4 * (count + 1)
        if len(raw) >= start:
            found = Struct(f">{count + 1}I").unpack_from(raw, OFFSETS)
            if found[0] == start and found[-1] == len(raw) and sorted(found) == list(found):
                return Part(opened_ms, salt, newest_ms, bits, start)
    raise DecodeError("$", f"is no part of known ids: {raw[:20]!r}, {len(raw)} bytes")
