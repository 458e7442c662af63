"""A shard: fences its former owner, recovers its tables, runs turns, stops.

Shard n owns partition n of `signals` and of every changelog, and the public partitions p with p mod shards = n.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog

from streamsched.domain.errors import ConfigurationError, DecodeError, FencedError, UnavailableError
from streamsched.log.topics import (
    APP_ID,
    ATTEMPT_KEY,
    LAUNCH,
    POSITION_KEY,
    RETIRED_KEY,
    SIGNALS,
    TRIGGERS_CHANGELOG,
)
from streamsched.ports.broker import Broker, Chunk, Outgoing, Reader, TopicPartition, Writer
from streamsched.ports.clock import Clock
from streamsched.stream import crash_guard
from streamsched.stream.agents.decode_cache import DecodeCache
from streamsched.stream.app import AGENTS, ShardApp, ShardSpec, make_app
from streamsched.stream.crash_guard import CrashGuard, ShardAttempt
from streamsched.stream.poison_search import PoisonSearch
from streamsched.stream.shards.position_reporter import PositionReporter
from streamsched.stream.state_format import StateFormat
from streamsched.stream.turn import Positions, Turn, decode_positions, encode_positions, sources
from streamsched.telemetry.shard_stats import ShardStats

log = structlog.get_logger()

#: Seconds a fetch waits while its shard is being stopped. Bounded, because until Python 3.12 `asyncio.wait_for` may
#: lose a cancellation that arrives together with the awaited result.
_STOPPING_S: Final = 0.1
#: Seconds that stopping waits for the commit of the clean stop. Without it the next owner makes careful turns first.
_LAST_COMMIT_S: Final = 2.0
#: A turn that takes longer to fold makes the next one smaller, and a recovery yields after `_RESTORED` records:
#: otherwise the worker would miss its heartbeats and lose its shards.
_LONG_TURN_S: Final = 0.4
_MIN_TURN_RECORDS: Final = 250
_FIRST_TURN_RECORDS: Final = 1_000
_RESTORED: Final = 2_000


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """Settings of a shard.

    Attributes:
        dedupe_horizon: how long a repeated event id is recognised, by log time.
        max_records: about the largest number of records in a turn; fewer where so many take long to fold.
        idle_s: seconds one read waits for records.
        recovery_s: seconds one read of a changelog may wait for records during recovery.
        report_s: seconds between reports of the positions to the broker's own tools.
        verdicts: whether the verdict of every event is emitted to topic `verdicts`.
        state_format: the format in which changelogs are written.
        ingests: whether public topics are read.
        finish_s: seconds that stopping waits for the turn in flight.
        clock: the time of the installation; None: that of the log's records.
    """

    dedupe_horizon: timedelta = timedelta(days=4)
    max_records: int = 8_000
    idle_s: float = 1.0
    recovery_s: float = 30.0
    finish_s: float = 10.0
    report_s: float = 5.0
    verdicts: bool = True
    ingests: bool = True
    state_format: StateFormat = field(default_factory=StateFormat)
    clock: Clock | None = None


class Stopwatch:
    """Seconds between laps by the event loop's clock, rounded to milliseconds for the log."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time()

    def lap(self) -> float:
        before, self._at = self._at, self._loop.time()
        return round(self._at - before, 3)


