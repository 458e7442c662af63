"""Retries by class of failure, and the pace of launches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.define.retries import retry
from streamsched.domain.constraints.pace import BucketLevel, Pace
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.schedules.retry import Retry
from streamsched.testing.definitions import retries

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@given(retries, st.integers(1, 200), st.text())
def test_pauses_grow_within_their_bounds_and_are_the_same_for_the_same_run(
    policy: Retry, attempt: int, run: str
) -> None:
    pause = policy.pause(run, attempt)

    assert policy.delay * 0.74 <= pause <= policy.longest
    assert pause == policy.pause(run, attempt)
    assert policy.pause(run, attempt + 1) >= pause


@given(retries, st.sampled_from(Failure))
def test_a_job_never_gets_more_runs_than_its_policy_has(policy: Retry, failure: Failure) -> None:
    runs = 1
    while policy.allows(failure, runs):
        runs += 1

    assert runs == (policy.attempts if failure in policy.on else 1)


@pytest.mark.parametrize(
    ("given_", "path"),
    [
        ({"attempts": 0}, "$.attempts"),
        ({"on": ["sadness"]}, "$.on"),
        ({"on": []}, "$.on"),
        ({"longest": "1s"}, "$.longest"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(given_: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidDefinitionError) as refused:
        retry(**{"attempts": 3, **given_})  # type: ignore[arg-type]
    assert refused.value.path == path


@given(
    st.builds(Pace, st.floats(0.5, 50), st.integers(1, 30)),
    st.lists(st.tuples(st.timedeltas(timedelta(0), timedelta(seconds=20)), st.integers(0, 40)), max_size=30),
)
def test_no_stretch_of_time_sees_more_than_the_pace(pace: Pace, asked: list[tuple[timedelta, int]]) -> None:
    bucket, now = BucketLevel(float(pace.burst), NOW), NOW
    through: list[tuple[datetime, int]] = []
    for passed, wanted in asked:
        now += passed
        amount = min(wanted, pace.available_tokens(bucket, now))
        bucket = pace.take_tokens(bucket, amount, now)
        through.append((now, amount))
    for first, (begin, _) in enumerate(through):
        total = 0
        for at, amount in through[first:]:
            total += amount
            assert total <= pace.burst + pace.per_second * (at - begin).total_seconds() + 1e-6


@given(st.builds(Pace, st.floats(0.5, 50), st.integers(1, 30)), st.floats(0, 30))
def test_the_time_of_the_next_is_the_first_at_which_one_may_go(pace: Pace, left: float) -> None:
    bucket = BucketLevel(min(left, pace.burst), NOW)
    at = pace.next_token_at(bucket, NOW)

    assert pace.available_tokens(bucket, at + timedelta(microseconds=2)) >= 1
    assert at == NOW or pace.available_tokens(bucket, at - timedelta(milliseconds=1)) == 0


def test_a_clock_that_went_back_fills_nothing_twice() -> None:
    pace = Pace(1, 10)
    bucket = pace.take_tokens(BucketLevel(10.0, NOW), 10, NOW)
    back = pace.take_tokens(bucket, 0, NOW - timedelta(seconds=60))

    assert pace.available_tokens(back, NOW) == 0
