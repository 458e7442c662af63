"""Rates: at most so many runs in a period, counted by program, schedule, key or a group of schedules. Token buckets.

    >>> hourly = Rate(6, timedelta(hours=1), burst=2)
    >>> print(hourly, "-", program_bucket_key(ProgramRef("default", "app", "load")))
    6 runs each 1h of the program, 2 at once - program default.app.load

A bucket holds at most `burst` tokens and refills by `limit` each `per`; each run takes one. So in any interval of
length t at most `burst + limit * t / per` runs start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final, assert_never

from streamsched.domain.constraints.group import check_group_name
from streamsched.domain.constraints.pace import BucketLevel, Pace
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.jobs.job import ScheduleKey
from streamsched.domain.limits import check_count, check_duration
from streamsched.domain.names import ProgramRef
from streamsched.domain.time.duration import duration_text

#: The largest limit and the largest burst.
MOST: Final = 1_000_000
#: Size of the cache of token buckets; all jobs of a schedule use the same ones.
_CACHED_BUCKETS: Final = 4096


class RateScope(StrEnum):
    """Whose runs a rate counts."""

    PROGRAM = "program"  # all runs of the program, manual ones included
    SCHEDULE = "schedule"
    KEY = "key"  # runs of one correlation key of a schedule
    GROUP = "group"  # runs of all schedules that name the group in a rate


@dataclass(frozen=True, slots=True)
class Rate:
    """The bucket has a token left; it refills by `limit` each `per`.

    Attributes:
        burst: capacity of the bucket; None: `limit`.
        of: whose runs count.
        group: the group's name, for a rate of a group only.
    """

    limit: int
    per: timedelta
    wait: bool = True
    burst: int | None = None
    of: RateScope = RateScope.PROGRAM
    group: str | None = None

    def __post_init__(self) -> None:
        check_count(self.limit, "$.limit", most=MOST)
        check_duration(self.per, "$.per")
        if self.burst is not None:
            check_count(self.burst, "$.burst", most=MOST)
        if (self.of is RateScope.GROUP) != (self.group is not None):
            raise InvalidDefinitionError("$.group", f"is for rates of a group, and this is one of a {self.of}")
        if self.group is not None:
            check_group_name(self.group, "$.group")

    def __str__(self) -> str:
        whose = f"group {self.group}" if self.group is not None else f"the {self.of}"
        at_once = "" if self.burst is None else f", {self.burst} at once"
        return f"{self.limit} runs each {duration_text(self.per)} of {whose}{at_once}"


@dataclass(frozen=True, slots=True, order=True)
class TokenBucket:
    """A bucket: a key (whose runs count) and the terms of a rate. Equal rates of one key share a bucket."""

    key: str
    limit: int
    per: timedelta
    burst: int

    pace: Pace = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pace", Pace(self.limit / self.per.total_seconds(), self.burst))

    def full_level(self, now: datetime) -> BucketLevel:
        """The level before the first run."""
        return BucketLevel(float(self.burst), now)

    def take_tokens(self, level: BucketLevel, runs: int, now: datetime) -> BucketLevel:
        """The level after that many runs. Runs beyond the rate (forced, manual) leave a debt of at most `burst`."""
        left = self.pace.take_tokens(level, runs, now)
        return left if left.left >= -self.burst else BucketLevel(float(-self.burst), left.at)


@lru_cache(_CACHED_BUCKETS)
def bucket_of(rate: Rate, program: ProgramRef, schedule_key: ScheduleKey) -> TokenBucket:
    """The bucket from which a job of this schedule key takes a token under this rate."""
    match rate.of:
        case RateScope.PROGRAM:
            key = program_bucket_key(program)
        case RateScope.SCHEDULE:
            key = f"schedule {schedule_key.schedule}"
        case RateScope.KEY:
            key = f"key {schedule_key.schedule} {schedule_key.key}"
        case RateScope.GROUP:
            key = f"group {rate.group}"
        case _:
            assert_never(rate.of)
    return TokenBucket(key, rate.limit, rate.per, rate.limit if rate.burst is None else rate.burst)


def program_bucket_key(program: ProgramRef) -> str:
    """The bucket key in which every run of the program counts."""
    return f"program {program}"


def with_tokens_taken(
    buckets: Mapping[TokenBucket, BucketLevel], tokens: Mapping[str, int], now: datetime
) -> Mapping[TokenBucket, BucketLevel]:
    """The levels after that many tokens by bucket key were taken from every bucket of the key, whatever its rate."""
    return {
        bucket: bucket.take_tokens(level, tokens[bucket.key], now) if bucket.key in tokens else level
        for bucket, level in buckets.items()
    }
