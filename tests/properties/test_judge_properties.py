"""The judge over any docket: a ruling for each case, limits kept, nothing lost on the way into another job."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.admission import Satisfied, WaitUntil
from streamsched.domain.constraint import Concurrency, Constraint, Delay, LastRun
from streamsched.domain.docket import Admit, Case, Docket, End, Join, Wait
from streamsched.domain.event import CustomHappened, Event
from streamsched.domain.group import Group, Occupancy, Slot
from streamsched.domain.job import Contribution, JobFact, Lane, Place, ReadyJob, job_id
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.overlap import Overlap
from streamsched.domain.pace import Bucket
from streamsched.domain.pool import Line, Pool, Turn
from streamsched.domain.rate import Meter, Metered, Rate, meter_of
from streamsched.domain.schedule import BashJob, OnTimeout, Program, Schedule
from streamsched.domain.trigger import CustomEvent
from streamsched.launcher.judge import judge

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PROGRAM = Program(ProgramRef("default", "app", "load"), BashJob("true"))
GO = EventName("default", "go")
LATELY = (datetime(2026, 3, 1, 11), datetime(2026, 3, 1, 12))  # noqa: DTZ001 - Hypothesis adds the zone itself

constraints: st.SearchStrategy[Constraint] = st.one_of(
    st.builds(Concurrency, st.integers(1, 3), st.booleans()),
    st.builds(
        lambda limit, per, wait, of: Rate(limit, per, wait, of=of, group="api" if of is Metered.GROUP else None),
        st.integers(1, 3),
        st.timedeltas(timedelta(seconds=1), timedelta(hours=1)),
        st.booleans(),
        st.sampled_from(Metered),
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


def utc(naive: datetime) -> datetime:
    return naive.replace(tzinfo=UTC)


lines = st.builds(
    lambda limit, taken, others, age: Line(
        Occupancy(limit, (Slot("other", 1),) * taken),
        tuple(Turn(utc(at), 1, f"default.other.x.1.{n}") for n, at in enumerate(sorted(others))),
        age,
    ),
    st.none() | st.integers(0, 5),
    st.integers(0, 3),
    st.lists(st.datetimes(*LATELY), max_size=3),
    st.timedeltas(timedelta(0), timedelta(minutes=20)),
)


@st.composite
def dockets(draw: st.DrawFn) -> Docket:
    known = {schedule.ref: schedule for schedule in draw(st.lists(schedules, min_size=1, max_size=2))}
    numbers = draw(st.lists(st.tuples(st.sampled_from(sorted(known)), st.integers(1, 9)), unique=True, max_size=8))
    standing = {ref: draw(st.sampled_from([(True, 2), (True, 1), (False, 1), (False, 3)])) for ref in known}
    cases: list[Case] = []
    for ref, sequence in numbers:
        at = NOW - draw(st.timedeltas(timedelta(0), timedelta(hours=2)))
        event = Event(f"{ref}-{sequence}", "test", at, CustomHappened(GO))
        key = draw(st.sampled_from(["", "monday", "tuesday"]))
        ready = ReadyJob(ref, draw(st.integers(1, 2)), sequence, at, (Contribution("leaf", 1, (event,)),), key)
        told = draw(st.none() | st.just((0,)))
        enabled, stands_from = standing[ref]
        cases.append(Case(ready, known[ref], 2, enabled, told, stands_from=stands_from))
    cases.sort(key=lambda case: (case.ready.satisfied_at, case.ready.sequence))
    waiting: dict[Lane, Place] = {}
    for case in cases:
        if case.held_by is not None and stands(case):
            lane, place = case.ready.lane, case.ready.place
            waiting[lane] = min(waiting.get(lane, place), place)
    active = tuple(f"run{n}" for n in range(draw(st.integers(0, 3))))
    ended = draw(st.none() | st.just(NOW - timedelta(minutes=10)))
    shared = Occupancy(draw(st.none() | st.integers(0, 5)), (Slot("other", 1),) * draw(st.integers(0, 3)))
    lanes = sorted({case.ready.lane for case in cases})
    own = {lane: draw(st.sets(st.sampled_from(active)).map(sorted).map(tuple)) for lane in lanes} if active else {}
    return Docket(
        PROGRAM,
        tuple(cases),
        waiting=waiting,
        active_runs=active,
        own_runs=own,
        last_completed_at=ended,
        groups={"shared": shared},
        lines={"pool": draw(lines)} if any(each.pool for each in known.values()) else {},
        meters={
            meter: Bucket(
                draw(st.floats(-meter.burst, meter.burst)), NOW - draw(st.timedeltas(timedelta(0), meter.per))
            )
            for meter in sorted({meter_of(rate, PROGRAM.ref, c.ready.lane) for c in cases for rate in rates_of(c)})
        },
    )


def stands(case: Case) -> bool:
    assert case.stands_from is not None
    return case.ready.generation >= case.stands_from


@given(dockets())
def test_a_job_goes_on_exactly_when_every_change_since_it_was_satisfied_kept(docket: Docket) -> None:
    for case, ruling in zip(docket.cases, judge(docket, now=NOW), strict=True):
        if not stands(case):
            assert isinstance(ruling, End)
            assert ruling.fact is JobFact.SUPERSEDED
        elif not case.enabled:
            assert isinstance(ruling, Wait), "a pause that keeps"
            assert ruling.until is None
        elif isinstance(ruling, End):
            assert ruling.fact is not JobFact.SUPERSEDED


@given(dockets())
def test_what_joins_joins_an_elder_that_stands(docket: Docket) -> None:
    places = {case.job: case for case in docket.cases}
    for case, ruling in zip(docket.cases, judge(docket, now=NOW), strict=True):
        if isinstance(ruling, Join) and ruling.into in places:
            into = places[ruling.into]
            assert into.ready.lane == case.ready.lane
            assert into.ready.place < case.ready.place
            assert stands(into)


@given(dockets())
def test_every_case_gets_exactly_one_ruling(docket: Docket) -> None:
    assert [ruling.job for ruling in judge(docket, now=NOW)] == [case.job for case in docket.cases]


@given(dockets())
def test_no_admission_passes_the_limit_of_its_schedule(docket: Docket) -> None:
    active = len(docket.active_runs)
    for case, ruling in zip(docket.cases, judge(docket, now=NOW), strict=True):
        if not isinstance(ruling, Admit):
            continue
        assert case.schedule is not None
        limits = [each.limit for each in case.schedule.constraints if isinstance(each, Concurrency)]
        assert all(active < limit for limit in limits) or "all the same" in ruling.reason
        active += 1


@given(dockets())
def test_admissions_take_their_slots_and_never_pass_the_limit_of_a_group(docket: Docket) -> None:
    shared = docket.groups["shared"]
    taken = shared.taken
    for case, ruling in zip(docket.cases, judge(docket, now=NOW), strict=True):
        if isinstance(ruling, Admit):
            assert case.schedule is not None
            asked = tuple((group.name, group.weight) for group in case.schedule.groups)
            assert ruling.slots[: len(asked)] == asked
            taken += sum(weight for _, weight in asked)
            limit = 3 if shared.limit is None else shared.limit
            assert not asked or taken <= limit or "all the same" in ruling.reason


@given(dockets())
def test_every_run_takes_its_tokens_and_none_is_let_through_without_one(docket: Docket) -> None:
    tokens = {meter: meter.pace.available(bucket, NOW) for meter, bucket in docket.meters.items()}
    for case, ruling in zip(docket.cases, judge(docket, now=NOW), strict=True):
        if isinstance(ruling, Admit):
            asked = {meter_of(rate, PROGRAM.ref, case.ready.lane) for rate in rates_of(case)}
            assert all(tokens[meter] > 0 for meter in asked) or "all the same" in ruling.reason
            assert {meter.scope for meter in asked} <= set(ruling.scopes)
            for meter in tokens:
                tokens[meter] -= meter.scope in ruling.scopes


@given(dockets())
def test_places_of_a_pool_are_given_in_the_order_of_its_line_and_never_one_too_many(docket: Docket) -> None:
    line = docket.lines.get("pool", Line())
    rulings = {ruling.job: ruling for ruling in judge(docket, now=NOW)}
    size = 3 if line.places.limit is None else line.places.limit
    taken, waits = line.places.taken, list(line.turns)
    pooled = [case for case in docket.cases if case.schedule is not None and case.schedule.pool is not None]
    for case in sorted(pooled, key=lambda case: docket.turn(case).at):
        turn, ruling = docket.turn(case), rulings[case.job]
        before = sum(other < turn for other in waits)
        if isinstance(ruling, Admit):
            assert ("pool:pool", 1) in ruling.slots
            assert taken + before < size or "all the same" in ruling.reason, "a place was left for it"
            taken += 1
        elif isinstance(ruling, Wait) and ruling.line is not None:
            assert ruling.line == ("pool", turn)
            assert taken + before >= size, "it waits for nothing but a place, and there is none"
            assert (ruling.until is not None) or taken >= size
            waits.append(turn)


def rates_of(case: Case) -> tuple[Rate, ...]:
    return () if case.schedule is None else case.schedule.rates


@given(
    st.builds(
        Meter,
        st.just("x"),
        st.integers(1, 50),
        st.timedeltas(timedelta(milliseconds=1), timedelta(days=9)),
        st.integers(1, 9),
    ),
    st.lists(st.timedeltas(timedelta(0), timedelta(days=1)), max_size=30),
)
def test_no_stretch_of_time_sees_more_runs_than_burst_and_rate_allow(meter: Meter, pauses: list[timedelta]) -> None:
    now, bucket = NOW, meter.full(NOW)
    made: list[datetime] = []
    for pause in pauses:
        now += pause
        if not meter.pace.available(bucket, now):
            now = meter.pace.next_at(bucket, now)
            assert meter.pace.available(bucket, now), "the promised time is kept"
        bucket = meter.taken(bucket, 1, now)
        made.append(now)
    for first, begin in enumerate(made):
        for last in range(first, len(made)):
            assert last - first + 1 <= meter.burst + meter.pace.per_second * (made[last] - begin).total_seconds() + 1e-6


@given(dockets())
def test_of_a_schedule_that_lets_the_newest_go_on_no_more_than_that_waits(docket: Docket) -> None:
    places: dict[Lane, list[Place]] = {}
    waits: dict[Lane, list[Place]] = {}
    for case, ruling in zip(docket.cases, judge(docket, now=NOW), strict=True):
        if case.schedule is not None and case.schedule.overlap.newest_only and case.enabled:
            places.setdefault(case.ready.lane, []).append(case.ready.place)
            if isinstance(ruling, Wait):
                waits.setdefault(case.ready.lane, []).append(case.ready.place)
    assert all(waiting == [max(places[lane])] for lane, waiting in waits.items())


@given(dockets())
def test_only_own_runs_are_stopped_and_only_for_a_job_that_waits_for_nothing_else(docket: Docket) -> None:
    own = {lane: set(runs) for lane, runs in docket.own_runs.items()}
    for case, ruling in zip(docket.cases, judge(docket, now=NOW), strict=True):
        if isinstance(ruling, Admit):
            own.setdefault(case.ready.lane, set()).add(ruling.run)
        if isinstance(ruling, Wait) and ruling.stops:
            assert case.schedule is not None
            assert case.schedule.overlap.stops
            assert set(ruling.stops) == own[case.ready.lane]
            assert all(isinstance(each, Satisfied) for each in ruling.verdicts[:-1])


@given(dockets())
def test_a_new_satisfaction_is_skipped_exactly_while_one_before_it_waits_or_runs(docket: Docket) -> None:
    waiting, own = dict(docket.waiting), {lane: list(runs) for lane, runs in docket.own_runs.items()}
    for case, ruling in zip(docket.cases, judge(docket, now=NOW), strict=True):
        lane, place = case.ready.lane, case.ready.place
        if case.enabled and stands(case) and case.schedule is not None and case.schedule.overlap is Overlap.SKIP:
            before = waiting.get(lane, place) < place or bool(own.get(lane))
            skipped = isinstance(ruling, End) and ruling.reason.startswith("skipped")
            assert skipped == (before and case.held_by is None)
        if isinstance(ruling, Admit):
            own.setdefault(lane, []).append(ruling.run)
        if isinstance(ruling, Wait):
            waiting[lane] = min(place, waiting.get(lane, place))
        elif not isinstance(ruling, Join) and waiting.get(lane) == place:
            del waiting[lane]


@given(dockets())
def test_a_wait_is_never_for_the_past(docket: Docket) -> None:
    for ruling in judge(docket, now=NOW):
        if isinstance(ruling, Wait) and ruling.until is not None:
            assert ruling.until > NOW


@given(dockets())
def test_the_end_of_every_run_lets_none_go_that_is_spared_the_look_at_it(docket: Docket) -> None:
    for case in docket.cases:
        alone = replace(docket, cases=(case,), waiting={})
        [ruling] = judge(alone, now=NOW)
        if isinstance(ruling, Wait) and ruling.spared:
            for ended in (docket.last_completed_at, NOW):
                [then] = judge(replace(alone, active_runs=(), own_runs={}, last_completed_at=ended), now=NOW)
                assert not isinstance(then, Admit), "slots and places wake who waits for them, and time comes by itself"
                timed = any(isinstance(verdict, WaitUntil) for verdict in ruling.verdicts)
                assert isinstance(then, Wait) or not timed, "what was to end it, ends it when it comes"


@given(dockets())
def test_a_job_joins_an_older_one_that_waits_and_its_events_are_kept(docket: Docket) -> None:
    rulings = {ruling.job: ruling for ruling in judge(docket, now=NOW)}
    known = {case.job: case.ready for case in docket.cases}
    told_to_wait = {job_id(lane.schedule, *place) for lane, place in docket.waiting.items()}
    for ruling in rulings.values():
        if not isinstance(ruling, Join):
            continue
        assert known[ruling.job].place > tuple(map(int, ruling.into.split(".")[-2:]))
        target = rulings.get(ruling.into)
        assert ruling.into in told_to_wait or isinstance(target, Wait)
        if isinstance(target, Admit):
            kept = {event.id for part in target.ready.contributions for event in part.events}
            assert {event.id for part in known[ruling.job].contributions for event in part.events} <= kept
