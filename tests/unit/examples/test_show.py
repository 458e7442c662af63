"""What the demo makes of what the scheduler says: values in, lines out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "flights")
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def example_on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(EXAMPLE)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "driver"]:
        del sys.modules[name]


def at(seconds: int) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def job(schedule: str, sequence: int, *, seconds: int, state: str = "LAUNCHED") -> dict[str, Any]:
    name = f"default.flights.{schedule}"
    return {"id": f"{name}.1.{sequence}", "schedule": name, "state": state, "satisfiedAt": at(seconds)}


def run(program: str, of: dict[str, Any], *, start: int, end: int | None, state: str = "COMPLETED") -> dict[str, Any]:
    ended = None if end is None else at(end)
    return {
        "id": f"{of['id']}.r1",
        "program": f"default.flights.{program}",
        "state": state,
        "createdAt": at(start),
        "startedAt": at(start),
        "endedAt": ended,
    }


def test_the_show_ends_when_a_report_began_after_the_last_join() -> None:
    from driver.story import Moment

    joins = [job("weekly-join", 1, seconds=1), job("weekly-join", 2, seconds=2)]
    reports = [job("weekly-report", 1, seconds=11), job("weekly-report", 2, seconds=21)]
    runs = [run("join", joins[0], start=1, end=10), run("join", joins[1], start=2, end=20)]
    early, late = run("report", reports[0], start=11, end=15), run("report", reports[1], start=21, end=25)

    assert not Moment((), tuple(joins), tuple(runs)).complete(2)
    assert not Moment((), (*joins, reports[0]), (*runs, early)).complete(2)
    assert Moment((), (*joins, *reports), (*runs, early, late)).complete(2)
    assert not Moment((), (*joins, *reports), (*runs, early, late)).complete(3)
    waiting = job("weekly-report", 3, seconds=26, state="PENDING_CONSTRAINT")
    assert not Moment((), (*joins, *reports, waiting), (*runs, early, late)).complete(2)


def test_a_satisfaction_that_joined_a_waiting_job_counts_as_its_week() -> None:
    from driver.story import Moment

    joins = [job("weekly-join", 1, seconds=1), job("weekly-join", 2, seconds=2, state="COALESCED")]
    report = job("weekly-report", 1, seconds=11)
    runs = run("join", joins[0], start=1, end=10), run("report", report, start=11, end=15)

    assert Moment((), (*joins, report), runs).complete(2)


def test_a_run_that_failed_is_found() -> None:
    from driver.story import Moment

    join = job("weekly-join", 1, seconds=1)
    failed = run("join", join, start=1, end=2, state="FAILED")

    assert Moment((), (join,), (failed,)).failed() == failed
    assert Moment((), (join,), (run("join", join, start=1, end=None, state="RUNNING"),)).failed() is None


def test_the_time_line_is_in_the_order_things_happened() -> None:
    from driver.story import Commit, Moment, time_line

    join = job("weekly-join", 1, seconds=2)
    commits = [
        Commit(START, "flights", ("2013-03-01",), 958),
        Commit(START, "weather", ("2013-03-01", "2013-03-02"), 144),
    ]

    reported = time_line(commits, Moment((), (join,), (run("join", join, start=3, end=9),)))

    assert [(each.kind, each.text) for each in reported] == [
        ("event", "flights: 2013-03-01 (958 rows)"),
        ("event", "weather: 2013-03-01 … 2013-03-02 (144 rows)"),
        ("job", "weekly-join.1.1 is ready"),
        ("run", "weekly-join.1.1.r1 starts"),
        ("run", "weekly-join.1.1.r1 completed"),
    ]


def test_without_a_terminal_each_line_is_said_once() -> None:
    from driver.screen import Screen
    from driver.story import Counted, Moment

    out = StringIO()
    screen = Screen(Console(file=out, width=100))
    some = Moment((Counted("flights", 5, 7), Counted("weather", 3, 7)), (), ())

    with screen.watching():
        screen.show(some, landing="land.py has landed 8 partitions")
        screen.show(some, landing="land.py has landed 8 partitions")

    assert out.getvalue().splitlines() == [
        "land.py has landed 8 partitions",
        "weekly-join waits: flights 5 of 7, weather 3 of 7",
    ]
