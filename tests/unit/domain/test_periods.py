"""Which texts name a period, and why others do not."""

from __future__ import annotations

import time

import pytest

from streamsched.domain.time.grain import Grain
from streamsched.domain.time.period import NO_ZONE, Period, period
from streamsched.domain.time.period_text import NoPeriod

BERLIN = "Europe/Berlin"
SPELLINGS = {
    Grain.HOUR: """2026-03-01T05|2026-03-01 05|2026-03-01_05|2026-03-01-05|2026-03-01T05:00|2026-03-01T05:00:00
        |2026-03-01 05:00:00|2026-03-01 05:00:00.0|2026-03-01T05:00:00.000|2026-03-01T05:00:00Z|2026-03-01T05Z
        |2026-03-01T06:00:00+01:00|2026-03-01T06:00+0100|2026-03-01 06:00:00+01|2026-03-01T00:00:00-05:00
        |2026-03-01T10:30:00+05:30|20260301T05|20260301T0500|20260301T050000Z|20260301 05|20260301_05|2026-3-1T5
        |2026-3-1 5:00|2026-03-01-05-00|2026-03-01-05-00-00|2026-03-01T05%3A00%3A00|2026-03-01T06%3A00%2B01%3A00
        |2026-03-01%2005|2026-W09-7T05|2026-03-01 05:00:00 UTC|2026-03-01t05z""",
    Grain.DAY: """2026-03-01|20260301|2026-3-1|2026-W09-7|2026W097|2026-03-01 00:00:00|2026-03-01T00:00:00.000Z
        |2026-03-01T01:00+01:00|2026-02-28T23:00:00-01:00""",
    Grain.WEEK: "2026-W10|2026W10|2026-W10-1|2026-03-02|20260302|2026-03-02 00:00:00",
    Grain.MONTH: "2026-03|202603|2026-3|2026-03-01|2026-03-01 00:00:00",
    Grain.YEAR: "2026|2026-01-01|2026-01-01T00:00:00Z",
}
KEYS = {
    Grain.HOUR: "2026-03-01T05",
    Grain.DAY: "2026-03-01",
    Grain.WEEK: "2026-W10",
    Grain.MONTH: "2026-03",
    Grain.YEAR: "2026",
}


@pytest.mark.parametrize("grain", Grain)
def test_all_spellings_of_a_period_are_one_key(grain: Grain) -> None:
    texts = [text.strip() for text in SPELLINGS[grain].replace("\n", "").split("|")]

    assert {text: _said(text, grain) for text in texts} == dict.fromkeys(texts, KEYS[grain])


@pytest.mark.parametrize(
    ("text", "grain", "zone", "key"),
    [
        ("2026-03-01T05", Grain.HOUR, BERLIN, "2026-03-01T05"),
        ("2026-03-01T05Z", Grain.HOUR, BERLIN, "2026-03-01T06"),
        ("2026-03-01 05:00:00", Grain.HOUR, BERLIN, "2026-03-01T05"),
        ("2026-02-28T23:00:00Z", Grain.DAY, BERLIN, "2026-03-01"),
        ("2026-10-25T02", Grain.HOUR, BERLIN, "2026-10-25T02"),
        ("2026-10-25T02+02:00", Grain.HOUR, BERLIN, "2026-10-25T02"),
        ("2026-10-25T02+01:00", Grain.HOUR, BERLIN, "2026-10-25T02+01:00"),
        ("2026-10-25T01:00:00Z", Grain.HOUR, BERLIN, "2026-10-25T02+01:00"),
        ("2026-10-25T02+01:00", Grain.HOUR, NO_ZONE, "2026-10-25T01"),
        ("2026-03-01T05:30Z", Grain.HOUR, "Asia/Kolkata", "2026-03-01T11"),
        ("2026-10-03T15:30Z", Grain.HOUR, "Australia/Lord_Howe", "2026-10-04T02"),
        ("2026-10-04T02", Grain.HOUR, "Australia/Lord_Howe", "2026-10-04T02"),
        ("0001-01-01", Grain.DAY, NO_ZONE, "0001-01-01"),
        ("9998-12-31", Grain.DAY, BERLIN, "9998-12-31"),
    ],
)
def test_a_text_is_read_on_the_clock_of_the_zone(text: str, grain: Grain, zone: str, key: str) -> None:
    assert _said(text, grain, zone) == key


