"""Third station, a schedule's home: folds signals into trigger states and lets the satisfied ones go to `launch`."""

from __future__ import annotations

from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Final, assert_never

from streamsched.codec import launch as launch_codec
from streamsched.codec import signal as signal_codec
from streamsched.codec import state as state_codec
from streamsched.codec import wakeup as wakeup_codec
from streamsched.domain.effect import Aside, Effect, Launch, Wake
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.fold import TriggerState, fold
from streamsched.domain.signal import Occurred, Signal
from streamsched.ports.broker import Chunk, Record
from streamsched.ports.topics import LATE, LAUNCH, WAKEUPS
from streamsched.stream.emission import Emit, dead_letter
from streamsched.stream.ledger import Ledger
from streamsched.stream.memo import Memo

SCHEDULE_PREFIX: Final = b"schedule:"


class ScheduleHome:
    """The trigger states of one shard. The table's bytes are the truth; the decoded states are derived from them."""

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
        self._triggers = triggers
        self._emit = emit
        self._memo = memo
        self._ledger = ledger
        self._states: dict[bytes, TriggerState | None] = {}

    def take(self, chunk: Chunk) -> None:
        """Folds the chunk's signals in order; every state that changed is encoded once, however often it did."""
        changed: set[bytes] = set()
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
            before = self._state(key)
            folded = fold(before, signal, at=at)
            if folded.state is not before:
                self._states[key] = folded.state
                changed.add(key)
            for effect in folded.effects:
                self._carry_out(effect)
            if ledger is not None and isinstance(signal, Occurred) and folded.verdict is not None:
                ledger.judged(key, before, folded.verdict, signal.event)
        for key in sorted(changed):
            self._store(key)
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

    def _state(self, key: bytes) -> TriggerState | None:
        if key not in self._states:
            raw = self._triggers.get(key)
            self._states[key] = None if raw is None else state_codec.decode(raw)
        return self._states[key]

    def _store(self, key: bytes) -> None:
        state = self._states[key]
        if state is not None:
            self._triggers[key] = state_codec.encode(state)
        else:
            del self._states[key]
            if key in self._triggers:
                del self._triggers[key]

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
