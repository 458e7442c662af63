"""What a station found in a turn, collected by equal grounds and emitted with it as a few records of topic `verdicts`.

It stands on the way of every event, so the usual finding costs a lookup and two appends. A shard that keeps no verdicts
has no ledger.
"""

from __future__ import annotations

from collections.abc import Hashable
from datetime import UTC, datetime, timedelta
from typing import Final

from streamsched.codec import event as event_codec
from streamsched.codec import findings
from streamsched.codec.findings import Group
from streamsched.domain.errors import InvalidError
from streamsched.domain.event import Ticked
from streamsched.domain.finding import AtSchedule, Ground, Repeated, Unheard, Unread
from streamsched.domain.fold import TriggerState
from streamsched.domain.lateness import Late, OnLate
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signal import Occurred
from streamsched.domain.verdict import Judged, Verdict
from streamsched.ports.broker import Chunk, Record
from streamsched.ports.topics import VERDICTS
from streamsched.stream.emission import Emit

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class Ledger:
    """The findings of one station since it last closed."""

    def __init__(self, *, shard: int, emit: Emit) -> None:
        self._shard = shard
        self._emit = emit
        self._groups: dict[Hashable, Group] = {}

    def judged(self, home: bytes, state: TriggerState | None, judged: Judged, signal: Occurred) -> None:
        """What the schedule at `home` (a record key) made of an event; `state` as it was before, None when unknown. Of
        ticks nothing is kept.
        """
        event = signal.event
        if type(event.fact) is Ticked:
            return
        generation, sequence, late = 0, 0, None
        if state is not None:
            generation, sequence, late = state.definition.generation, state.sequence, state.definition.late
        was_late = None if late is None else _applied(late, judged, signal.delay)
        # The leaves say what a verdict is, nearly always, and are quicker to look up than `Judged`, a Python hash.
        same = home, generation, sequence, judged.leaves or judged, judged.cells, was_late
        group = self._groups.get(same)
        if group is None:
            ref = ScheduleRef.parse(home.partition(b":")[2].decode()) if state is None else state.schedule
            group = self._open(same, AtSchedule(ref, generation, sequence + 1, judged, was_late))
        group.events.append(event.id)
        group.events.append(event.source)
        if was_late is not None:
            group.since.append((event.time - _EPOCH) // _MILLISECOND)

    def repeated(self, key: bytes, event_id: str, source: str, *, first_ms: int) -> None:
        """An event that was seen before, first at `first_ms` by the log."""
        same = Repeated, key
        group = self._groups.get(same) or self._open(same, Repeated(key.decode()))
        group.events.extend((event_id, source))
        group.since.append(first_ms)

    def unheard(self, key: bytes, event_id: str, source: str) -> None:
        """An event nobody listens to."""
        same = Unheard, key
        group = self._groups.get(same) or self._open(same, Unheard(key.decode()))
        group.events.extend((event_id, source))

    def unread(self, chunk: Chunk, record: Record, error: InvalidError) -> None:
        """A record that became a dead letter."""
        place = f"{chunk.topic}/{chunk.partition}/{record.offset}"
        said = event_codec.claimed(record.value or b"") or (event_codec.LOG_ID + place, "")
        group = self._open(place, Unread(place, error.path or "$", error.reason or "no reason"))
        group.events.extend(said)

    def close(self) -> None:
        """Emits what was collected and starts anew."""
        if self._groups:
            groups, self._groups = self._groups, {}
            for value in findings.encode(groups.values()):
                self._emit(VERDICTS, self._shard, None, value)

    def _open(self, same: Hashable, ground: Ground) -> Group:
        group = self._groups[same] = Group(ground, [], [])
        return group


def _applied(policy: Late, judged: Judged, delay: timedelta) -> OnLate | None:
    """What the policy did with an event; None when it was in time, or nothing would have counted it anyway."""
    if judged.verdict is Verdict.LATE or (judged.verdict is Verdict.COUNTED and policy.judges(delay)):
        return policy.then
    return None
