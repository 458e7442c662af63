"""The rules of tasks against naive models: ticks, retries, registrations, caps and rates, and reasons for waiting."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.constraints.pace import BucketLevel
from streamsched.domain.errors import InvalidError
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.tasks.attempt import (
    Acknowledged,
    AttemptFailed,
    Interrupted,
    StartedTask,
    TaskEnds,
    TaskRetries,
    TaskTicks,
    WorkerLost,
    after_attempt,
)
from streamsched.domain.tasks.identity import TaskLane, partition_of, task_id
from streamsched.domain.tasks.queue import QueuePolicy, TaskQueue, WorkerTarget, count_startable, take_tokens
from streamsched.domain.tasks.recurrence import (
    COUNTED,
    Recurrence,
    TickPlan,
    first_tick,
    next_tick,
    next_ticks,
    plan_tick,
)
from streamsched.domain.tasks.registration import KnownTask, RegistrationVerdict, first_due_at, judge_registration
from streamsched.domain.tasks.task import MOST_DATA, OnExisting, TaskRequest, TaskState
from streamsched.domain.tasks.task_retry import BackoffRetry, PeriodRetry, TaskRetry
from streamsched.domain.tasks.why import LaneHead, waiting_reasons
from streamsched.domain.time.dialect import Dialect
from streamsched.domain.triggers.trigger import Cron, Every

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SECONDS = st.integers(0, 5000).map(lambda n: n * SECOND)
#: Rhythms whose ticks a model can list: every n seconds, or every n minutes of an hour.
INTERVALS = st.integers(1, 900).map(lambda n: Every(n * SECOND))
MINUTES = st.sampled_from([1, 2, 5, 15, 30]).map(lambda n: Cron(f"*/{n} * * * *"))
DAPR = st.integers(1, 900).map(lambda n: Cron(f"@every {n}s", dialect=Dialect.DAPR))
RHYTHMS = st.one_of(INTERVALS, MINUTES, DAPR)
POLICY = QueuePolicy(target=WorkerTarget())


def rhythm_ticks(rhythm: Cron | Every, first: datetime, until: datetime, *, due: bool) -> list[datetime]:
    """All ticks up to `until`, found by looking at every second. `due`: `first` is a tick itself."""
    found, instant, step = [first] if due else [], first, SECOND
    match rhythm:
        case Every(interval=interval):
            period = interval
        case Cron(expression=expression) if expression.startswith("@every"):
            period = timedelta(seconds=int(expression.removeprefix("@every ").removesuffix("s")))
        case Cron(expression=expression):
            minutes = int(expression.split()[0].removeprefix("*/"))
            while (instant := instant + step) <= until:
                if instant.second == 0 and instant.microsecond == 0 and instant.minute % minutes == 0:
                    found.append(instant)
            return found
    while (instant := instant + period) <= until:
        found.append(instant)
    return found


@given(RHYTHMS, st.none() | SECONDS, st.none() | st.integers(1, 9), st.none() | SECONDS)
def test_ticks_are_those_of_a_list_made_second_by_second(
    rhythm: Cron | Every, due_in: timedelta | None, repeats: int | None, ttl: timedelta | None
) -> None:
    due_at = None if due_in is None else NOW + due_in
    until = None if ttl is None else (due_at or NOW) + ttl
    recurrence = Recurrence(rhythm, repeats, until)
    horizon = (due_at or NOW) + timedelta(hours=2)
    expected = rhythm_ticks(rhythm, due_at or NOW, min(horizon, until or horizon), due=due_at is not None)
    expected = expected[:repeats]

    found: list[datetime] = []
    tick = first_tick(recurrence, due_at, NOW)
    while tick is not None and tick <= horizon:
        found.append(tick)
        tick = next_tick(recurrence, len(found), tick)

    assert found == expected


@given(RHYTHMS, st.integers(0, 4000), st.sampled_from(Misfire), st.none() | st.integers(60, 3000), st.booleans())
def test_a_plan_is_that_of_a_list_of_all_missed_ticks(
    rhythm: Cron | Every, late: int, misfire: Misfire, window: int | None, ends: bool
) -> None:
    now = NOW + late * SECOND
    grace = None if window is None or misfire is Misfire.SKIP else window * SECOND
    until = NOW + timedelta(minutes=30) if ends else None
    recurrence = Recurrence(rhythm, None, until, misfire, grace)
    every = rhythm_ticks(rhythm, NOW, now + timedelta(hours=1), due=True)
    every = [tick for tick in every if until is None or tick <= until]
    missed = [tick for tick in every if tick <= now]
    match misfire:
        case Misfire.ALL:
            chosen = [tick for tick in missed if grace is None or tick >= now - grace][:1]
        case Misfire.ONE:
            chosen = [tick for tick in missed[-1:] if grace is None or tick >= now - grace]
        case Misfire.SKIP:
            chosen = [tick for tick in missed[-1:] if tick >= now - timedelta(minutes=1)]

    plan = plan_tick(recurrence, NOW, now)

    skipped = [tick for tick in missed if not chosen or tick < chosen[0]]
    exact = isinstance(rhythm, Every) or rhythm.dialect is Dialect.DAPR
    count = len(skipped) if exact else min(len(skipped), COUNTED)
    if chosen:
        assert plan == TickPlan(chosen[0], None, count)
    else:
        assert plan == TickPlan(None, next((tick for tick in every if tick > now), None), count)


@given(
    RHYTHMS,
    st.integers(-4000, 1000),
    st.sampled_from(Misfire),
    st.tuples(st.none() | st.integers(1, 9), st.none() | st.just(NOW + timedelta(minutes=30))),
    st.integers(0, 12),
)
def test_the_next_ticks_are_those_that_will_be_delivered(
    rhythm: Cron | Every, early: int, misfire: Misfire, ends: tuple[int | None, datetime | None], count: int
) -> None:
    planned = NOW + early * SECOND
    recurrence = Recurrence(rhythm, *ends, misfire)

    delivered: list[datetime] = []
    tick: datetime | None = planned
    while tick is not None and len(delivered) < count:
        plan = plan_tick(recurrence, tick, max(tick, NOW))
        if plan.deliver is None:
            tick = plan.wait_for
            continue
        delivered.append(plan.deliver)
        tick = next_tick(recurrence, len(delivered), plan.deliver)

    assert next_ticks(recurrence, 0, planned, NOW, count) == delivered


@given(RHYTHMS, st.integers(1, 10_000), st.sampled_from(Misfire))
def test_no_tick_is_delivered_early(rhythm: Cron | Every, early: int, misfire: Misfire) -> None:
    planned = NOW + early * timedelta(milliseconds=1)

    assert plan_tick(Recurrence(rhythm, misfire=misfire), planned, NOW) == TickPlan(None, planned)


@given(st.builds(BackoffRetry, st.integers(0, 200), st.just(20 * SECOND), st.just(120 * SECOND), st.floats(0, 1)))
def test_a_bounded_retry_waits_within_its_jitter_and_gives_up(retry: BackoffRetry) -> None:
    for failures in range(1, retry.retries + 1):
        full = min(20 * 2 ** min(failures - 1, 10), 120) * SECOND
        wait = retry.wait("task", failures)
        assert wait is not None
        assert full * (1 - retry.jitter) - SECOND / 1000 <= wait <= full
    assert retry.wait("task", retry.retries + 1) is None


def started(recurrence: Recurrence | None = None, *, fired: int = 0, failures: int = 0) -> StartedTask:
    return StartedTask(
        id="t",
        queue="q",
        lane="l",
        lane_id="0" * 32,
        partition=0,
        key="k",
        generation=1,
        due_at=NOW,
        planned_at=NOW,
        fired=fired,
        failures=failures,
        started_at=NOW,
        recurrence=recurrence,
    )


@given(
    st.one_of(st.builds(PeriodRetry, st.just(SECOND)), st.builds(BackoffRetry, st.integers(0, 3))), st.integers(0, 5)
)
def test_a_failure_is_retried_later_or_ends_the_task(retry: TaskRetry, failures: int) -> None:
    after = after_attempt(started(failures=failures), AttemptFailed(NOW, "HTTP 503"), retry)

    if isinstance(retry, BackoffRetry) and failures >= retry.retries:
        assert after == TaskEnds(TaskState.FAILED, "HTTP 503")
    else:
        assert isinstance(after, TaskRetries)
        assert after.failures == failures + 1
        assert after.at > NOW


@given(st.integers(0, 5), st.none() | st.integers(1, 5), st.booleans())
def test_a_done_tick_is_followed_by_the_next_until_the_last(fired: int, repeats: int | None, good: bool) -> None:
    task = started(Recurrence(Every(60 * SECOND), repeats), fired=fired)
    end = Acknowledged(NOW + 5 * SECOND) if good else AttemptFailed(NOW + 5 * SECOND, "no")
    state = TaskState.SUCCEEDED if good else TaskState.FAILED

    after = after_attempt(task, end, BackoffRetry(retries=0))

    if repeats is not None and fired + 1 >= repeats:
        assert isinstance(after, TaskEnds)
        assert after.state is state
    else:
        assert isinstance(after, TaskTicks)
        assert (after.planned_at, after.fired, after.state) == (NOW + 60 * SECOND, fired + 1, state), "without drift"


@given(st.integers(0, 9))
def test_an_interruption_uses_up_no_attempt(failures: int) -> None:
    after = after_attempt(started(failures=failures), Interrupted(NOW, "stopped"), BackoffRetry(retries=0))

    assert after == TaskRetries(NOW, failures, "stopped")


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 9))
def test_a_lost_worker_uses_up_no_attempt_and_is_bounded(losses: int, most: int, failures: int) -> None:
    task = replace(started(failures=failures), losses=losses)

    after = after_attempt(task, WorkerLost(NOW, "its worker was lost"), BackoffRetry(retries=0), max_losses=most)

    if losses >= most:
        assert isinstance(after, TaskEnds)
        assert after.state is TaskState.FAILED
    else:
        assert isinstance(after, TaskRetries)
        assert (after.failures, after.losses) == (failures, losses + 1)
        assert NOW <= after.at <= NOW + min(2**losses, 60) * SECOND
    kept = after_attempt(task, Interrupted(NOW, "stopped"), BackoffRetry(retries=0), max_losses=most)
    assert kept == TaskRetries(NOW, failures, "stopped", losses), "an owner that stops is no loss"


LIVE = st.sampled_from([TaskState.WAITING, TaskState.RETRYING, TaskState.IN_FLIGHT])


@given(st.none() | LIVE, st.none() | SECONDS, st.sampled_from(OnExisting), SECONDS)
def test_a_registration_replaces_only_what_it_may(
    state: TaskState | None, ended_ago: timedelta | None, mode: OnExisting, horizon: timedelta
) -> None:
    known = KnownTask(state, None if ended_ago is None else NOW - ended_ago)
    policy = replace(POLICY, dedupe=horizon)

    verdict = judge_registration(policy, TaskRequest(key="k", on_existing=mode), known, NOW)

    repeats = mode is OnExisting.KEEP_STARTED and ended_ago is not None and ended_ago < horizon
    if state is None:
        assert verdict is (RegistrationVerdict.ENDED if repeats else RegistrationVerdict.MADE)
    elif mode is OnExisting.REFUSE:
        assert verdict is RegistrationVerdict.EXISTS
    elif mode is OnExisting.KEEP_STARTED and state is not TaskState.WAITING:
        assert verdict is RegistrationVerdict.STARTED
    else:
        assert verdict is RegistrationVerdict.REPLACED


@given(st.none() | st.integers(0, 100), st.integers(-100, 200))
def test_the_past_is_refused_beyond_the_grace(grace: int | None, ago: int) -> None:
    policy = replace(POLICY, grace=None if grace is None else grace * SECOND)
    request = TaskRequest(key="k", due_at=NOW - ago * SECOND)

    if grace is not None and ago > grace:
        with pytest.raises(InvalidError, match=r"^\$\.due: is .* too far in the past"):
            first_due_at(policy, request, NOW)
    else:
        assert first_due_at(policy, request, NOW) == request.due_at


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 50)), max_size=30), st.integers(1, 20))
def test_no_more_start_than_cap_and_rate_allow(steps: list[tuple[int, int]], burst: int) -> None:
    policy = replace(POLICY, max_in_flight=40, rate=2.0, burst=burst)
    level: BucketLevel | None = None
    now, started_so_far = NOW, 0
    for milliseconds, wanted in steps:
        now += timedelta(milliseconds=milliseconds)
        allowed = count_startable(policy, 40 - wanted, level, now)
        assert allowed is not None
        assert 0 <= allowed <= wanted
        level = take_tokens(policy, level, allowed, now)
        started_so_far += allowed
        assert started_so_far <= burst + 2 * (now - NOW).total_seconds() + 1e-6


NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(NAMES, NAMES, NAMES, NAMES)
def test_different_names_have_different_ids(lane: str, key: str, other_lane: str, other_key: str) -> None:
    one, two = task_id(TaskLane("q", lane), key), task_id(TaskLane("q", other_lane), other_key)

    assert (one == two) == ((lane, key) == (other_lane, other_key))


@pytest.mark.parametrize("bad", ["", "a\0b", "\ud800", "x" * 601])
def test_a_name_that_cannot_be_stored_is_refused(bad: str) -> None:
    with pytest.raises(InvalidError, match=r"^\$\.lane: must"):
        TaskLane("q", bad)
    with pytest.raises(InvalidError, match=r"^\$\.key: must"):
        task_id(TaskLane("q", "lane"), bad)


def test_lanes_spread_over_the_partitions() -> None:
    for partitions in (1, 16, 25):
        counts = [0] * partitions
        for number in range(20_000):
            counts[partition_of(TaskLane("q", f"customer-{number}").id, partitions)] += 1

        assert max(counts) < 1.2 * 20_000 / partitions
        assert min(counts) > 0.8 * 20_000 / partitions


HEADS = st.builds(
    LaneHead,
    task=st.just("t"),
    key=st.just("k"),
    state=LIVE,
    next_at=st.integers(-50, 50).map(lambda n: NOW + n * SECOND),
    failures=st.integers(0, 3),
    error=st.just("HTTP 500"),
)


@given(HEADS, st.booleans(), st.none() | st.integers(1, 3), st.integers(0, 4))
def test_a_reason_is_always_given_and_times_are_in_the_future(
    head: LaneHead, paused: bool, cap: int | None, in_flight: int
) -> None:
    queue = TaskQueue("q", replace(POLICY, max_in_flight=cap), paused)

    reasons = waiting_reasons(queue, head, in_flight=in_flight, before=2, now=NOW, task="another")

    assert reasons[0].text.startswith("its lane is at task 'k'")
    assert len(reasons) > 1
    assert all(each.until is None or each.until >= NOW for each in reasons)
    assert any("paused" in each.text for each in reasons) == (paused and head.state is not TaskState.IN_FLIGHT)


def test_data_up_to_the_limit_is_accepted() -> None:
    TaskRequest(key="k", data=b"x" * MOST_DATA)
    with pytest.raises(InvalidError, match=r"^\$\.data: must have at most 262144 bytes but has 262145"):
        TaskRequest(key="k", data=b"x" * (MOST_DATA + 1))
