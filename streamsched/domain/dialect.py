"""How a cron expression is written, and the choice of what its times mean where a clock is put forward or back."""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    """Who reads the expression.

    `UNIX`: crontab(5), five fields, or six that start with seconds. `QUARTZ`: Quartz as CDAP has it, Sunday is 1, with
    `?`, `L`, `W` and `#`. `DAPR`: six fields as Dapr's jobs API reads them, `@every 90s`, a `TZ=` in front.
    """

    UNIX = "unix"
    QUARTZ = "quartz"
    DAPR = "dapr"


class InGap(StrEnum):
    """A time of day that a clock put forward never shows: it ticks at the first instant after, once, or is skipped."""

    AFTER = "after"
    SKIP = "skip"


class InOverlap(StrEnum):
    """A time of day that a clock put back shows twice: which of the two ticks."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"
