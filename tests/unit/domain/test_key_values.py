"""The value of a key that columns give: composed periods, what is no value, and why."""

from __future__ import annotations

import pytest

from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.names import DatasetRef, EventName
from streamsched.domain.schedules.key_columns import key_columns
from streamsched.domain.time.grain import Grain
from streamsched.domain.time.period import NO_ZONE
from streamsched.domain.triggers.correlation import Per
from streamsched.domain.triggers.keys.key_value import HIVE_NULL, NoKey, grain_by_name, key_value, period_columns
from streamsched.domain.triggers.named_key import named_key
from streamsched.domain.triggers.trigger import CustomEvent, Partitions, Trigger, check_correlation, check_key_grains

GO = CustomEvent(EventName("default", "go"))
CLICKS = Partitions(DatasetRef("default", "clicks"))
BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("values", "grain", "key"),
    [
        ({"day": "2026-03-01", "hour": "05"}, Grain.HOUR, "2026-03-01T05"),
        ({"day": "20260301", "hour": "5"}, Grain.HOUR, "2026-03-01T05"),
        ({"day": "2026-03-01 00:00:00", "hour": "05%3A00"}, Grain.HOUR, "2026-03-01T05"),
        ({"year": "2026", "month": "3", "day": "1", "hour": "5"}, Grain.HOUR, "2026-03-01T05"),
        ({"month": "2026-3", "day": "01", "hour": "05"}, Grain.HOUR, "2026-03-01T05"),
        ({"year": "2026", "month": "03", "day": "01"}, Grain.DAY, "2026-03-01"),
        ({"year": "2026", "month": "3"}, Grain.MONTH, "2026-03"),
        ({"year": "2026", "week": "9"}, Grain.WEEK, "2026-W09"),
        ({"year": "2026", "week": "W09"}, Grain.WEEK, "2026-W09"),
        ({"dt": "2026-03-01", "hr": "5"}, Grain.HOUR, "2026-03-01T05"),
    ],
)
def test_several_columns_compose_one_period(values: dict[str, str], grain: Grain, key: str) -> None:
    per = Per(GO, tuple(values), grain)

    assert per.value(values) == key
    assert named_key(per, values) == key
    assert named_key(per, key_columns(per, key)) == key


def test_the_columns_of_a_composed_key_are_its_parts() -> None:
    hours = Per(GO, ("year", "month", "day", "hour"), Grain.HOUR, zone=BERLIN)

    assert key_columns(hours, "2026-03-01T05") == {"year": "2026", "month": "03", "day": "01", "hour": "05"}
    assert key_columns(Per(GO, ("day", "hour"), Grain.HOUR, zone=BERLIN), "2026-10-25T02+01:00") == {
        "day": "2026-10-25",
        "hour": "02+01:00",
    }
    assert key_columns(Per(GO, ("year", "week"), Grain.WEEK), "2026-W09") == {"year": "2026", "week": "09"}
    assert key_columns(hours, "EU") == {}
    assert period_columns("2026-03-01", [Grain.MONTH, Grain.DAY]) == ["2026-03", "01"]


