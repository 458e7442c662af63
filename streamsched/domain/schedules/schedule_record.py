"""A schedule as it is stored: a definition with its generation, and whether it is enabled or paused. Times are UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from streamsched.domain.schedules.pause import Activity, Pause, PauseMode, activity
from streamsched.domain.schedules.schedule import Schedule


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A stored schedule.

    Attributes:
        generation: version of definition and state, from 1; never reused, not even after a deletion.
        created_at: when it was created, or created again after a deletion.
        deleted_at: set in a tombstone, which keeps the generation; None while the schedule exists.
        kept_from: the oldest generation whose accumulation and jobs continue in this one; None: only its own.
        pause: None when it is enabled or disabled.
        resumed_at: when waiting jobs were last allowed to run again after a pause that held them; the timeouts of the
            jobs it held count from then. None: no pause has held any.
    """

    definition: Schedule
    generation: int
    enabled: bool
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None
    kept_from: int | None = None
    pause: Pause | None = None
    resumed_at: datetime | None = None

    @property
    def exists(self) -> bool:
        """Whether it is no tombstone."""
        return self.deleted_at is None

    @property
    def disabled(self) -> bool:
        """Whether it is neither enabled nor paused."""
        return not self.enabled and self.pause is None

    @property
    def status(self) -> str:
        """`enabled`, `paused` or `disabled`."""
        return "enabled" if self.enabled else "disabled" if self.pause is None else "paused"

    @property
    def state_text(self) -> str:
        """The status; of a schedule that drains, drops or collects a backlog with what it does."""
        if self.pause is None or self.pause.mode is PauseMode.KEEP:
            return self.status
        return f"paused ({self.pause.mode.text})"

    @property
    def activity(self) -> Activity:
        """What it does while it exists."""
        return activity(self.pause, enabled=self.enabled)

    @property
    def keeping(self) -> bool:
        """Whether it is paused and keeps its accumulation and jobs."""
        return self.pause is not None and self.pause.keep

    @property
    def listens(self) -> bool:
        """Whether events and ticks count."""
        return self.exists and self.activity.counts

    @property
    def keeps(self) -> bool:
        """Whether it has an accumulation and valid jobs."""
        return self.exists and self.activity.keeps

    @property
    def draining(self) -> bool:
        """Whether its waiting jobs may run although it is paused."""
        return self.pause is not None and self.pause.mode is PauseMode.DRAIN

    @property
    def backlog(self) -> bool:
        """Whether it makes jobs although it is paused."""
        return self.pause is not None and self.pause.mode is PauseMode.BACKLOG

    @property
    def oldest_valid_generation(self) -> int:
        """The oldest generation whose jobs may still run; the column of that name is computed alike."""
        if self.kept_from is not None:
            return self.kept_from
        return self.generation if self.activity.fires else self.generation + 1
