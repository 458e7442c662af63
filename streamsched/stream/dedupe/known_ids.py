"""A shard's known event ids as digests in buckets (ADR 2), in memory and in the changelog."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from itertools import islice
from math import inf
from secrets import randbits
from typing import Final

import structlog

from streamsched.codec.records import known_ids as codec
from streamsched.domain.errors import DecodeError
from streamsched.stream.dedupe.id_bucket import Bucket

log = structlog.get_logger()

#: Writes a record to the changelog as part of the turn; a value of None is a tombstone.
Write = Callable[[bytes, bytes | None], None]

#: A bucket is closed after 1/`_SPANS` of the horizon, or with `_LARGEST` entries, or with 1/`_SHARE` of all if more.
_SPANS: Final = 4
_LARGEST: Final = 1 << 19
_SHARE: Final = 8
#: `_MERGED` small batches of similar size are merged into one, up to `_FULL` entries.
_MERGED: Final = 8
_FULL: Final = 512
#: The most parts sealed in one turn, and the most tombstones for the batches that parts replace.
_PARTS_PER_TURN: Final = 2
_TOMBSTONES_PER_TURN: Final = 500
#: Recovery yields to other tasks after so many entries restored one by one.
_RESTORED: Final = 2_000


class KnownIds:
    """Digests of events with the log time at which each was first seen, kept for at least the horizon.

    `add` and `expire` change what is known and depend on their arguments only. `flush`, at the end of a turn, writes
    the new entries and does a bounded amount of maintenance, which does not affect lookups.
    """

    def __init__(self, write: Write, horizon_ms: int, *, salt: int | None = None) -> None:
        """`salt`: of new buckets, unless one is restored; by default random."""
        self._write = write
        self._horizon_ms = horizon_ms
        self._span_ms = max(1, horizon_ms // _SPANS)
        self._salt = randbits(64) | 1 if salt is None else salt
        self._newest_first: list[Bucket] = []
        self._open: Bucket | None = None
        self._next = 0
        self._count = 0
        self._expires_ms: float = inf
        #: The entries added since the last flush, by bucket.
        self._new: list[tuple[Bucket, list[bytes]]] = []
        #: Batches of the open bucket that may be merged, by the magnitude of their sizes: number → entries.
        self._small: dict[int, dict[int, bytes]] = {}
        self._unreadable: list[bytes] = []
        #: The last digest looked up, a salt, and the digest `mixed` with that salt.
        self._placed = (b"", 0, 0)

    def __len__(self) -> int:
        return self._count

    def first_ms(self, digest: bytes) -> int | None:
        """The time at which the event with this digest was first seen; if it expired since, the newest such time."""
        salt = place = 0
        for bucket in self._newest_first:
            if bucket.salt != salt:
                salt = bucket.salt
                place = codec.mix(digest, salt)
                self._placed = digest, salt, place
            found = bucket.first_ms(digest, place)
            if found >= 0:
                return found
        return None

    def add(self, digest: bytes, first_ms: int, key_hash: int, *, now_ms: int, known: bool = False) -> None:
        """Adds an event. `now_ms`: the log time by which buckets are opened; `known`: the digest is already known, with
        an older time.
        """
        bucket = self._open
        if bucket is not None and self._must_close(bucket, now_ms, digest if known else None):
            self._close(bucket)
            bucket = None
        if bucket is None:
            bucket = self._open_next(now_ms)
        if not self._new or self._new[-1][0] is not bucket:
            self._new.append((bucket, []))
        first_ms = codec.clamp(first_ms)
        entry = codec.entry(digest, first_ms, key_hash)
        if self._placed[:2] != (digest, bucket.salt):
            self._placed = digest, bucket.salt, codec.mix(digest, bucket.salt)
        bucket.add(entry, self._placed[2], first_ms)
        self._new[-1][1].append(entry)
        self._count += 1

    def expire(self, now_ms: int) -> None:
        """Removes the closed buckets whose entries are all as old as the horizon, with their records."""
        if now_ms < self._expires_ms:
            return
        for bucket in list(self._newest_first):
            if bucket is not self._open and bucket.newest_ms <= now_ms - self._horizon_ms:
                self._newest_first.remove(bucket)
                self._new = [(to, new) for to, new in self._new if to is not bucket]
                self._count -= bucket.count
                for key in bucket.records():
                    self._write(key, None)
        self._set_expiry()

    def flush(self) -> None:
        """Writes the entries added since the last flush, and continues sealing closed buckets."""
        for key in self._unreadable:  # first: a new record may have the same key
            self._write(key, None)
        self._unreadable = []
        for bucket, new in self._new:
            for start in range(0, len(new), codec.BATCH):
                self._batch(bucket, b"".join(new[start : start + codec.BATCH]))
        self._new = []
        self._seal()

    async def restore(self, rows: MutableMapping[bytes, bytes]) -> None:
        """Restores the buckets from `rows`, the changelog's newest value by key, and empties `rows`. Sealed buckets are
        adopted without reading their entries; the entries of others are added one by one, yielding to the loop. The
        order of the rows does not matter.

        A record that cannot be decoded is ignored, logged, and removed with the next flush.
        """
        parts, batches = self._places(rows)
        for number in sorted(parts.keys() | batches.keys()):
            mine, others = parts.get(number, {}), batches.get(number, {})
            bucket = self._sealed_bucket(number, {part: rows[key] for part, key in mine.items()})
            if bucket is None:
                bucket = await self._fill(number, others, mine, rows)
            else:
                bucket.batches.update(others)
            for key in (*mine.values(), *others.values()):
                rows.pop(key, None)
            if bucket is not None:
                bucket.written.update(mine)
                self._newest_first.insert(0, bucket)
                self._count += bucket.count
                self._salt, self._next = bucket.salt, number + 1
            await asyncio.sleep(0)
        if self._newest_first and not self._newest_first[0].written:
            self._open = self._newest_first[0]
        self._set_expiry()

    def _places(
        self, rows: MutableMapping[bytes, bytes]
    ) -> tuple[dict[int, dict[int, bytes]], dict[int, dict[int, bytes]]]:
        """The record keys of parts and of batches: bucket → number → key."""
        parts: dict[int, dict[int, bytes]] = {}
        batches: dict[int, dict[int, bytes]] = {}
        for key in list(rows):
            try:
                place = codec.place(key)
            except DecodeError as error:
                self._cannot_read(key, error)
                continue
            (parts if place.part else batches).setdefault(place.bucket, {})[place.number] = key
        return parts, batches

    def _sealed_bucket(self, number: int, parts: Mapping[int, bytes]) -> Bucket | None:
        """The sealed bucket of these parts; None when some are missing or cannot be decoded."""
        if not parts or sorted(parts) != list(range(len(parts))):
            return None
        try:
            return Bucket.restore(number, [parts[part] for part in range(len(parts))])
        except DecodeError:
            return None

    async def _fill(
        self, number: int, batches: Mapping[int, bytes], parts: Mapping[int, bytes], rows: Mapping[bytes, bytes]
    ) -> Bucket | None:
        """A bucket that is not completely sealed, from its batches and from parts whose batches were removed. None when
        none of its records can be decoded.
        """
        readable = dict(self._readable(batches, rows, codec.decode_batch))
        others = dict(self._readable(parts, rows, _part))
        if not readable and not others:
            return None
        any_ = next(iter((readable or others).values()))
        bucket = Bucket(number, opened_ms=any_.opened_ms, salt=any_.salt)
        bucket.batches.update(readable)
        bucket.make_cells(sum(len(batch.body) for batch in readable.values()) // codec.ENTRY)
        self._small = {}
        for nth, batch in readable.items():
            if (size := _magnitude(batch.body)) is not None:
                self._small.setdefault(size, {})[nth] = batch.body
            for start in range(0, len(batch.body), _RESTORED * codec.ENTRY):
                bucket.fill(batch.body[start : start + _RESTORED * codec.ENTRY])
                await asyncio.sleep(0)
        for part in others.values():  # entries whose batches still exist are duplicates
            for at, entry in enumerate(codec.entries(part.body)):
                place = codec.mix(entry, bucket.salt)
                if bucket.first_ms(entry[: codec.DIGEST], place) < 0:
                    bucket.add(entry, place, codec.first_ms(entry))
                if at % _RESTORED == 0:
                    await asyncio.sleep(0)
        return bucket

    def _readable(
        self, keys: Mapping[int, bytes], rows: Mapping[bytes, bytes], decode: Callable[[bytes], codec.Batch]
    ) -> Iterator[tuple[int, codec.Batch]]:
        for number, key in sorted(keys.items()):
            try:
                yield number, decode(rows[key])
            except DecodeError as error:
                self._cannot_read(key, error)

    def _cannot_read(self, key: bytes, error: DecodeError) -> None:
        log.error("known_ids.unreadable", key=repr(key[:80]), error=str(error))
        self._unreadable.append(key)

    def _open_next(self, now_ms: int) -> Bucket:
        bucket = self._open = Bucket(self._next, opened_ms=codec.clamp(now_ms), salt=self._salt)
        self._next += 1
        self._newest_first.insert(0, bucket)
        self._small = {}
        return bucket

    def _must_close(self, bucket: Bucket, now_ms: int, known: bytes | None) -> bool:
        """Whether the open bucket is to be closed before an entry is added. `known`: a digest that may be in it."""
        if not -self._span_ms <= now_ms - bucket.opened_ms < self._span_ms:
            return True
        if bucket.count >= max(_LARGEST, self._count // _SHARE):
            return True
        return known is not None and bucket.first_ms(known, codec.mix(known, bucket.salt)) >= 0

    def _close(self, bucket: Bucket) -> None:
        self._open = None
        self._expires_ms = min(self._expires_ms, bucket.newest_ms + self._horizon_ms)

    def _set_expiry(self) -> None:
        newest = (bucket.newest_ms for bucket in self._newest_first if bucket is not self._open)
        self._expires_ms = min(newest, default=inf) + self._horizon_ms

    def _batch(self, bucket: Bucket, body: bytes) -> None:
        """Writes a batch, and merges batches of the same magnitude when there are `_MERGED` of them."""
        while True:
            number = max(bucket.batches, default=-1) + 1
            bucket.batches.add(number)
            self._write(codec.batch_key(bucket.number, number), codec.encode_batch(bucket.opened_ms, bucket.salt, body))
            size = _magnitude(body)
            if size is None or bucket is not self._open:
                return
            alike = self._small.setdefault(size, {})
            alike[number] = body
            if len(alike) < _MERGED:
                return
            del self._small[size]
            for each in alike:
                bucket.batches.remove(each)
                self._write(codec.batch_key(bucket.number, each), None)
            body = b"".join(alike.values())

    def _seal(self) -> None:
        parts, tombstones = _PARTS_PER_TURN, _TOMBSTONES_PER_TURN
        for bucket in reversed(self._newest_first):
            if bucket is self._open or (bucket.sealed and not bucket.batches):
                continue
            while parts and not bucket.sealed:
                self._write(*bucket.seal())
                parts -= 1
            if bucket.sealed:
                for key in islice(_replaced_keys(bucket), tombstones):
                    self._write(key, None)
                    tombstones -= 1
            if not parts or not tombstones:
                return


def _replaced_keys(bucket: Bucket) -> Iterator[bytes]:
    """The keys of records that the parts of a sealed bucket replace; each is removed from the bucket when yielded."""
    for number in sorted(bucket.written - set(range(len(bucket.parts)))):
        bucket.written.discard(number)
        yield codec.part_key(bucket.number, number)
    for number in sorted(bucket.batches):
        bucket.batches.discard(number)
        yield codec.batch_key(bucket.number, number)


def _part(raw: bytes) -> codec.Batch:
    """The entries of a part as a batch."""
    part = codec.decode_part(raw)
    return codec.Batch(part.opened_ms, part.salt, raw[part.start :])


def _magnitude(body: bytes) -> int | None:
    """0 for up to 7 entries, 1 for up to 63, and so on; None for batches that are never merged."""
    count = len(body) // codec.ENTRY
    return None if count >= _FULL else (count.bit_length() - 1) // 3
