"""The next ticks of many schedules, in order of time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from streamsched.catalog.change import time_leaves
from streamsched.domain.schedules.schedule import ScheduleRecord
from streamsched.domain.ticks.forecast import forecast

#: How many ticks of each leaf are computed first.
_FIRST: Final = 4


@dataclass(frozen=True, slots=True)
class UpcomingTick:
    """A tick of one leaf of a schedule's trigger.

    Attributes:
        leaf: its id.
        when: the leaf in words.
        at: the nominal time (UTC).
        fires_at: when it is sent: `at` plus the leaf's jitter.
    """

    schedule: ScheduleRecord
    leaf: str
    when: str
    at: datetime
    fires_at: datetime


def soonest_ticks(
    schedules: Sequence[ScheduleRecord], after: datetime, *, limit: int, until: datetime | None = None
) -> list[UpcomingTick]:
    """The next `limit` ticks of these schedules after an instant and not after `until`, ordered by when they fire.

    The number of ticks computed for a leaf starts small and doubles until no further tick of it can be in the result.
    """
    leaves = [(each, name, leaf) for each in schedules for name, leaf in time_leaves(each.definition.trigger).items()]
    counts = [min(_FIRST, limit)] * len(leaves)
    computed: list[list[UpcomingTick]] = [[] for _ in leaves]
    todo = list(range(len(leaves)))
    while True:
        for index in todo:
            schedule, name, leaf = leaves[index]
            ticks = forecast(
                leaf, after, counts[index], created_at=schedule.created_at, schedule=schedule.definition.ref
            ).ticks
            computed[index] = [UpcomingTick(schedule, name, str(leaf), tick.due_at, tick.fires_at) for tick in ticks]
        by_time = sorted((tick for ticks in computed for tick in ticks), key=_order)
        found = [tick for tick in by_time if until is None or tick.fires_at <= until][:limit]
        last = _order(found[-1]) if len(found) == limit else None
        todo = [
            index
            for index, ticks in enumerate(computed)
            if len(ticks) == counts[index] < limit
            and (last is None or _order(ticks[-1]) < last)
            and (until is None or ticks[-1].fires_at <= until)
        ]
        if not todo:
            return found
        for index in todo:
            counts[index] = min(2 * counts[index], limit)


def _order(tick: UpcomingTick) -> tuple[datetime, str, str]:
    return tick.fires_at, str(tick.schedule.definition.ref), tick.leaf