class Shard:
    """Runs one shard once: it cannot be restarted, create a new one instead.

    It is the feed of its Faust app. When `ended` has an exception, the tables may be ahead of the log and must be
    discarded.
    """

    def __init__(
        self,
        broker: Broker,
        number: int,
        settings: ShardSettings | None = None,
        *,
        decode_cache: DecodeCache | None = None,
        poison_search: PoisonSearch | None = None,
        stats: ShardStats | None = None,
        guard: CrashGuard | None = None,
    ) -> None:
        """`decode_cache`: shared by the shards of this process, so that an event is decoded once. `poison_search`,
        `stats`, `guard`: of the previous instance of this shard on this worker.
        """
        self.number = number
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._broker = broker
        self._settings = settings or ShardSettings()
        self._decode_cache = decode_cache or DecodeCache()
        self._poison_search = poison_search or PoisonSearch()
        self._stats = stats or ShardStats()
        self._guard = guard or CrashGuard(number)
        self._attempt: ShardAttempt | None = None
        self._started = False
        self._taken: Sequence[Chunk] = ()
        self._left: Sequence[Chunk] = ()
        self._turn = Turn(AGENTS, on_progress=lambda: self._stats.enter("folding"))
        self._reporting = PositionReporter(broker, APP_ID, every_s=self._settings.report_s)
        self._max_records = min(_FIRST_TURN_RECORDS, self._settings.max_records)
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
        """Where the next turn starts; every record before is processed, and its results are committed."""
        return self._positions

    async def start(self) -> None:
        """Fences every former owner, recovers the tables, and starts the app. Logs the duration of each step
        (`shard.started`) and of the first turn (`shard.first_turn`).

        Raises:
            NotFoundError: the topics have not been created.
            ConfigurationError: the shard was retired: the installation has another number of shards now.
            UnavailableError: the broker is unavailable, or a changelog ended before its reported end.
        """
        number, broker, since = self.number, self._broker, Stopwatch()
        self._stats.enter("starting")
        shards = await broker.partitions(SIGNALS)
        self._writer = await broker.writer(f"{APP_ID}-{number}")
        fence_s = since.lap()
        spec = ShardSpec(
            number=number,
            shards=shards,
            unkeyed_partitions=await broker.partitions(LAUNCH),
            dedupe_horizon=self._settings.dedupe_horizon,
            verdicts=self._settings.verdicts,
            decode_cache=self._decode_cache,
            state_format=self._settings.state_format,
            clock=self._settings.clock,
        )
        self._app = make_app(self, self._turn, spec)
        recovered = await self._recover(self._app)
        self._positions = {source: recovered.get(source, 0) for source in await sources(broker, number)}
        self._reader = await broker.reader(
            {at: to for at, to in self._positions.items() if self._settings.ingests or at.topic == SIGNALS}
        )
        await self._writer.commit([self._guard.recovered(self._attempt, records=2 * self._settings.max_records)])
        read_s = since.lap()
        await self._app.faust.start()
        app_s = since.lap()
        self._stats.recovery_s = fence_s + read_s + app_s
        self._update_stats()
        log.info(
            "shard.started",
            shard=number,
            keys=self._app.rows,
            fence_s=fence_s,
            read_s=read_s,
            app_s=app_s,
        )
        self._first_turn = since
        self._started = True

    async def stop(self) -> None:
        """Finishes the turn in flight, then stops. Idempotent, and allowed in any state. Records that were read but not
        committed are read again by the next owner.
        """
        self._stopping = True
        if self._app is not None and self._app.faust.started:
            between = asyncio.ensure_future(self._between_turns.wait())
            ends = (between, self.ended)
            await asyncio.wait(ends, timeout=self._settings.finish_s, return_when=asyncio.FIRST_COMPLETED)
            between.cancel()
            await self._app.faust.stop()
        try:
            await self._stopped_cleanly()
        finally:
            self._guard.release()
            await self._reporting.close()
            for end in (self._reader, self._writer):
                if end is not None:
                    await end.close()
            if not self.ended.done():
                self.ended.set_result(None)
            elif not self.ended.cancelled():
                self.ended.exception()  # retrieved, so that asyncio does not log it as never retrieved

    async def fetch(self) -> Sequence[Chunk]:
        """Finishes and commits the turn in flight, then reads the next one. Called by the transport in a loop.

        Raises:
            FencedError: a newer owner runs this shard.
            UnavailableError: the broker is unavailable.
        """
        assert self._reader is not None
        try:
            if self._turn_open:
                await self._commit()
            self._reporting.reached(self._positions)
            self._stats.enter("reading")
            chunks = self._left or await self._reader.read(max_records=self._max_records, timeout=self._settings.idle_s)
            if self._stopping:  # no more turns; Faust cancels this call, or checks after it whether it should stop
                await asyncio.sleep(_STOPPING_S)
                return ()
            if not chunks:
                self._guard.idle()
                return ()
            return await self._begin(chunks)
        except Exception as exc:
            self.fail(exc)
            raise

    def fail(self, reason: BaseException) -> None:
        """Ends the shard with this exception, unless it has ended already."""
        if not self.ended.done():
            self.ended.set_exception(reason)
            self._stats.enter("pausing")
            self._guard.release()
            if self._turn_open:
                self._poison_search.failed(self._taken, reason)

    async def _stopped_cleanly(self) -> None:
        """Commits that the shard stopped cleanly, unless it failed or has a turn in flight."""
        if self._writer is None or not self._started or self._turn_open or self.ended.done():
            return
        with suppress(FencedError, UnavailableError, TimeoutError):
            async with asyncio.timeout(_LAST_COMMIT_S):
                await self._writer.commit([self._guard.stopped()])

    async def _begin(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Begins a turn of these chunks or a part of them; returns the chunks for the agents."""
        assert self._app is not None
        assert self._writer is not None
        self._taken, self._left = self._poison_search.split(chunks)
        careful = self._guard.careful
        if careful:
            self._taken, left = self._guard.split(self._taken)
            self._left = [*left, *self._left]
            await self._writer.commit([await self._guard.begin(self._taken)])
        self._turn_began = Stopwatch()
        self._turn_open = True
        self._between_turns.clear()
        self._stats.enter("folding")
        poison = self._poison_search.poison(self._taken) or (self._guard.poison(self._taken) if careful else None)
        if poison is None:
            self._turn.begin(self._taken)
            return self._taken
        self._turn.begin(self._taken, by_agents=False)
        self._app.refuse(self._taken[0], poison)
        return ()

    async def _commit(self) -> None:
        assert self._writer is not None
        outgoing, reached = await self._turn.finished()
        self._pace(self._turn_began.lap())
        positions = self._positions | reached
        outgoing.append(Outgoing(TRIGGERS_CHANGELOG, self.number, POSITION_KEY, encode_positions(positions)))
        if self._guard.careful:
            outgoing.append(self._guard.after(self._taken))
        self._stats.enter("committing")
        await self._writer.commit(outgoing)
        self._guard.committed()
        self._positions = positions
        self._stats.turns += 1
        self._stats.chunk = sum(len(chunk.records) for chunk in self._taken)
        self._stats.records += self._stats.chunk
        self._update_stats()
        self._poison_search.succeeded(self._taken)
        if self._first_turn is not None:
            log.info("shard.first_turn", shard=self.number, first_s=self._first_turn.lap(), records=len(outgoing))
            self._first_turn = None
        self._turn_open = False
        self._between_turns.set()

    def _update_stats(self) -> None:
        assert self._app is not None
        self._stats.rows = self._app.rows
        schedules = self._app.schedules
        self._stats.halted = schedules.halted
        self._stats.lost_keys, self._stats.refused = schedules.lost_keys, schedules.refused_events
        self._stats.positions = self._positions

    def _pace(self, folding_s: float) -> None:
        """Halves the size of the next turn after a long one, doubles it after a short one."""
        if folding_s > _LONG_TURN_S:
            self._max_records = max(_MIN_TURN_RECORDS, self._max_records // 2)
        elif folding_s < _LONG_TURN_S / 4:
            self._max_records = min(self._settings.max_records, self._max_records * 2)

    async def _recover(self, app: ShardApp) -> dict[TopicPartition, int]:
        """Reads every changelog to its end into its table; returns the positions committed with that state."""
        recovered: dict[TopicPartition, int] = {}
        retired = False
        at = {TopicPartition(changelog, self.number): 0 for changelog in app.tables}
        ends = await self._broker.ends(list(at))
        reader = await self._broker.reader(at)
        try:
            while any(at[partition] < ends[partition] for partition in at):
                chunks = await reader.read(max_records=100_000, timeout=self._settings.recovery_s)
                if not chunks:
                    raise UnavailableError(f"the changelogs of shard {self.number} end before their reported ends")
                self._stats.enter("starting")
                for chunk in chunks:
                    at[TopicPartition(chunk.topic, chunk.partition)] = chunk.next_position
                    restore = app.tables[chunk.topic].restore
                    for nth, record in enumerate(chunk.records, 1):
                        if nth % _RESTORED == 0:
                            await asyncio.sleep(0)
                        if record.key == POSITION_KEY and record.value is not None:
                            recovered = decode_positions(record.value)
                        elif record.key == ATTEMPT_KEY:
                            self._attempt = _attempt(record.value)
                        elif record.key == RETIRED_KEY:
                            retired = record.value is not None
                        elif record.key is not None:
                            restore(record.key, record.value)
        finally:
            await reader.close()
        if retired:
            raise ConfigurationError(
                f"shard {self.number} was retired by `streamsched reshard`: restart with the new number of shards; if "
                "the command did not finish, run it again"
            )
        await app.events.recovered()
        return recovered


def _attempt(value: bytes | None) -> ShardAttempt | None:
    """The attempt of the previous process. One that this release cannot decode counts as one without details."""
    try:
        return None if value is None else crash_guard.decode(value)
    except DecodeError:
        return ShardAttempt("")
