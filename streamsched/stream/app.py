"""The app of a shard: three tables and two agents. Created by a function; nothing is declared at import.

| agent    | input                  | output                             | tables                  |
|----------|------------------------|------------------------------------|-------------------------|
| `ingest` | public topics          | `signals`, keyed by event key      | none                    |
| `homes`  | `signals` by event key | `signals`, one record per listener | `subscriptions`, `seen` |
|          | `signals` by schedule  | `launch`, `wakeups`, `late`        | `triggers`              |

What has its home in this shard does not go through `signals`: it is taken in the same turn, and written to `judged`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from streamsched.codec.records.barrier import PREFIX as BARRIER_PREFIX
from streamsched.domain.signals.home import SCHEDULE_PREFIX
from streamsched.log.topics import PUBLIC, SEEN_CHANGELOG, SIGNALS
from streamsched.ports.broker import Chunk
from streamsched.ports.clock import Clock
from streamsched.stream.agents.accumulated import is_page_row
from streamsched.stream.agents.arrival_order import ArrivalOrder
from streamsched.stream.agents.barriers import Barriers
from streamsched.stream.agents.emission import dead_letter, internal_error
from streamsched.stream.agents.event_home import EventHome
from streamsched.stream.agents.homes import Homes
from streamsched.stream.agents.ingest import Ingest
from streamsched.stream.agents.schedule_home import ScheduleHome
from streamsched.stream.agents.signal_decoder import SignalDecoder
from streamsched.stream.agents.signal_delivery import SignalDelivery
from streamsched.stream.agents.verdict_collector import VerdictCollector
from streamsched.stream.faust_app import ShardFaust, ShardTable
from streamsched.stream.poison_search import PoisonRecord
from streamsched.stream.state_format import StateFormat
from streamsched.stream.turn import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSpec:
    """What the agents of a shard need to know.

    Attributes:
        number: of this shard.
        shards: the number of shards of the installation.
        unkeyed_partitions: the number of partitions of topics that are not keyed by homes (`launch`, `dead-letter`, …).
        dedupe_horizon: how long a repeated event id is recognised, by log time.
        verdicts: whether the verdict of every event is emitted.
        order_s: seconds that signals wait at most for their order.
        decoder, state_format: shared by the shards of a worker.
        clock: the time of the installation; None: that of the log's records.
        largest_record: most bytes of key and value of a record of the log; None: any number.
    """

    number: int
    shards: int
    unkeyed_partitions: int
    dedupe_horizon: timedelta
    verdicts: bool = True
    order_s: float = 30.0
    decoder: SignalDecoder = field(default_factory=SignalDecoder)
    state_format: StateFormat = field(default_factory=StateFormat)
    clock: Clock | None = None
    largest_record: int | None = None

    @property
    def unkeyed_partition(self) -> int:
        """The partition of topics not keyed by homes to which this shard writes what belongs to no schedule."""
        return self.number % self.unkeyed_partitions


@dataclass(frozen=True, slots=True)
class ShardApp:
    """A shard's Faust app, its tables by the names of their changelogs, and the state of its agents."""

    faust: ShardFaust
    tables: Mapping[str, ShardTable]
    homes: Homes
    collector: VerdictCollector | None
    spec: ShardSpec
    turn: Turn
    on_progress: Callable[[], object]

    @property
    def rows(self) -> int:
        """The number of rows in the tables; each known event id counts as one."""
        others = (table.entries for name, table in self.tables.items() if name != SEEN_CHANGELOG)
        return self.homes.events.known_ids + sum(map(len, others))

    async def process(self, chunks: Sequence[Chunk], *, in_order: bool = True, through_log: bool = False) -> None:
        """Hands the chunks of a turn to their agents, one after another in this order, and writes each state that
        changed. What they emit is in the turn. `in_order`, `through_log`: see `SignalDelivery.begin_turn`.

        Raises:
            Exception: an agent failed. The tables are then ahead of the log: the shard must restart from the log.
        """
        self.homes.delivery.begin_turn(in_order=in_order, through_log=through_log)
        for chunk in chunks:
            await self.faust.hand_over(chunk)
        for _ in self.homes.store_in_steps():
            self.on_progress()
            await asyncio.sleep(0)
        self._close_verdicts()

    def refuse(self, chunk: Chunk, poison: PoisonRecord) -> None:
        """Sets the only record of a chunk apart instead of processing it, as part of the turn. The first attempt parks
        a schedule's signal with its schedule, and lets what a barrier releases be judged one by one; any other record,
        or one that cannot be parked, becomes a dead letter; the last attempt is a dead letter without the record's
        bytes, for a topic that does not accept their size.
        """
        (record,) = chunk.records
        key, refusals = record.key or b"", poison.refusals
        parks = chunk.topic == SIGNALS and key.startswith(SCHEDULE_PREFIX)
        if parks and not refusals:
            self.homes.delivery.pass_schedule_signal(key, record.value)
            self.homes.schedules.refuse(chunk, record, poison.failure)
        elif chunk.topic == SIGNALS and key.startswith(BARRIER_PREFIX) and not refusals:
            self.homes.barriers.refuse(chunk, record, poison.failure)
        else:
            error, emit, partition = internal_error(poison.failure), self.turn.emit, self.spec.unkeyed_partition
            dead_letter(emit, partition, chunk, record, error, collector=self.collector, bare=refusals > parks)
        self._close_verdicts()

    def _close_verdicts(self) -> None:
        if self.collector is not None:
            self.collector.close()


