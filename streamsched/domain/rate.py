"""Rates: so many runs each so long, counted by program, schedule, key or a group of schedules. Token buckets.

    >>> hourly = Rate(6, timedelta(hours=1), burst=2)
    >>> print(hourly, "-", program_scope(ProgramRef("default", "app", "load")))
    6 runs each 1h of the program, 2 at once - program default.app.load

A bucket holds `burst` tokens at most and fills with `limit` of them each `per`; each run takes one. So in any stretch
of time of length t no more than `burst + limit * t / per` runs are let through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final, assert_never

from streamsched.domain.duration import duration_text
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.group import check_group_name
from streamsched.domain.job import Lane
from streamsched.domain.names import ProgramRef
from streamsched.domain.pace import Bucket, Pace

#: The largest limit and the largest burst.
MOST: Final = 1_000_000
#: Meters that are known by heart: every job of a schedule asks for the same.
_BY_HEART: Final = 4096


class Metered(StrEnum):
    """Whose runs a rate counts."""

    PROGRAM = "program"  # whoever started them, by hand too
    SCHEDULE = "schedule"
    KEY = "key"  # those of one key of a schedule that correlates
    GROUP = "group"  # those of all schedules that name the group in a rate


@dataclass(frozen=True, slots=True)
class Rate:
    """A token is left of `limit` each `per`.

    Attributes:
        burst: how many runs at once after a quiet time; None: `limit`.
        of: whose runs count.
        group: the name of the group, when those of a group do.
    """

    limit: int
    per: timedelta
    wait: bool = True
    burst: int | None = None
    of: Metered = Metered.PROGRAM
    group: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MOST:
            raise InvalidDefinitionError("$.limit", f"must be 1 to {MOST} but is {self.limit}")
        if self.per <= timedelta(0):
            raise InvalidDefinitionError("$.per", f"must be positive but is {self.per}")
        if self.burst is not None and not 1 <= self.burst <= MOST:
            raise InvalidDefinitionError("$.burst", f"must be 1 to {MOST} but is {self.burst}")
        if (self.of is Metered.GROUP) != (self.group is not None):
            raise InvalidDefinitionError("$.group", f"is for rates of a group, and this is one of a {self.of}")
        if self.group is not None:
            check_group_name(self.group, "$.group")

    def __str__(self) -> str:
        whose = f"group {self.group}" if self.group is not None else f"the {self.of}"
        at_once = "" if self.burst is None else f", {self.burst} at once"
        return f"{self.limit} runs each {duration_text(self.per)} of {whose}{at_once}"


@dataclass(frozen=True, slots=True, order=True)
class Meter:
    """What has a bucket: a scope, under one rate. Rates that say the same of one scope share it."""

    scope: str
    limit: int
    per: timedelta
    burst: int

    pace: Pace = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pace", Pace(self.limit / self.per.total_seconds(), self.burst))

    def full(self, now: datetime) -> Bucket:
        """The bucket before its first run."""
        return Bucket(float(self.burst), now)

    def taken(self, bucket: Bucket, runs: int, now: datetime) -> Bucket:
        """The bucket after so many runs. Those let through all the same leave a debt, never more than a bucket."""
        left = self.pace.taken(bucket, runs, now)
        return left if left.left >= -self.burst else Bucket(float(-self.burst), left.at)


@lru_cache(_BY_HEART)
def meter_of(rate: Rate, program: ProgramRef, lane: Lane) -> Meter:
    """Where a rate counts a job of this lane."""
    match rate.of:
        case Metered.PROGRAM:
            scope = program_scope(program)
        case Metered.SCHEDULE:
            scope = f"schedule {lane.schedule}"
        case Metered.KEY:
            scope = f"key {lane.schedule} {lane.key}"
        case Metered.GROUP:
            scope = f"group {rate.group}"
        case _:
            assert_never(rate.of)
    return Meter(scope, rate.limit, rate.per, rate.limit if rate.burst is None else rate.burst)


def program_scope(program: ProgramRef) -> str:
    """What every run of the program counts in."""
    return f"program {program}"


def drawn(meters: Mapping[Meter, Bucket], scopes: Iterable[str], now: datetime) -> Mapping[Meter, Bucket]:
    """The buckets after one run that counts in these scopes: each of them gives a token, whatever its rate."""
    counted = frozenset(scopes)
    return {
        meter: meter.taken(bucket, 1, now) if meter.scope in counted else bucket for meter, bucket in meters.items()
    }
