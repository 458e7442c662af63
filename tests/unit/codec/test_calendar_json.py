"""Calendars as JSON, inline and by name."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given

from streamsched.codec.schedules.schedule import app_from_json, app_to_json
from streamsched.codec.triggers import calendar as codec
from streamsched.codec.triggers import trigger as trigger_codec
from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.errors import InvalidError
from streamsched.domain.events.match import Match, OneOf
from streamsched.domain.time.calendar import Calendar, OnClosed
from streamsched.domain.triggers.time_leaf import Cron
from streamsched.domain.triggers.trigger import AllOf, Partitions
from streamsched.testing.definitions import calendars

EXCHANGE = Calendar.of(
    "exchange",
    weekdays=[5, 6],
    yearly=[(12, 25), (1, 1)],
    spans=[(date(2026, 12, 24), date(2027, 1, 3)), (date(2026, 4, 3), date(2026, 4, 3))],
    open=[date(2026, 12, 28)],
)
WRITTEN = {
    "name": "exchange",
    "weekdays": ["SAT", "SUN"],
    "yearly": ["01-01", "12-25"],
    "dates": ["2026-04-03", "2026-12-24/2027-01-03"],
    "open": ["2026-12-28"],
}


def test_a_calendar_is_written_and_read() -> None:
    assert codec.to_json(EXCHANGE) == WRITTEN
    assert codec.from_json(WRITTEN) == EXCHANGE


@given(calendars)
def test_every_calendar_reads_back(calendar: Calendar) -> None:
    assert codec.from_json(codec.to_json(calendar)) == calendar


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"weekdays": ["SAT", "SO"]}, "$.calendar.weekdays[1]: must be one of MON, TUE, WED, THU, FRI, SAT, SUN but"),
        ({"weekdays": list("1234567")}, "$.calendar.weekdays[0]: must be one of MON"),
        ({"yearly": ["12-25", "02-30"]}, "$.calendar.yearly[0]: no year has 02-30"),
        ({"yearly": ["25.12."]}, "$.calendar.yearly[0]: must be a month and a day such as '12-25' but is '25.12.'"),
        ({"dates": ["2026-02-30"]}, "$.calendar.dates[0]: must be a date such as '2026-12-24' but is '2026-02-30'"),
        ({"dates": ["20260230"]}, "$.calendar.dates[0]: must be a date such as '2026-12-24' but is '20260230'"),
        ({"dates": [7]}, "$.calendar.dates[0]: must be a date, or two as in 2026-12-24/2027-01-03, but is a number"),
        ({"dates": ["2027-01-03/2026-12-24"]}, "$.calendar.dates: 2027-01-03/2026-12-24 ends before it begins"),
        ({"dates": ["2026-01-01/9999-12-31"]}, "$.calendar.dates: closes every day from 2026-01-01 on"),
        ({"days": []}, "$.calendar.days: unknown field"),
        (
            {"weekdays": ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]},
            "$.calendar.weekdays: closes every day",
        ),
    ],
)
def test_a_refused_calendar_names_the_field(changed: dict[str, Any], message: str) -> None:
    written = {"type": "TIME", "cronExpression": "0 4 * * *", "calendar": {**WRITTEN, **changed}}
    with pytest.raises(InvalidError) as refused:
        trigger_codec.from_json(written)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"calendar": {}}, "$.calendar: closes no day"),
        ({"calendar": "exchange"}, "$.calendar: names 'exchange', but only the `calendars` of an app have names"),
        ({"onClosed": "next"}, "$.onClosed: is set, but there is no calendar"),
        (
            {"cronExpression": "0 4 * * 6", "calendar": {"weekdays": ["SAT"]}},
            "$.calendar: closes every day on which '0 4 * * 6' matches",
        ),
        (
            {"cronExpression": "0 0 25 12 *", "calendar": {"yearly": ["12-25"]}},
            "$.calendar: closes every day on which '0 0 25 12 *' matches",
        ),
        (
            {"cronExpression": "@every 5m", "dialect": "dapr", "calendar": WRITTEN, "onClosed": "next"},
            "$.onClosed: must be skip: an interval has no time of day to move",
        ),
        ({"jitter": "-5m"}, "$.jitter: '-5m' is no duration"),
        (
            {"type": "EVERY", "interval": "5m", "timeZone": "Asia/Tokyo"},
            "$.timeZone: is set, but an interval has none",
        ),
        (
            {"type": "EVERY", "interval": "5m", "timeZone": "Mars", "calendar": WRITTEN},
            "$.timeZone: 'Mars' is no IANA time zone",
        ),
        ({"type": "AT", "instant": "2026-01-01T00:00Z", "jitter": "5m"}, "$.jitter: unknown field"),
    ],
)
def test_a_leaf_that_contradicts_its_calendar_is_refused(written: dict[str, Any], message: str) -> None:
    given = {"type": "TIME", "cronExpression": "0 4 * * *", **written}
    if given["type"] != "TIME":
        del given["cronExpression"]
    with pytest.raises(InvalidError) as refused:
        trigger_codec.from_json(given)
    assert str(refused.value).startswith(message)


def _app(trigger: dict[str, Any], **more: Any) -> dict[str, Any]:
    days = {name: value for name, value in WRITTEN.items() if name != "name"}
    return {
        "application": "orders",
        "calendars": {"exchange": days},
        "programs": [{"name": "load", "type": "bash", "command": "true"}],
        "schedules": [{"name": "nightly", "program": "load", "trigger": trigger, **more}],
    }


def test_an_app_names_a_calendar_once_and_triggers_and_windows_ask_for_it() -> None:
    tick = {"type": "TIME", "cronExpression": "0 4 * * *", "calendar": "exchange", "onClosed": "next"}
    partitions = {"type": "PARTITION", "dataset": "flights", "numPartitions": 1, "match": {"calendar": "exchange"}}
    hours = {"type": "TIME_RANGE", "startTime": "09:00", "endTime": "17:00", "calendar": "exchange"}
    app = app_from_json(_app({"type": "AND", "triggers": [tick, partitions]}, constraints=[hours]))
    trigger, constraint = app.schedules[0].trigger, app.schedules[0].constraints[0]
    assert isinstance(trigger, AllOf)
    assert trigger.triggers[0] == Cron("0 4 * * *", calendar=EXCHANGE, on_closed=OnClosed.NEXT)
    assert isinstance(trigger.triggers[1], Partitions)
    assert trigger.triggers[1].match == Match.from_values({"calendar": OneOf(frozenset({"exchange"}))})
    assert isinstance(constraint, TimeWindow)
    assert constraint.calendar == EXCHANGE
    assert app_from_json(app_to_json(app)) == app


@pytest.mark.parametrize(
    ("app", "message"),
    [
        (
            _app({"type": "TIME", "cronExpression": "0 4 * * *", "calendar": "holidays"}),
            "$.schedules[0].trigger.calendar: is no calendar of this app: 'holidays' (known: exchange)",
        ),
        (
            {**_app({}), "calendars": {"exchange": {"dates": ["x"]}}},
            "$.calendars.exchange.dates[0]: must be a date",
        ),
        (
            {**_app({}), "calendars": {"exchange": {**WRITTEN, "name": "other"}}},
            "$.calendars.exchange.name: is not 'exchange', its name in the app",
        ),
    ],
)
def test_a_wrong_name_is_reported(app: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidError) as refused:
        app_from_json(app)
    assert str(refused.value).startswith(message)
