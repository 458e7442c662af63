"""`streamsched cron next` and the printing of forecasts. Needs no server."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from streamsched.cli.commands.cron import print_forecast
from streamsched.cli.main import make_app
from streamsched.define.combinators import TriggerExpression
from streamsched.define.triggers import every
from streamsched.domain.names import AppRef

BERLIN = ("--zone", "Europe/Berlin", "--after", "2026-03-28T12:00Z", "--count", "2")
WIDE = {"COLUMNS": "200"}


def test_days_changed_by_daylight_saving_have_a_note() -> None:
    found = CliRunner(env=WIDE).invoke(make_app(), ["cron", "next", "30 2 * * *", *BERLIN])
    assert found.exit_code == 0, found.output
    title, heads, changed, usual, *_ = found.output.splitlines()
    assert title.strip() == "cron '30 2 * * *' in Europe/Berlin"
    assert heads.split() == ["Europe/Berlin", "UTC", "note"]
    assert changed.startswith("Sun 2026-03-29 03:00:00 +0200  2026-03-29 01:00:00Z")
    assert "02:30" in changed.partition("Z")[2]
    assert usual.strip() == "Mon 2026-03-30 02:30:00 +0200  2026-03-30 00:30:00Z"


def test_omitted_days_are_listed_in_order() -> None:
    found = CliRunner(env=WIDE).invoke(make_app(), ["cron", "next", "0 30 2 * * *", "--dialect", "dapr", *BERLIN])
    assert [line.split()[0] for line in found.output.splitlines()[2:4]] == ["2026-03-29", "Mon"]


def test_json_has_the_ticks() -> None:
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
        (["0 0 30 2 *"], "expression: '0 0 30 2 *' never matches"),
        (["0 4 * * *", "--after", "9999-12-31T00:00Z"], "error: --after: must be from year 1000 to 4999"),
        (["0 4 * * *", "--zone", "Mars"], "error: zone: 'Mars' is no IANA time zone"),
        (["0 4 * * *", "--after", "soon"], "--after: 'soon' is not an instant"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    found = CliRunner().invoke(make_app(), ["cron", "next", *arguments])
    assert found.exit_code == 2
    assert message in found.output


def test_jitter_is_shown_as_a_delay(capsys: pytest.CaptureFixture[str]) -> None:
    tick = {"at": "2026-01-01T04:00:00Z", "local": "2026-01-01T04:00:00+00:00", "firesAt": "2026-01-01T04:07:29.7Z"}
    print_forecast({"when": "[x]", "zone": "UTC", "ticks": [{**tick, "notes": []}], "omitted": []})
    title, heads, line = capsys.readouterr().out.splitlines()
    assert title.strip() == "[x]"
    assert heads.split() == ["UTC", "delay"]
    assert line.split() == ["Thu", "2026-01-01", "04:00:00Z", "+7m30s"]


def test_a_zone_has_its_own_column_even_at_offset_zero(capsys: pytest.CaptureFixture[str]) -> None:
    tick = {"at": "2026-01-01T04:00:00Z", "local": "2026-01-01T04:00:00+00:00", "firesAt": "2026-01-01T04:00:00Z"}
    print_forecast({"when": "x", "zone": "Europe/London", "ticks": [{**tick, "notes": []}], "omitted": []})
    _, heads, line = capsys.readouterr().out.splitlines()
    assert heads.split() == ["Europe/London", "UTC"]
    assert line.split() == ["Thu", "2026-01-01", "04:00:00", "+0000", "2026-01-01", "04:00:00Z"]


@pytest.mark.parametrize(
    ("trigger", "title"), [(every("90m"), "every 1h30m"), (every("1d"), "every 1d"), (every("2s"), "every 2s")]
)
def test_an_interval_is_shown_with_units(
    trigger: TriggerExpression, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    leaf = trigger.build(AppRef("default", "a"))
    print_forecast({"when": str(leaf), "zone": "UTC", "ticks": [], "omitted": []})
    assert capsys.readouterr().out.splitlines()[0] == title


def test_a_trigger_without_further_ticks(capsys: pytest.CaptureFixture[str]) -> None:
    print_forecast({"when": "at …", "zone": "UTC", "ticks": [], "omitted": []})
    assert "no further ticks" in capsys.readouterr().out
