"""Where clocks are put forward or back: each case says when it ticks, as wall-clock times with their offsets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from streamsched.domain.ticks.fire_times import next_fire, previous_fire
from streamsched.domain.time.dialect import Dialect, InGap, InOverlap
from streamsched.domain.triggers.trigger import Cron, Every

BERLIN, NEW_YORK, LORD_HOWE, KOLKATA = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"


@pytest.mark.parametrize(
    ("case", "expression", "zone", "after", "ticks"),
    [
        (
            "a time in the gap ticks at the first instant after it, once, and is back to normal the next day",
            "30 2 * * *",
            BERLIN,
            "2024-03-30T12:00+01:00",
            ["2024-03-31T03:00+02:00", "2024-04-01T02:30+02:00"],
        ),
        (
            "several times in the gap are one tick, also when its end matches too",
            "10,20,50 2,3 * * *",
            BERLIN,
            "2024-03-31T00:00+01:00",
            ["2024-03-31T03:00+02:00", "2024-03-31T03:10+02:00", "2024-03-31T03:20+02:00"],
        ),
        (
            "the end of the gap, named itself, ticks once",
            "0 2,3 * * *",
            BERLIN,
            "2024-03-31T00:00+01:00",
            ["2024-03-31T03:00+02:00", "2024-04-01T02:00+02:00"],
        ),
        (
            "a time in the overlap ticks at the first of the two, once",
            "30 2 * * *",
            BERLIN,
            "2024-10-26T12:00+02:00",
            ["2024-10-27T02:30+02:00", "2024-10-28T02:30+01:00"],
        ),
        (
            "asked between the two, the second does not tick",
            "30 2 * * *",
            BERLIN,
            "2024-10-27T02:10+01:00",
            ["2024-10-28T02:30+01:00"],
        ),
        (
            "hourly follows real time over the gap",
            "30 * * * *",
            BERLIN,
            "2024-03-31T00:45+01:00",
            ["2024-03-31T01:30+01:00", "2024-03-31T03:30+02:00", "2024-03-31T04:30+02:00"],
        ),
        (
            "hourly follows real time over the overlap",
            "30 * * * *",
            BERLIN,
            "2024-10-27T01:45+02:00",
            ["2024-10-27T02:30+02:00", "2024-10-27T02:30+01:00", "2024-10-27T03:30+01:00"],
        ),
        (
            "starred minutes of named hours tick in both passes",
            "*/30 1-2 * * *",
            BERLIN,
            "2024-10-27T01:30+02:00",
            [
                "2024-10-27T02:00+02:00",
                "2024-10-27T02:30+02:00",
                "2024-10-27T02:00+01:00",
                "2024-10-27T02:30+01:00",
                "2024-10-28T01:00+01:00",
            ],
        ),
        (
            "starred minutes of an hour that is skipped tick once after it",
            "*/5 2 * * *",
            BERLIN,
            "2024-03-31T00:00+01:00",
            ["2024-03-31T03:00+02:00", "2024-04-01T02:00+02:00"],
        ),
        (
            "every second hour is not every hour: the skipped one ticks after the gap",
            "0 */2 * * *",
            BERLIN,
            "2024-03-31T00:00+01:00",
            ["2024-03-31T03:00+02:00", "2024-03-31T04:00+02:00", "2024-03-31T06:00+02:00"],
        ),
        (
            "seconds follow real time from the last of one pass to the first of the next",
            "*/30 * * * * *",
            NEW_YORK,
            "2024-11-03T01:59:00-04:00",
            ["2024-11-03T01:59:30-04:00", "2024-11-03T01:00:00-05:00", "2024-11-03T01:00:30-05:00"],
        ),
        (
            "the American gap",
            "15 2 10 3 *",
            NEW_YORK,
            "2024-01-01T00:00-05:00",
            ["2024-03-10T03:00-04:00", "2025-03-10T02:15-04:00"],
        ),
        (
            "the American overlap",
            "0 1 * NOV SUN",
            NEW_YORK,
            "2024-11-01T00:00-04:00",
            ["2024-11-03T01:00-04:00", "2024-11-10T01:00-05:00"],
        ),
        (
            "half an hour's gap moves only what lies in it",
            "10,40 2 * * *",
            LORD_HOWE,
            "2024-10-05T12:00+10:30",
            ["2024-10-06T02:30+11:00", "2024-10-06T02:40+11:00", "2024-10-07T02:10+11:00"],
        ),
        (
            "half an hour's overlap",
            "15,45 1 * * *",
            LORD_HOWE,
            "2024-04-06T12:00+11:00",
            ["2024-04-07T01:15+11:00", "2024-04-07T01:45+11:00", "2024-04-08T01:15+10:30"],
        ),
        (
            "hourly over half an hour's overlap shows the same minute twice, half an hour apart",
            "45 * * * *",
            LORD_HOWE,
            "2024-04-07T01:00+11:00",
            ["2024-04-07T01:45+11:00", "2024-04-07T01:45+10:30", "2024-04-07T02:45+10:30"],
        ),
        (
            "hourly over half an hour's gap waits for the clock to show the minute again",
            "15 * * * *",
            LORD_HOWE,
            "2024-10-06T01:00+10:30",
            ["2024-10-06T01:15+10:30", "2024-10-06T03:15+11:00"],
        ),
        (
            "a zone without changes keeps its half hour",
            "0 6 * * *",
            KOLKATA,
            "2024-03-30T12:00+05:30",
            ["2024-03-31T06:00+05:30", "2024-04-01T06:00+05:30"],
        ),
        (
            "a day that a zone left out ticks when the next begins",
            "0 12 30 12 *",
            "Pacific/Apia",
            "2011-12-01T00:00-10:00",
            ["2011-12-31T00:00+14:00", "2012-12-30T12:00+14:00"],
        ),
        (
            "a midnight that Brazil skipped",
            "0 0 * * *",
            "America/Sao_Paulo",
            "2018-11-03T12:00-03:00",
            ["2018-11-04T01:00-02:00", "2018-11-05T00:00-02:00"],
        ),
        (
            "half an hour before a midnight that comes twice",
            "30 23 * * *",
            "America/Sao_Paulo",
            "2018-02-17T12:00-02:00",
            ["2018-02-17T23:30-02:00", "2018-02-18T23:30-03:00"],
        ),
        (
            "where no clock ever changes",
            "30 2 * * *",
            "UTC",
            "2024-03-30T12:00+00:00",
            ["2024-03-31T02:30+00:00", "2024-04-01T02:30+00:00"],
        ),
        (
            "midnight that does not exist",
            "0 0 * * *",
            "America/Asuncion",
            "2023-09-30T12:00-04:00",
            ["2023-10-01T01:00-03:00", "2023-10-02T00:00-03:00"],
        ),
        (
            "an hour of the day before comes back after midnight",
            "30 * 23 3 *",
            "America/Asuncion",
            "2024-03-23T23:00-03:00",
            ["2024-03-23T23:30-03:00", "2024-03-23T23:30-04:00", "2025-03-23T00:30-03:00"],
        ),
    ],
    ids=lambda value: value.replace(" ", "-")[:60] if isinstance(value, str) and value.count(" ") > 3 else "",
)
def test_clock_changes(case: str, expression: str, zone: str, after: str, ticks: list[str]) -> None:
    at, seen = datetime.fromisoformat(after), []
    for _ in ticks:
        following = next_fire(Cron(expression, zone), at, created_at=at)
        assert following is not None
        assert following.tzinfo is UTC
        seen.append(following)
        at = following
    assert seen == [datetime.fromisoformat(tick) for tick in ticks], case


@pytest.mark.parametrize(
    ("leaf", "after", "ticks"),
    [
        (
            Cron("30 2 * * *", BERLIN, in_gap=InGap.SKIP),
            "2024-03-30T12:00+01:00",
            ["2024-04-01T02:30+02:00"],
        ),
        (
            Cron("*/20 2 * * *", BERLIN, in_gap=InGap.SKIP, in_overlap=InOverlap.FIRST),
            "2024-10-27T02:00+02:00",
            ["2024-10-27T02:20+02:00", "2024-10-27T02:40+02:00", "2024-10-28T02:00+01:00"],
        ),
        (
            Cron("30 2 * * *", BERLIN, in_overlap=InOverlap.SECOND),
            "2024-10-26T12:00+02:00",
            ["2024-10-27T02:30+01:00", "2024-10-28T02:30+01:00"],
        ),
        (
            Cron("30 2 * * *", BERLIN, in_overlap=InOverlap.BOTH),
            "2024-10-26T12:00+02:00",
            ["2024-10-27T02:30+02:00", "2024-10-27T02:30+01:00", "2024-10-28T02:30+01:00"],
        ),
        (
            Cron("15,45 1 * * *", LORD_HOWE, in_overlap=InOverlap.BOTH),
            "2024-04-06T12:00+11:00",
            ["2024-04-07T01:15+11:00", "2024-04-07T01:45+11:00", "2024-04-07T01:45+10:30", "2024-04-08T01:15+10:30"],
        ),
        (
            Cron("0 12 30 12 *", "Pacific/Apia", in_gap=InGap.SKIP),
            "2011-12-01T00:00-10:00",
            ["2012-12-30T12:00+14:00"],
        ),
        (
            # Hourly is real time, whatever was chosen.
            Cron("30 * * * *", BERLIN, in_gap=InGap.AFTER, in_overlap=InOverlap.FIRST),
            "2024-10-27T01:45+02:00",
            ["2024-10-27T02:30+02:00", "2024-10-27T02:30+01:00", "2024-10-27T03:30+01:00"],
        ),
        (
            Cron("30 2 * * ?", BERLIN, Dialect.QUARTZ),
            "2024-03-30T12:00+01:00",
            ["2024-03-31T03:00+02:00", "2024-04-01T02:30+02:00"],
        ),
    ],
)
def test_a_schedule_chooses_otherwise(leaf: Cron, after: str, ticks: list[str]) -> None:
    wanted = [datetime.fromisoformat(tick) for tick in ticks]
    at, seen = datetime.fromisoformat(after), []
    for _ in ticks:
        following = next_fire(leaf, at, created_at=at)
        assert following is not None
        seen.append(following)
        at = following
    assert seen == wanted
    assert [previous_fire(leaf, later, created_at=at) for later in wanted[1:]] == wanted[:-1]


def test_an_interval_is_real_time_over_a_gap_and_an_overlap() -> None:
    for created in ("2024-03-31T00:00+01:00", "2024-10-27T00:00+02:00"):
        at = created_at = datetime.fromisoformat(created)
        for step in range(1, 9):
            following = next_fire(Every(timedelta(hours=1)), at, created_at=created_at)
            assert following is not None
            assert following == created_at + step * timedelta(hours=1)
            at = following
