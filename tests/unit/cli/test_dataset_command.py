"""`streamsched dataset`: what it asks for, and what it prints at 80 columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.cli.test_requests import Server

DAY = "2026-03-29"
KEY: dict[str, Any] = {
    "key": DAY,
    "complete": False,
    "expected": 23,
    "present": 22,
    "needed": 23,
    "missing": f"{DAY}T23",
    "missingCount": 1,
    "missingPeriods": [f"{DAY}T23"],
    "late": [f"{DAY}T06"],
    "lateCount": 1,
    "rewritten": [f"{DAY}T{hour:02}" for hour in range(5, 11)],
    "rewrittenCount": 9,
}
PARTITION: dict[str, Any] = {
    "partition": f"day={DAY}/hour=05",
    "at": "2026-03-29T04:02:11.5Z",
    "event": "e1",
    "source": "etl",
    "rows": 12,
    "bytes": None,
    "late": True,
    "rewritten": 2,
}
EXPECTATION: dict[str, Any] = {
    "id": "default.traffic.clicks",
    "state": "missing",
    "when": "by 08:00 Europe/Berlin every day",
    "missingSince": "2026-03-28T07:00:00Z",
}
FOUND: dict[str, Any] = {
    "id": "default.clicks",
    "completeness": "incomplete",
    "partitions": [PARTITION],
    "morePartitions": 3,
    "sources": [{"source": "etl", "events": 3}],
    "searched": 2000,
    "searchedAll": False,
    "schedules": [{"schedule": "default.traffic.daily", "state": "enabled", "openKeys": 1}],
    "moreSchedules": 0,
    "otherSchedules": 2,
    "rollUps": [
        {
            "schedule": "default.traffic.daily",
            "of": "1 new partition of default.clicks",
            "grain": "hour",
            "rolledUpTo": "day",
            "zone": "Europe/Berlin",
            "keys": [KEY],
            "moreKeys": 4,
        }
    ],
    "expectations": [EXPECTATION],
    "moreExpectations": 0,
}
NOTHING: dict[str, Any] = {
    **{name: [] for name in ("partitions", "sources", "schedules", "rollUps", "expectations")},
    **dict.fromkeys(("morePartitions", "moreSchedules", "otherSchedules", "moreExpectations", "searched"), 0),
    "id": "default.clicks",
    "completeness": "no expectation",
    "searchedAll": True,
}


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    server.answer = FOUND
    yield server
    server.close()


def shown(server: Server, *arguments: str) -> str:
    """What is printed at 80 columns, with each run of white space as one space."""
    return " ".join(server.run("dataset", "show", *arguments, COLUMNS="80").split())


def test_a_dataset_is_shown_with_what_is_missing_late_and_rewritten(server: Server) -> None:
    said = shown(server, "clicks")
    assert server.requests[-1][:2] == ("GET", "/v1/datasets/default/clicks?limit=20&depth=2000")
    assert said.startswith("clicks: incomplete")
    assert f"traffic.daily {DAY}: 22 of 23, missing {DAY}T23, late {DAY}T06, rewritten {DAY}T05" in said
    assert "waits for it state keys traffic.daily enabled 1" in said
    assert f"{DAY}T09 and 4 more" in said
    assert "4 more open keys" in said
    assert "2 schedules of other namespaces" in said
    assert all(part in said for part in ("traffic.clicks", "missing", "2026-03-28 07:00:00Z"))
    assert "late, rewritten 2 times" in said
    assert "3 more partitions: --limit" in said
    assert "the last 2000 records of its shard were searched; more: --depth" in said


def test_tables_keep_within_80_columns(server: Server) -> None:
    lines = server.run("dataset", "show", "clicks", COLUMNS="80").splitlines()
    tables = [line for line in lines if "  " in line]
    assert tables
    assert max(map(len, tables)) <= 80


def test_nothing_is_called_complete_without_an_expectation(server: Server) -> None:
    server.answer = NOTHING
    said = shown(server, "clicks")
    assert said.startswith("clicks: no expectation nothing says what belongs to it")
    assert "no partition of it is in the log" in said
    assert "no schedule that you may view waits for it" in said
    assert "whole" not in said


def test_enough_of_a_key_is_named(server: Server) -> None:
    key = {**KEY, "complete": True, "needed": 20, "late": [], "rewritten": [], "missing": None}
    server.answer = {**FOUND, "rollUps": [{**FOUND["rollUps"][0], "keys": [key], "moreKeys": 0}]}
    assert f"traffic.daily {DAY}: 22 of 23 (20 are enough)" in shown(server, "clicks")
    server.answer = {**FOUND, "rollUps": [{**FOUND["rollUps"][0], "keys": [], "moreKeys": 0}]}
    assert "traffic.daily: each day by hour, no key is open" in shown(server, "clicks")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("sales.clicks", "/v1/datasets/sales/clicks"),
        ("sales.a.b", "/v1/datasets/sales/a.b"),
        ("a/../b", "/v1/datasets/a%2F/.%2Fb?"),
        ("x?y#z", "/v1/datasets/default/x%3Fy%23z"),
        ("[red]", "/v1/datasets/default/%5Bred%5D"),
    ],
)
def test_names_are_parts_of_the_path(server: Server, name: str, path: str) -> None:
    server.run("dataset", "show", name)
    assert server.requests[-1][1].startswith(path)


def test_programs_read_the_answer_as_it_is(server: Server) -> None:
    assert json.loads(server.run("dataset", "show", "clicks", "-o", "json")) == FOUND
    assert "rolledUpTo: day" in server.run("dataset", "show", "clicks", "-o", "yaml")
    assert server.run("dataset", "show", "clicks", "-o", "name") == "clicks\n"


def test_hostile_texts_are_printed_as_they_are(server: Server) -> None:
    hostile = {**PARTITION, "partition": "day=[bold]x[/]/hour=\u202e1", "source": "\x1b[31m[red]"}
    server.answer = {**FOUND, "id": "default.[b]", "partitions": [hostile]}
    said = shown(server, "clicks")
    assert "[b]: incomplete" in said
    assert "day=[bold]x[/]/hour=" in said
    assert "\x1b" not in said
    assert "\u202e" not in said
