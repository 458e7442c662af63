"""What schedules lose is said in few lines that count everything."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import structlog

from streamsched.stream.agents.loss_log import LossLog

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_many_losses_are_few_lines_that_count_all() -> None:
    """An hour with six lost keys a second, each in a turn of its own, was 21,600 lines."""
    losses = LossLog()
    with structlog.testing.capture_logs() as lines:
        for second in range(3600):
            for nth in range(6):
                at = NOON + timedelta(seconds=second)
                losses.add(f"ns.app.s{nth}", "wake", expired=1, dropped=0, refused=0, reason="too late")
                losses.say(at)
        losses.say(NOON + timedelta(hours=2))

    assert len(lines) == 361
    assert sum(line["expired"] for line in lines) == 21_600
    assert lines[1]["first"] == ["ns.app.s1: wake", *(f"ns.app.s{nth}: wake" for nth in (2, 3, 4, 5))]
    assert {line["reason"] for line in lines} == {"too late"}


def test_without_losses_nothing_is_said() -> None:
    losses = LossLog()
    with structlog.testing.capture_logs() as lines:
        losses.say(NOON)
        losses.add("ns.app.s", "wake", expired=0, dropped=2, refused=0, reason="")
        losses.say(NOON)
        losses.say(NOON + timedelta(minutes=1))

    assert [(line["dropped"], line["expired"]) for line in lines] == [(2, 0)]
