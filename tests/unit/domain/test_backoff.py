"""The pause before a retry doubles up to its maximum."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streamsched.domain.backoff import double_pause

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("retries", "pause"), [(0, SECOND), (1, 2 * SECOND), (2, 4 * SECOND), (3, 5 * SECOND), (10**9, 5 * SECOND)]
)
def test_a_pause_doubles_up_to_the_longest(retries: int, pause: timedelta) -> None:
    assert double_pause(SECOND, retries, longest=5 * SECOND) == pause


def test_no_pause_stays_none() -> None:
    assert double_pause(0.0, 50, longest=0.0) == 0.0
    assert double_pause(timedelta(0), 50, longest=SECOND) == timedelta(0)


def test_long_pauses_do_not_overflow() -> None:
    assert double_pause(timedelta(days=300_000), 60, longest=timedelta(days=365_250)) == timedelta(days=365_250)
