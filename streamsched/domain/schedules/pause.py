"""The ways of suspending a schedule. What it still does in each of them is one table: `ACTIVITIES`.

A schedule that is not enabled and has a `Pause` is paused, in one of four modes; one that is not enabled and has none
is disabled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import add_duration, check_count, check_duration, check_instant

MOST_FAILURES: Final = 1000


#: Most jobs that one generation of a schedule makes while it collects a backlog. After them it counts without making
#: jobs, as in mode `KEEP`. A backlog is stored in PostgreSQL, a row for each job.
MOST_BACKLOG: Final = 100_000


class PauseMode(StrEnum):
    """How a schedule is paused: keep everything and start nothing; drop everything; let the waiting jobs run and count
    nothing new; or make jobs that wait, each by itself, until the schedule is resumed.
    """

    KEEP = "keep"
    DROP = "drop"
    DRAIN = "drain"
    BACKLOG = "backlog"

    @classmethod
    def from_keep(cls, *, keep: bool) -> PauseMode:
        """The mode of a pause that says only whether it keeps."""
        return cls.KEEP if keep else cls.DROP

    @property
    def text(self) -> str:
        """What a schedule does in this mode, for people."""
        return _TEXTS[self]


_TEXTS: Final[Mapping[PauseMode, str]] = MappingProxyType(
    {
        PauseMode.KEEP: "keeping events",
        PauseMode.DROP: "dropping events",
        PauseMode.DRAIN: "draining: waiting jobs may run, events do not count",
        PauseMode.BACKLOG: "collecting a backlog: events make jobs, which wait",
    }
)


class Activity(NamedTuple):
    """What a schedule does in one of its states.

    Attributes:
        counts: events and ticks count.
        fires: a trigger that holds makes a job.
        admits: waiting jobs may run, as their constraints allow.
        keeps: the accumulation and the waiting jobs stay; otherwise they are dropped at the change.
    """

    counts: bool
    fires: bool
    admits: bool
    keeps: bool


#: By mode of the pause; a schedule without one is `ENABLED` or `DISABLED`.
ENABLED: Final = Activity(counts=True, fires=True, admits=True, keeps=True)
DISABLED: Final = Activity(counts=False, fires=False, admits=False, keeps=False)
ACTIVITIES: Final[Mapping[PauseMode, Activity]] = MappingProxyType(
    {
        PauseMode.KEEP: Activity(counts=True, fires=False, admits=False, keeps=True),
        PauseMode.DROP: Activity(counts=False, fires=False, admits=False, keeps=False),
        PauseMode.DRAIN: Activity(counts=False, fires=False, admits=True, keeps=True),
        PauseMode.BACKLOG: Activity(counts=True, fires=True, admits=False, keeps=True),
    }
)


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of a schedule.

    Attributes:
        mode: what the schedule still does (`ACTIVITIES`).
        until: the timers resume it then (UTC); None: it is resumed by request only.
        note: shown with the schedule while it is paused.
    """

    mode: PauseMode = PauseMode.KEEP
    until: datetime | None = None
    note: str = ""

    @property
    def keep(self) -> bool:
        """Whether the accumulation and the waiting jobs stay."""
        return ACTIVITIES[self.mode].keeps

    def check(self, now: datetime) -> None:
        """Raises:
        InvalidError: it ends before it begins, or beyond the calendar of definitions.
        """
        if self.until is not None and self.until <= now:
            raise InvalidError(
                "$.until", f"must be after now ({now:%Y-%m-%dT%H:%M:%SZ}) but is {self.until.isoformat()}"
            )
        if self.until is not None:
            check_instant(self.until, "$.until")


@dataclass(frozen=True, slots=True)
class PauseAfter:
    """A schedule that pauses itself, in mode `KEEP` or `DROP`, when its runs fail.

    Attributes:
        failures: number of consecutive jobs, in order of satisfaction, whose last run failed, counted since the
            schedule was changed or resumed. A run killed by request is ignored.
        keep: as `Pause.keep`.
        lasting: resumed after this time; None: only by request.
    """

    failures: int
    keep: bool = True
    lasting: timedelta | None = None

    def __post_init__(self) -> None:
        check_count(self.failures, "$.failures", most=MOST_FAILURES)
        if self.lasting is not None:
            check_duration(self.lasting, "$.lasting")

    def pause(self, run: str, reason: str, *, at: datetime) -> Pause:
        """The pause after the last failure: of `run`, at `at` (UTC), for `reason`."""
        until = None if self.lasting is None else add_duration(at, self.lasting)
        runs = "its run" if self.failures == 1 else f"{self.failures} runs in a row"
        mode = PauseMode.from_keep(keep=self.keep)
        return Pause(mode, until, f"paused by itself, for {runs} failed, the last {run}: {reason}")


def activity(pause: Pause | None, *, enabled: bool) -> Activity:
    """What an existing schedule does that is enabled, or has this pause, or is disabled."""
    if enabled:
        return ENABLED
    return DISABLED if pause is None else ACTIVITIES[pause.mode]
