"""`streamsched cron next`: runs without a server and marks odd days."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from streamsched.cli.cron import print_forecast
from streamsched.cli.main import make_app

BERLIN = ("--zone", "Europe/Berlin", "--after", "2026-03-28T12:00Z", "--count", "2")


def test_odd_days_are_marked() -> None:
    found = CliRunner().invoke(make_app(), ["cron", "next", "30 2 * * *", *BERLIN])
    assert found.exit_code == 0, found.output
    title, _, odd, usual, *_ = found.output.splitlines()
    assert title.strip() == "cron '30 2 * * *' in Europe/Berlin"
    assert odd.startswith("Sun 2026-03-29 03:00:00 +0200  2026-03-29 01:00:00Z")
    assert "02:30 does not come that day" in odd
    assert usual.strip() == "Mon 2026-03-30 02:30:00 +0200  2026-03-30 00:30:00Z"


def test_days_left_out_stand_in_their_place() -> None:
    found = CliRunner().invoke(make_app(), ["cron", "next", "0 30 2 * * *", "--dialect", "dapr", *BERLIN])
    assert [line.split()[0] for line in found.output.splitlines()[2:4]] == ["2026-03-29", "Mon"]


def test_programs_read_json() -> None:
    found = CliRunner().invoke(
        make_app(), ["cron", "next", "0 12 ? * FRI#3", "--dialect", "quartz", *BERLIN, "-o", "json"]
    )
    assert [tick["at"] for tick in json.loads(found.output)["ticks"]] == [
        "2026-04-17T10:00:00Z",
        "2026-05-15T10:00:00Z",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["0 0 30 2 *"], "$.expression: '0 0 30 2 *' never matches"),
        (["0 4 * * *", "--zone", "Mars"], "$.zone: 'Mars' is no IANA time zone"),
        (["0 4 * * *", "--after", "soon"], "--after: 'soon' is no instant"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    found = CliRunner().invoke(make_app(), ["cron", "next", *arguments])
    assert found.exit_code == 2
    assert message in found.output


def test_what_fires_later_says_by_how_much(capsys: pytest.CaptureFixture[str]) -> None:
    tick = {"at": "2026-01-01T04:00:00Z", "local": "2026-01-01T04:00:00+00:00", "firesAt": "2026-01-01T04:07:29.7Z"}
    print_forecast({"when": "[x]", "zone": "UTC", "ticks": [{**tick, "notes": []}], "omitted": []})
    title, _, line = capsys.readouterr().out.splitlines()
    assert title.strip() == "[x]"
    assert line.split() == ["Thu", "2026-01-01", "04:00:00", "+0000", "2026-01-01", "04:00:00Z", "+7m30s"]


def test_what_never_ticks_again_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    print_forecast({"when": "at …", "zone": "UTC", "ticks": [], "omitted": []})
    assert "it never ticks again" in capsys.readouterr().out
