"""Takes signals to their homes: to one of this shard in the same turn, to any other through topic `signals` (ADR 41).

A turn has read `signals` up to where it ended before it takes the first event of a public topic in the same turn, so
that a change of a schedule that was acknowledged before the event was sent is known (promise G4).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import datetime

from streamsched.codec.records import judged as judged_codec
from streamsched.codec.records.judged import JudgedAt
from streamsched.domain.signals.signal import Occurred
from streamsched.log.topics import JUDGED, SIGNALS
from streamsched.ports.broker import log_instant
from streamsched.stream.agents.arrival_order import ArrivalOrder
from streamsched.stream.agents.emission import Emit

#: Takes an event at the home of its key: key, value and signal, and the log time as of which.
TakeEvent = Callable[[bytes, bytes, Occurred, int], None]


class SignalDelivery:
    """Of one shard.

    Attributes:
        position: of this shard's partition of `signals`: every signal before it has been judged.
    """

    def __init__(self, *, shard: int, emit: Emit, order: ArrivalOrder) -> None:
        self.position = 0
        self._shard = shard
        self._emit = emit
        self._order = order
        #: Where `signals` ended at the start: what went through it before is not known here.
        self._unknown_until = 0
        self._caught_up = self._through_log = False
        #: By schedule the signals on their way to it through `signals`: others follow them, so that none overtakes.
        self._on_the_way: defaultdict[bytes, set[bytes]] = defaultdict(set)
        self._signals_ms = self._newest_ms = 0

    def start(self, position: int, end: int) -> None:
        """Call it before the first turn: where `signals` is read from, and where it ends."""
        self.position, self._unknown_until = position, end

    def begin_read(self, *, caught_up: bool) -> None:
        """Call it with each read of events. `caught_up`: all signals that were there before them come first."""
        self._caught_up = caught_up

    def begin_turn(self, *, in_order: bool, through_log: bool) -> None:
        """Call it before the first chunk of a turn. `in_order`: all signals of the read were taken before its events.
        `through_log`: no schedule judges at once, so that what fails the turn, or ends the process, is a record of its
        own. None does before all is read that was there at the start.
        """
        self._caught_up = self._caught_up and in_order
        self._through_log = through_log or self.position < self._unknown_until

    def begin_events(self, future: datetime) -> None:
        """Call it before the events of a chunk. A signal after `future` has its time from a clock that has jumped, and
        does not count.
        """
        if log_instant(self._signals_ms) <= future:
            self._newest_ms = max(self._newest_ms, self._signals_ms)

    def pass_signal(self, offset: int, time_ms: int) -> None:
        """The signal of this offset and log time is about to be judged."""
        self.position = offset + 1
        self._signals_ms = time_ms

    def pass_schedule_signal(self, schedule: bytes, value: bytes | None) -> None:
        """The same, of a signal to a schedule."""
        if schedule in self._on_the_way and value is not None:
            self._on_the_way[schedule].discard(value)
            if not self._on_the_way[schedule]:
                del self._on_the_way[schedule]

    def deliver(self, take: TakeEvent, home: int, key: bytes, value: bytes, signal: Occurred) -> None:
        """Takes an event of a public topic to the home of its key, see `ingest.Deliver`. `take`: how that of this shard
        takes it. It is judged as of its arrival, or of what was judged before it if that is later.
        """
        if home == self._shard and self._caught_up:
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
            and schedule not in self._on_the_way
            and self._order.judge_at_once(schedule, signal, time_ms)
        ):
            self._emit(JUDGED, home, schedule, judged_codec.encode(value, JudgedAt(self.position, time_ms)))
        else:
            self._on_the_way[schedule].add(value)
            self._emit(SIGNALS, home, schedule, value)
