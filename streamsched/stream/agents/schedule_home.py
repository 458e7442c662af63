"""The homes of schedules: fold signals into trigger states and emit a record to `launch` for each satisfaction.

A schedule whose fold raises, or is interrupted because it takes too long (`stream.agents.time_limit`), is halted
(`domain.fold.halt`): its signals are parked. Other schedules are not affected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, assert_never

import structlog

from streamsched import __version__
from streamsched.codec.records import launch as launch_codec
from streamsched.codec.records import signal as signal_codec
from streamsched.codec.records import wakeup as wakeup_codec
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.fold.cell import Cell
from streamsched.domain.fold.effect import Effect, LateEvent, Launch, Refuse, Wake
from streamsched.domain.fold.fold import NO_CELLS, Folded, TriggerState, fold
from streamsched.domain.fold.halt import MOST_PARKED, Halt, begin_halt, describe_signal
from streamsched.domain.signals.home import home, schedule_of
from streamsched.domain.signals.signal import Drop, Occurred, Put, Replay, Signal
from streamsched.domain.signals.verdict import JudgedEvent, Verdict
from streamsched.log.topics import LATE, LAUNCH, SIGNALS, WAKEUPS
from streamsched.ports.broker import Chunk, Record, log_instant
from streamsched.stream.agents.accumulated import TriggerStates
from streamsched.stream.agents.emission import Emit, dead_letter
from streamsched.stream.agents.halts import Halts
from streamsched.stream.agents.loss_log import LossLog
from streamsched.stream.agents.signal_decoder import SignalDecoder
from streamsched.stream.agents.time_limit import TimeLimit
from streamsched.stream.agents.verdict_collector import VerdictCollector
from streamsched.stream.state_format import StateFormat

#: The number of parked signals folded in one turn; a longer replay continues in the next turns.
REPLAYED: Final = 1_000

#: The limit of CPU seconds for the fold of one signal. Within the bounds on signals, folds take far less.
FOLD_S: Final = 2.0

_PARKED: Final = JudgedEvent(Verdict.PARKED)
_REPLACED: Final = JudgedEvent(Verdict.DISABLED)

log = structlog.get_logger()


class ScheduleHome:
    """The trigger states and halts of one shard's schedules."""

    def __init__(
        self,
        *,
        shard: int,
        unkeyed_partitions: int,
        triggers: MutableMapping[bytes, bytes],
        emit: Emit,
        decoder: SignalDecoder,
        collector: VerdictCollector | None = None,
        state_format: StateFormat | None = None,
        release: str = __version__,
        limit: TimeLimit | None = None,
        largest_record: int | None = None,
    ) -> None:
        """`unkeyed_partitions`: the number of partitions of `launch`, `wakeups` and `late`; the partition depends on
        the schedule alone, so its records keep their order when it moves to another shard. `release`: the version of
        this program; a schedule halted by another release is tried again. `limit`: for one fold. `largest_record`:
        most bytes of key and value of a record, None: any number.
        """
        self.limit = limit or TimeLimit(FOLD_S)
        self._shard = shard
        self._unkeyed_partitions = unkeyed_partitions
        self._release = release
        self._largest_record = largest_record
        self._accumulated = TriggerStates(triggers, state_format)
        self._halts = Halts(triggers)
        self._emit = emit
        self._decoder = decoder
        self._collector = collector
        #: The last log time in milliseconds, and as an instant.
        self._stamp, self._at = -1, datetime.min.replace(tzinfo=UTC)
        #: Since the shard started: correlation keys that ended incomplete, and events refused for too many keys.
        self.lost_keys = self.refused_events = 0
        self._losses = LossLog()

    def check_release(self) -> None:
        """Raises `ConfigurationError` for states of a release before 0.1.0."""
        self._accumulated.check_release()

    async def read_large(self) -> None:
        """Reads the cells with many events, so that no turn has to; meanwhile heartbeats are sent."""
        for key, name in self._accumulated.large_cells():
            await asyncio.to_thread(self._accumulated.read_cell, key, name)

    @property
    def halted(self) -> int:
        """The number of schedules in error."""
        return len(self._halts.open())

    def decode(self, key: bytes, chunk: Chunk, record: Record) -> Signal | None:
        """The signal of a record; one that cannot be decoded becomes a dead letter, and is None."""
        try:
            return self._decoder.decode(key, record.value)
        except InvalidError as error:
            self._dead_letter(chunk, record, error)
            return None

    def state(self, key: bytes) -> TriggerState | None:
        """The state of a schedule; None when there is none, or none that can be decoded."""
        try:
            return self._accumulated.state(key)
        except InvalidError:
            return None

    def is_halted(self, key: bytes) -> bool:
        """Whether a schedule is in error, and parks its signals."""
        return key in self._halts.open()

    def judge(self, key: bytes, signal: Signal, chunk: Chunk, record: Record, remark: str = "") -> None:
        """Folds one signal, as of the time of its record; with a remark on its verdict."""
        halts = self._halts.open()
        if halts and key in halts:
            self._while_halted(key, signal, chunk, record)
            return
        if record.time_ms != self._stamp:  # the records of one append have the same time
            self._stamp, self._at = record.time_ms, record.at
        try:
            refused = self._fold(key, signal, self._at, remark)
            if refused is not None:
                self._dead_letter(chunk, record, DecodeError("$", refused), judged=True)
        except Exception as failure:  # noqa: BLE001 - any failure of a fold halts this schedule only
            self._halt(key, signal, chunk, record, failure)

    def judge_at_once(self, key: bytes, signal: Occurred, time_ms: int) -> bool:
        """Folds an event that has no record, as of a log time. False, and nothing has changed, when its record would be
        parked or become a dead letter.
        """
        halts = self._halts.open()
        if halts and key in halts:
            return False
        if time_ms != self._stamp:
            self._stamp, self._at = time_ms, log_instant(time_ms)
        try:
            return self._fold(key, signal, self._at, at_once=True) is None
        except Exception:  # noqa: BLE001 - it fails again when it comes through the log, and halts its schedule there
            return False

    def store_in_steps(self, step_s: float) -> Iterator[None]:
        """Writes each state that changed since the last call, once, in steps of about `step_s` seconds. Once a turn."""
        self._losses.say(self._at)
        yield from self._accumulated.store_in_steps(step_s)
        self._halts.store()

    def refuse(self, chunk: Chunk, record: Record, failure: BaseException) -> None:
        """Parks a signal, the only one of its chunk, that fails every turn: its fold succeeds, but the records it leads
        to cannot be committed.
        """
        key = record.key or b""
        try:
            signal = self._decoder.decode(key, record.value)
        except InvalidError as error:
            self._dead_letter(chunk, record, error)
        else:
            halt = self._halts.open().get(key)
            if halt is None:
                self._halt(key, signal, chunk, record, failure)
            else:
                self._update_halt(
                    key, halt, self._new_halt(failure, describe_signal(signal), record, halt.generation), signal, record
                )
        self._halts.store()

    def _update_halt(self, key: bytes, before: Halt, after: Halt, signal: Signal, record: Record) -> None:
        """Replaces the reason of a halt. A failed `Replay` counts as an attempt; any other signal is parked."""
        replayed = isinstance(signal, Replay)
        generation = max(after.generation, signal.generation) if isinstance(signal, Put) else after.generation
        attempts = before.attempts + replayed
        self._halts.put(key, _keep_parked(before, replace(after, generation=generation), attempts=attempts))
        if not replayed:
            self._park(key, signal, record)

    def _fold(self, key: bytes, signal: Signal, at: datetime, remark: str = "", *, at_once: bool = False) -> str | None:
        """Folds one signal. Returns the reason when the signal was refused; the caller then emits its record as a dead
        letter. When the fold raises, or refuses what has no record (`at_once`), no state has changed and nothing was
        emitted.
        """
        accumulated = self._accumulated
        before = accumulated.state(key)
        correlates = before is not None and before.plan.per is not None
        cells = accumulated.cells(key) if correlates else NO_CELLS
        folded, records = self.limit.call(self._fold_result, before, signal, at, cells)
        refused = next((effect.reason for effect in folded.effects if isinstance(effect, Refuse)), None)
        if refused is not None and at_once:
            return refused
        if folded.state is not before or folded.cells:
            accumulated.fold(key, folded)
        for topic, name, value in records:
            self._emit(topic, home(key, self._unkeyed_partitions), name, value)
        if self._collector is not None and isinstance(signal, Occurred) and folded.verdict is not None:
            verdict = folded.verdict.with_remarks(folded.verdict.why, remark) if remark else folded.verdict
            self._collector.verdict(key, before, verdict, signal)
        if correlates:
            self._count_losses(key, signal, before, folded)
        after = folded.state
        if before is not None and after is not None and before.fires and after.is_enabled and not after.fires:
            log.warning("schedule.backlog_full", schedule=_name(key), jobs=after.sequence)
        return refused

    def _fold_result(
        self, before: TriggerState | None, signal: Signal, at: datetime, cells: Mapping[str, Cell]
    ) -> tuple[Folded, Sequence[tuple[str, bytes, bytes]]]:
        """The result of the fold, and the records of its effects. Pure, since it can be interrupted anywhere."""
        folded = fold(before, signal, at=at, cells=cells)
        return folded, [record for effect in folded.effects if (record := self._record(effect)) is not None]

    def _count_losses(self, key: bytes, signal: Signal, before: TriggerState | None, folded: Folded) -> None:
        """Counts keys dropped or expired, and events refused, by a schedule that correlates; the log says them."""
        after = folded.state
        if before is None or after is None or after.generation != before.generation:
            return
        lost, refused = after.lost - before.lost, after.refused - before.refused
        if lost or refused:
            self.lost_keys += lost
            self.refused_events += refused
            dropped = after.dropped - before.dropped
            self._losses.add(
                _name(key),
                describe_signal(signal),
                expired=lost - dropped,
                dropped=dropped,
                refused=refused,
                reason=folded.verdict.why if folded.verdict is not None else "",
            )

    def _try_fold(self, key: bytes, signal: Signal, at: datetime) -> Exception | None:
        """Folds and returns the exception raised, or None. A refused signal is appended to `signals` again and judged
        there: a dead letter names its record's offset, and a parked signal no longer has one.
        """
        try:
            if self._fold(key, signal, at) is not None:
                self._emit(SIGNALS, self._shard, key, signal_codec.encode(signal)[1])
        except Exception as failure:  # noqa: BLE001 - the caller stores it as the reason of the halt
            return failure
        return None

    def _halt(self, key: bytes, signal: Signal, chunk: Chunk, record: Record, failure: BaseException) -> None:
        """Halts a schedule; `signal` is the first one parked."""
        try:
            schedule_of(key)
        except InvalidError as error:  # the key names no schedule
            self._dead_letter(chunk, record, error)
            return
        state = self.state(key)
        generation = 0 if state is None else state.generation
        if isinstance(signal, Put):
            generation = max(generation, signal.generation)
        halt = self._new_halt(failure, describe_signal(signal), record, generation)
        log.error("schedule.halted", schedule=_name(key), signal=halt.signal, reason=halt.reason, exc_info=failure)
        self._halts.put(key, halt)
        self._park(key, signal, record)

    def _new_halt(self, failure: BaseException, signal: str, record: Record, generation: int) -> Halt:
        return begin_halt(failure, signal, at=record.at, generation=generation, release=self._release)

    def _while_halted(self, key: bytes, signal: Signal, chunk: Chunk, record: Record) -> None:
        halt = self._halts.open()[key]
        match signal:
            case Replay():
                self._replay(key)
            case Put(generation=generation):
                if generation > halt.generation:
                    self._redefine(key, halt, signal, chunk, record)
            case Drop(generation=generation):
                if generation >= halt.generation:
                    self._drop_parked(key)
                    self._fold_from_empty(key, signal, record.at)
            case _:
                if halt.release != self._release and self._replay(key):  # this release may be able to fold it
                    failure = self._try_fold(key, signal, record.at)
                    if failure is not None:
                        self._halt(key, signal, chunk, record, failure)
                elif halt.parked < MOST_PARKED:
                    self._park(key, signal, record)
                else:
                    full = DecodeError("$", f"its schedule is in error and {halt.parked} signals are parked already")
                    self._dead_letter(chunk, record, full)

    def _dead_letter(self, chunk: Chunk, record: Record, error: InvalidError, *, judged: bool = False) -> None:
        """Emits a dead letter. `judged`: the verdict of the event is recorded already."""
        partition, collector = self._shard % self._unkeyed_partitions, None if judged else self._collector
        dead_letter(self._emit, partition, chunk, record, error, collector=collector)

    def _park(self, key: bytes, signal: Signal, record: Record) -> None:
        self._halts.park(key, record)
        if self._collector is not None and isinstance(signal, Occurred):
            self._collector.verdict(key, self.state(key), _PARKED, signal)

    def _replay(self, key: bytes) -> bool:
        """Folds up to `REPLAYED` parked signals; when none is left, ends the halt and returns True."""
        self._halts.put(key, replace(self._halts.open()[key], release=self._release))
        for record in list(self._halts.parked_signals(key, REPLAYED)):
            halt = self._halts.open()[key]
            at = record.at if halt.judged_from is None else max(record.at, halt.judged_from)
            try:
                signal = self._decoder.decode(key, record.value)
            except InvalidError as error:  # written by another release
                description, failure = f"parked signal {record.offset}", error
            else:
                description, failure = describe_signal(signal), self._try_fold(key, signal, at)
            if failure is not None:
                latest = self._new_halt(failure, description, record, halt.generation)
                log.error("schedule.still_halted", schedule=_name(key), signal=latest.signal, reason=latest.reason)
                self._halts.put(key, _keep_parked(halt, latest, attempts=halt.attempts + 1))
                return False
            self._halts.unpark(key)
        left = self._halts.open()[key]
        if left.parked:
            more = Replay(schedule_of(key)[0], left.generation)
            self._emit(SIGNALS, self._shard, key, signal_codec.encode(more)[1])
            return False
        log.info("schedule.replayed", schedule=_name(key), signals=left.first)
        self._halts.end(key)
        return True

    def _redefine(self, key: bytes, halt: Halt, put: Put, chunk: Chunk, record: Record) -> None:
        """Applies a new definition to a halted schedule. One that keeps state folds the parked signals; any other drops
        them.
        """
        at = record.at
        if put.keep:
            failure = self._try_fold(key, put, at)
            if failure is not None:
                latest = self._new_halt(failure, describe_signal(put), record, put.generation)
                self._update_halt(key, halt, latest, put, record)
                return
            self._halts.put(key, replace(halt, generation=put.generation, judged_from=at))
            self._replay(key)
            return
        self._drop_parked(key)
        failure = self._fold_from_empty(key, put, at)
        if failure is not None:
            self._halt(key, put, chunk, record, failure)

    def _drop_parked(self, key: bytes) -> None:
        """Ends a halt without folding the parked signals; their verdict is `DISABLED`."""
        if self._collector is not None:
            state = self.state(key)
            for record in self._halts.parked_signals(key, MOST_PARKED + 1):
                with suppress(InvalidError):
                    signal = self._decoder.decode(key, record.value)
                    if isinstance(signal, Occurred):
                        self._collector.verdict(key, state, _REPLACED, signal)
        log.info("schedule.parked_dropped", schedule=_name(key), signals=self._halts.open()[key].parked)
        self._halts.end(key)

    def _fold_from_empty(self, key: bytes, signal: Put | Drop, at: datetime) -> Exception | None:
        """As `_try_fold`, and once more from an empty state when the stored state is what cannot be folded."""
        failure = self._try_fold(key, signal, at)
        if failure is not None:
            self._accumulated.forget(key)
            failure = self._try_fold(key, signal, at)
        return failure

    def _record(self, effect: Effect) -> tuple[str, bytes, bytes] | None:
        """Topic, key and value of an effect's record; None for `Refuse`: its dead letter needs the signal's record."""
        match effect:
            case Launch(job=job):
                key, most = job.id.encode(), self._largest_record
                return LAUNCH, key, launch_codec.encode(job, largest=None if most is None else most - len(key))
            case Wake():
                return WAKEUPS, *wakeup_codec.encode(effect)
            case LateEvent(event=event):
                return LATE, *signal_codec.encode(Occurred(event))
            case Refuse():
                return None
            case _:
                assert_never(effect)


def _keep_parked(before: Halt, after: Halt, *, attempts: int) -> Halt:
    """`after` with the parked signals of `before`."""
    return replace(after, first=before.first, parked=before.parked, attempts=attempts, judged_from=before.judged_from)


def _name(key: bytes) -> str:
    """The schedule of a record key, for the log."""
    try:
        return str(schedule_of(key)[0])
    except InvalidError:
        return key.decode(errors="backslashreplace")
