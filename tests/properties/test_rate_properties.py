"""A backlog behind a rate, checked job by job, against who looks at everybody all the time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.domain.constraints.pace import BucketLevel
from streamsched.domain.constraints.rate import Rate, bucket_of
from streamsched.domain.decisions.decision import Admit, DecisionInput, DueJob, Wait
from streamsched.domain.decisions.judge import judge
from streamsched.domain.decisions.resources import Resources
from streamsched.domain.jobs.job import ReadyJob, ScheduleKey
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.triggers.trigger import CustomEvent

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PROGRAM = Program(ProgramRef("default", "app", "load"), BashJob("true"))
GO = EventName("default", "go")
QUEUED = Schedule(
    ScheduleRef("default", "app", "a"), PROGRAM.ref, CustomEvent(GO), (Rate(1, timedelta(1)),), overlap=Overlap.QUEUE
)
rates = st.builds(
    Rate, st.integers(1, 4), st.timedeltas(timedelta(seconds=1), timedelta(minutes=3)), burst=st.integers(1, 4)
)
moments = st.timedeltas(timedelta(0), timedelta(minutes=2))


def drained(
    rate: Rate, came: list[datetime], *, at_most: int, gone: frozenset[int] = frozenset(), at: datetime = NOW
) -> tuple[dict[int, datetime], int]:
    """When each of these jobs is let go by who looks at what is due alone, so many at once, and how many looks it took.
    Those that are gone from that time on say nothing.
    """
    schedule = replace(QUEUED, constraints=(rate,))
    meter = bucket_of(rate, PROGRAM.ref, ScheduleKey(schedule.ref))
    bucket, due, looks = meter.full_level(NOW), dict(enumerate(came, 1)), 0
    begun: dict[int, datetime] = {}
    while due:
        now = min(due.values())
        if now >= at and due.keys() & gone:
            due = {job: look for job, look in due.items() if job not in gone}
            continue
        found = [job for job, look in due.items() if look <= now][:at_most]
        cases = [DueJob(ReadyJob(schedule.ref, 1, job, came[job - 1], ()), schedule, 1, True) for job in found]
        looks += len(cases)
        for job, decision in zip(
            found,
            judge(DecisionInput(PROGRAM, tuple(cases), resources=Resources(buckets={meter: bucket})), now=now),
            strict=True,
        ):
            if isinstance(decision, Admit):
                bucket, begun[job] = meter.take_tokens(bucket, 1, now), now
                del due[job]
            else:
                assert isinstance(decision, Wait)
                assert decision.until is not None
                due[job] = decision.until
    return begun, looks


def naively(
    rate: Rate, came: list[datetime], gone: frozenset[int] = frozenset(), at: datetime = NOW
) -> dict[int, datetime]:
    """The same by who looks at everybody all the time."""
    pace, bucket = bucket_of(rate, PROGRAM.ref, ScheduleKey(QUEUED.ref)).pace, BucketLevel(float(rate.burst or 0), NOW)
    begun: dict[int, datetime] = {}
    for job, arrival in enumerate(came, 1):
        now = pace.next_token_at(bucket, max(arrival, *begun.values(), NOW))
        if job in gone and now >= at:
            continue
        bucket, begun[job] = pace.take_tokens(bucket, 1, now), now
    return begun


@given(rates, st.lists(moments, max_size=12))
def test_each_of_those_that_wait_for_a_rate_looks_when_its_token_comes(rate: Rate, pauses: list[timedelta]) -> None:
    came = sorted(NOW + pause for pause in pauses)
    begun, _ = drained(rate, came, at_most=99)

    assert begun == naively(rate, came)


@given(rates, st.integers(1, 40))
def test_of_those_that_came_together_each_looks_once_and_when_its_token_comes(rate: Rate, many: int) -> None:
    begun, looks = drained(rate, [NOW] * many, at_most=99)

    assert len(begun) == many
    if rate.per * many <= timedelta(minutes=1) * rate.limit:
        assert looks <= 3 * many, "a microsecond too early now and then"


@example(
    rate=Rate(2, timedelta(seconds=120, microseconds=1), burst=1),
    pauses=[timedelta(0)] * 6,
    gone=frozenset({3, 4}),
    after=timedelta(seconds=61),
    at_most=2,
)
@example(  # jobs that are checked apart do not know of each other: 4 takes the token that 3 comes for a minute later
    rate=Rate(1, timedelta(seconds=150), burst=1),
    pauses=[timedelta(0), timedelta(0), timedelta(0), timedelta(seconds=17)],
    gone=frozenset({2}),
    after=timedelta(seconds=61),
    at_most=3,
)
@given(rates, st.lists(moments, max_size=12), st.frozensets(st.integers(1, 12)), moments, st.integers(1, 4))
def test_behind_those_that_end_without_a_word_no_token_is_left_for_longer_than_a_minute(
    rate: Rate, pauses: list[timedelta], gone: frozenset[int], after: timedelta, at_most: int
) -> None:
    """The first start, the second and so on are each at most a minute later than they could be. Which job it is that
    starts is not promised: a rate has no line.
    """
    came = sorted(NOW + pause for pause in pauses)
    begun, _ = drained(rate, came, at_most=at_most, gone=gone, at=NOW + after)
    naive = naively(rate, came, gone, NOW + after)

    assert begun.keys() == naive.keys()
    for at, possible in zip(sorted(begun.values()), sorted(naive.values()), strict=True):
        assert at <= possible + timedelta(minutes=1)
