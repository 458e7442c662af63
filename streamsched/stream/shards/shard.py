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

from streamsched.domain.errors import FencedError, UnavailableError
from streamsched.log.topics import APP_ID, BACKLOGS_KEY, LAUNCH, POSITION_KEY, SIGNALS, TRIGGERS_CHANGELOG
from streamsched.ports.broker import Broker, Chunk, Outgoing, TopicPartition, Writer
from streamsched.ports.clock import Clock, SystemClock
from streamsched.ports.reports import UnreadDeletion
from streamsched.process.cancellation import cancel
from streamsched.stream import backlogs
from streamsched.stream.agents.signal_decoder import SignalDecoder
from streamsched.stream.app import ShardApp, ShardSpec, make_app
from streamsched.stream.crash_guard import CrashGuard
from streamsched.stream.poison_search import PoisonRecord, PoisonSearch
from streamsched.stream.shards.fair_reader import FEW, LARGEST, FairReader
from streamsched.stream.shards.launch_room import LaunchRoom
from streamsched.stream.shards.pace import TurnPace
from streamsched.stream.shards.position_reporter import PositionReporter
from streamsched.stream.shards.recovery import recover
from streamsched.stream.shards.stopwatch import Stopwatch
from streamsched.stream.state_format import StateFormat
from streamsched.stream.turn import Positions, Turn, encode_positions, sources
from streamsched.telemetry.shard_stats import ShardStats

log = structlog.get_logger()

#: Seconds that stopping waits for the commit of the clean stop. Without it the next owner makes careful turns first.
_LAST_COMMIT_S: Final = 2.0
#: Seconds that events which have been read wait for signals that unfinished transactions of other shards hold back.
_CATCH_UP_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """Settings of a shard.

    Attributes:
        dedupe_horizon: how long a repeated event id is recognised, by log time.
        max_records: about the largest number of records in a turn; fewer where so many take long to fold.
        idle_s: seconds one read waits for records.
        linger_s: the most seconds from one turn to the next while records come steadily (`shards.pace`).
        recovery_s: seconds one read of a changelog may wait for records during recovery.
        report_s: seconds between reports of the positions to the broker's own tools.
        verdicts: whether the verdict of every event is emitted to topic `verdicts`.
        state_format: the format in which changelogs are written.
        ingests: whether public topics are read.
        order_s: seconds that signals of a schedule wait at most until their order is known.
        finish_s: seconds that stopping waits for the turn in flight.
        clock: the time of the installation; None: that of the log's records.
        few_records: records of a partition in a turn that are taken whoever has sent them (`shards.fair_reader`).
        launch_room: says how much of backlogs is taken; None: as much as there is time for.
    """

    dedupe_horizon: timedelta = timedelta(days=4)
    max_records: int = 8_000
    idle_s: float = 1.0
    linger_s: float = 0.08
    recovery_s: float = 30.0
    finish_s: float = 10.0
    report_s: float = 5.0
    verdicts: bool = True
    ingests: bool = True
    order_s: float = 30.0
    state_format: StateFormat = field(default_factory=StateFormat)
    clock: Clock | None = None
    few_records: int = FEW
    launch_room: LaunchRoom | None = None


