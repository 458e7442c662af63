"""The app of a shard: three tables and three agents. Created by a function; nothing is declared at import.

| agent           | input                      | output                             | tables                  |
|-----------------|----------------------------|------------------------------------|-------------------------|
| `ingest`        | public topics              | `signals`, keyed by event key      | none                    |
| `event_home`    | `signals` by event key     | `signals`, one record per listener | `subscriptions`, `seen` |
| `schedule_home` | `signals` by schedule      | `launch`, `wakeups`, `late`        | `triggers`              |
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import faust

from streamsched.domain.errors import InvalidError
from streamsched.log.topics import PUBLIC, SEEN_CHANGELOG, SIGNALS
from streamsched.ports.broker import Chunk, Record
from streamsched.ports.clock import Clock
from streamsched.stream.agents.decode_cache import DecodeCache
from streamsched.stream.agents.emission import dead_letter, internal_error
from streamsched.stream.agents.event_home import EventHome
from streamsched.stream.agents.ingest import Ingest
from streamsched.stream.agents.schedule_home import SCHEDULE_PREFIX, ScheduleHome
from streamsched.stream.agents.verdict_collector import VerdictCollector
from streamsched.stream.faust_app import ChunkSchema, faust_app
from streamsched.stream.poison_search import PoisonRecord
from streamsched.stream.state_format import StateFormat
from streamsched.stream.tables import ShardTable, shard_table
from streamsched.stream.transport import Feed
from streamsched.stream.turn import Turn

#: How many of the agents below process each topic.
AGENTS: Final = {**dict.fromkeys(PUBLIC, 1), SIGNALS: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSpec:
    """What the agents of a shard need to know.

    Attributes:
        number: of this shard.
        shards: the number of shards of the installation.
        unkeyed_partitions: the number of partitions of topics that are not keyed by homes (`launch`, `dead-letter`, …).
        dedupe_horizon: how long a repeated event id is recognised, by log time.
        verdicts: whether the verdict of every event is emitted.
        decode_cache, state_format: shared by the shards of a worker.
        clock: the time of the installation; None: that of the log's records.
    """

    number: int
    shards: int
    unkeyed_partitions: int
    dedupe_horizon: timedelta
    verdicts: bool = True
    decode_cache: DecodeCache = field(default_factory=DecodeCache)
    state_format: StateFormat = field(default_factory=StateFormat)
    clock: Clock | None = None

    @property
    def unkeyed_partition(self) -> int:
        """The partition of topics not keyed by homes to which this shard writes what belongs to no schedule."""
        return self.number % self.unkeyed_partitions

    def collector(self, turn: Turn) -> VerdictCollector | None:
        """A new collector for one agent; None when verdicts are off."""
        return VerdictCollector(shard=self.unkeyed_partition, emit=turn.emit) if self.verdicts else None


@dataclass(frozen=True, slots=True)
class ShardApp:
    """A shard's Faust app, its tables by the names of their changelogs, and the state of its agents."""

    faust: faust.App
    tables: Mapping[str, ShardTable]
    events: EventHome
    schedules: ScheduleHome
    spec: ShardSpec
    turn: Turn

    @property
    def rows(self) -> int:
        """The number of rows in the tables; each known event id counts as one."""
        others = (table.entries for name, table in self.tables.items() if name != SEEN_CHANGELOG)
        return self.events.known_ids + sum(map(len, others))

    def refuse(self, chunk: Chunk, poison: PoisonRecord) -> None:
        """Sets the only record of a chunk apart instead of processing it, as part of the turn. The first attempt parks
        a schedule's signal with its schedule; any other record, or one that cannot be parked, becomes a dead letter;
        the last attempt is a dead letter without the record's bytes, for a topic that does not accept their size.
        """
        (record,) = chunk.records
        key, refusals = record.key, poison.refusals
        parks = key is not None and key.startswith(SCHEDULE_PREFIX)
        if parks and not refusals:
            self.schedules.refuse(chunk, record, poison.failure)
        else:
            self._discard(chunk, record, internal_error(poison.failure), bare=refusals > parks)

    def _discard(self, chunk: Chunk, record: Record, error: InvalidError, *, bare: bool) -> None:
        collector = self.spec.collector(self.turn)
        dead_letter(self.turn.emit, self.spec.unkeyed_partition, chunk, record, error, collector=collector, bare=bare)
        if collector is not None:
            collector.close()


def make_app(feed: Feed, turn: Turn, spec: ShardSpec) -> ShardApp:
    """The app of one shard, to be restored and then started. Its agents emit through `turn`."""
    app = faust_app(feed, spec.shards)

    public_topics = app.topic(*PUBLIC, schema=ChunkSchema(), acks=False)
    signals_topic = app.topic(SIGNALS, schema=ChunkSchema(), acks=False)

    subscriptions = shard_table(app, "subscriptions", turn, spec.number)
    seen = shard_table(app, "seen", turn, spec.number)
    triggers = shard_table(app, "triggers", turn, spec.number)

    ingest = Ingest(
        shard=spec.unkeyed_partition,
        shards=spec.shards,
        emit=turn.emit,
        decode_cache=spec.decode_cache,
        collector=spec.collector(turn),
        clock=spec.clock,
    )
    events = EventHome(
        shard=spec.unkeyed_partition,
        shards=spec.shards,
        subscriptions=subscriptions,
        seen=seen,
        emit=turn.emit,
        decode_cache=spec.decode_cache,
        horizon=spec.dedupe_horizon,
        collector=spec.collector(turn),
    )
    schedules = ScheduleHome(
        shard=spec.number,
        unkeyed_partitions=spec.unkeyed_partitions,
        triggers=triggers,
        emit=turn.emit,
        decode_cache=spec.decode_cache,
        state_format=spec.state_format,
        collector=spec.collector(turn),
    )

    @app.agent(public_topics, name="ingest")
    async def _ingest(chunks: AsyncIterable[Chunk]) -> None:
        async for chunk in chunks:
            with turn.processing():
                ingest.process(chunk)

    @app.agent(signals_topic, name="event_home")
    async def _event_home(chunks: AsyncIterable[Chunk]) -> None:
        async for chunk in chunks:
            with turn.processing():
                events.process(chunk)

    @app.agent(signals_topic, name="schedule_home")
    async def _schedule_home(chunks: AsyncIterable[Chunk]) -> None:
        async for chunk in chunks:
            with turn.processing():
                for _ in schedules.process_in_steps(chunk):
                    turn.on_progress()
                    await asyncio.sleep(0)

    tables = {table.changelog_name: table for table in (subscriptions, seen, triggers)}
    return ShardApp(app, tables, events, schedules, spec, turn)
