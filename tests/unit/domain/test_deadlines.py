"""Deadlines: when they are due, and whether the course of a job has kept them."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.deadline import Deadline, DeadlineKind, JobTimes, RunEnding, describe_miss

DUE = datetime(2026, 3, 1, 12, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
KEPT, LATE = DUE, DUE + MINUTE
START, FINISH, DURATION = DeadlineKind.START, DeadlineKind.FINISH, DeadlineKind.DURATION


def ran(*ends: tuple[RunState, datetime | None], launched: datetime | None = KEPT) -> JobTimes:
    return JobTimes(launched, None, tuple(RunEnding(*each) for each in ends))


@pytest.mark.parametrize(
    ("promise", "course", "how"),
    [
        (START, JobTimes(None, None), "it has not started"),
        (START, ran(), None),
        (START, ran(launched=LATE), "it started at 2026-03-01 12:11:00Z only"),
        (FINISH, JobTimes(None, KEPT), None),
        (FINISH, JobTimes(None, LATE), "it had not started then, and never did"),
        (FINISH, JobTimes(None, None), "it has not finished"),
        (FINISH, ran((RunState.RUNNING, None)), "it has not finished"),
        (FINISH, ran((RunState.COMPLETED, KEPT)), None),
        (FINISH, ran((RunState.FAILED, KEPT)), None),
        (FINISH, ran((RunState.COMPLETED, LATE)), "it ended at 2026-03-01 12:11:00Z only"),
        (FINISH, ran((RunState.FAILED, KEPT - MINUTE), (RunState.COMPLETED, KEPT)), None),
        (FINISH, ran((RunState.COMPLETED, KEPT), (RunState.COMPLETED, LATE)), None),
        (FINISH, ran((RunState.FAILED, KEPT), (RunState.RUNNING, None)), "it has not finished"),
        (DURATION, ran((RunState.RUNNING, None)), "it still runs"),
        (DURATION, ran((RunState.KILLED, LATE)), "it ended at 2026-03-01 12:11:00Z only"),
    ],
)
def test_a_deadline_is_missed_by_who_has_not_done_it_in_time(
    promise: DeadlineKind, course: JobTimes, how: str | None
) -> None:
    assert describe_miss(Deadline(promise, 10 * MINUTE), DUE, course) == how


def test_a_time_of_day_is_the_first_after_the_satisfaction_whatever_the_clock_does() -> None:
    half_past_two = Deadline(DeadlineKind.FINISH, at=time(2, 30), zone="Europe/Berlin")
    for since, due in (
        ("2026-03-28T00:00Z", "2026-03-28T01:30Z"),
        ("2026-03-28T01:30Z", "2026-03-29T01:00Z"),  # skipped: the first instant after it
        ("2026-03-29T01:00Z", "2026-03-30T00:30Z"),
        ("2026-10-24T12:00Z", "2026-10-25T00:30Z"),  # twice: the first
        ("2026-10-25T00:30Z", "2026-10-26T01:30Z"),
    ):
        assert half_past_two.due_time(datetime.fromisoformat(since)) == datetime.fromisoformat(due)
