"""Zones: where their clocks jump, to the second, whatever fraction of a second is asked from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from streamsched.domain.time.zone import first_instant, jumps

BERLIN = ZoneInfo("Europe/Berlin")
FORWARD, BACK = datetime(2024, 3, 31, 1, tzinfo=UTC), datetime(2024, 10, 27, 1, tzinfo=UTC)


@pytest.mark.parametrize("micros", [0, 1, 400_000, 500_000, 999_999, 1_000_000, 1_500_000, 2_500_001])
@pytest.mark.parametrize("jump", [FORWARD, BACK])
def test_a_jump_is_found_from_any_instant_before_it(jump: datetime, micros: int) -> None:
    for since in (jump - timedelta(hours=5, microseconds=micros), jump - timedelta(microseconds=micros + 1)):
        assert jumps(BERLIN, since, since + timedelta(days=1)) == [jump]


def test_a_jump_that_has_been_is_not_found_again() -> None:
    assert jumps(BERLIN, FORWARD, FORWARD + timedelta(days=1)) == []
    assert jumps(BERLIN, FORWARD - timedelta(days=1), FORWARD) == [FORWARD]


def test_a_year_has_two() -> None:
    assert jumps(BERLIN, datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)) == [FORWARD, BACK]


@pytest.mark.parametrize("second", [0, 1, 1800, 3599])
def test_every_second_of_a_gap_is_the_instant_of_the_jump(second: int) -> None:
    skipped = datetime(2024, 3, 31, 2) + timedelta(seconds=second)  # noqa: DTZ001 - a wall clock has no zone
    assert first_instant(skipped, BERLIN) == FORWARD