def make_app(turn: Turn, spec: ShardSpec, *, on_progress: Callable[[], object] = lambda: None) -> ShardApp:
    """The app of one shard, to be restored and then given chunks. Its agents emit through `turn`. `on_progress`: called
    between the steps of a long chunk.
    """
    app = ShardFaust()
    subscriptions, seen = (app.declare_table(name, turn.emit, spec.number) for name in ("subscriptions", "seen"))
    triggers = app.declare_table("triggers", turn.emit, spec.number, is_cold=is_page_row)
    collector = VerdictCollector(shard=spec.unkeyed_partition, emit=turn.emit) if spec.verdicts else None
    schedules = ScheduleHome(
        shard=spec.number,
        unkeyed_partitions=spec.unkeyed_partitions,
        triggers=triggers,
        emit=turn.emit,
        decoder=spec.decoder,
        state_format=spec.state_format,
        collector=collector,
        largest_record=spec.largest_record,
    )
    order = ArrivalOrder(shard=spec.number, shards=spec.shards, triggers=triggers, schedules=schedules)
    delivery = SignalDelivery(shard=spec.number, emit=turn.emit, order=order)
    events = EventHome(
        shard=spec.unkeyed_partition,
        shards=spec.shards,
        subscriptions=subscriptions,
        seen=seen,
        emit=turn.emit,
        decoder=spec.decoder,
        forward=delivery.forward,
        horizon=spec.dedupe_horizon,
        collector=collector,
    )
    ingest = Ingest(
        shard=spec.unkeyed_partition,
        shards=spec.shards,
        emit=turn.emit,
        decoder=spec.decoder,
        deliver=partial(delivery.deliver, events.take),
        collector=collector,
        clock=spec.clock,
    )
    barriers = Barriers(
        shard=spec.number,
        shards=spec.shards,
        emit=turn.emit,
        order=order,
        dead_letters=spec.unkeyed_partition,
        patience_s=spec.order_s,
    )
    homes = Homes(ingest=ingest, events=events, schedules=schedules, order=order, barriers=barriers, delivery=delivery)

    async def process(chunks: AsyncIterable[Chunk]) -> AsyncGenerator[None, None]:
        async for chunk in chunks:
            for _ in homes.process_in_steps(chunk):
                on_progress()
                await asyncio.sleep(0)
            yield

    app.agent(app.topic(*PUBLIC), name="ingest")(process)
    app.agent(app.topic(SIGNALS), name="homes")(process)
    tables = {table.changelog_name: table for table in (subscriptions, seen, triggers)}
    return ShardApp(app, tables, homes, collector, spec, turn, on_progress)
