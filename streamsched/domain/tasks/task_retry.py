"""Retries of tasks: bounded with a growing, jittered wait; without a bound at a fixed period; at a constant interval.

    >>> PeriodRetry(timedelta(seconds=30)).wait("t", 1)
    datetime.timedelta(seconds=30)
    >>> BackoffRetry(retries=0).wait("t", 1) is None
    True

A wait counts from the end of the failed attempt, a constant interval from its start. The task keeps its place: later
tasks of its lane wait too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from streamsched.domain.backoff import double_pause, shorten_pause
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import check_count, check_duration

#: The most retries of a bounded policy.
MOST_RETRIES: Final = 1_000_000
#: A task that fails at once and without a bound is not tried more often than this.
SHORTEST_UNBOUNDED: Final = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class BackoffRetry:
    """At most `retries` attempts after the first.

    Attributes:
        delay: the wait after the first failure; doubles with each further one.
        longest: the largest wait.
        jitter: the part of a wait that is drawn, from 0 to 1: with 0.5 a wait of 20 s lasts from 10 s to 20 s. It is a
            hash of task and attempt, so it is the same after a restart.
    """

    retries: int = 100
    delay: timedelta = timedelta(seconds=20)
    longest: timedelta = timedelta(seconds=120)
    jitter: float = 0.5

    def __post_init__(self) -> None:
        check_count(self.retries, "$.retries", least=0, most=MOST_RETRIES)
        check_duration(self.delay, "$.delay", zero=True)
        check_duration(self.longest, "$.longest", zero=True)
        if self.longest < self.delay:
            raise InvalidDefinitionError("$.longest", f"must not be shorter than the delay, {self.delay}")
        # A user's value may be anything.
        number = isinstance(self.jitter, int | float)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not number or isinstance(self.jitter, bool) or not 0 <= self.jitter <= 1:
            raise InvalidDefinitionError("$.jitter", "must be a number from 0 to 1")

    def wait(self, token: str, failures: int) -> timedelta | None:
        """The wait after so many failed attempts (at least 1); None: there is no further attempt. `token` names the
        task.
        """
        if failures > self.retries:
            return None
        pause = double_pause(self.delay, failures - 1, longest=self.longest)
        return shorten_pause(pause, self.jitter, f"{token}:{failures}")


@dataclass(frozen=True, slots=True)
class PeriodRetry:
    """Attempts without a bound, `period` after each failure."""

    period: timedelta

    def __post_init__(self) -> None:
        check_duration(self.period, "$.period")

    def wait(self, token: str, failures: int) -> timedelta:
        """The wait after a failed attempt: always the period."""
        del token, failures
        return self.period


@dataclass(frozen=True, slots=True)
class ConstantRetry:
    """Attempts at a constant interval, from the start of one to the start of the next, and never at the same time.

    Attributes:
        retries: attempts after the first; None: no bound, and an interval of at least `SHORTEST_UNBOUNDED`.
    """

    interval: timedelta
    retries: int | None = None

    def __post_init__(self) -> None:
        check_duration(self.interval, "$.interval", zero=True)
        if self.retries is not None:
            check_count(self.retries, "$.retries", least=0)

    def wait(self, token: str, failures: int) -> timedelta | None:
        """The interval; None: there is no further attempt."""
        del token
        if self.retries is None:
            return max(self.interval, SHORTEST_UNBOUNDED)
        return self.interval if failures <= self.retries else None


TaskRetry = BackoffRetry | PeriodRetry | ConstantRetry
