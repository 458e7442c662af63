"""Run constraints as a schedule defines them. `domain.decisions.admission` evaluates them.

An unmet constraint with `wait` holds the job; without it, it aborts the job.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.load import Load
from streamsched.domain.constraints.plugin import PlugIn
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.constraints.rate import Rate
from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.limits import MOST_SLOTS, check_count, check_duration
from streamsched.domain.time.duration import duration_text


class ConcurrencyScope(StrEnum):
    """Whose runs a concurrency constraint counts."""

    PROGRAM = "program"  # all runs of the program, manual ones included
    SCHEDULE = "schedule"
    KEY = "key"  # runs of one correlation key of a schedule


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Fewer than `limit` runs of the program, or of its schedule or key, are non-terminal. Aborts by default, as in
    CDAP.

    Attributes:
        of: whose runs count. Those of a schedule or key are a lane (`constraints.lane`): jobs start in the order of
            their satisfactions.
    """

    limit: int
    wait: bool = False
    of: ConcurrencyScope = ConcurrencyScope.PROGRAM

    def __post_init__(self) -> None:
        check_count(self.limit, "$.limit", most=MOST_SLOTS)

    def __str__(self) -> str:
        whose = "" if self.of is ConcurrencyScope.PROGRAM else f" of its {self.of}"
        return f"fewer than {self.limit} active runs{whose}"


@dataclass(frozen=True, slots=True)
class Delay:
    """At least `delay` has passed since the satisfaction. Always waits."""

    delay: timedelta

    def __post_init__(self) -> None:
        check_duration(self.delay, "$.delay")

    def __str__(self) -> str:
        return f"{duration_text(self.delay)} after the trigger"


@dataclass(frozen=True, slots=True)
class LastRun:
    """At least `interval` since a run of the program completed. An active run blocks; failed and killed ones do not."""

    interval: timedelta
    wait: bool = False

    def __post_init__(self) -> None:
        check_duration(self.interval, "$.interval")

    def __str__(self) -> str:
        return f"{duration_text(self.interval)} since the last completed run"


Constraint = Concurrency | Delay | Group | LastRun | Load | PlugIn | Pool | Rate | TimeWindow
