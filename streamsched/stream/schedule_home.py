"""Third station, a schedule's home: folds signals into trigger states and lets the satisfied ones go to `launch`."""

from __future__ import annotations

from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Final, assert_never

from streamsched.codec import launch as launch_codec
from streamsched.codec import signal as signal_codec
from streamsched.codec import wakeup as wakeup_codec
from streamsched.domain.effect import Aside, Effect, Launch, Wake
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.fold import NO_CELLS, fold
from streamsched.domain.signal import Occurred, Signal
from streamsched.ports.broker import Chunk, Record
from streamsched.ports.topics import LATE, LAUNCH, WAKEUPS
from streamsched.stream.accumulated import Accumulated
from streamsched.stream.emission import Emit, dead_letter
from streamsched.stream.ledger import Ledger
from streamsched.stream.memo import Memo

SCHEDULE_PREFIX: Final = b"schedule:"


class ScheduleHome:
    """The schedules of one shard."""

    def __init__(
        self,
        *,
        shard: int,
        triggers: MutableMapping[bytes, bytes],
        emit: Emit,
        memo: Memo,
        ledger: Ledger | None = None,
    ) -> None:
        self._shard = shard
        self._accumulated = Accumulated(triggers)
        self._emit = emit
        self._memo = memo
        self._ledger = ledger

    def take(self, chunk: Chunk) -> None:
        """Folds the chunk's signals in order; every state that changed is encoded once, however often it did."""
        accumulated = self._accumulated
        ledger = self._ledger
        stamp, at = -1, datetime.min.replace(tzinfo=UTC)
        for record in chunk.records:
            key = record.key
            if key is None or not key.startswith(SCHEDULE_PREFIX):
                continue
            try:
                signal = self._signal(key, record)
            except InvalidError as error:
                dead_letter(self._emit, self._shard, chunk, record, error, ledger=ledger)
                continue
            if record.time_ms != stamp:  # many records share the time of one append
                stamp, at = record.time_ms, datetime.fromtimestamp(record.time_ms / 1000, UTC)
            before = accumulated.state(key)
            correlates = before is not None and before.plan.per is not None
            folded = fold(before, signal, at=at, cells=accumulated.cells(key) if correlates else NO_CELLS)
            if folded.state is not before or folded.cells:
                accumulated.fold(key, folded)
            for effect in folded.effects:
                self._carry_out(effect)
            if ledger is not None and isinstance(signal, Occurred) and folded.verdict is not None:
                ledger.judged(key, before, folded.verdict, signal)
        accumulated.store()
        if ledger is not None:
            ledger.close()

    def _signal(self, key: bytes, record: Record) -> Signal:
        value = record.value
        if value is None:
            raise DecodeError("$", "is empty: a signal must say something")
        known = self._memo.get(value)
        if known is not None:
            return known
        signal = signal_codec.decode(key, value)
        if isinstance(signal, Occurred):  # it goes to all its listeners as the same bytes
            self._memo.put(value, signal)
        return signal

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Launch(job=job):
                self._emit(LAUNCH, self._shard, job.id.encode(), launch_codec.encode(job))
            case Wake():
                self._emit(WAKEUPS, self._shard, *wakeup_codec.encode(effect))
            case Aside(event=event):
                self._emit(LATE, self._shard, *signal_codec.encode(Occurred(event)))
            case _:
                assert_never(effect)
