"""Short parts of the year, around changes of clocks; the whole of it is `make trial KIND=year`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.year import simulated_year, through_dev
from tests.year.drawn_year import ZONES, draw_year, hours_of
from tests.year.naive_model import NaiveYear


def test_a_year_has_all_that_can_happen_to_an_hour() -> None:
    year = draw_year(1)
    firsts = {each.id: each for each in reversed(year.writes)}
    names = Counter((each.dataset, each.hour) for each in firsts.values())
    hours = sum(len(hours_of(day, zone)) for day in year.days for zone in ZONES.values())

    assert hours == 3 * 365 * 24
    assert len(year.writes) - len(firsts) > 100, "duplicates"
    assert sum(count > 1 for count in names.values()) > 300, "written again"
    assert hours - len(names) > 5, "missing for ever"
    assert sum(each.late for each in firsts.values()) > 50
    lengths = {name: Counter(len(hours_of(day, zone)) for day in year.days) for name, zone in ZONES.items()}
    assert lengths == {
        "berlin": {24: 363, 23: 1, 25: 1},
        "new-york": {24: 363, 23: 1, 25: 1},
        "delhi": {24: 365},
    }
    model = NaiveYear.of(simulated_year.SCHEDULES)
    for each in year.writes:
        model.take(each)
    daily = model.schedules["daily"]
    assert daily.lost > 5
    assert sum(each.corrects > 0 for each in daily.jobs) > 50


@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.timeout(400)
def test_four_weeks_of_spring_through_dev_are_those_of_the_model(tmp_path: Path) -> None:
    outcome = through_dev.run(tmp_path, draw_year(1, first=date(2026, 3, 3), days=28))

    assert outcome.jobs > 80
    assert outcome.differences == 0, outcome.words


@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.timeout(400)
async def test_weeks_of_autumn_in_virtual_time_are_those_of_the_model(database: str) -> None:
    outcome = await simulated_year.run(database, draw_year(1, first=date(2026, 10, 21), days=16))

    assert outcome.jobs > 40
    assert outcome.differences == 0, outcome.words


@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.timeout(400)
async def test_another_meaning_of_quiet_is_found(database: str) -> None:
    """The model of `rerun_after("3h")` beside a scheduler with two hours."""
    others = [replace(each, quiet=each.quiet and each.quiet + timedelta(hours=1)) for each in simulated_year.SCHEDULES]
    outcome = await simulated_year.run(database, draw_year(1, first=date(2026, 2, 25), days=4), schedules=others)

    assert outcome.differences > 0
