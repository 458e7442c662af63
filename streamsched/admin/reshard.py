"""Another number of shards: every home moves, and nothing else changes (ADR 0054).

Offline: no worker and no launcher runs meanwhile; emitters and the API go on, what they write waits. The shards are run
to the end of their signals, without taking new events in. Then every row of their tables moves to its new home, in
topics of a new generation, and is compared there with what it was. Publishing the new layout is one record, the last
one: killed at any moment before, the old one stands, and the next attempt begins with fresh topics. Killed just before
it, when the old shards have been told that they live on elsewhere, they refuse to start until that attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import orjson
import structlog

from streamsched.admin.changelog import positions, table
from streamsched.admin.portions import portions
from streamsched.admin.sole import alone
from streamsched.admin.state import shown
from streamsched.catalog.progress import ProgressCopy
from streamsched.codec import layout as layout_codec
from streamsched.codec.state import SEPARATOR
from streamsched.domain.errors import ConflictError
from streamsched.domain.home import home
from streamsched.domain.layout import Layout
from streamsched.ports.broker import Broker, Outgoing, TopicPartition
from streamsched.ports.generation import of_generation, read_layout
from streamsched.ports.leases import Holder, Leases
from streamsched.ports.progress import Restartable
from streamsched.ports.records import newest
from streamsched.ports.topics import (
    APP_ID,
    CHANGELOGS,
    LAUNCH,
    LAYOUT,
    LAYOUT_KEY,
    POSITION_KEY,
    RETIRED_KEY,
    SIGNALS,
    TRIGGERS_CHANGELOG,
    keyed_specs,
    topic_specs,
)
from streamsched.stream.accumulated import Accumulated
from streamsched.stream.shard import Shard, ShardSettings
from streamsched.stream.turn import Positions, encode_positions

log = structlog.get_logger()

#: What keeps two of us apart, and the relay's own, which is shut out.
_WRITER: Final = "reshard"
_RELAY: Final = "relay"
_ATTEMPT: Final = b"attempt"
_SCHEDULE: Final = b"schedule:"
_LOOK_AGAIN: Final = 0.02

#: The rows of every table: (changelog, shard) → key → value.
Tables = dict[tuple[str, int], dict[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Resharded:
    """What was done: the layouts, and how many schedules and rows moved with it."""

    before: Layout
    after: Layout
    schedules: int
    rows: int


async def reshard(
    *,
    log_: Broker,
    leases: Leases,
    me: Holder,
    progress: Restartable,
    shards: int,
    retention: timedelta,
    ttl: timedelta,
    settings: ShardSettings | None = None,
) -> Resharded:
    """Gives the installation that many shards. `log_` is the log in no generation; `settings` are the workers' own.

    Raises:
        ConflictError: somebody runs, or holds a lease that has not run out; nothing was changed.
        FencedError: another resharding began after this one; this one changed nothing.
        UnavailableError: log or PostgreSQL are away; call again.
    """
    before = await read_layout(log_) or Layout(1, await log_.partitions(SIGNALS), await log_.partitions(LAUNCH))
    old = of_generation(log_, before.generation)
    await old.create_topics(topic_specs(before.shards, retention, outlets=before.outlets))
    async with alone(leases, me, shards=max(before.shards, shards), ttl=ttl) as check:
        ours = await log_.writer(_WRITER)
        try:
            await (await log_.writer(_RELAY)).close()
            number = max(before.generation, await _last_attempt(log_)) + 1
            await ours.commit([Outgoing(LAYOUT, 0, _ATTEMPT, orjson.dumps(number))])
            after = Layout(number, shards, before.outlets)
            await _retire(old, before.shards, None)
            await _drain(old, before.shards, settings or ShardSettings())
            await _follow(old, before.shards, progress)
            tables, reached = await _tables(old, before.shards), await _reached(old, before.shards)
            moved = rehomed(tables, before.shards, shards)
            new = of_generation(log_, number)
            await new.create_topics(keyed_specs(shards, retention))
            for shard in range(shards):
                await _write(new, shard, moved, _positions(reached, shard, shards))
            schedules = compared(tables, await _tables(new, shards), moved)
            await check()
            await _retire(old, before.shards, number)
            await progress.forget_positions(TRIGGERS_CHANGELOG)
            await ours.commit([Outgoing(LAYOUT, 0, LAYOUT_KEY, layout_codec.encode(after))])
        finally:
            await ours.close()
    rows = sum(map(len, tables.values()))
    log.info("reshard.done", generation=number, before=before.shards, shards=shards, schedules=schedules, rows=rows)
    return Resharded(before, after, schedules, rows)


def rehomed(tables: Mapping[tuple[str, int], Mapping[bytes, bytes]], before: int, shards: int) -> Tables:
    """Every row in the table of its new home. Rows keep their bytes, and those of one home their order. Pure.

    Raises:
        ConflictError: a row is not at its home now.
    """
    moved: Tables = {(topic, shard): {} for topic in CHANGELOGS for shard in range(shards)}
    for (topic, shard), rows in tables.items():
        for row, value in rows.items():
            key = row.partition(SEPARATOR)[0]
            if home(key, before) != shard:
                raise ConflictError(f"{topic}/{shard} has {row!r}, whose home is {home(key, before)}")
            moved[topic, home(key, shards)][row] = value
    return moved


def compared(before: Tables, found: Tables, wanted: Tables) -> int:
    """How many schedules there are. The tables that were read back are what was wanted, and every schedule is shown as
    it was before. Pure.

    Raises:
        ConflictError: something differs.
    """
    for place, rows in wanted.items():
        if found.get(place) != rows:
            raise ConflictError(f"{place[0]}/{place[1]} reads back {len(found.get(place, {}))} of {len(rows)} rows")
    old, new = _shown(before), _shown(found)
    for key in old.keys() | new.keys():
        if old.get(key) != new.get(key):
            raise ConflictError(f"the state of {key.decode()} would not be what it is")
    return len(old)


def _shown(tables: Tables) -> dict[bytes, dict[str, Any] | None]:
    found: dict[bytes, dict[str, Any] | None] = {}
    for (topic, _), rows in tables.items():
        if topic == TRIGGERS_CHANGELOG:
            accumulated = Accumulated(rows)
            for key in rows:
                if key.startswith(_SCHEDULE) and SEPARATOR not in key:
                    found[key] = shown(accumulated, key)
    return found


async def _drain(broker: Broker, count: int, settings: ShardSettings) -> None:
    """Runs the shards until no signal is left, as of the log's own times; public records wait where they are."""
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
            if await broker.ends(list(reached)) == reached:  # asked last: nothing came meanwhile, nothing is under way
                return
            await asyncio.sleep(_LOOK_AGAIN)
    finally:
        for shard in shards:
            await shard.stop()


