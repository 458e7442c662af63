"""Forecasts: every odd day is marked, and says why."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from streamsched.domain.names import ScheduleRef
from streamsched.domain.ticks.forecast import forecast
from streamsched.domain.time.calendar import Calendar, OnClosed
from streamsched.domain.time.dialect import Dialect, InGap, InOverlap
from streamsched.domain.triggers.time_leaf import At, Cron, Every, TimeLeaf

BERLIN = "Europe/Berlin"
FEAST = Calendar.of("feast", weekdays=[5, 6], spans=[(date(2026, 12, 24), date(2026, 12, 26))])
GAP = "02:30 does not come that day, the clock is put forward from 02:00 to 03:00"
TWICE = "comes twice that day, this is the"


@pytest.mark.parametrize(
    ("leaf", "after", "lines"),
    [
        pytest.param(
            Cron("30 2 * * *", BERLIN),
            "2026-03-28T12:00+01:00",
            [f"2026-03-29T03:00:00+02:00 gap {GAP}", "2026-03-30T02:30:00+02:00"],
            id="a time in the gap",
        ),
        pytest.param(
            Cron("30 2 * * *", BERLIN, in_gap=InGap.SKIP),
            "2026-03-27T12:00+01:00",
            ["2026-03-28T02:30:00+01:00", f"2026-03-29 gap {GAP}", "2026-03-30T02:30:00+02:00"],
            id="a time in the gap that is skipped",
        ),
        pytest.param(
            Cron("30 2 * * *", BERLIN),
            "2026-10-24T12:00+02:00",
            [
                f"2026-10-25T02:30:00+02:00 overlap 02:30 {TWICE} first time; the other does not tick",
                "2026-10-26T02:30:00+01:00",
            ],
            id="a time in the overlap",
        ),
        pytest.param(
            Cron("30 2 * * *", BERLIN, in_overlap=InOverlap.SECOND),
            "2026-10-24T12:00+02:00",
            [f"2026-10-25T02:30:00+01:00 overlap 02:30 {TWICE} second time; the other does not tick"],
            id="the second of the two",
        ),
        pytest.param(
            Cron("30 * * * *", BERLIN),
            "2026-10-25T01:45+02:00",
            [
                f"2026-10-25T02:30:00+02:00 overlap 02:30 {TWICE} first time",
                f"2026-10-25T02:30:00+01:00 overlap 02:30 {TWICE} second time",
                "2026-10-25T03:30:00+01:00",
            ],
            id="hourly follows real time",
        ),
        pytest.param(
            Cron("30 * * * *", BERLIN),
            "2026-03-29T01:15+01:00",
            ["2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"],
            id="an hourly tick leaves nothing out at the gap",
        ),
        pytest.param(
            Cron("0 12 30 12 *", "Pacific/Apia"),
            "2011-12-01T00:00-10:00",
            [
                "2011-12-31T00:00:00+14:00 gap 12:00 does not come that day, "
                "the clock is put forward from 00:00 to 00:00 of 2011-12-31"
            ],
            id="a day that is not there",
        ),
        pytest.param(
            Cron("0 0 * * *", "America/Sao_Paulo"),
            "2018-11-03T12:00-03:00",
            [
                "2018-11-04T01:00:00-02:00 gap 00:00 does not come that day, "
                "the clock is put forward from 00:00 to 01:00"
            ],
            id="a midnight that is not there",
        ),
        pytest.param(
            Cron("0 4 * * *", BERLIN, calendar=FEAST),
            "2026-12-23T12:00+01:00",
            [
                "2026-12-24 closed calendar feast closes it: 2026-12-24 to 2026-12-26",
                "2026-12-25 closed calendar feast closes it: 2026-12-24 to 2026-12-26",
                "2026-12-26 closed calendar feast closes it: 2026-12-24 to 2026-12-26",
                "2026-12-27 closed calendar feast closes it: every SUN",
                "2026-12-28T04:00:00+01:00",
            ],
            id="closed days",
        ),
        pytest.param(
            Cron("0 4 * * *", calendar=FEAST),
            "2026-12-26T03:00+00:00",
            [
                "2026-12-26 closed calendar feast closes it: 2026-12-24 to 2026-12-26",
                "2026-12-27 closed calendar feast closes it: every SUN",
                "2026-12-28T04:00:00+00:00",
            ],
            id="today, still to come",
        ),
        pytest.param(
            Cron("0 4 * * *", calendar=FEAST),
            "2026-12-26T05:00+00:00",
            ["2026-12-27 closed calendar feast closes it: every SUN", "2026-12-28T04:00:00+00:00"],
            id="today, already over",
        ),
        pytest.param(
            Cron("0 4 25 * *", calendar=FEAST, on_closed=OnClosed.NEXT),
            "2026-12-01T00:00+00:00",
            [
                "2026-12-28T04:00:00+00:00 moved stands for 2026-12-25, which is closed: 2026-12-24 to 2026-12-26",
                "2027-01-25T04:00:00+00:00",
            ],
            id="moved to the next open day",
        ),
        pytest.param(
            Cron("0 4 25,26 * *", calendar=FEAST, on_closed=OnClosed.PREVIOUS),
            "2026-12-01T00:00+00:00",
            [
                "2026-12-23T04:00:00+00:00 moved stands for 2026-12-25, which is closed: 2026-12-24 to 2026-12-26; "
                "moved stands for 2026-12-26, which is closed: 2026-12-24 to 2026-12-26"
            ],
            id="moved back, two onto one",
        ),
        pytest.param(
            Every(timedelta(hours=12), calendar=FEAST),
            "2026-12-23T13:00+00:00",
            [
                *(f"2026-12-{day} closed calendar feast closes it: 2026-12-24 to 2026-12-26" for day in (24, 25, 26)),
                "2026-12-27 closed calendar feast closes it: every SUN",
                "2026-12-28T00:00:00+00:00",
            ],
            id="an interval",
        ),
        pytest.param(
            Cron("@every 1h", dialect=Dialect.DAPR), "2026-12-23T13:00+00:00", ["2026-12-23T14:00:00+00:00"], id="dapr"
        ),
        pytest.param(
            At(datetime(2026, 12, 24, 18, tzinfo=UTC)),
            "2026-12-23T13:00+00:00",
            ["2026-12-24T18:00:00+00:00"],
            id="once",
        ),
        pytest.param(At(datetime(2026, 1, 1, tzinfo=UTC)), "2026-12-23T13:00+00:00", [], id="never again"),
    ],
)
def test_odd_days_are_marked(leaf: TimeLeaf, after: str, lines: list[str]) -> None:
    created_at = datetime(2026, 1, 1, tzinfo=UTC)
    wanted = [line for line in lines if "T" in line.split(" ", 1)[0]]
    found = forecast(leaf, datetime.fromisoformat(after), max(len(wanted), 1), created_at=created_at)
    reported = [
        " ".join([tick.local.isoformat(), "; ".join(f"{note.kind} {note.text}" for note in tick.notes)]).strip()
        for tick in found.ticks
    ]
    reported += [f"{each.day} {each.note.kind} {each.note.text}" for each in found.omitted]
    if not isinstance(leaf, At):
        reported = reported[: len(wanted)] + reported[len(found.ticks) :]
    assert sorted(reported) == sorted(lines)


def test_a_schedule_says_when_its_ticks_fire() -> None:
    leaf, after = Cron("0 0 * * *", jitter=timedelta(hours=1)), datetime(2026, 1, 1, 12, tzinfo=UTC)
    found = forecast(leaf, after, 3, created_at=after, schedule=ScheduleRef("default", "app", "nightly"))
    late = [tick.fires_at - tick.due_at for tick in found.ticks]
    assert all(timedelta(0) <= each < timedelta(hours=1) for each in late)
    assert len(set(late)) == 3
    assert [tick.fires_at for tick in forecast(leaf, after, 1, created_at=after).ticks] == [
        datetime(2026, 1, 2, tzinfo=UTC)
    ]


def test_a_year_of_closed_days_is_reported_no_longer_than_a_hundred() -> None:
    closed, after = Calendar.of(spans=[(date(2026, 1, 1), date(2030, 12, 31))]), datetime(2026, 1, 1, tzinfo=UTC)
    found = forecast(Cron("* * * * *", calendar=closed), after, 1, created_at=after)
    assert found.ticks[0].due_at == datetime(2031, 1, 1, tzinfo=UTC)
    assert len(found.omitted) == 100


def test_a_tick_that_stands_for_many_names_ten() -> None:
    closed, after = Calendar.of(spans=[(date(2000, 1, 1), date(9990, 1, 1))]), datetime(2026, 1, 1, tzinfo=UTC)
    leaf = Cron("0 4 * * *", calendar=closed, on_closed=OnClosed.NEXT)
    (tick,) = forecast(leaf, after, 1, created_at=after).ticks
    assert (tick.local.date(), len(tick.notes)) == (date(9990, 1, 2), 10)
