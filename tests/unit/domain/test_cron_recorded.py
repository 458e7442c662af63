"""The answers of the originals, recorded: Quartz itself, and the robfig/cron from which Dapr's dialect comes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamsched.domain.ticks.fire_times import check_cron, next_fire, previous_fire
from streamsched.domain.time.dialect import Dialect
from streamsched.domain.triggers.time_leaf import Cron

GOLDEN = Path(__file__).parents[2] / "golden" / "cron"


def _recorded(name: str) -> Iterator[tuple[str, datetime, list[datetime]]]:
    for line in (GOLDEN / name).read_text().splitlines():
        expression, after, *ticks = line.split("\t")
        yield expression, datetime.fromisoformat(after), [datetime.fromisoformat(tick) for tick in ticks]


@pytest.mark.parametrize(
    ("name", "dialect"), [("quartz-2.3.2.tsv", Dialect.QUARTZ), ("robfig-3.0.1.tsv", Dialect.DAPR)]
)
def test_ticks_are_those_of_the_original(name: str, dialect: Dialect) -> None:
    for expression, after, ticks in _recorded(name):
        leaf, at = Cron(expression, dialect=dialect), after
        check_cron(leaf)
        for tick in ticks:
            assert next_fire(leaf, at, created_at=after) == tick, f"{expression} after {at}"
            at = tick
        if len(ticks) < 4:
            assert next_fire(leaf, at, created_at=after) is None, expression
        for later, earlier in zip(reversed(ticks), reversed(ticks[:-1]), strict=False):
            assert previous_fire(leaf, later, created_at=after) == earlier, f"{expression} before {later}"


@pytest.mark.parametrize(
    ("expression", "after", "ours", "theirs"),
    [
        # Where a clock moves by half an hour robfig/cron loses matches, a whole day for a daily one.
        (
            "TZ=Australia/Lord_Howe @midnight",
            "2024-04-06T14:00Z",
            "2024-04-07T13:30Z",
            "2024-04-08T13:30Z",
        ),
        (
            "TZ=Australia/Lord_Howe 30 4-18/4 3 15 * 0",
            "2024-03-30T17:37:33Z",
            "2024-04-06T16:34:30Z",
            "2024-04-13T16:34:30Z",
        ),
    ],
)
def test_where_robfig_differs(expression: str, after: str, ours: str, theirs: str) -> None:
    leaf, at = Cron(expression, dialect=Dialect.DAPR), datetime.fromisoformat(after)
    found = next_fire(leaf, at, created_at=at)
    assert found is not None
    assert found == datetime.fromisoformat(ours).astimezone(UTC)
    assert found < datetime.fromisoformat(theirs)


@pytest.mark.parametrize(
    "expression",
    [
        # Quartz crashes on a range from a name to a number, or from a number to a name.
        "0 1 16 4 FEB-10 ?",
        "0 25 */8 ? * 1-TUE",
        # Quartz refuses these days in a list with others, and of `1,15W` it takes the first alone.
        "0 0 12 1,LW * ?",
        "0 0 12 1,15W * ?",
        "0 0 12 ? * MON#1,MON#3",
    ],
)
def test_what_quartz_does_not_read_and_we_do(expression: str) -> None:
    check_cron(Cron(expression, dialect=Dialect.QUARTZ))
