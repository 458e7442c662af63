"""What was exported becomes the tables of all shards again, while nobody works (`admin.state` says what an export is).

Killed half way, it leaves tables of which each schedule is as it was, as it was exported, or missing; another try makes
up the rest.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from streamsched.admin.changelog import table
from streamsched.admin.portions import ROOM, Room, portions
from streamsched.admin.sole import alone
from streamsched.admin.started import Numbers, Started, started
from streamsched.admin.state import VERSION
from streamsched.codec import state as state_codec
from streamsched.codec.scalar import integer, loads, mapping, text
from streamsched.codec.state import SEPARATOR, Heading
from streamsched.domain.errors import DecodeError
from streamsched.ports.broker import Broker, Outgoing
from streamsched.ports.leases import Holder, Leases
from streamsched.ports.topics import APP_ID, CHANGELOGS, RESERVED, SIGNALS, TRIGGERS_CHANGELOG


async def restore(
    lines: Iterable[bytes], *, broker: Broker, leases: Leases, me: Holder, numbers: Numbers, ttl: timedelta
) -> int:
    """Makes the tables of all shards what was exported; returns how many rows were written or removed. A row that is as
    it should be is left alone, so a second try after a failure only does the rest.

    No schedule goes back behind what it has started (`onward`), so that what it starts next is a job of its own.

    Raises:
        ConflictError: somebody runs, or holds a lease that has not run out; some tables may be restored, if he came
            meanwhile.
        DecodeError: a line is no export's, or the installation had another number of shards; nothing was changed.
        FencedError: a worker that we do not know of came meanwhile.
        UnavailableError: log or PostgreSQL are away; some tables may be restored, others not.
    """
    shards = await broker.partitions(SIGNALS)
    wanted = _read(lines, shards)
    written = 0
    async with alone(leases, me, shards=shards, ttl=ttl) as check:
        jobs = await started(broker, numbers)
        for shard in range(shards):
            await check()
            writer = await broker.writer(f"{APP_ID}-{shard}")  # first: a worker that we do not know of ends nothing now
            try:
                groups: list[list[Outgoing]] = []
                for topic in CHANGELOGS:
                    has, want = await table(broker, topic, shard), wanted.get((topic, shard), {})
                    if topic == TRIGGERS_CHANGELOG:
                        want = await asyncio.to_thread(onward, has, want, jobs)  # the leases are kept alive meanwhile
                    groups += changes(topic, shard, has, want)
                for portion in portions(groups):
                    await writer.commit(portion)
                    written += len(portion)
            finally:
                await writer.close()
    return written


def onward(has: Mapping[bytes, bytes], want: Mapping[bytes, bytes], jobs: Started) -> Mapping[bytes, bytes]:
    """The rows of a triggers table to import over what it has. A schedule that was changed since the export stays as it
    is; any other goes back to what it had, but its numbers go on from the highest that is known. Pure.
    """
    found, stay = dict(want), set[bytes]()
    for key, value in want.items():
        if SEPARATOR in key or (at := _heading(value)) is None:
            continue
        now = _heading(has[key]) if key in has else None
        number = jobs.get((at.schedule, at.generation), 0)
        if now is not None and now.generation > at.generation:
            stay.add(key)
        elif now is not None and now.generation == at.generation:
            number = max(number, now.sequence)
        found[key] = state_codec.numbered(value, number)
    if not stay:
        return found
    rows = {key: value for key, value in found.items() if _root(key) not in stay}
    return rows | {key: value for key, value in has.items() if _root(key) in stay}


def changes(
    topic: str, shard: int, has: Mapping[bytes, bytes], want: Mapping[bytes, bytes], room: Room = ROOM
) -> Iterator[list[Outgoing]]:
    """What makes the rows that are wanted of those a table has, schedule by schedule. Of one that no commit has room
    for, the root row goes first and comes last: a shard that read half of it would stand in error. Pure.
    """
    groups: dict[bytes, list[Outgoing]] = {}
    for key, value in want.items():
        if has.get(key) != value:
            groups.setdefault(_root(key), []).append(Outgoing(topic, shard, key, value))
    for key in has:
        if key not in want:
            groups.setdefault(_root(key), []).append(Outgoing(topic, shard, key, None))
    for root, rows in groups.items():
        if room.takes(rows):
            yield rows
            continue
        if root in has:
            yield [Outgoing(topic, shard, root, None)]
        yield [row for row in rows if row.key != root]
        if root in want:
            yield [Outgoing(topic, shard, root, want[root])]


def _root(key: bytes) -> bytes:
    """The row of the schedule that a row belongs to."""
    return key.partition(SEPARATOR)[0]


def _heading(value: bytes) -> Heading | None:
    """None of what its shard cannot read either, and stands in error for."""
    try:
        return state_codec.peek(value)
    except DecodeError:
        return None


def _read(lines: Iterable[bytes], shards: int) -> Mapping[tuple[str, int], dict[bytes, bytes]]:
    """All of it, checked before anything is written."""
    found: dict[tuple[str, int], dict[bytes, bytes]] = {}
    numbered = enumerate(lines, 1)
    head = mapping(loads(next(numbered, (0, b""))[1], "line 1"), "line 1")
    if integer(head.get("v"), "line 1.v") != VERSION:
        raise DecodeError("line 1.v", f"is not version {VERSION}, which this release reads")
    if (exported := integer(head.get("shards"), "line 1.shards")) != shards:
        raise DecodeError("line 1.shards", f"is {exported}, but this installation has {shards}")
    rows: int | None = None
    number = 1
    for number, line in numbered:
        path = f"line {number}"
        if rows is not None:
            raise DecodeError(path, "comes after the end of the export")
        row = mapping(loads(line, path), path)
        if "rows" in row:
            if (rows := integer(row["rows"], path, ".rows")) != number - 2:
                raise DecodeError(
                    f"{path}.rows", f"is {rows}, but {number - 2} rows are here: some were lost on the way"
                )
            continue
        topic, shard = text(row.get("topic"), path, ".topic"), integer(row.get("shard"), path, ".shard")
        if topic not in CHANGELOGS or shard >= shards:
            raise DecodeError(path, f"is of {topic}/{shard}, which is no table of this installation")
        key = _bytes(row.get("key"), f"{path}.key")
        if key.startswith(RESERVED):
            raise DecodeError(f"{path}.key", "is a shard's position, which is no part of an export")
        found.setdefault((topic, shard), {})[key] = _bytes(row.get("value"), f"{path}.value")
    if rows is None:
        raise DecodeError(
            f"line {number + 1}", "is missing: it says how many rows there are, so the export was cut off"
        )
    return found


def _bytes(value: object, path: str) -> bytes:
    try:
        return b64decode(text(value, path), validate=True)
    except ValueError as exc:
        raise DecodeError(path, "is no base64") from exc
