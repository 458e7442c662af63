"""Pace: the launch rate limit, shared by all launchers, as a token bucket.

    >>> full = BucketLevel(50.0, datetime.fromisoformat("2013-01-01T00:00:00Z"))
    >>> pace = Pace(per_second=10, burst=50)
    >>> spent = pace.take_tokens(full, 50, full.at)
    >>> pace.available_tokens(full, full.at), pace.available_tokens(spent, full.at + timedelta(seconds=1))
    (50, 10)

In any interval of length t at most `burst + per_second * t` tokens are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import add_duration, longer

_MICROSECOND: Final = timedelta(microseconds=1)
#: Tolerance for floating-point error.
_NOTHING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class BucketLevel:
    """The tokens left at a time (UTC); negative after a debt."""

    left: float
    at: datetime


@dataclass(frozen=True, slots=True)
class Pace:
    """`per_second` tokens on average, up to `burst` at once."""

    per_second: float
    burst: int

    def __post_init__(self) -> None:
        if self.per_second <= 0:
            raise InvalidDefinitionError("$.per_second", f"must be positive but is {self.per_second}")
        if self.burst < 1:
            raise InvalidDefinitionError("$.burst", f"must be at least 1 but is {self.burst}")

    def available_tokens(self, bucket: BucketLevel, now: datetime) -> int:
        """Whole tokens available at `now`."""
        return int(self._refill(bucket, now) + _NOTHING)

    def take_tokens(self, bucket: BucketLevel, amount: int, now: datetime) -> BucketLevel:
        """The level after `amount` tokens were taken. A clock that steps back adds no tokens."""
        return BucketLevel(self._refill(bucket, now) - amount, max(now, bucket.at))

    def next_token_at(self, bucket: BucketLevel, now: datetime) -> datetime:
        """When the next token is available (UTC), `now` or later."""
        lacks = 1 - self._refill(bucket, now)
        if lacks <= _NOTHING:
            return now
        return add_duration(max(now, bucket.at), longer(_MICROSECOND, ceil(round(lacks / self.per_second * 1e6, 3))))

    def _refill(self, bucket: BucketLevel, now: datetime) -> float:
        passed = max(0.0, (now - bucket.at).total_seconds())
        return min(float(self.burst), bucket.left + passed * self.per_second)
