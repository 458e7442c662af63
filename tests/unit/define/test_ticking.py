"""Expressions of time triggers."""

from __future__ import annotations

from datetime import date, time, timedelta
from pathlib import Path

import pytest

from streamsched import App, TriggerExpression, calendar, cron, every, window
from streamsched.define.loading import load_app
from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.names import AppRef
from streamsched.domain.time.calendar import Calendar, OnClosed
from streamsched.domain.time.dialect import Dialect, InGap, InOverlap
from streamsched.domain.triggers.trigger import Cron, Every, Trigger

EXCHANGE = calendar("exchange", weekdays=["sat", "sun"], dates=[date(2026, 4, 3), ("2026-12-24", "2027-01-03")])
SHOP = AppRef("default", "shop")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (cron("0 4 ? * 6#3", dialect="quartz"), Cron("0 4 ? * 6#3", dialect=Dialect.QUARTZ)),
        (cron("@every 90s", dialect=Dialect.DAPR), Cron("@every 90s", dialect=Dialect.DAPR)),
        (
            cron("30 2 * * *", "Europe/Berlin", in_gap="skip", in_overlap="second"),
            Cron("30 2 * * *", "Europe/Berlin", in_gap=InGap.SKIP, in_overlap=InOverlap.SECOND),
        ),
        (
            cron("0 4 * * *", calendar=EXCHANGE, on_closed="previous", jitter="5m"),
            Cron("0 4 * * *", calendar=EXCHANGE, on_closed=OnClosed.PREVIOUS, jitter=timedelta(minutes=5)),
        ),
        (
            every("15m", calendar=EXCHANGE, zone="Asia/Tokyo", jitter=timedelta(seconds=30)),
            Every(timedelta(minutes=15), None, EXCHANGE, "Asia/Tokyo", timedelta(seconds=30)),
        ),
    ],
)
def test_an_expression_builds_the_time_trigger(written: TriggerExpression, meant: Trigger) -> None:
    assert written.build(SHOP) == meant


@pytest.mark.parametrize(
    ("when", "message"),
    [
        (cron("0 4 * * *", on_closed="next"), "$.schedules.s.when.on_closed: is set, but there is no calendar"),
        (cron("0 4 * * *", jitter="-5m"), "$.schedules.s.when.jitter: '-5m' is no duration"),
        (every("5m", jitter=-timedelta(1)), "$.schedules.s.when.jitter: must not be negative"),
        (every("5m", zone="Asia/Tokyo"), "$.schedules.s.when.zone: is set, but an interval has none without a cale"),
        (
            cron("0 4 * * SUN", calendar=EXCHANGE),
            "$.schedules.s.when.calendar: closes every day on which '0 4 * * SUN' matches",
        ),
        (cron("0 4 * * *", dialect="cron4j"), "$.schedules.s.when.dialect: must be one of unix, quartz, dapr but is"),
        (cron("0 4 * * 1", in_gap="jump"), "$.schedules.s.when.in_gap: must be one of after, skip but is 'jump'"),
        (cron("0 4 1 * 1", dialect="quartz"), "$.schedules.s.when.expression: exactly one of day of month and"),
    ],
)
def test_an_invalid_time_trigger_is_refused_with_its_path(when: TriggerExpression, message: str) -> None:
    app = App("shop")
    program = app.bash("p", "true")
    with pytest.raises(InvalidDefinitionError) as refused:
        app.schedule("s", program, when=when)
    assert str(refused.value).startswith(message)


def test_a_calendar_from_strings() -> None:
    made = Calendar.of(
        "exchange",
        weekdays=[5, 6],
        spans=[(date(2026, 4, 3), date(2026, 4, 3)), (date(2026, 12, 24), date(2027, 1, 3))],
    )
    assert made == EXCHANGE
    with pytest.raises(InvalidError, match=r"\$\.dates\[0\]: must be a date such as '2026-12-24' but is '24.12.2026'"):
        calendar(dates=["24.12.2026"])


def test_a_window_with_a_calendar() -> None:
    hours = window("09:00", "17:00", "Europe/Berlin", calendar=EXCHANGE)
    assert hours == TimeWindow(time(9), time(17), "Europe/Berlin", calendar=EXCHANGE)
    assert str(hours) == "window 09:00–17:00 Europe/Berlin but for calendar exchange"


YAML = """
application: shop
calendars:
  exchange: {weekdays: [sat, sun], dates: [2026-04-03, 2026-12-24/2027-01-03], yearly: [05-01]}
programs:
  load: {type: bash, command: "true"}
schedules:
  nightly:
    program: load
    trigger: {type: TIME, cronExpression: 0 4 * * *, calendar: exchange, onClosed: next, jitter: 5m}
    constraints:
      - {type: TIME_RANGE, startTime: "09:00", endTime: "17:00", calendar: exchange}
"""


def test_yaml_calendars_are_defined_once_by_name(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(YAML)
    nightly = load_app(str(tmp_path / "shop.yaml")).schedules[0]
    exchange = calendar(
        "exchange", weekdays=["sat", "sun"], dates=["2026-04-03", ("2026-12-24", "2027-01-03")], yearly=["05-01"]
    )
    assert nightly.trigger == Cron("0 4 * * *", calendar=exchange, on_closed=OnClosed.NEXT, jitter=timedelta(minutes=5))
    assert nightly.constraints == (TimeWindow(time(9), time(17), calendar=exchange),)