@pytest.mark.parametrize(
    ("text", "grain", "zone", "why"),
    [
        ("5am", Grain.HOUR, NO_ZONE, ""),
        ("", Grain.HOUR, NO_ZONE, ""),
        ("null", Grain.DAY, NO_ZONE, ""),
        ("05", Grain.HOUR, NO_ZONE, ""),
        ("2026030105", Grain.HOUR, NO_ZONE, ""),
        ("1772341200", Grain.HOUR, NO_ZONE, ""),
        ("2026-03T05", Grain.HOUR, NO_ZONE, ""),
        ("2026-03-01", Grain.HOUR, NO_ZONE, "it names a day"),
        ("2026-03-01T00", Grain.DAY, NO_ZONE, "it names an hour"),
        ("2026-W10", Grain.MONTH, NO_ZONE, "it names a week"),
        ("2026-03", Grain.WEEK, NO_ZONE, "it names a month"),
        ("2026-03-01T05:30", Grain.HOUR, NO_ZONE, "the clock shows 2026-03-01 05:30, and no hour begins then"),
        ("2026-03-01T05-30", Grain.HOUR, NO_ZONE, "the clock shows 2026-03-01 05:30, and no hour begins then"),
        ("2026-03-01T05:00:01", Grain.HOUR, NO_ZONE, "the clock shows 2026-03-01 05:00:01, and no hour begins then"),
        (
            "2026-03-01T05:00:00.5",
            Grain.HOUR,
            NO_ZONE,
            "the clock shows 2026-03-01 05:00:00.500000, and no hour begins then",
        ),
        ("2026-03-02", Grain.MONTH, NO_ZONE, "the clock shows 2026-03-02 00:00, and no month begins then"),
        ("2026-03-01", Grain.WEEK, NO_ZONE, "the clock shows 2026-03-01 00:00, and no week begins then"),
        (
            "2026-03-01T00:00Z",
            Grain.DAY,
            BERLIN,
            f"the clock of {BERLIN} shows 2026-03-01 01:00, and no day begins then",
        ),
        (
            "2026-03-01T05Z",
            Grain.HOUR,
            "Asia/Kolkata",
            "the clock of Asia/Kolkata shows 2026-03-01 10:30, and no hour ",
        ),
        ("2026-03-29T02", Grain.HOUR, BERLIN, f"clocks of {BERLIN} skip it"),
        ("2011-12-30", Grain.DAY, "Pacific/Apia", "clocks of Pacific/Apia skip it"),
        ("2026-02-30", Grain.DAY, NO_ZONE, "there is no such time"),
        ("2026-W54", Grain.WEEK, NO_ZONE, "there is no such time"),
        ("2026-03-01T24", Grain.HOUR, NO_ZONE, "there is no such time"),
        ("2026-03-01T05:00+24:00", Grain.HOUR, NO_ZONE, "there is no such time"),
        ("9999-01-01", Grain.DAY, NO_ZONE, "its year is out of range"),
        ("0001-01-01", Grain.DAY, BERLIN, "its year is out of range"),
        ("9998-12-31T19:00-05:00", Grain.YEAR, NO_ZONE, "its year is out of range"),
        ("2026-03-01T05" + " " * 60, Grain.HOUR, NO_ZONE, "it is longer than 64 characters"),
        ("2" * 5_000_000, Grain.HOUR, NO_ZONE, "it is longer than 64 characters"),
    ],
)
def test_other_texts_say_why_they_name_none(text: str, grain: Grain, zone: str, why: str) -> None:
    found = period(text, grain, zone)

    assert isinstance(found, NoPeriod)
    assert found.why.startswith(why)
    assert why or not found.why


@pytest.mark.parametrize(
    "text", ["1" * 64, "2026-" + "1" * 59, "2026-03-01T05:00:00." + "0" * 44, "-" * 64, "%20" * 21]
)
def test_hostile_texts_take_no_time(text: str) -> None:
    begin = time.process_time()
    for _ in range(200):
        period(text, Grain.HOUR)

    assert time.process_time() - begin < 0.5


def _said(text: str, grain: Grain, zone: str = NO_ZONE) -> str:
    found = period(text, grain, zone)
    return found.key if isinstance(found, Period) else f"none: {found.why}"