async def _follow(broker: Broker, count: int, progress: Restartable) -> None:
    """Brings the read model to the end of the changelogs, which nobody reads afterwards."""
    at = [TopicPartition(TRIGGERS_CHANGELOG, shard) for shard in range(count)]
    ends = await broker.ends(at)
    copy = ProgressCopy(broker=broker, store=progress)
    try:
        while True:
            stored = await progress.positions(TRIGGERS_CHANGELOG)
            if all(stored.get(place.partition, 0) >= ends[place] for place in at):
                return
            await copy.run_once(timeout=1.0)
    finally:
        await copy.close()


async def _tables(broker: Broker, shards: int) -> Tables:
    return {(topic, shard): await table(broker, topic, shard) for topic in CHANGELOGS for shard in range(shards)}


async def _reached(broker: Broker, shards: int) -> Positions:
    """Where public partitions are to be read on."""
    found: Positions = {}
    for shard in range(shards):
        found |= {at: to for at, to in (await positions(broker, shard)).items() if at.topic != SIGNALS}
    return found


def _positions(reached: Positions, shard: int, shards: int) -> Positions:
    mine = {at: to for at, to in reached.items() if at.partition % shards == shard}
    return {TopicPartition(SIGNALS, shard): 0, **mine}


async def _write(broker: Broker, shard: int, tables: Tables, reached: Positions) -> None:
    """A shard's tables; its positions last."""
    rows = [Outgoing(topic, shard, key, value) for topic in CHANGELOGS for key, value in tables[topic, shard].items()]
    rows.append(Outgoing(TRIGGERS_CHANGELOG, shard, POSITION_KEY, encode_positions(reached)))
    writer = await broker.writer(f"{APP_ID}-{shard}")
    try:
        for portion in portions([row] for row in rows):
            await writer.commit(portion)
    finally:
        await writer.close()


async def _retire(broker: Broker, shards: int, successor: int | None) -> None:
    """Shuts out who may still believe to run a shard, and says that it lives on in generation `successor`; None takes
    back what an attempt said that did not come to its end."""
    said = None if successor is None else orjson.dumps(successor)
    for shard in range(shards):
        writer = await broker.writer(f"{APP_ID}-{shard}")
        try:
            await writer.commit([Outgoing(TRIGGERS_CHANGELOG, shard, RETIRED_KEY, said)])
        finally:
            await writer.close()


async def _last_attempt(broker: Broker) -> int:
    found = await newest(broker, TopicPartition(LAYOUT, 0), _ATTEMPT)
    return 1 if found is None else orjson.loads(found)
