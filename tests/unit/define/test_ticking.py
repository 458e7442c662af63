"""Time leaves in their owner's words."""

from __future__ import annotations

from datetime import date, time, timedelta
from pathlib import Path

import pytest

from streamsched import App, When, calendar, cron, every, window
from streamsched.define.loading import load_app
from streamsched.domain.calendar import Calendar, OnClosed
from streamsched.domain.dialect import Dialect, InGap, InOverlap
from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.names import AppRef
from streamsched.domain.trigger import Cron, Every, Trigger
from streamsched.domain.window import TimeWindow

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
def test_a_time_leaf_in_words_is_the_leaf(written: When, meant: Trigger) -> None:
    assert written.build(SHOP) == meant


@pytest.mark.parametrize(
    ("when", "message"),
    [
        (cron("0 4 * * *", on_closed="next"), "$.schedules.s.when.on_closed: is said, but no calendar closes any day"),
        (cron("0 4 * * *", jitter="-5m"), "$.schedules.s.when.jitter: '-5m' is no duration"),
        (every("5m", jitter=-timedelta(1)), "$.schedules.s.when.jitter: must not be negative"),
        (every("5m", zone="Asia/Tokyo"), "$.schedules.s.when.zone: is said, but an interval has none without a cale"),
        (
            cron("0 4 * * SUN", calendar=EXCHANGE),
            "$.schedules.s.when.calendar: closes every day on which '0 4 * * SUN' matches",
        ),
        (cron("0 4 * * *", dialect="cron4j"), "$.schedules.s.when.dialect: must be one of unix, quartz, dapr but is"),
        (cron("0 4 * * 1", in_gap="jump"), "$.schedules.s.when.in_gap: must be one of after, skip but is 'jump'"),
        (cron("0 4 1 * 1", dialect="quartz"), "$.schedules.s.when.expression: exactly one of day of month and"),
    ],
)
def test_a_mistake_is_told_where_it_is_made(when: When, message: str) -> None:
    app = App("shop")
    program = app.bash("p", "true")
    with pytest.raises(InvalidDefinitionError) as refused:
        app.schedule("s", program, when=when)
    assert str(refused.value).startswith(message)


def test_days_in_words_are_the_calendar() -> None:
    made = Calendar.of(
        "exchange",
        weekdays=[5, 6],
        spans=[(date(2026, 4, 3), date(2026, 4, 3)), (date(2026, 12, 24), date(2027, 1, 3))],
    )
    assert made == EXCHANGE
    with pytest.raises(InvalidError, match=r"\$\.dates\[0\]: must be a date such as '2026-12-24' but is '24.12.2026'"):
        calendar(dates=["24.12.2026"])


def test_a_window_may_have_a_calendar() -> None:
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


def test_in_yaml_a_calendar_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(YAML)
    nightly = load_app(str(tmp_path / "shop.yaml")).schedules[0]
    exchange = calendar(
        "exchange", weekdays=["sat", "sun"], dates=["2026-04-03", ("2026-12-24", "2027-01-03")], yearly=["05-01"]
    )
    assert nightly.trigger == Cron("0 4 * * *", calendar=exchange, on_closed=OnClosed.NEXT, jitter=timedelta(minutes=5))
    assert nightly.constraints == (TimeWindow(time(9), time(17), calendar=exchange),)
