"""Known sets and calendars of keys as the builder and JSON say them, and what is refused with its place."""

from __future__ import annotations

from typing import Any

import pytest

from streamsched import calendar, event, partitions
from streamsched.codec.schedules.schedule import submitted_schedule_from_json
from streamsched.codec.triggers import trigger as codec
from streamsched.define.combinators import TriggerExpression
from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.names import AppRef
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.keys.key_value import HIVE_NULL
from streamsched.domain.triggers.keys.known_set import KnownSet
from streamsched.domain.triggers.on_correction import IGNORE, default_on_correction

APP = AppRef("default", "shop")
CLICKS = partitions("clicks")
WORK = calendar("work", weekdays=["sat", "sun"], dates=["2026-12-25"])
PER = {"type": "PER", "trigger": {"type": "PARTITION", "dataset": "default.clicks", "numPartitions": 1}, "by": ["hour"]}


def built(expression: TriggerExpression) -> Per:
    found = expression.build(APP)
    assert isinstance(found, Per)
    assert codec.from_json(codec.to_json(found), "$.trigger") == found
    return found


def test_a_known_set_and_a_calendar_are_said_in_any_order_and_stored() -> None:
    one = built(
        CLICKS.per("hour").each("region", ["eu", "us"]).rolled_up_to("week", zone="Europe/Berlin", calendar=WORK)
    )
    other = built(
        CLICKS.per("hour", zone="Europe/Berlin", calendar=WORK).rolled_up_to("week").each("region", ("eu", "us"))
    )
    assert one == other
    assert (one.each, one.calendar) == (KnownSet("region", ("eu", "us")), WORK)
    assert one.on_correction == default_on_correction(one.expires)
    assert (one.wanted_parts(""), one.wanted_parts("2026-W52"), one.wanted_parts("2026-W13")) == (
        5 * 48,
        4 * 48,
        5 * 48,
    )
    assert str(one) == (
        "(1 new partition of default.clicks) for each hour, rolled up to weeks in Europe/Berlin on the open days of "
        "calendar work, each region eu and us"
    )


def test_a_set_of_python_is_deployed_in_the_order_of_its_texts() -> None:
    assert built(CLICKS.per("day").each("region", {"us", "eu", "apac"})).each == KnownSet(
        "region", ("apac", "eu", "us")
    )
    assert built(CLICKS.per("day").each("region", (each for each in "ba"))).each == KnownSet("region", ("b", "a"))


def test_without_a_roll_up_a_key_waits_for_each_value_or_as_many_as_suffice() -> None:
    per = built(event("done").per("batch", on_correction="ignore").each("step", ["a", "b", "c"], of=2))
    assert (per.grain, per.wanted_parts("x"), per.of, per.on_correction) == (None, 2, 2, IGNORE)
    assert built(CLICKS.per("week").fanned_out_to("day", calendar=WORK)).fanned_out_to is Grain.DAY


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (CLICKS.per("day").each("region", "eu"), r"\$.values: must be a list of texts but is 'eu'"),
        (CLICKS.per("day").each("region", []), r"\$.values: names no value"),
        (CLICKS.per("day").each("region", ["a", "b", "a"]), r"\$.values\[2\]: is 'a' again, as \$.values\[0\]"),
        (CLICKS.per("day").each("region", ["a", 3]), r"\$.values\[1\]: must be a text but is 3"),  # type: ignore[list-item]
        (CLICKS.per("day").each("region", ["a", ""]), r"\$.values\[1\]: is empty"),
        (CLICKS.per("day").each("region", [HIVE_NULL]), r"\$.values\[0\]: is __HIVE_DEFAULT_PARTITION__"),
        (CLICKS.per("day").each("region", ["a\0"]), r"\$.values\[0\]: holds a character that no text may hold"),
        (CLICKS.per("day").each("region", ["\ud800"]), r"\$.values\[0\]: holds a character that no text may hold"),
        (
            CLICKS.per("day").each("region", ["x" * 256]),
            r"\$.values\[0\]: must have at most 255 characters but has 256",
        ),
        (CLICKS.per("day").each("", ["x"]), r"\$.column: is empty"),
        (CLICKS.per("day").each("region", map(str, range(100_000))), r"at most 1000 values but has 1001"),
        (CLICKS.per("day").each("region", [str(n) for n in range(100_000)]), r"at most 1000 values but has 100000"),
        (CLICKS.per("day").each("day", ["x"]), r"\$.each.column: is day, which is a column of the key already"),
        (CLICKS.per("day").each("a", ["x"]).each("b", ["x"]), r"\$.each: is said twice"),
        (
            CLICKS.per("hour").rolled_up_to("month").each("region", [str(n) for n in range(14)]),
            r"must have at most 10000 parts \(744 hours of a month, each with 14 values\) but has 10416",
        ),
        (CLICKS.per("day", calendar="work"), r"\$.calendar: must be a calendar but is 'work'"),  # type: ignore[arg-type]
        (CLICKS.per("month", calendar=WORK), r"\$.calendar: has days, so it needs hours or days as `grain`"),
        (CLICKS.per("batch", calendar=WORK), r"\$.calendar: has days, so it needs hours or days as `grain`"),
        (
            CLICKS.per("day", calendar=calendar(weekdays=["sun"])).rolled_up_to("week", calendar=WORK),
            r"\$.calendar: is calendar work, but `per` says a calendar",
        ),
    ],
)
def test_what_cannot_be_a_known_set_or_a_calendar_is_refused(expression: TriggerExpression, message: str) -> None:
    with pytest.raises(InvalidDefinitionError, match=message):
        expression.build(APP)