@pytest.mark.parametrize(
    ("by", "values", "grain", "zone", "why"),
    [
        (("hour",), {"hour": "5am"}, Grain.HOUR, NO_ZONE, "hour='5am' names no hour"),
        (("hour",), {"day": "x"}, Grain.HOUR, NO_ZONE, "hour is missing"),
        (("hour",), {"hour": ""}, None, NO_ZONE, "hour is empty"),
        (("region", "hour"), {"region": "EU"}, None, NO_ZONE, "hour is missing"),
        (("region",), {"region": HIVE_NULL}, None, NO_ZONE, f"region is {HIVE_NULL}, which is no value"),
        (("hour",), {"hour": HIVE_NULL}, Grain.HOUR, NO_ZONE, f"hour is {HIVE_NULL}, which is no value"),
        (
            ("hour",),
            {"hour": "05"},
            Grain.HOUR,
            NO_ZONE,
            "hour='05' names no hour: it is a number without a date; name the columns of its day too",
        ),
        (
            ("hour",),
            {"hour": "2026-03-01T05:30"},
            Grain.HOUR,
            NO_ZONE,
            "hour='2026-03-01T05:30' names no hour: the clock shows 2026-03-01 05:30, and no hour begins then",
        ),
        (("day", "hour"), {"day": "x", "hour": "5"}, Grain.HOUR, NO_ZONE, "day='x' names no day"),
        (
            ("day", "hour"),
            {"day": "2026-03-01", "hour": "5am"},
            Grain.HOUR,
            NO_ZONE,
            "hour='5am' names no hour",
        ),
        (
            ("day", "hour"),
            {"day": "2026-03-29", "hour": "2"},
            Grain.HOUR,
            BERLIN,
            "day='2026-03-29', hour='2' name no hour: clocks of Europe/Berlin skip it",
        ),
        (
            ("year", "month"),
            {"year": "2026", "month": "March"},
            Grain.MONTH,
            NO_ZONE,
            "month='March' names no month: it is no number of one or two digits",
        ),
        (
            ("year", "month"),
            {"year": "2026", "month": "13"},
            Grain.MONTH,
            NO_ZONE,
            "year='2026', month='13' name no month: there is no such time",
        ),
    ],
)
def test_columns_without_a_value_say_why(
    by: tuple[str, ...], values: dict[str, str], grain: Grain | None, zone: str, why: str
) -> None:
    assert key_value(by, values, grain, zone) == NoKey(why)


@pytest.mark.parametrize("text", ["\0\x1b[31m", "\ud800", "x" * 1_000_000, "\n".join("ab"), "%F0%28%8C", "٢٠٢٦-٠٣-٠١"])
def test_a_reason_is_one_short_line_whatever_the_text(text: str) -> None:
    for by in (("hour",), ("day", "hour"), ("h" * 255,), ("\x1b", "hour")):
        found = key_value(by, dict.fromkeys(by, text), Grain.HOUR)
        assert isinstance(found, NoKey)
        assert len(found.why) <= 300
        assert found.why.isprintable()


@pytest.mark.parametrize(
    ("by", "grain"),
    [
        (("hour",), Grain.HOUR),
        (("date",), Grain.DAY),
        (("date", "hour"), Grain.HOUR),
        (("year", "month", "day"), Grain.DAY),
        (("year", "week"), Grain.WEEK),
        (("region",), None),
        (("region", "date"), None),
        (("hour", "day"), None),
        ((), None),
    ],
)
def test_names_of_columns_say_a_grain_when_they_compose_it(by: tuple[str, ...], grain: Grain | None) -> None:
    assert grain_by_name(by) is grain


def test_hours_in_columns_roll_up_to_the_day_of_a_zone_and_join_a_single_column() -> None:
    hours = Per(CLICKS, ("day", "hour"), Grain.HOUR, rolled_up_to=Grain.DAY, zone=BERLIN)
    dates = Per(GO, ("date",), Grain.DAY)

    assert check_correlation(hours & dates)
    assert [hours.wanted_parts(day) for day in ("2026-03-28", "2026-03-29", "2026-10-25")] == [24, 23, 25]
    assert hours.cells("2026-10-25T02+01:00") == ("2026-10-25",)
    assert str(hours) == "(1 new partition of default.clicks) for each day and hour, rolled up to days in Europe/Berlin"


def test_a_day_of_a_zone_fans_out_to_the_hours_it_has() -> None:
    fan = Per(CLICKS, ("date",), Grain.DAY, fanned_out_to=Grain.HOUR, zone=BERLIN)

    assert len(fan.cells("2026-03-29")) == 23
    assert fan.cells("2026-10-25")[2:4] == ("2026-10-25T02", "2026-10-25T02+01:00")


