"""The judge over any input: a decision for each due job, limits kept, nothing lost on the way into another job."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.constraints.constraint import Concurrency, ConcurrencyScope, Constraint, Delay, LastRun
from streamsched.domain.constraints.group import Group, GroupSlot, Occupancy
from streamsched.domain.constraints.lane import Lane, LaneName
from streamsched.domain.constraints.pace import BucketLevel
from streamsched.domain.constraints.pool import Pool, PoolQueue, QueuePosition
from streamsched.domain.constraints.rate import Rate, RateScope, TokenBucket, bucket_of
from streamsched.domain.decisions.admission import Satisfied, WaitUntil
from streamsched.domain.decisions.decision import Admit, DecisionInput, DueJob, End, Join, Wait
from streamsched.domain.decisions.judge import judge
from streamsched.domain.decisions.lanes import lane_position, limits_of
from streamsched.domain.decisions.resources import Resources
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.jobs.job import Contribution, JobFact, JobNumber, ReadyJob, ScheduleKey
from streamsched.domain.jobs.submission import Rerun, Submission, submitted_job_id
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import BashJob, OnTimeout, Program, Schedule
from streamsched.domain.triggers.trigger import CustomEvent

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PROGRAM = Program(ProgramRef("default", "app", "load"), BashJob("true"))
GO = EventName("default", "go")
LATELY = (datetime(2026, 3, 1, 11), datetime(2026, 3, 1, 12))  # noqa: DTZ001 - Hypothesis adds the zone itself

constraints: st.SearchStrategy[Constraint] = st.one_of(
    st.builds(Concurrency, st.integers(1, 3), st.booleans(), st.sampled_from(ConcurrencyScope)),
    st.builds(
        lambda limit, per, wait, of: Rate(limit, per, wait, of=of, group="api" if of is RateScope.GROUP else None),
        st.integers(1, 3),
        st.timedeltas(timedelta(seconds=1), timedelta(hours=1)),
        st.booleans(),
        st.sampled_from(RateScope),
    ),
    st.builds(Delay, st.timedeltas(timedelta(seconds=1), timedelta(hours=1))),
    st.builds(LastRun, st.timedeltas(timedelta(seconds=1), timedelta(hours=1)), st.booleans()),
)
groups: st.SearchStrategy[Constraint] = st.builds(
    lambda weight, wait: Group("shared", 3, weight, wait=wait), st.integers(1, 3), st.booleans()
)
pools: st.SearchStrategy[Constraint] = st.builds(
    lambda priority, wait: Pool("pool", 3, priority, wait=wait), st.integers(-9, 9), st.booleans()
)
schedules = st.builds(
    Schedule,
    st.sampled_from([ScheduleRef("default", "app", name) for name in "ab"]),
    st.just(PROGRAM.ref),
    st.just(CustomEvent(GO)),
    st.tuples(st.lists(constraints, max_size=3), st.lists(groups, max_size=1), st.lists(pools, max_size=1)).map(
        lambda some: (*some[0], *some[1], *some[2])
    ),
    overlap=st.sampled_from(Overlap),
    timeout=st.none() | st.timedeltas(timedelta(seconds=1), timedelta(hours=1)),
    on_timeout=st.sampled_from(OnTimeout),
)
given_arguments = st.sampled_from([{}, {"day": "monday"}])


def utc(naive: datetime) -> datetime:
    return naive.replace(tzinfo=UTC)


pool_queues = st.builds(
    lambda limit, taken, others, age: PoolQueue(
        Occupancy(limit, (GroupSlot("other", 1),) * taken),
        tuple(QueuePosition(utc(at), 1, f"default.other.x.1.{n}") for n, at in enumerate(sorted(others))),
        age,
    ),
    st.none() | st.integers(0, 5),
    st.integers(0, 3),
    st.lists(st.datetimes(*LATELY), max_size=3),
    st.timedeltas(timedelta(0), timedelta(minutes=20)),
)


@st.composite
def decision_inputs(draw: st.DrawFn) -> DecisionInput:
    known = {schedule.ref: schedule for schedule in draw(st.lists(schedules, min_size=1, max_size=2))}
    numbers = draw(st.lists(st.tuples(st.sampled_from(sorted(known)), st.integers(1, 9)), unique=True, max_size=8))
    current = {ref: draw(st.sampled_from([(True, 2), (True, 1), (False, 1), (False, 3)])) for ref in known}
    due_jobs: list[DueJob] = []
    for ref, sequence in numbers:
        at = NOW - draw(st.timedeltas(timedelta(0), timedelta(hours=2)))
        event = Event(f"{ref}-{sequence}", "test", at, CustomHappened(GO))
        key = draw(st.sampled_from(["", "monday", "tuesday"]))
        generation = draw(st.integers(1, 2))
        ready = ReadyJob(ref, generation, sequence, at, (Contribution("leaf", 1, (event,)),), key)
        if draw(st.booleans()):
            job = submitted_job_id(ref, f"{generation}-{sequence}")
            rerun = draw(st.none() | st.just(Rerun("default.app.a.1.1", "default.app.a.1.1.r1", at)))
            submission = Submission(job, "", draw(given_arguments), rerun=rerun)
            ready = ReadyJob(ref, generation, sequence, at, (), key, submission)
        held_by = draw(st.none() | st.just((0,)))
        enabled, oldest_valid_generation = current[ref]
        due_jobs.append(DueJob(ready, known[ref], 2, enabled, held_by, oldest_valid_generation=oldest_valid_generation))
    due_jobs.sort(key=lambda due_job: (due_job.ready.satisfied_at, due_job.ready.sequence))
    waiting: dict[ScheduleKey, JobNumber] = {}
    for due_job in due_jobs:
        if due_job.held_by is not None and stands(due_job) and not due_job.is_alone:
            schedule_key, place = due_job.ready.schedule_key, due_job.ready.number
            waiting[schedule_key] = min(waiting.get(schedule_key, place), place)
    active = tuple(f"run{n}" for n in range(draw(st.integers(0, 3))))
    ended = draw(st.none() | st.just(NOW - timedelta(minutes=10)))
    shared = Occupancy(draw(st.none() | st.integers(0, 5)), (GroupSlot("other", 1),) * draw(st.integers(0, 3)))
    schedule_keys = sorted({due_job.ready.schedule_key for due_job in due_jobs})
    own = (
        {schedule_key: draw(st.sets(st.sampled_from(active)).map(sorted).map(tuple)) for schedule_key in schedule_keys}
        if active
        else {}
    )
    lanes: dict[LaneName, Lane] = {}
    for name in sorted({name for due_job in due_jobs for name in limits_of(due_job.schedule, due_job.ready)}):
        waits = [c for c in due_jobs if name in limits_of(c.schedule, c.ready) and draw(st.booleans())]
        ahead = draw(st.lists(st.datetimes(*LATELY), max_size=2, unique=True))
        others = [QueuePosition(utc(at), 1, f"{name.schedule}.0.{n}") for n, at in enumerate(sorted(ahead))]
        runs = tuple(draw(st.sets(st.sampled_from(active), max_size=2).map(sorted))) if active else ()
        lanes[name] = Lane(runs, tuple(sorted([*others, *(lane_position(each.ready) for each in waits)])))
    return DecisionInput(
        PROGRAM,
        tuple(due_jobs),
        lanes=lanes,
        waiting=waiting,
        active_runs=active,
        own_runs=own,
        last_completed_at=ended,
        resources=Resources(
            groups={"shared": shared},
            pool_queues={"pool": draw(pool_queues)} if any(each.pool for each in known.values()) else {},
            buckets={
                bucket: BucketLevel(
                    draw(st.floats(-bucket.burst, bucket.burst)), NOW - draw(st.timedeltas(timedelta(0), bucket.per))
                )
                for bucket in sorted(
                    {bucket_of(rate, PROGRAM.ref, c.ready.schedule_key) for c in due_jobs for rate in rates_of(c)}
                )
            },
        ),
    )


def stands(due_job: DueJob) -> bool:
    assert due_job.oldest_valid_generation is not None
    return due_job.ready.generation >= due_job.oldest_valid_generation


@given(decision_inputs())
def test_a_job_goes_on_exactly_when_every_change_since_it_was_satisfied_kept(decision_input: DecisionInput) -> None:
    for due_job, decision in zip(decision_input.due_jobs, judge(decision_input, now=NOW), strict=True):
        if not stands(due_job):
            assert isinstance(decision, End)
            assert decision.fact is JobFact.SUPERSEDED
        elif not due_job.enabled:
            assert isinstance(decision, Wait), "a pause that keeps"
            assert decision.until is None
        elif isinstance(decision, End):
            assert decision.fact is not JobFact.SUPERSEDED


@given(decision_inputs())
def test_a_job_joins_only_an_older_valid_job(decision_input: DecisionInput) -> None:
    places = {due_job.job: due_job for due_job in decision_input.due_jobs}
    for due_job, decision in zip(decision_input.due_jobs, judge(decision_input, now=NOW), strict=True):
        if isinstance(decision, Join) and decision.into in places:
            into = places[decision.into]
            assert into.ready.schedule_key == due_job.ready.schedule_key
            assert into.ready.number < due_job.ready.number
            assert stands(into)


@given(decision_inputs())
def test_every_due_job_gets_exactly_one_decision(decision_input: DecisionInput) -> None:
    assert [decision.job for decision in judge(decision_input, now=NOW)] == [
        due_job.job for due_job in decision_input.due_jobs
    ]


@given(decision_inputs())
def test_no_admission_passes_the_limit_of_its_schedule(decision_input: DecisionInput) -> None:
    active = len(decision_input.active_runs)
    for due_job, decision in zip(decision_input.due_jobs, judge(decision_input, now=NOW), strict=True):
        if not isinstance(decision, Admit):
            continue
        assert due_job.schedule is not None
        limits = [
            each.limit
            for each in due_job.schedule.constraints
            if isinstance(each, Concurrency) and each.of is ConcurrencyScope.PROGRAM
        ]
        assert all(active < limit for limit in limits) or "launched at its timeout" in decision.reason
        active += 1


@given(decision_inputs())
def test_a_job_that_waits_keeps_its_position_in_a_lane_that_wakes_it(decision_input: DecisionInput) -> None:
    for due_job, decision in zip(decision_input.due_jobs, judge(decision_input, now=NOW), strict=True):
        if isinstance(decision, Wait) and due_job.enabled and due_job.schedule is not None and due_job.schedule.lanes:
            assert decision.lanes
            assert {*decision.lanes} <= limits_of(due_job.schedule, due_job.ready).keys()


@given(decision_inputs())
def test_admissions_take_their_slots_and_never_pass_the_limit_of_a_group(decision_input: DecisionInput) -> None:
    shared = decision_input.resources.groups["shared"]
    taken = shared.taken
    for due_job, decision in zip(decision_input.due_jobs, judge(decision_input, now=NOW), strict=True):
        if isinstance(decision, Admit):
            assert due_job.schedule is not None
            asked = tuple((group.name, group.weight) for group in due_job.schedule.groups)
            assert decision.slots[: len(asked)] == asked
            taken += sum(weight for _, weight in asked)
            limit = 3 if shared.limit is None else shared.limit
            assert not asked or taken <= limit or "launched at its timeout" in decision.reason


@given(decision_inputs())
def test_every_run_takes_its_tokens_and_none_is_let_through_without_one(decision_input: DecisionInput) -> None:
    buckets = dict(
        decision_input.resources.buckets
    )  # a count of whole tokens would differ where a level lacks 1e-9 of one
    for due_job, decision in zip(decision_input.due_jobs, judge(decision_input, now=NOW), strict=True):
        if isinstance(decision, Admit):
            asked = {bucket_of(rate, PROGRAM.ref, due_job.ready.schedule_key) for rate in rates_of(due_job)}
            left = [bucket.pace.available_tokens(buckets[bucket], NOW) for bucket in asked]
            assert all(tokens > 0 for tokens in left) or "launched at its timeout" in decision.reason
            assert {bucket.key for bucket in asked} <= set(decision.bucket_keys)
            for bucket, level in buckets.items():
                if bucket.key in decision.bucket_keys:
                    buckets[bucket] = bucket.take_tokens(level, 1, NOW)


@given(decision_inputs())
def test_places_of_a_pool_are_given_in_the_order_of_its_queue_and_never_one_too_many(
    decision_input: DecisionInput,
) -> None:
    queue = decision_input.resources.pool_queues.get("pool", PoolQueue())
    decisions = {decision.job: decision for decision in judge(decision_input, now=NOW)}
    size = 3 if queue.places.limit is None else queue.places.limit
    taken, waits = queue.places.taken, list(queue.positions)
    pooled = [
        due_job
        for due_job in decision_input.due_jobs
        if due_job.schedule is not None and due_job.schedule.pool is not None
    ]
    for due_job in sorted(pooled, key=lambda due_job: decision_input.queue_position(due_job).at):
        turn, decision = decision_input.queue_position(due_job), decisions[due_job.job]
        before = sum(other < turn for other in waits)
        if isinstance(decision, Admit):
            assert ("pool:pool", 1) in decision.slots
            assert taken + before < size or "launched at its timeout" in decision.reason, "a place was left for it"
            taken += 1
        elif isinstance(decision, Wait) and decision.queued is not None:
            assert decision.queued == ("pool", turn)
            assert taken + before >= size, "it waits for nothing but a place, and there is none"
            assert (decision.until is not None) or taken >= size
            waits.append(turn)


def rates_of(due_job: DueJob) -> tuple[Rate, ...]:
    return () if due_job.schedule is None else due_job.schedule.rates


@given(
    st.builds(
        TokenBucket,
        st.just("x"),
        st.integers(1, 50),
        st.timedeltas(timedelta(milliseconds=1), timedelta(days=9)),
        st.integers(1, 9),
    ),
    st.lists(st.timedeltas(timedelta(0), timedelta(days=1)), max_size=30),
)
def test_no_stretch_of_time_sees_more_runs_than_burst_and_rate_allow(
    bucket: TokenBucket, pauses: list[timedelta]
) -> None:
    now, level = NOW, bucket.full_level(NOW)
    made: list[datetime] = []
    for pause in pauses:
        now += pause
        if not bucket.pace.available_tokens(level, now):
            now = bucket.pace.next_token_at(level, now)
            assert bucket.pace.available_tokens(level, now), "the promised time is kept"
        level = bucket.take_tokens(level, 1, now)
        made.append(now)
    for first, begin in enumerate(made):
        for last in range(first, len(made)):
            assert (
                last - first + 1 <= bucket.burst + bucket.pace.per_second * (made[last] - begin).total_seconds() + 1e-6
            )


@given(decision_inputs())
def test_of_a_schedule_that_lets_the_newest_go_on_no_more_than_that_waits(decision_input: DecisionInput) -> None:
    places: dict[ScheduleKey, list[JobNumber]] = {}
    waits: dict[ScheduleKey, list[JobNumber]] = {}
    for due_job, decision in zip(decision_input.due_jobs, judge(decision_input, now=NOW), strict=True):
        if due_job.schedule is not None and due_job.overlap.keeps_newest and due_job.enabled:
            places.setdefault(due_job.ready.schedule_key, []).append(due_job.ready.number)
            if isinstance(decision, Wait):
                waits.setdefault(due_job.ready.schedule_key, []).append(due_job.ready.number)
    assert all(waiting == [max(places[schedule_key])] for schedule_key, waiting in waits.items())


@given(decision_inputs())
def test_only_own_runs_are_stopped_and_only_for_a_job_that_waits_for_nothing_else(
    decision_input: DecisionInput,
) -> None:
    own = {schedule_key: set(runs) for schedule_key, runs in decision_input.own_runs.items()}
    for due_job, decision in zip(decision_input.due_jobs, judge(decision_input, now=NOW), strict=True):
        if isinstance(decision, Admit):
            own.setdefault(due_job.ready.schedule_key, set()).add(decision.run)
        if isinstance(decision, Wait) and decision.stops:
            assert due_job.schedule is not None
            assert due_job.schedule.overlap.stops
            assert set(decision.stops) == own[due_job.ready.schedule_key]
            assert all(isinstance(each, Satisfied) for each in decision.verdicts[:-1])


@given(decision_inputs())
def test_a_new_satisfaction_is_skipped_exactly_while_one_before_it_waits_or_runs(decision_input: DecisionInput) -> None:
    waiting, own = (
        dict(decision_input.waiting),
        {schedule_key: list(runs) for schedule_key, runs in decision_input.own_runs.items()},
    )
    for due_job, decision in zip(decision_input.due_jobs, judge(decision_input, now=NOW), strict=True):
        schedule_key, place = due_job.ready.schedule_key, due_job.ready.number
        if due_job.enabled and stands(due_job) and due_job.schedule is not None and due_job.overlap is Overlap.SKIP:
            before = waiting.get(schedule_key, place) < place or bool(own.get(schedule_key))
            skipped = isinstance(decision, End) and decision.reason.startswith("skipped")
            assert skipped == (before and due_job.held_by is None)
        if isinstance(decision, Admit):
            own.setdefault(schedule_key, []).append(decision.run)
        if isinstance(decision, Wait):
            waiting[schedule_key] = min(place, waiting.get(schedule_key, place))
        elif not isinstance(decision, Join) and waiting.get(schedule_key) == place:
            del waiting[schedule_key]


@given(decision_inputs())
def test_a_wait_is_never_for_the_past(decision_input: DecisionInput) -> None:
    for decision in judge(decision_input, now=NOW):
        if isinstance(decision, Wait) and decision.until is not None:
            assert decision.until > NOW


@given(decision_inputs())
def test_the_end_of_every_run_admits_no_job_that_skips_run_ends(decision_input: DecisionInput) -> None:
    for due_job in decision_input.due_jobs:
        alone = replace(decision_input, due_jobs=(due_job,), waiting={})
        [decision] = judge(alone, now=NOW)
        if isinstance(decision, Wait) and decision.skip_on_run_end:
            for ended in (decision_input.last_completed_at, NOW):
                [then] = judge(replace(alone, active_runs=(), own_runs={}, last_completed_at=ended), now=NOW)
                assert not isinstance(then, Admit), "slots and places wake who waits for them, and time comes by itself"
                timed = any(isinstance(verdict, WaitUntil) for verdict in decision.verdicts)
                assert isinstance(then, Wait) or not timed, "what was to end it, ends it when it comes"


@given(decision_inputs())
def test_a_job_joins_an_older_one_that_waits_and_its_events_are_kept(decision_input: DecisionInput) -> None:
    decisions = {decision.job: decision for decision in judge(decision_input, now=NOW)}
    known = {due_job.job: due_job.ready for due_job in decision_input.due_jobs}
    made_to_wait = {place.job for place in decision_input.waiting.values()}
    for decision in decisions.values():
        if not isinstance(decision, Join):
            continue
        assert known[decision.job].number > known[decision.into].number
        target = decisions.get(decision.into)
        assert decision.into in made_to_wait or isinstance(target, Wait)
        if isinstance(target, Admit):
            kept = {event.id for part in target.ready.contributions for event in part.events}
            assert {event.id for part in known[decision.job].contributions for event in part.events} <= kept


@given(decision_inputs())
def test_a_rerun_and_a_submission_with_arguments_join_none_and_none_joins_them(decision_input: DecisionInput) -> None:
    known = {due_job.job: due_job for due_job in decision_input.due_jobs}
    for decision in judge(decision_input, now=NOW):
        submission = known[decision.job].ready.submission
        if isinstance(decision, Join):
            for each in (submission, known[decision.into].ready.submission):
                assert each is None or (not each.arguments and each.rerun is None)
        if submission is not None and submission.rerun is not None and isinstance(decision, End):
            assert decision.fact not in (JobFact.SKIPPED, JobFact.REPLACED)
        if isinstance(decision, Admit) and submission is not None:
            assert {**decision.arguments, **submission.arguments} == decision.arguments