def test_a_calendar_of_too_many_days_is_refused() -> None:
    many = calendar(
        dates=[
            f"{year}-{month:02}-{day:02}"
            for year in range(2000, 2010)
            for month in range(1, 13)
            for day in range(1, 20, 2)
        ]
    )
    with pytest.raises(InvalidDefinitionError, match=r"\$.calendar: must have at most 1000 days and spans of days"):
        CLICKS.per("day", calendar=many).build(APP)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"each": ["eu"]}, r"\$.trigger.each: must be an object but is a list"),
        ({"each": {"values": ["eu"]}}, r"\$.trigger.each.column: is missing"),
        ({"each": {"column": "region"}}, r"\$.trigger.each.values: is missing"),
        ({"each": {"column": "region", "values": "eu"}}, r"\$.trigger.each.values: must be a list but is a text"),
        ({"each": {"column": "region", "values": ["eu", 1]}}, r"\$.trigger.each.values\[1\]: must be a text but is 1"),
        ({"each": {"column": "region", "values": ["eu", "eu"]}}, r"\$.trigger.each.values\[1\]: is 'eu' again"),
        ({"each": {"column": "hour", "values": ["eu"]}}, r"\$.trigger.each.column: is hour, which is a column"),
        ({"each": {"column": "region", "values": ["eu"], "of": 1}}, r"\$.trigger.each.of: unknown field"),
        ({"calendar": {"weekdays": ["SAT"]}}, r"\$.trigger.calendar: has days, so it needs hours or days"),
        (
            {"calendar": "work", "grain": "hour"},
            r"\$.trigger.calendar: names 'work', but only the `calendars` of an app",
        ),
        ({"of": 2}, r"\$.trigger.of: says how many periods of a roll-up are enough; nothing is rolled up"),
    ],
)
def test_errors_of_json_name_the_place(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        codec.from_json({**PER, **fields}, "$.trigger")


def test_a_submitted_known_set_reruns_after_corrections_and_a_stored_one_does_what_it_says() -> None:
    fields = {**PER, "each": {"column": "region", "values": ["eu", "us"]}}
    assert codec.from_json(fields, "$.trigger") == Per(
        codec.from_json(PER["trigger"], "$"),
        ("hour",),
        each=KnownSet("region", ("eu", "us")),  # type: ignore[arg-type]
    )
    submitted = submitted_schedule_from_json(
        {"name": "s", "program": {"programName": "p"}, "trigger": fields}, "$", app=APP
    ).schedule.trigger
    assert isinstance(submitted, Per)
    assert submitted.on_correction == default_on_correction(submitted.expires)
