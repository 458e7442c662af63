"""Time windows against a wall clock that is checked every minute."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from hypothesis import assume, example, given
from hypothesis import strategies as st

from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.decisions.admission import ConstraintInput, Satisfied, Unsatisfiable, WaitUntil, check
from streamsched.testing.examples import examples

MINUTE = timedelta(minutes=1)
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Asia/Kolkata"]

walls = st.builds(time, st.integers(0, 23), st.integers(0, 59))
instants = st.sampled_from([(3, 9), (3, 30), (4, 6), (10, 5), (10, 26), (11, 2), (7, 1)]).flatmap(
    lambda day: st.integers(0, 60 * 48).map(lambda minute: datetime(2024, *day, tzinfo=UTC) + minute * MINUTE)
)


def _shown(zone: str, instant: datetime) -> int:
    wall = instant.astimezone(ZoneInfo(zone))
    return wall.hour * 60 + wall.minute


def _inside(start: time, end: time, minute: int) -> bool:
    opening, closing = start.hour * 60 + start.minute, end.hour * 60 + end.minute
    return (minute - opening) % 1440 < (closing - opening) % 1440


@examples(300)
@given(walls, walls, st.sampled_from(ZONES), instants, st.booleans())
@example(time(2), time(2, 30), "Europe/Berlin", datetime(2024, 3, 31, 0, tzinfo=UTC), True)  # the gap swallows it
@example(time(1), time(2, 30), "Europe/Berlin", datetime(2024, 10, 27, 0, 40, tzinfo=UTC), True)  # opens again
@example(time(0, 1), time(0), "America/Havana", datetime(2024, 11, 3, 5, tzinfo=UTC), True)  # starts a second time
@example(time(22), time(6), "Europe/Berlin", datetime(2024, 3, 30, 12, tzinfo=UTC), True)
def test_a_window_opens_at_the_first_minute_a_watched_clock_is_inside(
    start: time, end: time, zone: str, now: datetime, wait: bool
) -> None:
    assume(start != end)
    verdict = check(TimeWindow(start, end, zone, wait=wait), ConstraintInput(satisfied_at=now), now)

    opens = now
    while not _inside(start, end, _shown(zone, opens)) and opens < now + 3 * 1440 * MINUTE:
        opens += MINUTE
    if opens == now:
        assert isinstance(verdict, Satisfied)
    elif wait:
        assert isinstance(verdict, WaitUntil)
        assert verdict.at == opens
    else:
        assert isinstance(verdict, Unsatisfiable)


@examples(100)
@given(walls, walls, st.sampled_from(ZONES), instants, st.integers(0, 59_999_999))
@example(time(9), time(10), "Europe/Berlin", datetime(2024, 3, 30, 12, tzinfo=UTC), 1_500_000)
def test_a_job_that_wakes_when_woken_finds_the_window_open(
    start: time, end: time, zone: str, now: datetime, micros: int
) -> None:
    assume(start != end)
    window = TimeWindow(start, end, zone)
    now += timedelta(microseconds=micros)
    verdict = check(window, ConstraintInput(satisfied_at=now), now)
    if isinstance(verdict, WaitUntil):
        assert verdict.at > now
        assert isinstance(check(window, ConstraintInput(satisfied_at=now), verdict.at), Satisfied)
