"""The order in which a shard's schedules see their signals.

A signal is judged as it comes, unless what its schedule makes of it depends on the order of different event keys: then
it waits until a round of barriers is over (`domain.signals.barrier`), and is judged by the log's time of it.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Set
from typing import Final

from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Occurred, Put, Signal, Woken, arrival_time
from streamsched.log.topics import SIGNALS
from streamsched.ports.broker import Chunk, Record
from streamsched.stream.agents.schedule_home import ScheduleHome
from streamsched.stream.agents.unordered_signals import UnorderedSignals

#: The most signals of one schedule that wait for their order; the first is judged when one more comes.
MOST_UNORDERED: Final = 100_000

_TOO_MANY: Final = f"order unknown: {MOST_UNORDERED} signals waited for it"


class ArrivalOrder:
    """The signals that wait at the home of a shard's schedules."""

    def __init__(
        self, *, shard: int, shards: int, triggers: MutableMapping[bytes, bytes], schedules: ScheduleHome
    ) -> None:
        self._shard = shard
        self._shards = shards
        self._schedules = schedules
        self._waiting = UnorderedSignals(triggers)

    @property
    def waits(self) -> bool:
        """Whether signals wait."""
        return bool(self._waiting.places())

    @property
    def newest_ms(self) -> int:
        """The newest time of the signals that wait."""
        return self._waiting.newest_ms

    def process(self, key: bytes, chunk: Chunk, record: Record) -> None:
        """Has one signal of the chunk judged, or lets it wait; `key`: that of the record."""
        signal = self._schedules.decode(key, chunk, record)
        if signal is None:
            return
        waiting = self._waiting.places()
        if (waiting and key in waiting) or (isinstance(signal, Occurred | Woken) and self._needs_order(key)):
            self._waiting.add(key, arrival_time(signal, record.time_ms), record)
            if len(waiting[key]) > MOST_UNORDERED:
                self._judge_first(key)
            return
        self._schedules.judge(key, signal, chunk, record)

    def judge_at_once(self, key: bytes, signal: Occurred, time_ms: int) -> bool:
        """Has an event judged that has no record, as of a log time. False: its schedule must see it in the order of its
        records, or something about it must be put aside; nothing has changed then.
        """
        waiting = self._waiting.places()
        if (waiting and key in waiting) or self._needs_order(key):
            return False
        return self._schedules.judge_at_once(key, signal, time_ms)

    def homes_to_ask(self) -> frozenset[int] | None:
        """The shards through which events can come that belong before the signals that wait; None: none waits."""
        waiting = self._waiting.places()
        return frozenset[int]().union(*map(self._homes_of, waiting)) if waiting else None

    def judge(self, homes: Set[int], until_ms: int, most: int, remark: str) -> bool:
        """Judges signals that wait and are not newer than `until_ms`, of the schedules whose events come through these
        homes, in order of their times; `most` of them. Returns whether there are more. A new definition is the last one
        that is judged: its events may come through other homes.
        """
        known = [key for key in sorted(self._waiting.places()) if self._homes_of(key) <= homes]
        for key in known:
            judged = 0
            for record in self._waiting.due(key, until_ms, most):
                judged += 1
                if isinstance(self._judge_record(key, record, remark), Put):
                    break
            if judged:
                self._waiting.remove(key, judged)
            most -= judged
            if not most:
                return self._waiting.has_due(known, until_ms)
        return False

    def refuse_first(self, homes: Set[int], until_ms: int, failure: BaseException) -> None:
        """Parks the signal that `judge` would take first: whatever comes of it cannot be committed."""
        for key in sorted(self._waiting.places()):
            due = self._waiting.due(key, until_ms, 1) if self._homes_of(key) <= homes else ()
            for record in due:
                self._schedules.refuse(self._chunk(record), record, failure)
                self._waiting.remove(key, 1)
                return

    def _needs_order(self, key: bytes) -> bool:
        """Whether a schedule must see its signals in order. One that is halted parks them as they come."""
        state = self._schedules.state(key)
        if state is None or not state.definition.plan.needs_order:
            return False
        return state.definition.keeps and not self._schedules.is_halted(key)

    def _homes_of(self, key: bytes) -> frozenset[int]:
        """The shards through which events come to a schedule."""
        state = self._schedules.state(key)
        return frozenset() if state is None else frozenset(home(each, self._shards) for each in state.plan.by_key)

    def _judge_first(self, key: bytes) -> None:
        oldest_ms = self._waiting.places()[key][0].time.logged_ms
        for record in self._waiting.due(key, oldest_ms, 1):
            self._judge_record(key, record, _TOO_MANY)
            self._waiting.remove(key, 1)

    def _judge_record(self, key: bytes, record: Record, remark: str) -> Signal | None:
        """Judges a signal that has waited, and returns it; None: it is of another release, and a dead letter now."""
        chunk = self._chunk(record)
        signal = self._schedules.decode(key, chunk, record)
        if signal is not None:
            self._schedules.judge(key, signal, chunk, record, remark)
        return signal

    def _chunk(self, record: Record) -> Chunk:
        """A chunk of one signal that has waited."""
        return Chunk(SIGNALS, self._shard, [record], record.offset + 1)
