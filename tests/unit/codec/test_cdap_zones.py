"""Time zones and cron expressions as CDAP's clients write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from streamsched.dialects.cdap.codec import schedule as codec
from streamsched.dialects.cdap.codec.zone import iana
from streamsched.domain.errors import InvalidError
from streamsched.domain.time.zone import zone_names, zone_of
from tests.unit.codec.test_cdap_schedule_json import NIGHTLY, SMALL, UPDATED


@pytest.mark.parametrize(
    ("java", "zone"),
    [
        ("PST", "America/Los_Angeles"),
        ("IST", "Asia/Kolkata"),
        ("GMT+8", "Etc/GMT-8"),
        ("GMT-08:00", "Etc/GMT+8"),
        ("GMT+0", "Etc/GMT"),
        ("GMT+15", "GMT+15"),
        ("GMT+05:30", "Asia/Kolkata"),
        ("GMT+0545", "Asia/Kathmandu"),
        ("GMT-09:30", "Pacific/Marquesas"),
        ("GMT-05:30", "GMT-05:30"),
        ("GMT+05:75", "GMT+05:75"),
        ("Europe/Berlin", "Europe/Berlin"),
    ],
)
def test_javas_time_zones_are_read_as_ianas(java: str, zone: str) -> None:
    assert iana(java) == zone


@pytest.mark.parametrize("offset", ["+03:30", "+04:30", "+05:30", "+05:45", "+06:30", "+08:45", "+09:30", "-09:30"])
def test_a_zone_with_minutes_has_its_offset_all_year(offset: str) -> None:
    hours, minutes = (int(part) for part in offset[1:].split(":"))
    wanted = timedelta(hours=hours, minutes=minutes) * (-1 if offset[0] == "-" else 1)

    found = {zone_of(iana(f"GMT{offset}")).utcoffset(datetime(2026, month, 1, tzinfo=UTC)) for month in range(1, 13)}

    assert found == {wanted}


def test_an_empty_zone_is_refused() -> None:
    window = {"type": "TIME_RANGE", "startTime": "01:00", "endTime": "02:00", "timeZone": ""}
    for body in (
        {"constraints": [window]},
        {"trigger": {"type": "TIME", "cronExpression": "0 4 * * *", "timeZone": ""}},
    ):
        with pytest.raises(InvalidError, match="timeZone: is empty"):
            codec.from_json({**SMALL, **body}, NIGHTLY)


@pytest.mark.parametrize("cron", ["0  4 * * *", "0\t4 * * *", " 0 4 * * *", "0 4 * * * "])
def test_fields_of_a_cron_are_separated_by_one_space(cron: str) -> None:
    with pytest.raises(InvalidError, match="separated by one space"):
        codec.from_json({**SMALL, "trigger": {"type": "TIME", "cronExpression": cron}}, NIGHTLY)


def test_no_zone_of_iana_is_taken_for_one_of_java() -> None:
    for zone in zone_names():
        assert iana(zone) == zone or iana(zone).startswith("Etc/GMT")
        assert zone_of(iana(zone)).utcoffset(UPDATED) == zone_of(zone).utcoffset(UPDATED)
