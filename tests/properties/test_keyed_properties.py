"""Triggers that correlate do what one naive machine for each key does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta

from hypothesis import given

from streamsched.domain.job import ReadyJob
from streamsched.testing import keyed_strategies as keyed
from streamsched.testing import strategies as world
from streamsched.testing.engine import told
from streamsched.testing.examples import examples
from streamsched.testing.rerun import Expected, Stamped, rerun

DAY = timedelta(days=1)


def plain(job: ReadyJob) -> Expected:
    contributions = tuple(
        (each.leaf, each.count, tuple(dict.fromkeys(event.id for event in each.events))) for each in job.contributions
    )
    return Expected(job.generation, job.key, job.satisfied_at, contributions)


def by_key(jobs: Iterable[Expected]) -> dict[str, list[Expected]]:
    found: dict[str, list[Expected]] = defaultdict(list)
    for job in jobs:
        found[job.key].append(job)
    return found


@examples(200)
@given(keyed.logs())
def test_each_key_starts_the_jobs_of_a_machine_of_its_own_whenever_wake_ups_come(log: list[Stamped]) -> None:
    end = log[-1][0] + DAY
    expected = rerun(log, end)

    for prompt in (True, False):
        engine = told(log, world.SCHEDULE, end=end, prompt=prompt)
        assert by_key(plain(job) for _, job in engine.jobs) == by_key(expected.jobs)
        assert set(engine.cells) == set(expected.keys)
        assert engine.state is not None
        assert engine.state.lost == expected.lost


@examples(150)
@given(keyed.logs(at_most=2))
def test_no_more_keys_are_open_than_may_be_and_the_oldest_goes(log: list[Stamped]) -> None:
    end = log[-1][0] + DAY
    expected = rerun(log, end)

    engine = told(log, world.SCHEDULE, end=end, prompt=True)

    assert by_key(plain(job) for _, job in engine.jobs) == by_key(expected.jobs)
    assert engine.state is not None
    assert engine.state.lost == expected.lost
