"""The life of a shard: fence, recover, run turns, stop.

Shard n owns partition n of `signals` and of every changelog, and the public partitions p with p mod shards = n.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.ports.broker import Broker, Chunk, Outgoing, Reader, TopicPartition, Writer
from streamsched.ports.topics import (
    APP_ID,
    LAUNCH,
    POSITION_KEY,
    RETIRED_KEY,
    SIGNALS,
    TRIGGERS_CHANGELOG,
)
from streamsched.stream.agents import AGENTS
from streamsched.stream.app import ShardApp, make_app
from streamsched.stream.caution import Caution
from streamsched.stream.edition import Edition
from streamsched.stream.memo import Memo
from streamsched.stream.reporting import Reporting
from streamsched.stream.signs import Signs
from streamsched.stream.turn import Positions, Turn, decode_positions, encode_positions, sources

log = structlog.get_logger()

#: How long a fetch waits, in seconds, when its shard is being stopped. Not for ever: until Python 3.12 a cancellation
#: is lost when it meets, in `wait_for`, what was waited for.
_STOPPING_S: Final = 0.1
#: A turn is to be folded within this time, and a recovery pauses after so many records, or the worker could not beat
#: in time and would lose its shards for working on them.
_LONG_TURN_S: Final = 0.4
_FEWEST: Final = 250
_FIRST: Final = 1_000
_RESTORED: Final = 2_000


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """How a shard works.

    Attributes:
        dedupe_horizon: how long a repeated event id is recognised, by log time.
        max_records: about how many records one turn takes at most; fewer where that many take long to fold.
        idle_s: how long one read waits when nothing is there, in seconds.
        recovery_s: how long a changelog may stand still while it is read back, in seconds.
        report_s: how often the log's own tools are told how far it has come, in seconds.
        verdicts: whether it says, on topic `verdicts`, what became of every event.
        edition: in which version it writes states.
        ingests: whether it takes public records; if not, they wait where they are.
        finish_s: how long stopping waits for the turn in flight, in seconds.
    """

    dedupe_horizon: timedelta = timedelta(days=1)
    max_records: int = 8_000
    idle_s: float = 1.0
    recovery_s: float = 30.0
    finish_s: float = 10.0
    report_s: float = 5.0
    verdicts: bool = True
    ingests: bool = True
    edition: Edition = field(default_factory=Edition)


class Stopwatch:
    """Seconds between laps, by the event loop's clock; rounded, for the log."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time()

    def lap(self) -> float:
        before, self._at = self._at, self._loop.time()
        return round(self._at - before, 3)


