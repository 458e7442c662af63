"""Collects the verdicts of one agent in a turn, grouped by equal reasons; emits a few records to topic `verdicts`.

It runs for every event: the most frequent verdict costs one lookup and two appends. A shard with verdicts turned off
has no collector.
"""

from __future__ import annotations

from collections.abc import Hashable
from datetime import UTC, datetime, timedelta
from typing import Final

from streamsched.codec import event as event_codec
from streamsched.codec.records import findings
from streamsched.codec.records.findings import FindingGroup
from streamsched.domain.errors import InvalidError
from streamsched.domain.events.event import Ticked
from streamsched.domain.events.lateness import Late, OnLate
from streamsched.domain.fold.fold import TriggerState
from streamsched.domain.signals.finding import AtSchedule, Duplicate, FindingReason, NoListener, Undecodable
from streamsched.domain.signals.home import schedule_of
from streamsched.domain.signals.signal import Occurred
from streamsched.domain.signals.verdict import JudgedEvent, Verdict
from streamsched.log.topics import VERDICTS
from streamsched.ports.broker import Chunk, Record
from streamsched.stream.agents.emission import Emit

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class VerdictCollector:
    """The findings of one agent since the last `close`."""

    def __init__(self, *, shard: int, emit: Emit) -> None:
        self._shard = shard
        self._emit = emit
        self._groups: dict[Hashable, FindingGroup] = {}

    def verdict(self, home: bytes, state: TriggerState | None, judged: JudgedEvent, signal: Occurred) -> None:
        """Records the verdict of the schedule with record key `home` on an event. `state`: before the event, None when
        unknown. Ticks are not recorded.
        """
        event = signal.event
        if type(event.fact) is Ticked:
            return
        generation, sequence, late = 0, 0, None
        if state is not None:
            generation, sequence, late = state.definition.generation, state.sequence, state.definition.late
        was_late = None if late is None else _applied_policy(late, judged, signal.delay)
        # The leaves nearly always determine the verdict, and hash faster than `JudgedEvent`, whose hash runs in Python.
        same = home, generation, sequence, judged.leaves or judged, judged.cells, judged.why, was_late
        group = self._groups.get(same)
        if group is None:
            ref = schedule_of(home)[0] if state is None else state.schedule
            group = self._open(same, AtSchedule(ref, generation, sequence + 1, judged, was_late))
        group.events.append(event.id)
        group.events.append(event.source)
        if was_late is not None:
            group.since.append((event.time - _EPOCH) // _MILLISECOND)

    def duplicate(self, key: bytes, event_id: str, source: str, *, first_ms: int) -> None:
        """Records a repeated event, first seen at `first_ms` (log time)."""
        same = Duplicate, key
        group = self._groups.get(same) or self._open(same, Duplicate(key.decode()))
        group.events.extend((event_id, source))
        group.since.append(first_ms)

    def no_listener(self, key: bytes, event_id: str, source: str) -> None:
        """Records an event without listeners."""
        same = NoListener, key
        group = self._groups.get(same) or self._open(same, NoListener(key.decode()))
        group.events.extend((event_id, source))

    def undecodable(self, chunk: Chunk, record: Record, error: InvalidError) -> None:
        """Records a record that became a dead letter."""
        position = f"{chunk.topic}/{chunk.partition}/{record.offset}"
        claimed = event_codec.find_identity(record.value or b"") or (event_codec.LOG_ID + position, "")
        group = self._open(position, Undecodable(position, error.path or "$", error.reason or "no reason"))
        group.events.extend(claimed)

    def close(self) -> None:
        """Emits the collected findings and clears them."""
        if self._groups:
            groups, self._groups = self._groups, {}
            for value in findings.encode(groups.values()):
                self._emit(VERDICTS, self._shard, None, value)

    def _open(self, same: Hashable, reason: FindingReason) -> FindingGroup:
        group = self._groups[same] = FindingGroup(reason, [], [])
        return group


def _applied_policy(policy: Late, judged: JudgedEvent, delay: timedelta) -> OnLate | None:
    """What the policy did with an event; None when the event was in time, or would not have counted in any case."""
    if judged.verdict is Verdict.LATE or (judged.is_kept and policy.judges(delay)):
        return policy.then
    return None
