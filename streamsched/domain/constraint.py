"""Run constraints: what a satisfied job waits for. `check` is pure: facts and `now` in, a verdict with reasons out.

Each constraint says `wait` (hold the job) or abort (end it). All constraints of a job are evaluated together; one
`Unsatisfiable` ends the job with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Fewer than `limit` runs of the program are non-terminal, whoever started them. Default: abort, as CDAP's."""

    limit: int
    wait: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """At least `delay` has passed since the satisfaction. Always waits."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class LastRun:
    """At least `interval` since a run of the program completed; an active run blocks, failed and killed ones do not."""

    interval: timedelta
    wait: bool = False


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The wall clock of `zone` is in [start, end), across midnight when start > end."""

    start: time
    end: time
    zone: str = "UTC"
    wait: bool = True


Constraint = Concurrency | Delay | LastRun | TimeWindow


@dataclass(frozen=True, slots=True)
class Facts:
    """What the launcher knows of the world when it checks a job, read under the program's lock. Times UTC.

    Attributes:
        satisfied_at: when the job's trigger was satisfied.
        active_runs: ids of the program's non-terminal runs, oldest first.
        last_completed_at: end of the program's latest completed run.
    """

    satisfied_at: datetime
    active_runs: tuple[str, ...] = ()
    last_completed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Satisfied:
    why: str


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Cannot hold before `at` (UTC)."""

    at: datetime
    why: str


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Holds when `what` ends or is freed (run ids, group names); nobody knows when."""

    what: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    why: str


Verdict = Satisfied | WaitUntil | WaitFor | Unsatisfiable
