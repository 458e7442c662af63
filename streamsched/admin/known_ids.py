"""Moves known event ids to another number of shards (ADR 2): each entry follows its event key, by the key's hash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import structlog

from streamsched.codec.records import known_ids as codec
from streamsched.domain.errors import ConflictError, DecodeError
from streamsched.domain.signals.home import home_of
from streamsched.stream.dedupe.id_bucket import Bucket

log = structlog.get_logger()

#: About how many buckets a shard's entries are divided into, each for an equal span of time.
_BUCKETS: Final = 4


def rehomed_ids(
    tables: Mapping[int, Mapping[bytes, bytes]], before: int, shards: int
) -> Mapping[int, Mapping[bytes, bytes]]:
    """The records of each new shard, as sealed buckets, from the tables of the old shards. Deterministic.

    Raises:
        ConflictError: an entry is not at its current home.
    """
    entries: dict[int, dict[bytes, bytes]] = {shard: {} for shard in range(shards)}
    for shard, records in tables.items():
        for entry in _entries(records):
            hashed = codec.key_hash(entry)
            if home_of(hashed, before) != shard:
                raise ConflictError(f"shard {shard} knows an id whose home is {home_of(hashed, before)}")
            of_home = entries[home_of(hashed, shards)]
            digest = entry[: codec.DIGEST]
            known = of_home.get(digest)
            if known is None or codec.first_ms(known) < codec.first_ms(entry):
                of_home[digest] = entry
    return {shard: dict(_records(sorted(found.values(), key=codec.first_ms))) for shard, found in entries.items()}


def _entries(records: Mapping[bytes, bytes]) -> Iterator[bytes]:
    for key, value in records.items():
        try:
            if codec.place(key).part:
                start, body = codec.decode_part(value).start, value
            else:
                start, body = 0, codec.decode_batch(value).body
        except DecodeError as error:  # the shard skips it too
            log.error("known_ids.unreadable", key=repr(key[:80]), error=str(error))
            continue
        yield from codec.entries(body, start)


def _records(oldest_first: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The records of sealed buckets that hold these entries."""
    if not oldest_first:
        return
    began = codec.first_ms(oldest_first[0])
    span = (codec.first_ms(oldest_first[-1]) - began) // _BUCKETS + 1
    groups: dict[int, list[bytes]] = {}
    for entry in oldest_first:
        groups.setdefault((codec.first_ms(entry) - began) // span, []).append(entry)
    salt = int.from_bytes(oldest_first[0][:8], "little") | 1
    for number, group in enumerate(groups.values()):
        bucket = Bucket(number, opened_ms=codec.first_ms(group[0]), salt=salt)
        bucket.make_cells(len(group))
        bucket.fill(b"".join(group))
        while not bucket.sealed:
            yield bucket.seal()
