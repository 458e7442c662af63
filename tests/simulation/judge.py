"""What must be so at the end of a simulation, and what must never be so in between. The judges of fault trials say it;
only what a simulation alone knows is said here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from streamsched_brokers.memory import MemoryLog

from streamsched.codec.records import signal as signal_codec
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.signal import Occurred
from streamsched.log.topics import JUDGED, LAUNCH, SIGNALS
from streamsched.ports.broker import Outgoing
from tests.faults.judges.homes import (
    control_of,
    judge_arrivals,
    judge_control,
    judge_forwards,
    judge_promises,
    ticks_of,
)
from tests.faults.judges.jobs import judge_jobs, judge_rows
from tests.faults.judges.log import TOPICS, LogContent, without_affinity
from tests.simulation.database import Database
from tests.simulation.traffic import Reports
from tests.support.judged_order import judge_order, read_signal
from tests.support.judgement import Judgement

#: The time between two ticks of a schedule here.
_TICK: Final = timedelta(seconds=1)


class Watch:
    """Looks at every append before it is made: no job twice, no event twice to the same schedule."""

    def __init__(self, judgement: Judgement) -> None:
        self._judgement = judgement
        self._jobs: set[bytes] = set()
        self._forwarded: set[tuple[bytes, bytes]] = set()
        self._over = False
        self.jobs = 0

    def end(self) -> None:
        """What comes from here on is the unwinding of what was killed, and counts no more."""
        self._over = True

    def see(self, records: Sequence[Outgoing]) -> None:
        if self._over:
            return
        for record in records:
            if record.topic == LAUNCH and record.key is not None:
                if record.key in self._jobs:
                    self._judgement.double(f"job {record.key.decode()} on its way again")
                self._jobs.add(record.key)
                self.jobs += 1
            if (
                record.topic in (SIGNALS, JUDGED)
                and record.key
                and record.value
                and record.key.startswith(b"schedule:")
            ):
                _, signal = read_signal(record.topic, record.key, record.value)
                if not isinstance(signal, Occurred) or signal.statistics:
                    continue
                place = (record.key, signal.event.id.encode())
                if place in self._forwarded:
                    self._judgement.double(f"event {signal.event.id} to {record.key.decode()} again")
                self._forwarded.add(place)


def judge(log: MemoryLog, database: Database, reported: Reports, into: Judgement) -> None:
    """Everything, once nothing moves any more."""
    content = LogContent(len(log.topics[SIGNALS]))
    for topic in TOPICS:
        for number, part in enumerate(log.topics[topic]):
            for record in part.records:
                content.take(topic, number, record)
    control = (
        control_of(without_affinity(key.decode()), signal_codec.decode(key, value)) for key, value in reported.control
    )
    judge_arrivals(content.homes, reported.sent, into)
    judge_control(content.homes, [each for each in control if each is not None], into)
    judge_forwards(content.homes, into)
    for ref in database.schedules:
        judge_promises(ref, content.homes, reported.returned, reported.after, into)
    _judge_ticks(content, reported, into)
    orders = content.orders()
    for key, order in orders.items():
        judge_order(key, order, reported.times, into)
    judge_jobs({key: order.judged for key, order in orders.items()}, content.jobs, None, into)
    judge_rows(database.jobs, content.launched, into)
    _judge_obsolete(database, into)
    for letter in content.letters:
        into.spoil(f"a dead letter: {letter}")


def _judge_ticks(content: LogContent, reported: Reports, into: Judgement) -> None:
    """Ticks come a second apart, from the first to the last that is due, each once, in order (promise G6)."""
    came: defaultdict[tuple[ScheduleRef, int], list[datetime]] = defaultdict(list)
    for log in content.homes.values():
        for tick in ticks_of(log):
            came[tick.schedule, tick.generation].append(tick.due_at)
    for which, first in reported.first_ticks.items():
        until = reported.next_ticks.get(which)
        ticks = came[which]
        last = until - _TICK if until is not None else (ticks[-1] if ticks else first - _TICK)
        wanted = [first + number * _TICK for number in range((last - first) // _TICK + 1)]
        into.compare(f"ticks of {which}", [str(each) for each in wanted], [str(each) for each in ticks])


def _judge_obsolete(database: Database, into: Judgement) -> None:
    """A job of the schedule as it stands is not obsolete."""
    for job, row in sorted(database.jobs.items()):
        record = database.schedules[ScheduleRef.parse(row.satisfaction.schedule)]
        if row.obsolete and record.exists and record.oldest_valid_generation <= row.satisfaction.generation:
            into.miss(f"job {job} was stored as obsolete, but its generation stands")
