"""Changes the number of shards: every home moves, nothing else changes (ADR 5).

Offline: no worker or launcher may run. Emitters and the API may; what they write waits. The shards process their
remaining signals without ingesting new events. Then every row of their tables is copied to its new home, in topics of a
new generation, and compared with the original. One last record publishes the new layout. If the process is killed
before that, the old layout stays in effect, and the next attempt starts with fresh topics; if it is killed after the
old shards were retired, these refuse to start until that attempt succeeds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import orjson
import structlog

from streamsched.admin.batching import batches
from streamsched.admin.changelog import positions, table
from streamsched.admin.exclusive import exclusive
from streamsched.admin.known_ids import rehomed_ids
from streamsched.admin.state import state_to_json
from streamsched.catalog.progress import ProgressCopy
from streamsched.codec.records import layout as layout_codec
from streamsched.codec.records.state import SEPARATOR
from streamsched.domain.errors import ConflictError
from streamsched.domain.signals.home import SCHEDULE_PREFIX, home
from streamsched.domain.signals.layout import Layout
from streamsched.log.generation import of_generation, read_layout
from streamsched.log.records import newest
from streamsched.log.topics import (
    APP_ID,
    CHANGELOGS,
    LAUNCH,
    LAYOUT,
    LAYOUT_KEY,
    POSITION_KEY,
    RETIRED_KEY,
    SEEN_CHANGELOG,
    SIGNALS,
    TRIGGERS_CHANGELOG,
    keyed_specs,
    topic_specs,
)
from streamsched.ports.broker import Broker, Outgoing, TopicPartition
from streamsched.ports.intake import ProgressStore
from streamsched.ports.leases import LeaseHolder, Leases
from streamsched.stream.agents.accumulated import TriggerStates
from streamsched.stream.shards.shard import Shard, ShardSettings
from streamsched.stream.turn import Positions, encode_positions

log = structlog.get_logger()

#: Name of the writer that fences concurrent attempts, and of the relay's writer, which is fenced too.
_WRITER: Final = "reshard"
_RELAY: Final = "relay"
_ATTEMPT: Final = b"attempt"
_POLL_S: Final = 0.02

#: The rows of every table: (changelog, shard) → key → value.
Tables = dict[tuple[str, int], dict[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Resharded:
    """The old and the new layout, and how many schedules and rows moved."""

    before: Layout
    after: Layout
    schedules: int
    rows: int


async def reshard(
    *,
    log_: Broker,
    leases: Leases,
    me: LeaseHolder,
    progress: ProgressStore,
    shards: int,
    retention: timedelta,
    ttl: timedelta,
    settings: ShardSettings | None = None,
) -> Resharded:
    """Changes the number of shards to `shards`. `log_` is the broker without a generation; `settings` are the workers'.

    Raises:
        ConflictError: a worker or launcher runs, or a lease has not expired; nothing was changed.
        FencedError: another resharding started later; this one changed nothing.
        UnavailableError: the log or PostgreSQL is unreachable; call again.
    """
    before = await read_layout(log_) or Layout(1, await log_.partitions(SIGNALS), await log_.partitions(LAUNCH))
    old = of_generation(log_, before.generation)
    horizon = (settings or ShardSettings()).dedupe_horizon
    await old.create_topics(
        topic_specs(before.shards, retention, horizon=horizon, unkeyed_partitions=before.unkeyed_partitions)
    )
    async with exclusive(leases, me, shards=max(before.shards, shards), ttl=ttl) as check:
        writer = await log_.writer(_WRITER)
        try:
            await (await log_.writer(_RELAY)).close()
            number = max(before.generation, await _last_attempt(log_)) + 1
            await writer.commit([Outgoing(LAYOUT, 0, _ATTEMPT, orjson.dumps(number))])
            after = Layout(number, shards, before.unkeyed_partitions)
            await _retire(old, before.shards, None)
            await _drain(old, before.shards, settings or ShardSettings())
            await _complete_progress(old, before.shards, progress)
            tables, reached = await _tables(old, before.shards), await _public_positions(old, before.shards)
            moved = move_rows(tables, before.shards, shards)
            new = of_generation(log_, number)
            await new.create_topics(keyed_specs(shards, retention, horizon=horizon))
            for shard in range(shards):
                await _write(new, shard, moved, _positions(reached, shard, shards))
            schedules = compare_tables(tables, await _tables(new, shards), moved)
            await check()
            await _retire(old, before.shards, number)
            await progress.forget_positions(TRIGGERS_CHANGELOG)
            await writer.commit([Outgoing(LAYOUT, 0, LAYOUT_KEY, layout_codec.encode(after))])
        finally:
            await writer.close()
    rows = sum(map(len, tables.values()))
    log.info("reshard.done", generation=number, before=before.shards, shards=shards, schedules=schedules, rows=rows)
    return Resharded(before, after, schedules, rows)


def move_rows(tables: Mapping[tuple[str, int], Mapping[bytes, bytes]], before: int, shards: int) -> Tables:
    """Every row in the table of its new home. Rows keep their bytes, and rows of one home their order; only known ids
    are repacked. Pure.

    Raises:
        ConflictError: a row is not at its current home.
    """
    moved: Tables = {(topic, shard): {} for topic in CHANGELOGS for shard in range(shards)}
    for (topic, shard), rows in tables.items():
        for row, value in rows.items() if topic != SEEN_CHANGELOG else ():
            key = row.partition(SEPARATOR)[0]
            if home(key, before) != shard:
                raise ConflictError(f"{topic}/{shard} has {row!r}, whose home is {home(key, before)}")
            moved[topic, home(key, shards)][row] = value
    ids = {shard: rows for (topic, shard), rows in tables.items() if topic == SEEN_CHANGELOG}
    for shard, rows in rehomed_ids(ids, before, shards).items():
        moved[SEEN_CHANGELOG, shard].update(rows)
    return moved


def compare_tables(before: Tables, found: Tables, wanted: Tables) -> int:
    """Checks that the tables read back equal the wanted ones, and that every schedule has the same state as before.
    Returns the number of schedules. Pure.

    Raises:
        ConflictError: something differs.
    """
    for at, rows in wanted.items():
        if found.get(at) != rows:
            raise ConflictError(f"{at[0]}/{at[1]} reads back {len(found.get(at, {}))} of {len(rows)} rows")
    old, new = _states_as_json(before), _states_as_json(found)
    for key in old.keys() | new.keys():
        if old.get(key) != new.get(key):
            raise ConflictError(f"the state of {key.decode()} would change")
    return len(old)


def _states_as_json(tables: Tables) -> dict[bytes, dict[str, Any] | None]:
    found: dict[bytes, dict[str, Any] | None] = {}
    for (topic, _), rows in tables.items():
        if topic == TRIGGERS_CHANGELOG:
            accumulated = TriggerStates(rows)
            for key in rows:
                if key.startswith(SCHEDULE_PREFIX) and SEPARATOR not in key:
                    found[key] = state_to_json(accumulated, key)
    return found


async def _drain(broker: Broker, count: int, settings: ShardSettings) -> None:
    """Runs the shards until all signals are processed; public records stay unread."""
    shards = [Shard(broker, number, replace(settings, ingests=False)) for number in range(count)]
    try:
        for shard in shards:
            await shard.start()
        while True:
            at = {TopicPartition(SIGNALS, shard.number): shard.positions for shard in shards}
            reached = {source: positions[source] for source, positions in at.items()}
            for shard in shards:
                if shard.ended.done():
                    shard.ended.result()
            if await broker.ends(list(reached)) == reached:  # read last: nothing was appended meanwhile
                return
            await asyncio.sleep(_POLL_S)
    finally:
        stopped = await asyncio.gather(*(shard.stop() for shard in shards), return_exceptions=True)
        for failure in filter(None, stopped):
            raise failure


async def _complete_progress(broker: Broker, count: int, progress: ProgressStore) -> None:
    """Copies the rest of the changelogs to the read model; they are not read afterwards."""
    at = [TopicPartition(TRIGGERS_CHANGELOG, shard) for shard in range(count)]
    ends = await broker.ends(at)
    copy = ProgressCopy(broker=broker, store=progress)
    try:
        while True:
            stored = await progress.positions(TRIGGERS_CHANGELOG)
            if all(stored.get(each.partition, 0) >= ends[each] for each in at):
                return
            await copy.run_once(timeout=1.0)
    finally:
        await copy.close()


async def _tables(broker: Broker, shards: int) -> Tables:
    return {(topic, shard): await table(broker, topic, shard) for topic in CHANGELOGS for shard in range(shards)}


async def _public_positions(broker: Broker, shards: int) -> Positions:
    """The positions of the public partitions."""
    found: Positions = {}
    for shard in range(shards):
        found |= {at: to for at, to in (await positions(broker, shard)).items() if at.topic != SIGNALS}
    return found


def _positions(reached: Positions, shard: int, shards: int) -> Positions:
    mine = {at: to for at, to in reached.items() if at.partition % shards == shard}
    return {TopicPartition(SIGNALS, shard): 0, **mine}


async def _write(broker: Broker, shard: int, tables: Tables, reached: Positions) -> None:
    """Writes a shard's tables, then its positions."""
    rows = [Outgoing(topic, shard, key, value) for topic in CHANGELOGS for key, value in tables[topic, shard].items()]
    rows.append(Outgoing(TRIGGERS_CHANGELOG, shard, POSITION_KEY, encode_positions(reached)))
    writer = await broker.writer(f"{APP_ID}-{shard}")
    try:
        for batch in batches([row] for row in rows):
            await writer.commit(batch)
    finally:
        await writer.close()


async def _retire(broker: Broker, shards: int, successor: int | None) -> None:
    """Fences the former owners of the shards, and marks the shards as replaced by generation `successor`; None removes
    the mark of an attempt that did not finish."""
    mark = None if successor is None else orjson.dumps(successor)
    for shard in range(shards):
        writer = await broker.writer(f"{APP_ID}-{shard}")
        try:
            await writer.commit([Outgoing(TRIGGERS_CHANGELOG, shard, RETIRED_KEY, mark)])
        finally:
            await writer.close()


async def _last_attempt(broker: Broker) -> int:
    found = await newest(broker, TopicPartition(LAYOUT, 0), _ATTEMPT)
    return 1 if found is None else orjson.loads(found)
