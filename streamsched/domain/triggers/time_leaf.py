"""Time leaves: cron, interval and instant. `domain.ticks.fire_times` computes their fire times.

`SinceLastRun` ticks too, but when depends on the runs of its schedule (`domain.ticks.since_last_run`), so it is not a
`TimeLeaf`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import check_duration, check_instant
from streamsched.domain.time.calendar import Calendar, OnClosed
from streamsched.domain.time.cron_dapr import split_zone
from streamsched.domain.time.dialect import Dialect, InGap, InOverlap
from streamsched.domain.time.duration import duration_text
from streamsched.domain.time.zone import check_zone
from streamsched.domain.triggers.composite import Composable


@dataclass(frozen=True, slots=True)
class Cron(Composable):
    """A tick at every instant the expression matches in an IANA zone.

    Attributes:
        in_gap: the rule for a time in a DST gap; None: the dialect's default (`domain.ticks.fire_times`).
        in_overlap: the rule for a time in a DST overlap; None: the dialect's default.
        calendar: closes days of the zone.
        on_closed: the rule for ticks on closed days.
        jitter: a tick fires up to this long after its time (`domain.ticks.jitter`).
    """

    expression: str
    zone: str = "UTC"
    dialect: Dialect = Dialect.UNIX
    in_gap: InGap | None = None
    in_overlap: InOverlap | None = None
    calendar: Calendar | None = None
    on_closed: OnClosed = OnClosed.SKIP
    jitter: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        _check_jitter(self.jitter)
        if self.calendar is None and self.on_closed is not OnClosed.SKIP:
            raise InvalidDefinitionError("$.on_closed", "is set, but there is no calendar")

    def __str__(self) -> str:
        dialect = "" if self.dialect is Dialect.UNIX else f"{self.dialect} "
        return f"{dialect}cron '{self.expression}' in {self.zone}{_calendar_text(self.calendar)}"


@dataclass(frozen=True, slots=True)
class Every(Composable):
    """A tick each `interval` of real time, counted from `start` (UTC), or from the schedule's creation when None.

    Attributes:
        calendar: no ticks on the days it closes, in `zone`.
        jitter: a tick fires up to this long after its time (`domain.ticks.jitter`).
    """

    interval: timedelta
    start: datetime | None = None
    calendar: Calendar | None = None
    zone: str = "UTC"
    jitter: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        check_duration(self.interval, "$.interval")
        if self.interval < timedelta(seconds=1):
            raise InvalidDefinitionError("$.interval", f"must be at least one second but is {self.interval}")
        if self.start is not None:
            check_instant(self.start, "$.start")
        _check_jitter(self.jitter)
        if self.zone != "UTC":
            if self.calendar is None:
                raise InvalidDefinitionError("$.zone", "is set, but an interval has none without a calendar")
            check_zone(self.zone, "$.zone")

    def __str__(self) -> str:
        return f"every {duration_text(self.interval)}{_calendar_text(self.calendar)}"


@dataclass(frozen=True, slots=True)
class At(Composable):
    """One tick at an instant (UTC)."""

    instant: datetime

    def __post_init__(self) -> None:
        check_instant(self.instant, "$.instant")

    def __str__(self) -> str:
        return f"at {self.instant.isoformat()}"


TimeLeaf = Cron | Every | At


@dataclass(frozen=True, slots=True)
class SinceLastRun(Composable):
    """`duration` has passed since the last run of the schedule ended, however it ended, and none waits or is active.

    A job that ended without a run counts as a run. Before the first end, and after the schedule was enabled or changed
    without keeping, it is counted from then. It holds until the trigger fires, and once for each satisfaction: any
    satisfaction starts it over.
    """

    duration: timedelta

    def __post_init__(self) -> None:
        check_duration(self.duration, "$.duration")
        if self.duration < timedelta(seconds=1):
            raise InvalidDefinitionError("$.duration", f"must be at least one second but is {self.duration}")

    def __str__(self) -> str:
        return f"{duration_text(self.duration)} since the last run"


def jitter_of(leaf: TimeLeaf) -> timedelta:
    """How much later than its time a tick may fire."""
    return timedelta(0) if isinstance(leaf, At) else leaf.jitter


def zone_name(leaf: TimeLeaf | SinceLastRun) -> str:
    """The zone in which a leaf ticks; UTC for one that goes by no wall clock."""
    match leaf:
        case Cron():
            named = split_zone(leaf.expression)[0] if leaf.dialect is Dialect.DAPR else None
            return named or leaf.zone
        case Every():
            return leaf.zone
        case At() | SinceLastRun():
            return "UTC"
        case _:
            assert_never(leaf)


def tick_id(leaf: TimeLeaf) -> str:
    """A time leaf's identity, as `leaf_id`. Defaults are left out, so ids of older definitions stay the same."""
    match leaf:
        case Cron():
            chosen = {
                "dialect": None if leaf.dialect is Dialect.UNIX else leaf.dialect,
                "gap": leaf.in_gap,
                "overlap": leaf.in_overlap,
                "calendar": leaf.calendar and leaf.calendar.id,
                "closed": None if leaf.on_closed is OnClosed.SKIP else leaf.on_closed,
                "jitter": duration_text(leaf.jitter) if leaf.jitter else None,
            }
            return f"cron:{leaf.expression}@{leaf.zone}{_format_choices(chosen)}"
        case Every(interval=interval, start=start):
            chosen = {
                "calendar": leaf.calendar and f"{leaf.calendar.id}@{leaf.zone}",
                "jitter": duration_text(leaf.jitter) if leaf.jitter else None,
            }
            begun = f"@{start.isoformat()}" if start else ""
            return f"every:{interval.total_seconds():.15g}s{begun}{_format_choices(chosen)}"
        case At(instant=instant):
            return f"at:{instant.isoformat()}"
        case _:
            assert_never(leaf)


def _check_jitter(jitter: timedelta) -> None:
    check_duration(jitter, "$.jitter", zero=True)


def _calendar_text(calendar: Calendar | None) -> str:
    return f" but for {calendar}" if calendar else ""


def _format_choices(choices: dict[str, str | None]) -> str:
    return "".join(f";{name}={value}" for name, value in choices.items() if value is not None)
