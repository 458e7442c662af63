"""What a pause, a disablement or a deletion changed, with what was lost."""

from __future__ import annotations

from dataclasses import dataclass

from streamsched.catalog.preview import Dropped, Preview
from streamsched.domain.names import ScheduleRef
from streamsched.ports.catalog import Applied, ScheduleRecord, ScheduleStatus


@dataclass(frozen=True, slots=True)
class Suspension:
    """Schedules that were paused, disabled or deleted.

    Attributes:
        applied: what was changed.
        plan: what could be lost, as read just before the change.
    """

    applied: Applied
    plan: Preview

    def dropped(self, ref: ScheduleRef) -> Dropped:
        """What the schedule lost, according to `plan`."""
        return next((each.dropped for each in self.plan.schedules if each.schedule == ref), Dropped())


@dataclass(frozen=True, slots=True)
class Suspended:
    """A schedule that was paused or disabled."""

    status: ScheduleStatus
    suspension: Suspension

    @property
    def record(self) -> ScheduleRecord:
        return self.status.record
