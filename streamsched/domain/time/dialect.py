"""Dialects of cron expressions, and the rules for times at DST changes."""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    """The dialect of a cron expression.

    `UNIX`: crontab(5), five fields, or six with seconds first. `QUARTZ`: Quartz as in CDAP, Sunday is 1, with `?`, `L`,
    `W` and `#`. `DAPR`: six fields as in Dapr's jobs API, `@every 90s`, a `TZ=` prefix.
    """

    UNIX = "unix"
    QUARTZ = "quartz"
    DAPR = "dapr"


class InGap(StrEnum):
    """The rule for a time of day in a DST gap: tick once at the first instant after it, or skip."""

    AFTER = "after"
    SKIP = "skip"


class InOverlap(StrEnum):
    """The rule for a time of day that occurs twice: which of the two ticks."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"
