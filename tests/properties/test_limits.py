"""Numbers, durations and instants at their extremes, through every way a definition comes in.

Each field is fed each extreme by the builder, native JSON and, where CDAP has the field, CDAP's JSON. All ways refuse
it with a path, or all accept it; and what is accepted does no harm: it is judged, written and read without raising.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.records import signal as signal_codec
from streamsched.codec.schedules import constraint as constraint_codec
from streamsched.codec.schedules.schedule import (
    program_from_json,
    program_to_json,
    schedule_from_json,
    schedule_to_json,
)
from streamsched.dialects.cdap.codec import schedule as cdap
from streamsched.domain.constraints.constraint import Constraint
from streamsched.domain.constraints.group import Occupancy
from streamsched.domain.constraints.pace import BucketLevel
from streamsched.domain.constraints.pool import PoolQueue, position_at
from streamsched.domain.constraints.rate import bucket_of
from streamsched.domain.decisions.admission import ConstraintInput, WaitUntil, weigh
from streamsched.domain.decisions.decision import DecisionInput, DueJob, Wait
from streamsched.domain.decisions.judge import judge
from streamsched.domain.decisions.resources import Resources
from streamsched.domain.errors import InvalidError
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.limits import EARLIEST, LATEST, LONGEST, add_duration, longer
from streamsched.domain.names import EventName, ProgramRef
from streamsched.domain.schedules.schedule import BashJob, OnTimeout, Program, Schedule
from streamsched.domain.signals.signal import Put
from streamsched.domain.triggers.time_leaf import At, Every
from streamsched.domain.triggers.trigger import CustomEvent, leaves
from tests.fields import COUNTS, DURATIONS, MILLIS, MOMENTS, REF, Way, native, over_cdap

NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
PROGRAM: Final = Program(ProgramRef("default", "app", "p"), BashJob("true"))

NUMBERS: Final = (0, -1, 1, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 10**30, float("nan"), float("inf"), True)
SPANS: Final = (
    timedelta(0),
    timedelta(microseconds=1),
    timedelta(days=1),
    LONGEST,
    LONGEST + timedelta(microseconds=1),
    timedelta(milliseconds=10**15),
    timedelta(days=4_000_000),
    timedelta.max,
    -timedelta(seconds=1),
)
INSTANTS: Final = tuple(
    instant.replace(tzinfo=UTC)
    for instant in (
        datetime(1, 1, 1),  # noqa: DTZ001
        datetime(999, 12, 31),  # noqa: DTZ001
        EARLIEST,
        datetime(2026, 1, 1),  # noqa: DTZ001
        LATEST - timedelta(microseconds=1),
        LATEST,
        datetime.max,  # noqa: DTZ901
    )
)


def fed() -> Iterator[Any]:
    for fields, extremes in ((COUNTS, NUMBERS), (DURATIONS, SPANS), (MOMENTS, INSTANTS)):
        for (name, ways), extreme in product(fields.items(), extremes):
            yield pytest.param(ways, extreme, id=f"{name}={extreme}")


def tried(way: Way, extreme: object) -> Schedule | Program | InvalidError:
    try:
        return way(extreme)
    except InvalidError as refused:
        return refused


@pytest.mark.parametrize(("ways", "extreme"), fed())
def test_every_way_refuses_an_extreme_with_a_path_or_accepts_it_and_nothing_raises(
    ways: tuple[Way, ...], extreme: object
) -> None:
    found = [tried(way, extreme) for way in ways]

    refused = [isinstance(each, InvalidError) for each in found]
    assert all(refused) or not any(refused), found
    for each in found:
        if isinstance(each, InvalidError):
            assert each.path.startswith("$.")
        elif isinstance(each, Program):
            assert program_from_json(program_to_json(each)) == each
        else:
            harmless(each)


@pytest.mark.parametrize(("path", "fields"), MILLIS.values(), ids=MILLIS.keys())
@pytest.mark.parametrize("extreme", [0, -1, 1, 10**15, 2**63 - 1, 2**63, 10**30, 1.5])
def test_milliseconds_are_refused_by_the_name_they_have_in_json(
    path: str, fields: Callable[[Any], dict[str, Any]], extreme: float
) -> None:
    for way in (native, over_cdap):
        if extreme == 1:
            harmless(way(**fields(extreme)))
            continue
        with pytest.raises(InvalidError) as refused:
            way(**fields(extreme))
        assert refused.value.path == path


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"timeoutMillis": 10**15}, "$.timeoutMillis"),
        ({"trigger": {"type": "STREAM_SIZE", "streamId": "x", "triggerMB": 2**62}}, "$.trigger.triggerMB"),
        ({"constraints": [{"type": "GROUP", "group": "g" * 300, "limit": 1}]}, "$.constraints[0].group"),
        ({"constraints": [{"type": "CONCURRENCY", "maxConcurrency": 1}] * 1001}, "$.constraints"),
    ],
)
def test_what_cdap_says_too_large_is_refused_with_its_path(said: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidError) as refused:
        over_cdap(**said)
    assert refused.value.path == path


def harmless(schedule: Schedule) -> None:
    """It is written, read, put into the log and judged, now and later, whatever stands in its way."""
    written = schedule_to_json(schedule)
    assert schedule_from_json(written) == schedule
    assert cdap.to_json(schedule)
    key, value = signal_codec.encode(Put(schedule.ref, 1, True, schedule.trigger, schedule.consumption))
    assert signal_codec.decode(key, value)
    str(schedule.trigger)
    for leaf in leaves(schedule.trigger):
        if isinstance(leaf, Every | At):
            str(leaf)
    for now, full, free in product((NOW, NOW + timedelta(days=365)), (True, False), (True, False)):
        for on_timeout in OnTimeout:
            decided(schedule, now, full=full, free=free, on_timeout=on_timeout)
    for deadline in schedule.deadlines:
        assert deadline.due_time(NOW) > NOW
    if schedule.retry is not None:
        assert all(schedule.retry.pause("run", attempt) <= LONGEST for attempt in (1, 2, 50))
    if schedule.pause_after is not None:
        schedule.pause_after.pause("run", "boom", at=NOW)


def decided(schedule: Schedule, now: datetime, *, full: bool, free: bool, on_timeout: OnTimeout) -> None:
    ready = ReadyJob(schedule.ref, 1, 1, NOW, ())
    case = DueJob(ready, schedule, 1, True)
    meters = {bucket_of(rate, PROGRAM.ref, ready.schedule_key) for rate in schedule.rates}
    decision_input = DecisionInput(
        PROGRAM,
        (case,),
        active_runs=("x",) if full else (),
        last_completed_at=NOW,
        resources=Resources(
            groups={group.name: Occupancy(0 if full else None) for group in schedule.groups},
            pool_queues={}
            if schedule.pool is None
            else {schedule.pool.name: PoolQueue(Occupancy(0 if full else None))},
            buckets={meter: BucketLevel(float(meter.burst if free else -meter.burst), NOW) for meter in meters},
        ),
    )
    [decision] = judge(decision_input, now=now)
    assert not (isinstance(decision, Wait) and decision.failed), decision
    if isinstance(decision, Wait) and decision.until is not None:
        assert now < decision.until < datetime(9999, 12, 31, tzinfo=UTC)


def readable(said: dict[str, Any]) -> Constraint | None:
    """None when it is refused."""
    try:
        return constraint_codec.from_json(said)
    except InvalidError:
        return None


constraints: st.SearchStrategy[Constraint | None] = st.one_of(
    st.integers(1, 2**63).map(lambda n: {"type": "DELAY", "millisAfterTrigger": n}),
    st.integers(1, 2**63).map(lambda n: {"type": "LAST_RUN", "millisSinceLastRun": n}),
    st.tuples(st.integers(1, 10**6), st.integers(1, 2**63), st.integers(1, 10**6)).map(
        lambda r: {"type": "RATE", "maxRuns": r[0], "perMillis": r[1], "burst": r[2]}
    ),
    st.tuples(st.integers(1, 2**64), st.integers(1, 2**64)).map(
        lambda g: {"type": "GROUP", "group": "g", "limit": max(g), "weight": min(g)}
    ),
    st.tuples(st.integers(1, 2**64), st.integers(-1000, 1000)).map(
        lambda p: {"type": "POOL", "pool": "x", "size": p[0], "priority": p[1]}
    ),
).map(readable)


@given(st.lists(constraints, max_size=4), st.timedeltas(timedelta(0), timedelta(days=3000)))
def test_constraints_of_any_size_are_weighed_without_raising(some: list[Constraint | None], passed: timedelta) -> None:
    found = tuple({type(each): each for each in some if each is not None}.values())
    schedule = Schedule(REF, PROGRAM.ref, CustomEvent(EventName("default", "go")), found)
    ready = ReadyJob(REF, 1, 1, NOW, ())
    meters = {bucket_of(rate, PROGRAM.ref, ready.schedule_key) for rate in schedule.rates}
    facts = ConstraintInput(
        NOW,
        last_completed_at=NOW,
        program=PROGRAM.ref,
        schedule_key=ready.schedule_key,
        resources=Resources(buckets={meter: BucketLevel(float(-meter.burst), NOW) for meter in meters}),
    )
    admission = weigh(schedule.constraints, schedule.overlap, facts, NOW + passed)
    assert all(each.at > NOW + passed for each in admission.verdicts if isinstance(each, WaitUntil))


@given(
    st.datetimes(timezones=st.just(UTC)),
    st.timedeltas(),
    st.floats(0, allow_nan=False, allow_infinity=False),
    st.integers(-(10**9), 10**9),
)
def test_dates_and_durations_stay_where_they_can_be_stored(
    instant: datetime, span: timedelta, factor: float, priority: int
) -> None:
    assert datetime(1, 1, 3, tzinfo=UTC) <= add_duration(instant, span) <= datetime(9999, 12, 29, tzinfo=UTC)
    if span >= timedelta(0):
        assert timedelta(0) <= longer(span, factor) <= LONGEST
    position_at(instant, priority, abs(span) if span > timedelta.min else timedelta(0))
