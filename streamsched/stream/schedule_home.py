"""Third station, a schedule's home: folds signals into trigger states and lets the satisfied ones go to `launch`.

A schedule whose fold raises halts alone (`domain.halt`): its signals are parked, those of its neighbours go on.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, assert_never

import structlog

from streamsched import __version__
from streamsched.codec import express
from streamsched.codec import launch as launch_codec
from streamsched.codec import signal as signal_codec
from streamsched.codec import wakeup as wakeup_codec
from streamsched.domain.effect import Aside, Effect, Launch, Wake
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.fold import NO_CELLS, TriggerState, fold
from streamsched.domain.halt import MOST_PARKED, Halt, halted, in_words
from streamsched.domain.home import home
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signal import Drop, Occurred, Put, Replay, Signal
from streamsched.domain.verdict import Judged, Verdict
from streamsched.ports.broker import Chunk, Record
from streamsched.ports.topics import LATE, LAUNCH, SIGNALS, WAKEUPS
from streamsched.stream.accumulated import Accumulated
from streamsched.stream.edition import Edition
from streamsched.stream.emission import Emit, dead_letter
from streamsched.stream.halts import Halts
from streamsched.stream.ledger import Ledger
from streamsched.stream.memo import Memo

SCHEDULE_PREFIX: Final = b"schedule:"

#: As many parked signals are folded in one turn; the rest in the next, so that a long replay delays nobody for long.
REPLAYED: Final = 1_000

_PARKED: Final = Judged(Verdict.PARKED)
_REPLACED: Final = Judged(Verdict.DISABLED)

log = structlog.get_logger()


class ScheduleHome:
    """The schedules of one shard."""

    def __init__(
        self,
        *,
        shard: int,
        outlets: int,
        triggers: MutableMapping[bytes, bytes],
        emit: Emit,
        memo: Memo,
        ledger: Ledger | None = None,
        edition: Edition | None = None,
        release: str = __version__,
    ) -> None:
        """`outlets`: how many partitions the topics have that are no homes; what a schedule says to one of them stays
        in order, whichever shard it lives in. `release`: of this scheduler; what another one could not fold, this one
        tries.
        """
        self._shard = shard
        self._outlets = outlets
        self._release = release
        self._accumulated = Accumulated(triggers, edition)
        self._halts = Halts(triggers)
        self._emit = emit
        self._memo = memo
        self._ledger = ledger

    @property
    def halted(self) -> int:
        """How many schedules are in error."""
        return len(self._halts.open())

    def take(self, chunk: Chunk) -> None:
        """Folds the chunk's signals in order; every state that changed is encoded once, however often it did."""
        halts = self._halts.open()
        stamp, at = -1, datetime.min.replace(tzinfo=UTC)
        for record in chunk.records:
            key = record.key
            if key is None or not key.startswith(SCHEDULE_PREFIX):
                continue
            try:
                signal = self._signal(key, record)
            except InvalidError as error:
                dead_letter(self._emit, self._shard % self._outlets, chunk, record, error, ledger=self._ledger)
                continue
            if record.time_ms != stamp:  # many records share the time of one append
                stamp, at = record.time_ms, _at(record)
            if halts and key in halts:
                self._while_halted(key, signal, chunk, record)
                continue
            try:
                self._fold(key, signal, at)
            except Exception as failure:  # noqa: BLE001 - whatever it was, it is this schedule's alone
                self._halt(key, signal, chunk, record, failure)
        self._accumulated.store()
        self._halts.store()
        if self._ledger is not None:
            self._ledger.close()

    def refuse(self, chunk: Chunk, record: Record, failure: BaseException) -> None:
        """Parks a signal, the only one of its chunk, that fails every turn that takes it: it can be folded, but what
        comes of it cannot be written.
        """
        key = record.key or b""
        try:
            signal = self._signal(key, record)
        except InvalidError as error:
            dead_letter(self._emit, self._shard % self._outlets, chunk, record, error, ledger=self._ledger)
        else:
            halt = self._halts.open().get(key)
            if halt is None:
                self._halt(key, signal, chunk, record, failure)
            else:
                self._stay(key, halt, self._halted(failure, in_words(signal), record, halt.generation), signal, record)
        self._halts.store()
        if self._ledger is not None:
            self._ledger.close()

    def _stay(self, key: bytes, before: Halt, after: Halt, signal: Signal, record: Record) -> None:
        """In error for another reason; a replay in vain is counted, anything else waits too."""
        tried = isinstance(signal, Replay)
        generation = max(after.generation, signal.generation) if isinstance(signal, Put) else after.generation
        attempts = before.attempts + tried
        self._halts.put(key, _instead(before, replace(after, generation=generation), attempts=attempts))
        if not tried:
            self._park(key, signal, record)

    def _fold(self, key: bytes, signal: Signal, at: datetime) -> None:
        """One signal. When it raises, nothing has changed and nothing was said."""
        accumulated = self._accumulated
        before = accumulated.state(key)
        correlates = before is not None and before.plan.per is not None
        folded = fold(before, signal, at=at, cells=accumulated.cells(key) if correlates else NO_CELLS)
        said = [self._said(effect) for effect in folded.effects] if folded.effects else ()
        if folded.state is not before or folded.cells:
            accumulated.fold(key, folded)
        for topic, name, value in said:
            self._emit(topic, home(key, self._outlets), name, value)
        if self._ledger is not None and isinstance(signal, Occurred) and folded.verdict is not None:
            self._ledger.judged(key, before, folded.verdict, signal)

    def _tried(self, key: bytes, signal: Signal, at: datetime) -> Exception | None:
        """Folds, or says what was raised."""
        try:
            self._fold(key, signal, at)
        except Exception as failure:  # noqa: BLE001 - it is told by the schedule's halt
            return failure
        return None

    def _halt(self, key: bytes, signal: Signal, chunk: Chunk, record: Record, failure: BaseException) -> None:
        """From here on the schedule stands, beginning with this signal."""
        try:
            _ref(key)
        except InvalidError as error:  # nobody's home
            dead_letter(self._emit, self._shard % self._outlets, chunk, record, error, ledger=self._ledger)
            return
        state = self._known_state(key)
        generation = 0 if state is None else state.generation
        if isinstance(signal, Put):
            generation = max(generation, signal.generation)
        halt = self._halted(failure, in_words(signal), record, generation)
        log.error("schedule.halted", schedule=_name(key), signal=halt.signal, reason=halt.why, exc_info=failure)
        self._halts.put(key, halt)
        self._park(key, signal, record)

    def _halted(self, failure: BaseException, signal: str, record: Record, generation: int) -> Halt:
        return halted(failure, signal, at=_at(record), generation=generation, release=self._release)

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
                    self._give_up(key)
                    self._retreat(key, signal, _at(record))
            case _:
                if halt.release != self._release and self._replay(key):  # this one may know better
                    failure = self._tried(key, signal, _at(record))
                    if failure is not None:
                        self._halt(key, signal, chunk, record, failure)
                elif halt.parked < MOST_PARKED:
                    self._park(key, signal, record)
                else:
                    full = DecodeError("$", f"its schedule is in error and {halt.parked} signals are parked already")
                    dead_letter(self._emit, self._shard % self._outlets, chunk, record, full, ledger=self._ledger)

    def _park(self, key: bytes, signal: Signal, record: Record) -> None:
        self._halts.park(key, record)
        if self._ledger is not None and isinstance(signal, Occurred):
            self._ledger.judged(key, self._known_state(key), _PARKED, signal)

    def _replay(self, key: bytes) -> bool:
        """Folds what is parked, as much as a turn takes; whether nothing is left, so that the schedule is well."""
        self._halts.put(key, replace(self._halts.open()[key], release=self._release))
        for record in list(self._halts.parked(key, REPLAYED)):
            halt = self._halts.open()[key]
            at = _at(record) if halt.judged_from is None else max(_at(record), halt.judged_from)
            try:
                signal = self._signal(key, record)
            except InvalidError as error:  # another release wrote it
                words, failure = f"parked signal {record.offset}", error
            else:
                words, failure = in_words(signal), self._tried(key, signal, at)
            if failure is not None:  # as before, or another one that it led to
                again = self._halted(failure, words, record, halt.generation)
                log.error("schedule.still_halted", schedule=_name(key), signal=again.signal, reason=again.why)
                self._halts.put(key, _instead(halt, again, attempts=halt.attempts + 1))
                return False
            self._halts.unpark(key)
        left = self._halts.open()[key]
        if left.parked:
            more = Replay(_ref(key), left.generation)
            self._emit(SIGNALS, self._shard, *signal_codec.encode(more))
            return False
        log.info("schedule.replayed", schedule=_name(key), signals=left.first)
        self._halts.end(key)
        return True

    def _redefine(self, key: bytes, halt: Halt, put: Put, chunk: Chunk, record: Record) -> None:
        """A new definition is in force at once; one that keeps judges what is parked, any other makes it pointless."""
        at = _at(record)
        if put.keep:
            failure = self._tried(key, put, at)
            if failure is not None:
                again = self._halted(failure, in_words(put), record, put.generation)
                self._stay(key, halt, again, put, record)
                return
            self._halts.put(key, replace(halt, generation=put.generation, judged_from=at))
            self._replay(key)
            return
        self._give_up(key)
        failure = self._retreat(key, put, at)
        if failure is not None:
            self._halt(key, put, chunk, record, failure)

    def _give_up(self, key: bytes) -> None:
        """What is parked goes, as what has accumulated does."""
        if self._ledger is not None:
            state = self._known_state(key)
            for record in self._halts.parked(key, MOST_PARKED + 1):
                with suppress(InvalidError):
                    signal = self._signal(key, record)
                    if isinstance(signal, Occurred):
                        self._ledger.judged(key, state, _REPLACED, signal)
        log.info("schedule.given_up", schedule=_name(key), signals=self._halts.open()[key].parked)
        self._halts.end(key)

    def _retreat(self, key: bytes, signal: Put | Drop, at: datetime) -> Exception | None:
        """What goes on from nothing, when the state that stands there is what cannot be folded."""
        failure = self._tried(key, signal, at)
        if failure is not None:
            self._accumulated.forget(key)
            failure = self._tried(key, signal, at)
        return failure

    def _known_state(self, key: bytes) -> TriggerState | None:
        try:
            return self._accumulated.state(key)
        except InvalidError:
            return None

    def _signal(self, key: bytes, record: Record) -> Signal:
        value = record.value
        if value is None:
            raise DecodeError("$", "is empty: a signal must say something")
        known = self._memo.get(value)
        if known is not None:
            return known
        usual = express.occurred(value) if value.startswith(express.BEGINS) else None
        signal = usual[1] if usual is not None else signal_codec.decode(key, value)
        if isinstance(signal, Occurred):  # it goes to all its listeners as the same bytes
            self._memo.put(value, signal)
        return signal

    def _said(self, effect: Effect) -> tuple[str, bytes, bytes]:
        """Topic, key and value of what an effect wants said."""
        match effect:
            case Launch(job=job):
                return LAUNCH, job.id.encode(), launch_codec.encode(job)
            case Wake():
                return WAKEUPS, *wakeup_codec.encode(effect)
            case Aside(event=event):
                return LATE, *signal_codec.encode(Occurred(event))
            case _:
                assert_never(effect)


def _instead(before: Halt, after: Halt, *, attempts: int) -> Halt:
    """Another reason for the same standstill."""
    return replace(after, first=before.first, parked=before.parked, attempts=attempts, judged_from=before.judged_from)


def _at(record: Record) -> datetime:
    return datetime.fromtimestamp(record.time_ms / 1000, UTC)


def _name(key: bytes) -> str:
    return key.removeprefix(SCHEDULE_PREFIX).decode(errors="backslashreplace")


def _ref(key: bytes) -> ScheduleRef:
    return ScheduleRef.parse(_name(key))
