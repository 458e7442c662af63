"""Pace: how quickly launches may follow each other, whoever makes them. A bucket that fills with time.

    >>> full = Bucket(50.0, datetime.fromisoformat("2013-01-01T00:00:00Z"))
    >>> pace = Pace(per_second=10, burst=50)
    >>> pace.available(full, full.at), pace.available(pace.taken(full, 50, full.at), full.at + timedelta(seconds=1))
    (50, 10)

In any stretch of time of length t, no more than `burst + per_second * t` are let through.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError

#: What floating-point numbers may lack.
_NOTHING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Bucket:
    """What was left at a time (UTC)."""

    left: float
    at: datetime


@dataclass(frozen=True, slots=True)
class Pace:
    """So many each second in the long run, and `burst` at once after a quiet time."""

    per_second: float
    burst: int

    def __post_init__(self) -> None:
        if self.per_second <= 0:
            raise InvalidDefinitionError("$.per_second", f"must be positive but is {self.per_second}")
        if self.burst < 1:
            raise InvalidDefinitionError("$.burst", f"must be at least 1 but is {self.burst}")

    def available(self, bucket: Bucket, now: datetime) -> int:
        """How many may go at `now`."""
        return int(self._filled(bucket, now) + _NOTHING)

    def taken(self, bucket: Bucket, amount: int, now: datetime) -> Bucket:
        """The bucket after `amount` went. A clock that went back fills nothing and is never filled for twice."""
        return Bucket(self._filled(bucket, now) - amount, max(now, bucket.at))

    def next_at(self, bucket: Bucket, now: datetime) -> datetime:
        """When one may go: at `now`, or later."""
        lacks = 1 - self._filled(bucket, now)
        if lacks <= _NOTHING:
            return now
        return max(now, bucket.at) + timedelta(microseconds=ceil(round(lacks / self.per_second * 1e6, 3)))

    def _filled(self, bucket: Bucket, now: datetime) -> float:
        passed = max(0.0, (now - bucket.at).total_seconds())
        return min(float(self.burst), bucket.left + passed * self.per_second)