class Shard:
    """One shard from its fence to its end; it is started once and never again: to go on, make a new one.

    It is the feed of its Faust app. When `ended` has an exception, memory may be ahead of the log, and only the log
    is to be trusted.
    """

    def __init__(
        self,
        broker: Broker,
        number: int,
        settings: ShardSettings | None = None,
        *,
        memo: Memo | None = None,
        caution: Caution | None = None,
        signs: Signs | None = None,
    ) -> None:
        """`memo`: shared with the other shards of this process, to decode an event once. `caution`, `signs`:
        handed on from the life before this one.
        """
        self.number = number
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._broker = broker
        self._settings = settings or ShardSettings()
        self._memo = memo or Memo()
        self._caution = caution or Caution()
        self._signs = signs or Signs()
        self._taken: Sequence[Chunk] = ()
        self._left: Sequence[Chunk] = ()
        self._turn = Turn(AGENTS)
        self._reporting = Reporting(broker, APP_ID, every_s=self._settings.report_s)
        self._most = min(_FIRST, self._settings.max_records)
        self._positions: dict[TopicPartition, int] = {}
        self._stopping = False
        self._between_turns = asyncio.Event()
        self._between_turns.set()
        self._turn_open = False
        self._turn_began = Stopwatch()
        self._app: ShardApp | None = None
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._first_turn: Stopwatch | None = None

    @property
    def sources(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions)

    @property
    def positions(self) -> Positions:
        """Where the next turn starts; everything before is done and visible."""
        return self._positions

    async def start(self) -> None:
        """Shuts out every former owner, reads the state back, and runs. The log tells how long each of that took
        (`shard.started`), and when the first turn was done (`shard.turned`).

        Raises:
            NotFoundError: the topics have not been created.
            ConfigurationError: the shard was retired: the installation has another number of shards now.
            UnavailableError: the broker is away, or a changelog stopped halfway.
        """
        number, broker, since = self.number, self._broker, Stopwatch()
        self._signs.at("starting")
        shards = await broker.partitions(SIGNALS)
        self._writer = await broker.writer(f"{APP_ID}-{number}")
        fence_s = since.lap()
        self._app = make_app(
            feed=self,
            turn=self._turn,
            shard=number,
            shards=shards,
            outlets=await broker.partitions(LAUNCH),
            dedupe_horizon=self._settings.dedupe_horizon,
            memo=self._memo,
            edition=self._settings.edition,
            verdicts=self._settings.verdicts,
        )
        recovered = await self._recover(self._app)
        self._positions = {source: recovered.get(source, 0) for source in await sources(broker, number)}
        self._reader = await broker.reader(
            {at: to for at, to in self._positions.items() if self._settings.ingests or at.topic == SIGNALS}
        )
        read_s = since.lap()
        await self._app.faust.start()
        app_s = since.lap()
        self._signs.recovery_s = fence_s + read_s + app_s
        self._show()
        log.info(
            "shard.started",
            shard=number,
            keys=sum(len(table) for table in self._app.tables.values()),
            fence_s=fence_s,
            read_s=read_s,
            app_s=app_s,
        )
        self._first_turn = since

    async def stop(self) -> None:
        """Finishes the turn in flight, then stops; idempotent, and right in any state. What was not committed is as
        if it had never been read.
        """
        self._stopping = True
        if self._app is not None and self._app.faust.started:
            between = asyncio.ensure_future(self._between_turns.wait())
            ends = (between, self.ended)
            await asyncio.wait(ends, timeout=self._settings.finish_s, return_when=asyncio.FIRST_COMPLETED)
            between.cancel()
            await self._app.faust.stop()
        await self._reporting.close()
        for end in (self._reader, self._writer):
            if end is not None:
                await end.close()
        if not self.ended.done():
            self.ended.set_result(None)
        elif not self.ended.cancelled():
            self.ended.exception()  # known now, whoever asked

    async def fetch(self) -> Sequence[Chunk]:
        """Ends the turn in flight, makes it visible, and reads the next one. Called by the transport, again and again.

        Raises:
            FencedError: a newer owner works on this shard.
            UnavailableError: the broker is away.
        """
        assert self._reader is not None
        try:
            if self._turn_open:
                await self._commit()
            self._reporting.reached(self._positions)
            self._signs.at("reading")
            chunks = self._left or await self._reader.read(max_records=self._most, timeout=self._settings.idle_s)
            if self._stopping:  # nothing more is taken, and Faust will cancel this or look whether it should stop
                await asyncio.sleep(_STOPPING_S)
                return ()
            return self._begin(chunks) if chunks else ()
        except Exception as exc:
            self.fail(exc)
            raise

    def fail(self, reason: BaseException) -> None:
        """Ends the shard: memory may be ahead of the log. The first reason counts."""
        if not self.ended.done():
            self.ended.set_exception(reason)
            self._signs.at("pausing")
            if self._turn_open:
                self._caution.failed(self._taken, reason)

    def _begin(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Opens the turn of as much of them as is wise; what of it the agents are to take."""
        assert self._app is not None
        self._taken, self._left = self._caution.share(chunks)
        self._turn_began = Stopwatch()
        self._turn_open = True
        self._between_turns.clear()
        self._signs.at("folding")
        condemned = self._caution.condemned(self._taken)
        if condemned is None:
            self._turn.begin(self._taken)
            return self._taken
        self._turn.begin(self._taken, by_agents=False)
        self._app.refuse(self._taken[0], condemned)
        return ()

    async def _commit(self) -> None:
        assert self._writer is not None
        outgoing, reached = await self._turn.over()
        self._pace(self._turn_began.lap())
        positions = self._positions | reached
        outgoing.append(Outgoing(TRIGGERS_CHANGELOG, self.number, POSITION_KEY, encode_positions(positions)))
        self._signs.at("committing")
        await self._writer.commit(outgoing)
        self._positions = positions
        self._signs.turns += 1
        self._signs.chunk = sum(len(chunk.records) for chunk in self._taken)
        self._signs.records += self._signs.chunk
        self._show()
        self._caution.went_well(self._taken)
        if self._first_turn is not None:
            log.info("shard.turned", shard=self.number, first_s=self._first_turn.lap(), records=len(outgoing))
            self._first_turn = None
        self._turn_open = False
        self._between_turns.set()

    def _show(self) -> None:
        assert self._app is not None
        self._signs.rows = sum(len(table.entries) for table in self._app.tables.values())
        self._signs.halted = self._app.schedules.halted
        self._signs.positions = self._positions

    def _pace(self, folding_s: float) -> None:
        """A turn that took long makes the next one smaller, a short one lets it grow again."""
        if folding_s > _LONG_TURN_S:
            self._most = max(_FEWEST, self._most // 2)
        elif folding_s < _LONG_TURN_S / 4:
            self._most = min(self._settings.max_records, self._most * 2)

    async def _recover(self, app: ShardApp) -> dict[TopicPartition, int]:
        """Reads every changelog to its end into its table; the positions that belong to that state."""
        recovered: dict[TopicPartition, int] = {}
        retired = False
        at = {TopicPartition(changelog, self.number): 0 for changelog in app.tables}
        ends = await self._broker.ends(list(at))
        reader = await self._broker.reader(at)
        try:
            while any(at[partition] < ends[partition] for partition in at):
                chunks = await reader.read(max_records=100_000, timeout=self._settings.recovery_s)
                if not chunks:
                    raise UnavailableError(f"the changelogs of shard {self.number} stop before their ends")
                self._signs.at("starting")
                for chunk in chunks:
                    at[TopicPartition(chunk.topic, chunk.partition)] = chunk.next_position
                    restore = app.tables[chunk.topic].restore
                    for nth, record in enumerate(chunk.records, 1):
                        if nth % _RESTORED == 0:
                            await asyncio.sleep(0)
                        if record.key == POSITION_KEY and record.value is not None:
                            recovered = decode_positions(record.value)
                        elif record.key == RETIRED_KEY:
                            retired = record.value is not None
                        elif record.key is not None:
                            restore(record.key, record.value)
        finally:
            await reader.close()
        if retired:
            raise ConfigurationError(
                f"shard {self.number} was retired by `streamsched reshard`: start anew with the number of shards it "
                "was told; if it did not come to its end, run it again"
            )
        await app.events.recovered()
        return recovered
