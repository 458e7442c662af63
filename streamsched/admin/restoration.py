"""Imports an export of all shards' tables (format: `admin.state`) while no worker or launcher runs.

If it is killed, each schedule is unchanged, imported, or missing; importing again completes it.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from streamsched.admin.batching import LIMITS, BatchLimits, batches
from streamsched.admin.changelog import table
from streamsched.admin.exclusive import exclusive
from streamsched.admin.started import Started, read_started
from streamsched.admin.state import VERSION
from streamsched.codec.json.scalar import integer, loads, mapping, text
from streamsched.codec.records import state as state_codec
from streamsched.codec.records.state import SEPARATOR, StateHeader
from streamsched.domain.errors import DecodeError
from streamsched.log.topics import APP_ID, CHANGELOGS, RESERVED, SIGNALS, TRIGGERS_CHANGELOG
from streamsched.ports.broker import Broker, Outgoing
from streamsched.ports.leases import LeaseHolder, Leases
from streamsched.store.server.probe import JobNumbers


async def restore(
    lines: Iterable[bytes], *, broker: Broker, leases: Leases, me: LeaseHolder, numbers: JobNumbers, ttl: timedelta
) -> int:
    """Replaces the tables of all shards by the exported ones; returns how many rows were written or removed. Equal rows
    are skipped, so a repetition after a failure completes the import.

    Job numbers never decrease (`keep_numbers`), so the next job of each schedule gets a new id.

    Raises:
        ConflictError: a worker or launcher runs, or a lease has not expired; if it started during the import, some
            tables may be restored.
        DecodeError: a line is malformed, or the export has another number of shards; nothing was changed.
        FencedError: a worker without a lease started during the import.
        UnavailableError: the log or PostgreSQL is unreachable; some tables may be restored.
    """
    shards = await broker.partitions(SIGNALS)
    wanted = _read(lines, shards)
    written = 0
    async with exclusive(leases, me, shards=shards, ttl=ttl) as check:
        jobs = await read_started(broker, numbers)
        for shard in range(shards):
            await check()
            writer = await broker.writer(f"{APP_ID}-{shard}")  # first: fences unknown workers before the table is read
            try:
                groups: list[list[Outgoing]] = []
                for topic in CHANGELOGS:
                    has, want = await table(broker, topic, shard), wanted.get((topic, shard), {})
                    if topic == TRIGGERS_CHANGELOG:
                        # in a thread, so that the event loop keeps renewing the leases
                        want = await asyncio.to_thread(keep_numbers, has, want, jobs)
                    groups += changes(topic, shard, has, want)
                for batch in batches(groups):
                    await writer.commit(batch)
                    written += len(batch)
            finally:
                await writer.close()
    return written


def keep_numbers(has: Mapping[bytes, bytes], want: Mapping[bytes, bytes], jobs: Started) -> Mapping[bytes, bytes]:
    """The rows to import into a triggers table. A schedule that has changed since the export keeps its rows; any other
    gets its exported state, with the highest known job number. Pure.
    """
    found, unchanged = dict(want), set[bytes]()
    for key, value in want.items():
        if SEPARATOR in key or (at := _header(value)) is None:
            continue
        now = _header(has[key]) if key in has else None
        number = jobs.get((at.schedule, at.generation), 0)
        if now is not None and now.generation > at.generation:
            unchanged.add(key)
        elif now is not None and now.generation == at.generation:
            number = max(number, now.sequence)
        found[key] = state_codec.raise_sequence(value, number)
    if not unchanged:
        return found
    rows = {key: value for key, value in found.items() if _root(key) not in unchanged}
    return rows | {key: value for key, value in has.items() if _root(key) in unchanged}


def changes(
    topic: str, shard: int, has: Mapping[bytes, bytes], want: Mapping[bytes, bytes], limits: BatchLimits = LIMITS
) -> Iterator[list[Outgoing]]:
    """The records that turn the rows `has` into `want`, one group per schedule. If a schedule does not fit into one
    commit, its root row is deleted first and written last, so that a shard never reads an incomplete state. Pure.
    """
    groups: dict[bytes, list[Outgoing]] = {}
    for key, value in want.items():
        if has.get(key) != value:
            groups.setdefault(_root(key), []).append(Outgoing(topic, shard, key, value))
    for key in has:
        if key not in want:
            groups.setdefault(_root(key), []).append(Outgoing(topic, shard, key, None))
    for root, rows in groups.items():
        if limits.fit(rows):
            yield rows
            continue
        if root in has:
            yield [Outgoing(topic, shard, root, None)]
        yield [row for row in rows if row.key != root]
        if root in want:
            yield [Outgoing(topic, shard, root, want[root])]


def _root(key: bytes) -> bytes:
    """The key of the schedule's root row."""
    return key.partition(SEPARATOR)[0]


def _header(value: bytes) -> StateHeader | None:
    """None if the state cannot be decoded; its schedule is in error then."""
    try:
        return state_codec.peek(value)
    except DecodeError:
        return None


def _read(lines: Iterable[bytes], shards: int) -> Mapping[tuple[str, int], dict[bytes, bytes]]:
    """The tables of a complete export.

    Raises:
        DecodeError: see `restore`.
    """
    found: dict[tuple[str, int], dict[bytes, bytes]] = {}
    numbered = enumerate(lines, 1)
    head = mapping(loads(next(numbered, (0, b""))[1], "line 1"), "line 1")
    if integer(head.get("v"), "line 1.v") != VERSION:
        raise DecodeError("line 1.v", f"is not version {VERSION}, the only one this release reads")
    if (exported := integer(head.get("shards"), "line 1.shards")) != shards:
        raise DecodeError("line 1.shards", f"is {exported}, but this installation has {shards}")
    rows: int | None = None
    number = 1
    for number, line in numbered:
        path = f"line {number}"
        if rows is not None:
            raise DecodeError(path, "follows the end of the export")
        row = mapping(loads(line, path), path)
        if "rows" in row:
            if (rows := integer(row["rows"], path, ".rows")) != number - 2:
                raise DecodeError(f"{path}.rows", f"is {rows}, but the export has {number - 2} rows: some are missing")
            continue
        topic, shard = text(row.get("topic"), path, ".topic"), integer(row.get("shard"), path, ".shard")
        if topic not in CHANGELOGS or shard >= shards:
            raise DecodeError(path, f"is of {topic}/{shard}, which is not a table of this installation")
        key = _bytes(row.get("key"), f"{path}.key")
        if key.startswith(RESERVED):
            raise DecodeError(f"{path}.key", "is a shard's position, which an export does not contain")
        found.setdefault((topic, shard), {})[key] = _bytes(row.get("value"), f"{path}.value")
    if rows is None:
        raise DecodeError(
            f"line {number + 1}", "is missing: the last line has the number of rows, so the export was cut off"
        )
    return found


def _bytes(value: object, path: str) -> bytes:
    try:
        return b64decode(text(value, path), validate=True)
    except ValueError as exc:
        raise DecodeError(path, "is not base64") from exc
