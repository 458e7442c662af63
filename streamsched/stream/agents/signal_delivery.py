"""Takes signals to their homes: to one of this shard in the same turn, to any other through topic `signals` (ADR 41).

A turn has read `signals` up to where it ended before it takes the first event of a public topic in the same turn, so
that a change of a schedule that was acknowledged before the event was sent is known (promise G4).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from streamsched.codec.records import judged as judged_codec
from streamsched.codec.records.judged import JudgedAt
from streamsched.domain.clock_judge import TOLERANCE
from streamsched.domain.limits import add_duration
from streamsched.domain.signals.signal import Occurred
from streamsched.log.topics import JUDGED, SIGNALS
from streamsched.ports.broker import log_instant
from streamsched.ports.clock import Clock
from streamsched.stream.agents.arrival_order import ArrivalOrder
from streamsched.stream.agents.emission import Emit

_NEVER: Final = datetime.max.replace(tzinfo=UTC)

#: Takes an event at the home of its key: key, value and signal, and the log time as of which.
TakeEvent = Callable[[bytes, bytes, Occurred, int], None]


class SignalDelivery:
    """Of one shard.

    Attributes:
        position: of this shard's partition of `signals`: every signal before it has been judged.
    """

    def __init__(self, *, shard: int, emit: Emit, order: ArrivalOrder, clock: Clock | None = None) -> None:
        self.position = 0
        self._caught_up = self._through_log = False
        self._turn = 0
        #: Schedules to which an event has gone through the log, and in which turn last: others follow it there until it
        #: has been judged. After a restart nothing is known of it; then an event may overtake one of its key.
        self._detours: dict[bytes, int] = {}
        self._shard = shard
        self._emit = emit
        self._order = order
        self._clock = clock
        self._signals_ms = self._newest_ms = 0

    def begin_turn(self, *, caught_up: bool, through_log: bool) -> None:
        """Call it before the first chunk of a turn. `caught_up`: all signals that were there when its events were read
        come before them. `through_log`: nothing is judged at once, so that what fails the turn, or ends the process, is
        the record of one schedule.
        """
        self._turn += 1
        self._caught_up, self._through_log = caught_up, through_log

    def begin_events(self) -> None:
        """Call it before the events of a chunk. A signal has its time from a clock that has jumped if it is after now
        by more than clocks differ, and does not count then.
        """
        if self._detours and self._caught_up:
            self._detours = {key: turn for key, turn in self._detours.items() if turn == self._turn}
        future = _NEVER if self._clock is None else add_duration(self._clock.now(), TOLERANCE)
        if log_instant(self._signals_ms) <= future:
            self._newest_ms = max(self._newest_ms, self._signals_ms)

    def pass_signal(self, offset: int, time_ms: int) -> None:
        """The signal of this offset and log time is about to be judged."""
        self.position = offset + 1
        self._signals_ms = time_ms

    def deliver(self, take: TakeEvent, home: int, key: bytes, value: bytes, signal: Occurred) -> None:
        """Takes an event of a public topic to the home of its key, see `ingest.Deliver`. `take`: how that of this shard
        takes it. It is judged as of its arrival, or of what was judged before it if that is later.
        """
        if home == self._shard and self._caught_up and not self._through_log:
            self._newest_ms = time_ms = max(signal.logged_ms, self._newest_ms)
            take(key, value, signal, time_ms)
            self._emit(JUDGED, home, key, judged_codec.encode(value, JudgedAt(self.position, time_ms)))
        else:
            self._emit(SIGNALS, home, key, value)

    def forward(self, home: int, schedule: bytes, value: bytes, signal: Occurred, time_ms: int) -> None:
        """Takes an event to a schedule's home, see `event_home.Forward`."""
        if home != self._shard:
            self._emit(SIGNALS, home, schedule, value)
        elif (
            not self._through_log
            and schedule not in self._detours
            and self._order.judge_at_once(schedule, signal, time_ms)
        ):
            self._emit(JUDGED, home, schedule, judged_codec.encode(value, JudgedAt(self.position, time_ms)))
        else:
            self._detours[schedule] = self._turn
            self._emit(SIGNALS, home, schedule, value)