class Shard:
    """Runs one shard once: it cannot be restarted, create a new one instead. When `ended` has an exception, the tables
    may be ahead of the log and must be discarded.
    """

    def __init__(
        self,
        broker: Broker,
        number: int,
        settings: ShardSettings | None = None,
        *,
        decoder: SignalDecoder | None = None,
        poison_search: PoisonSearch | None = None,
        stats: ShardStats | None = None,
        guard: CrashGuard | None = None,
    ) -> None:
        """`decoder`: shared by the shards of this process, so that an event is decoded once. `poison_search`,
        `stats`, `guard`: of the previous instance of this shard on this worker.
        """
        self.number = number
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._broker = broker
        self._settings = settings or ShardSettings()
        self._decoder = decoder or SignalDecoder()
        self._poison_search = poison_search or PoisonSearch()
        self._stats = stats or ShardStats()
        self._guard = guard or CrashGuard(number)
        #: The chunks of the turn in flight; empty between turns.
        self._taken: Sequence[Chunk] = ()
        #: Chunks that were read and belong to later turns.
        self._left: Sequence[Chunk] = ()
        self._turn = Turn()
        self._reporting = PositionReporter(broker, APP_ID, every_s=self._settings.report_s)
        self._pace = TurnPace(
            max_records=self._settings.max_records, linger_s=self._settings.linger_s, now=self._loop.time()
        )
        self._positions: dict[TopicPartition, int] = {}
        #: The partitions whose positions were committed before this start.
        self._known: frozenset[TopicPartition] = frozenset()
        self._signals = TopicPartition(SIGNALS, number)
        self._clock = self._settings.clock or SystemClock()
        self._reading = self._stopping = False
        self._running: asyncio.Task[None] | None = None
        self._app: ShardApp | None = None
        self._writer: Writer | None = None
        self._reader: FairReader | None = None
        #: As it stands in the changelog.
        self._backlogs: bytes | None = None
        self._first_turn: Stopwatch | None = None

    @property
    def sources(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions)

    @property
    def positions(self) -> Positions:
        """Where the next turn starts; every record before is processed, and its results are committed."""
        return self._positions

    @property
    def is_searching(self) -> bool:
        """Whether it failed in a turn that the next instance will take in part, so that no long pause is needed."""
        return self._poison_search.is_searching

    async def start(self) -> None:
        """Fences every former owner, recovers the tables, and runs turns from then on. Logs the duration of each step
        (`shard.started`) and of the first turn (`shard.first_turn`).

        Raises:
            NotFoundError: the topics have not been created.
            ConfigurationError: the shard was retired: the installation has another number of shards now.
            UnavailableError: the broker is unavailable, or a changelog ended before its reported end.
        """
        number, broker, since = self.number, self._broker, Stopwatch()
        self._poison_search.begin()
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
            order_s=self._settings.order_s,
            decoder=self._decoder,
            state_format=self._settings.state_format,
            clock=self._settings.clock,
            largest_record=broker.capabilities.largest_record,
        )
        self._app = make_app(self._turn, spec, on_progress=lambda: self._stats.enter("folding"))
        recovered = await recover(
            broker, self._app, wait_s=self._settings.recovery_s, on_progress=lambda: self._stats.enter("starting")
        )
        self._positions = {source: recovered.positions.get(source, 0) for source in await sources(broker, number)}
        self._known = frozenset(recovered.positions)
        self._app.homes.delivery.start(self._positions[self._signals], recovered.signals_end)
        self._reader = await FairReader.open(
            broker,
            {at: to for at, to in self._positions.items() if self._settings.ingests or at.topic == SIGNALS},
            recovered.backlogs,
            few=self._settings.few_records,
            room=lambda: LARGEST if self._settings.launch_room is None else self._settings.launch_room.grant(),
        )
        self._backlogs = backlogs.encode(self._reader.backlogs)
        suspects = 2 * self._settings.max_records + sum(each.next - each.start for each in recovered.backlogs.values())
        await self._writer.commit([self._guard.take_over(recovered.attempt, records=suspects)])
        read_s = since.lap()
        self._stats.recovery_s = fence_s + read_s
        self._update_stats()
        log.info("shard.started", shard=number, keys=self._app.rows, fence_s=fence_s, read_s=read_s)
        self._first_turn = since
        self._running = asyncio.create_task(self._run(), name=f"streamsched-shard-{number}")

    @property
    def has_started(self) -> bool:
        """Whether `start` has returned; also true after `stop`."""
        return self._running is not None

    async def stop(self) -> None:
        """Finishes the turn in flight, then stops. Idempotent, and allowed in any state. Records that were read but not
        committed are read again by the next owner.
        """
        self._stopping = True
        if (running := self._running) is not None:
            if self._reading:
                running.cancel()
            await asyncio.wait((running,), timeout=self._settings.finish_s)
            await cancel(running)
        try:
            await self._stop_cleanly()
        finally:
            self._guard.release()
            await self._reporting.close()
            if self._app is not None:
                await self._app.faust.close()
            for end in (self._reader, self._writer):
                if end is not None:
                    await end.close()
            if not self.ended.done():
                self.ended.set_result(None)
            elif not self.ended.cancelled():
                self.ended.exception()  # retrieved, so that asyncio does not log it as never retrieved

    async def run_once(self) -> None:
        """One turn: reads what there is, processes it and commits, in one transaction, what came of it with the
        positions reached. Without records it changes nothing.

        Raises:
            FencedError: a newer owner runs this shard.
            UnavailableError: the broker is unavailable.
            Exception: processing failed. After any exception the shard must restart from the log.
        """
        assert self._app is not None
        assert self._reader is not None
        assert self._writer is not None
        if (lapsed := self._app.homes.barriers.lapse(self._loop.time())) is not None:
            await self._writer.commit([lapsed])
        chunks = self._left or await self._read()
        if not chunks or self._stopping:
            return
        poison = await self._begin(chunks)
        began = self._loop.time()
        if poison is None:
            await self._app.process(
                self._taken,
                in_order=all(chunk.at != self._signals for chunk in self._left),
                through_log=self._is_careful,
            )
        else:
            self._app.refuse(self._taken[0], poison)
        folded = self._loop.time()
        positions = self._reader.advance(self._positions, self._taken)
        await self._end_turn(positions)
        self._emit_positions(positions)
        if self._guard.careful:
            self._turn.emit(*self._guard.after(self._taken))
        self._stats.enter("committing")
        await self._writer.commit(outgoing := self._turn.take())
        self._record_commit(positions, outgoing)
        commit_s = self._loop.time() - folded
        if self._app.homes.barriers.had_barriers():
            self._pace.hurry(folded + commit_s)
        self._pace.record_turn(self._stats.chunk, began=began, folding_s=folded - began, commit_s=commit_s)

    @property
    def _is_careful(self) -> bool:
        """Whether it searches for a record that fails its turns or ends its processes."""
        return self._guard.careful or self._poison_search.has_suspects

    def _emit_positions(self, positions: Positions) -> None:
        assert self._reader is not None
        self._turn.emit(TRIGGERS_CHANGELOG, self.number, POSITION_KEY, encode_positions(positions))
        if (encoded := backlogs.encode(self._reader.backlogs)) != self._backlogs:
            self._turn.emit(TRIGGERS_CHANGELOG, self.number, BACKLOGS_KEY, encoded)
            self._backlogs = encoded

    async def _end_turn(self, positions: Positions) -> None:
        """What the barriers of this turn lead to, behind all else that it emits."""
        assert self._app is not None
        barriers = self._app.homes.barriers
        if barriers.needs_ends:
            barriers.set_ends(await self._broker.ends([at for at in positions if at.topic != SIGNALS]))
        barriers.end_turn(positions)

    async def _run(self) -> None:
        """Turn after turn, until the shard is stopped or fails."""
        try:
            while not self._stopping:
                await self.run_once()
        except Exception as failure:  # noqa: BLE001 - whatever it is, the shard starts over from the log
            self._stats.enter("pausing")
            self._guard.release()
            if self._taken:
                self._poison_search.record_failure(self._taken, failure)
            self.ended.set_exception(failure)

    async def _read(self) -> Sequence[Chunk]:
        """What there is to read, after up to `idle_s` seconds; empty without records. `stop` interrupts it."""
        assert self._reader is not None
        self._reporting.report_due(self._positions)
        self._stats.enter("reading")
        self._reading = True
        try:
            if pause_s := self._pace.pause_s(self._loop.time()):
                await asyncio.sleep(pause_s)
            chunks = await self._reader.read(
                max_records=self._pace.max_records,
                timeout=self._settings.idle_s,
                in_order=self._is_careful,
            )
            chunks = await self._catch_up(chunks)
        finally:
            self._reading = False
        if not chunks and not self._stopping:
            self._guard.idle()
        for chunk in chunks:
            if chunk.deleted and chunk.at in self._known:
                self._tell_deleted(chunk)
        return chunks

    async def _catch_up(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Reads `signals` on, so that every change that was acknowledged before an event of these chunks was sent goes
        before it, and puts signals first. Events go through the log when unfinished transactions hold signals back.
        """
        assert self._app is not None
        assert self._reader is not None
        signals = [chunk for chunk in chunks if chunk.topic == SIGNALS]
        if len(signals) == len(chunks):
            return chunks
        public = [chunk for chunk in chunks if chunk.topic != SIGNALS]
        rest = await self._reader.catch_up(self._signals, max_records=self._pace.max_records, timeout=_CATCH_UP_S)
        self._app.homes.delivery.begin_read(caught_up=rest.complete)
        return [*signals, *rest.chunks, *public]

    def _tell_deleted(self, chunk: Chunk) -> None:
        """Records before this chunk were deleted unread: somebody's retention was shorter than this shard was away."""
        first = self._positions[chunk.at]
        found = UnreadDeletion(self._clock.now(), *chunk.at, first, first + chunk.deleted)
        if self._stats.note_deleted(found):
            log.error("shard.unread_deleted", shard=self.number, records=found.text)

    async def _begin(self, chunks: Sequence[Chunk]) -> PoisonRecord | None:
        """Takes these chunks, or a part of them, for a turn. Returns the only record of the turn if it is poison."""
        assert self._writer is not None
        taken, self._left = self._poison_search.split(chunks)
        careful = self._guard.careful
        if careful:
            taken, left = self._guard.split(taken)
            self._left = [*left, *self._left]
            await self._writer.commit([await self._guard.begin(taken)])
        self._taken = taken
        self._stats.enter("folding")
        return self._poison_search.poison(taken) or (self._guard.poison(taken) if careful else None)

    def _record_commit(self, positions: Positions, records: Sequence[Outgoing]) -> None:
        """Ends the turn in flight, whose `records` are in the log."""
        taken, self._taken = self._taken, ()
        self._positions = positions
        self._guard.record_commit()
        self._poison_search.record_success(taken)
        self._stats.turns += 1
        self._stats.chunk = sum(len(chunk.records) for chunk in taken)
        self._stats.records += self._stats.chunk
        if self._settings.launch_room is not None:
            jobs = sum(record.topic == LAUNCH for record in records)
            self._settings.launch_room.record_turn(self._stats.chunk, jobs)
        self._update_stats()
        if self._first_turn is not None:
            log.info("shard.first_turn", shard=self.number, first_s=self._first_turn.lap(), records=len(records))
            self._first_turn = None

    async def _stop_cleanly(self) -> None:
        """Commits that the shard stopped cleanly, unless it failed or has a turn in flight."""
        if self._writer is None or self._running is None or self._taken or self.ended.done():
            return
        with suppress(FencedError, UnavailableError, TimeoutError):
            async with asyncio.timeout(_LAST_COMMIT_S):
                await self._writer.commit([self._guard.clean_stop()])

    def _update_stats(self) -> None:
        assert self._app is not None
        self._stats.rows = self._app.rows
        schedules = self._app.homes.schedules
        self._stats.halted = schedules.halted
        self._stats.lost_keys, self._stats.refused = schedules.lost_keys, schedules.refused_events
        self._stats.positions = self._positions
        if self._reader is not None:
            self._stats.waiting_since = self._reader.waiting_since
