"""What commands print of joins per run."""

from __future__ import annotations

import pytest

from streamsched.cli.commands.schedules.open_keys import joins_runs, print_losses
from streamsched.cli.preview import print_preview

BROKEN = {
    "schedule": "default.other.j",
    "ancestor": "default.shop.a",
    "program": "default.shop.c",
    "text": "joins per run of default.shop.a, which leads no more to default.shop.c: its runs would not count",
}


def test_a_plan_names_the_joins_that_it_breaks_also_where_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    print_preview({"differs": False, "brokenJoins": [BROKEN]})
    printed = " ".join(capsys.readouterr().out.split())
    assert printed == (
        "! schedule other.j joins per run of shop.a, which leads no more to shop.c: its runs would not count nothing "
        "would change"
    )


def test_a_trigger_whose_keys_are_runs_is_found_at_any_depth() -> None:
    per = {"type": "PER", "trigger": {"type": "AND", "triggers": []}, "runOf": {"programId": {"program": "a"}}}
    assert joins_runs({"type": "WITHIN", "trigger": {"type": "OR", "triggers": [per]}})
    assert not joins_runs({"type": "AND", "triggers": [{"type": "PER", "by": ["day"]}]})


def test_refused_events_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    print_losses({"losses": {"expiredKeys": 0, "droppedKeys": 0, "refusedEvents": 1}})
    assert "1 events with too many keys or ancestors were refused" in capsys.readouterr().out