@pytest.mark.parametrize(
    ("per", "text"),
    [
        (Per(GO, ("hour",), Grain.HOUR), "for each hour"),
        (Per(GO, ("hour",)), "for each hour (as text)"),
        (Per(GO, ("hr",)), "for each hr"),
        (Per(GO, ("hr",), Grain.HOUR), "for each hr (hour)"),
        (Per(GO, ("day", "hour"), Grain.HOUR), "for each day and hour (hour)"),
        (Per(GO, ("day", "hour")), "for each day and hour"),
        (Per(GO, ("hour",), Grain.HOUR, zone=BERLIN), "for each hour in Europe/Berlin"),
    ],
)
def test_a_trigger_says_how_its_keys_are_read(per: Per, text: str) -> None:
    assert str(per) == f"(event default.go) {text}"


@pytest.mark.parametrize(
    ("by", "options", "message"),
    [
        (("h",), {"rolled_up_to": Grain.DAY}, "$.grain: is missing: hour, day, week, month or year, whichever h names"),
        (
            ("dt", "hr"),
            {"rolled_up_to": Grain.DAY},
            "$.grain: is missing: hour, day, week, month or year, whichever dt and hr name together",
        ),
        (
            ("h",),
            {"zone": BERLIN},
            "$.zone: is of periods, so it needs a grain: hour, day, week, month or year, whichever h names",
        ),
        (("h",), {"grain": Grain.HOUR, "zone": "Europe/Bonn"}, "$.zone: 'Europe/Bonn' is no IANA time zone"),
        (
            ("hour", "day"),
            {"grain": Grain.HOUR},
            "$.by: must name one hour from coarse to fine, as day and hour; but hour is where its day is",
        ),
        (
            ("a", "b", "c", "d", "e"),
            {"grain": Grain.HOUR},
            "$.by: must be at most 4 columns that name one hour: year, month, day and hour",
        ),
        (("a", "b"), {"grain": Grain.YEAR}, "$.by: must be at most 1 columns that name one year: year"),
        (
            ("w",),
            {"grain": Grain.WEEK, "rolled_up_to": Grain.MONTH},
            "$.rolled_up_to: is month, but weeks do not divide months and years: use days or hours in place of weeks",
        ),
        (
            ("m",),
            {"grain": Grain.MONTH, "fanned_out_to": Grain.WEEK},
            "$.fanned_out_to: is week, but weeks do not divide months and years: use days or hours in place of weeks",
        ),
        (
            ("d",),
            {"grain": Grain.DAY, "rolled_up_to": Grain.HOUR},
            "$.rolled_up_to: must be coarser than the day but is hour",
        ),
    ],
)
def test_a_key_that_cannot_be_says_what_to_write(by: tuple[str, ...], options: dict[str, Grain], message: str) -> None:
    with pytest.raises(InvalidDefinitionError) as refused:
        Per(GO, by, **options)  # type: ignore[arg-type]
    assert str(refused.value).startswith(message)


def test_keys_of_different_grains_together_are_refused() -> None:
    hours, days = Per(CLICKS, ("hour",), Grain.HOUR), Per(GO, ("date",), Grain.DAY)

    with pytest.raises(InvalidDefinitionError, match="waits for days and for hours, which are never one key"):
        check_key_grains(hours & days)
    for trigger in (hours | days, hours & Per(GO, ("date",)), Per(CLICKS, ("h",), Grain.HOUR, Grain.DAY) & days):
        check_key_grains(trigger)
    assert check_correlation(hours & days)  # one that was stored before is read


@pytest.mark.parametrize(
    ("trigger", "columns", "key"),
    [
        (Per(GO, ("hour",), Grain.HOUR, Grain.DAY), {"day": "20260301"}, "2026-03-01"),
        (Per(GO, ("day", "hour"), Grain.HOUR), {"hour": "2026-03-01 05"}, "2026-03-01T05"),
        (Per(GO, ("date",), Grain.DAY, fanned_out_to=Grain.HOUR), {"hour": "2026-03-01T05Z"}, "2026-03-01T05"),
    ],
)
def test_a_key_may_be_named_by_its_period(trigger: Trigger, columns: dict[str, str], key: str) -> None:
    assert named_key(trigger, columns) == key


def test_what_names_no_key_says_why() -> None:
    with pytest.raises(InvalidError, match="is none: hour='5am' names no hour"):
        named_key(Per(GO, ("hour",), Grain.HOUR), {"hour": "5am"})
