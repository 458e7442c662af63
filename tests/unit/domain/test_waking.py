"""When a wake-up is sent, where the log's clock and ours disagree."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.domain.ticks.wakeups import send_at

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)

spans = st.timedeltas(timedelta(0), timedelta(days=400))


@given(spans, spans, spans)
def test_nothing_is_sent_before_its_time_nor_in_the_past(asked: timedelta, logged: timedelta, seen: timedelta) -> None:
    at, now = NOON + asked, NOON + seen

    assert send_at(at, logged_at=NOON + logged, now=now) >= max(at, now if at <= now else at)


@given(spans)
def test_what_is_still_ahead_is_sent_at_its_time_whatever_the_log_thinks(ahead: timedelta) -> None:
    at = NOON + ahead + SECOND

    assert send_at(at, logged_at=NOON - ahead, now=NOON) == at
    assert send_at(at, logged_at=NOON + 2 * ahead, now=NOON) == at


@given(spans, spans)
def test_who_comes_late_makes_it_at_most_twice_as_late_and_a_second(wait: timedelta, late: timedelta) -> None:
    at = NOON + wait

    assert send_at(at, logged_at=NOON, now=at + late) - at <= max(2 * late, late + SECOND)


@given(spans, st.timedeltas(timedelta(0), timedelta(hours=100)))
@example(timedelta(0), timedelta(hours=1))
def test_a_log_that_is_behind_asks_a_few_times_and_then_is_never_early(wait: timedelta, behind: timedelta) -> None:
    """The fold judges by the log's time, and asks again at once whenever it is woken before its deadline."""
    at = NOON + wait
    now, rounds = NOON + behind, 0  # the log says noon
    while True:
        now = send_at(at, logged_at=now - behind, now=now)
        rounds += 1
        if now - behind >= at:
            break

    assert now - behind == max(at, NOON) or rounds == 1
    assert rounds <= 3 + max(0, (behind // SECOND).bit_length())


def test_a_clock_that_is_an_hour_behind_costs_a_dozen_rounds() -> None:
    at, behind, rounds = NOON, timedelta(hours=1), 0
    now = NOON  # and the log says eleven
    while now - behind < at:
        now = send_at(at, logged_at=now - behind, now=now)
        rounds += 1

    assert rounds == 13
