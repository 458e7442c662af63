"""What follows when an expectation is due, and when something comes. Pure; times are UTC.

A due time is judged by what came up to then, so a late evaluation gives the same result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from streamsched.domain.expectations.expectation import Expectation
from streamsched.domain.expectations.miss import ExpectationMiss, LateCame
from streamsched.domain.expectations.presence import Awaited, expected_in_period, presence
from streamsched.domain.expectations.usual import NEWEST, usual_time
from streamsched.domain.limits import add_duration
from streamsched.domain.ticks.due_times import LONGEST_BACK, DueTime, due_time_after, first_due_time, wall_time


@dataclass(frozen=True, slots=True)
class WatchedExpectation:
    """An expectation between two due times.

    Attributes:
        since: what came up to then does not count for `due`, unless a key is expected.
        due: the next one; None: it is never due again.
        recent: when it came in the newest periods, as of `usual_time`; the newest last.
    """

    expectation: Expectation
    since: datetime
    due: DueTime | None
    recent: tuple[timedelta, ...] = ()

    @property
    def usual_delay(self) -> timedelta | None:
        """How long after the start of a period it usually is there by; None: it is not known."""
        return usual_time(self.recent)

    @property
    def expected_next(self) -> Awaited | None:
        """What must be there when it is due next."""
        if self.due is None:
            return None
        opens_at = self.due.opens_at
        return expected_in_period(
            self.expectation, self.due.start, self.since if opens_at is None else max(self.since, opens_at)
        )


class MissedDue(NamedTuple):
    """A due time at which it was not there; it may still come. `awaited`: what was missing."""

    due: DueTime
    awaited: Awaited


class Settled(NamedTuple):
    """What follows from a due time.

    Attributes:
        next: the expectation until its next due time.
        miss: None: it was there, or could not be missed.
        announced: whether the miss is announced; of several due times that have passed only the newest is.
        skipped: whether due times between this one and the next are not judged, because they are too long ago.
    """

    next: WatchedExpectation
    miss: ExpectationMiss | None
    announced: bool
    skipped: bool


def begin_watch(expectation: Expectation, now: datetime) -> WatchedExpectation:
    """An expectation that begins now. It is due in the next period first: what came in the current one before now is
    not known.
    """
    return WatchedExpectation(expectation, now, first_due_time(expectation, now))


def change_expectation(before: WatchedExpectation, expectation: Expectation, now: datetime) -> WatchedExpectation:
    """The expectation after a change of its definition. One that expects the same in the same periods goes on, with its
    next due time after now; any other begins now.
    """
    if not before.expectation.same_course(expectation):
        return begin_watch(expectation, now)
    if before.expectation.by == expectation.by:
        return replace(before, expectation=expectation)
    return replace(before, expectation=expectation, due=due_time_after(expectation, now, before.usual_delay))


def settle_due_time(watched: WatchedExpectation, first: datetime | None, now: datetime, *, why: str = "") -> Settled:
    """What follows at `now` from the due time, which has passed.

    Args:
        first: when the first evidence of what is awaited came, if any.
        why: what is known about a miss besides.
    """
    expectation, due, wanted = watched.expectation, watched.due, watched.expected_next
    assert due is not None
    assert wanted is not None
    found = presence(wanted, first if first is not None and first <= due.at else None)
    recent, miss = watched.recent, None
    if found.at is not None:
        recent = _add_delay(recent, found.at, due.start, expectation)
    elif not due.learning:
        miss = ExpectationMiss(expectation, due.at, wanted.key, found.missing, why)
    usual = usual_time(recent)
    following = due_time_after(expectation, due.at, usual)
    oldest = add_duration(now, -LONGEST_BACK[expectation.every])
    skipped = following is not None and following.at <= oldest
    if skipped:
        following = due_time_after(expectation, oldest, usual)
    after = WatchedExpectation(expectation, due.at, following, recent)
    return Settled(after, miss, following is None or following.at > now, skipped)


def came_late(
    watched: WatchedExpectation, missed: MissedDue, first: datetime | None
) -> tuple[WatchedExpectation, LateCame | None]:
    """What follows when something came after a due time at which it was missing. `first`: when the first evidence of
    `missed.awaited`, and without a key of what came after that due time, came.

    Without a key it is late for that due time only up to the next one. If it came nearer to the former, it was meant
    for that, and does not count for the next; otherwise it counts for both.
    """
    expectation, key, due = watched.expectation, missed.awaited.key, watched.due
    if first is None or (not key and due is not None and first > due.at):
        return watched, None
    came = LateCame(expectation, missed.due.at, key, first)
    if not key and due is not None and first - missed.due.at > due.at - first:
        return watched, came
    recent = _add_delay(watched.recent, first, missed.due.start, expectation)
    return replace(watched, since=watched.since if key else max(watched.since, first), recent=recent), came


def _add_delay(
    recent: tuple[timedelta, ...], at: datetime, start: datetime, expectation: Expectation
) -> tuple[timedelta, ...]:
    return (*recent, wall_time(at, expectation.zone) - start)[-NEWEST:]
