"""Constraints: verdicts carry their reasons, and what all say together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta

import pytest

from streamsched.domain.constraints.constraint import Concurrency, Constraint, Delay, LastRun
from streamsched.domain.constraints.group import Group, GroupSlot, Occupancy
from streamsched.domain.constraints.load import ClusterReading, Hysteresis, Load, LoadGate
from streamsched.domain.constraints.pace import BucketLevel
from streamsched.domain.constraints.plugin import PlugIn
from streamsched.domain.constraints.pool import Pool, PoolQueue
from streamsched.domain.constraints.rate import Rate, bucket_of
from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.decisions.admission import (
    ConstraintInput,
    ConstraintVerdict,
    PluginVerdict,
    Satisfied,
    Unsatisfiable,
    WaitFor,
    WaitUntil,
    check,
    check_all,
)
from streamsched.domain.decisions.resources import Resources
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.jobs.job import ScheduleKey
from streamsched.domain.names import ProgramRef, ScheduleRef

NOW = datetime(2013, 1, 8, 12, tzinfo=UTC)
JOIN = ProgramRef("default", "app", "join")
HOUR = timedelta(hours=1)


def facts(*active: str, satisfied_ago: timedelta = HOUR, completed_ago: timedelta | None = None) -> ConstraintInput:
    completed = None if completed_ago is None else NOW - completed_ago
    return ConstraintInput(NOW - satisfied_ago, active_runs=active, last_completed_at=completed, program=JOIN)


@pytest.mark.parametrize(
    ("constraint", "known", "verdict"),
    [
        (Concurrency(2), facts("r1"), Satisfied("1 of 2 runs of default.app.join are active")),
        (
            Concurrency(2),
            facts("r1", "r2"),
            Unsatisfiable("2 of 2 runs of default.app.join are active: r1, r2"),
        ),
        (
            Concurrency(1, wait=True),
            facts("r1", "r2"),
            WaitFor(("r1", "r2"), "2 of 1 runs of default.app.join are active: r1, r2"),
        ),
        (Delay(HOUR), facts(), Satisfied("1h after the trigger is 2013-01-08 12:00:00Z")),
        (
            Delay(2 * HOUR),
            facts(),
            WaitUntil(NOW + HOUR, "2h after the trigger is 2013-01-08 13:00:00Z"),
        ),
        (LastRun(HOUR), facts(), Satisfied("no run of default.app.join has completed yet")),
        (
            LastRun(HOUR),
            facts(completed_ago=HOUR),
            Satisfied(
                "the last run of default.app.join completed at 2013-01-08 11:00:00Z, 1h later is 2013-01-08 12:00:00Z"
            ),
        ),
        (
            LastRun(2 * HOUR, wait=True),
            facts(completed_ago=HOUR),
            WaitUntil(
                NOW + HOUR,
                "the last run of default.app.join completed at 2013-01-08 11:00:00Z, 2h later is 2013-01-08 13:00:00Z",
            ),
        ),
        (
            LastRun(HOUR, wait=True),
            facts("r1", completed_ago=9 * HOUR),
            WaitFor(("r1",), "a run of default.app.join is active: r1"),
        ),
        (LastRun(HOUR), facts("r1"), Unsatisfiable("a run of default.app.join is active: r1")),
        (
            TimeWindow(time(22), time(6), "Europe/Berlin"),
            facts(),
            WaitUntil(
                datetime(2013, 1, 8, 21, tzinfo=UTC),
                "window 22:00–06:00 Europe/Berlin opens at 2013-01-08 21:00:00Z (Tue 22:00 there)",
            ),
        ),
        (
            TimeWindow(time(9), time(11), "UTC", wait=False),
            facts(),
            Unsatisfiable("window 09:00–11:00 UTC opens at 2013-01-09 09:00:00Z (Wed 09:00 there)"),
        ),
        (TimeWindow(time(12), time(12, 1)), facts(), Satisfied("window 12:00–12:01 UTC is open")),
    ],
)
def test_a_verdict_says_why(constraint: Constraint, known: ConstraintInput, verdict: ConstraintVerdict) -> None:
    assert check(constraint, known, NOW) == verdict


ONE = Rate(1, HOUR, wait=False)
LOAD = Load("main", free_cores=Hysteresis(8, 4), wait=False)
OURS, STRICT = PlugIn("ours"), PlugIn("ours", wait=False)
NIGHTLY = ScheduleKey(ScheduleRef("default", "app", "nightly"))


def sharing(known: Resources) -> ConstraintInput:
    return ConstraintInput(NOW, program=JOIN, schedule_key=NIGHTLY, resources=known)


def told(verdict: ConstraintVerdict, *, answer: bool = True) -> ConstraintInput:
    """The plug-in has said so."""
    known = PluginVerdict(verdict, NOW, answer=answer)
    return ConstraintInput(NOW, plugin_verdicts={OURS: known, STRICT: known})


FULL = Resources(groups={"w": Occupancy(slots=(GroupSlot("default.app.a.1.1.r1", 1),))})
SPENT = Resources(buckets={bucket_of(ONE, JOIN, NIGHTLY): BucketLevel(0, NOW)})
LINE = Resources(pool_queues={"p": PoolQueue(Occupancy(slots=(GroupSlot("default.app.a.1.1.r1", 1),)))})
BUSY = LoadGate(open=False, since=NOW, reading=ClusterReading(free_cores=4), at=NOW)
TAKEN = "1 of 1 slots of group w are taken: default.app.a.1.1.r1"


@pytest.mark.parametrize(
    ("constraint", "known", "verdict"),
    [
        (Group("w", 1), sharing(FULL), WaitFor(("group w", "default.app.a.1.1.r1"), TAKEN)),
        (Group("w", 1, wait=False), sharing(FULL), Unsatisfiable(TAKEN)),
        (Group("w", 2), sharing(FULL), Satisfied("1 of 2 slots of group w are taken")),
        (
            Pool("p", 1, wait=False),
            sharing(LINE),
            Unsatisfiable("1 of 1 places of pool p are taken: default.app.a.1.1.r1"),
        ),
        (
            ONE,
            sharing(SPENT),
            Unsatisfiable(
                "0 of 1 tokens of program default.app.join are left, 1 come each 1h, the next at 2013-01-08 13:00:00Z"
            ),
        ),
        (
            LOAD,
            sharing(Resources(load_gates={LOAD: BUSY})),
            Unsatisfiable(
                "cluster main has 4 cores free (at 2013-01-08 12:00:00Z); wanted: 8 cores or more free "
                "(until fewer than 4) on cluster main; shut since 2013-01-08 12:00:00Z"
            ),
        ),
        (
            LOAD,
            sharing(Resources(load_gates={LOAD: LoadGate(failed="connection refused", failing=NOW)})),
            WaitFor(
                ("cluster main",),
                "there is no reading of cluster main yet, "
                "its probe fails since 2013-01-08 12:00:00Z: connection refused",
            ),
        ),
        (OURS, sharing(Resources()), WaitFor(("plug-in ours",), "plug-in ours is being asked")),
        (OURS, told(Satisfied("fine")), Satisfied("fine")),
        (OURS, told(WaitFor(("quota",), "quota is used up")), WaitFor(("quota",), "quota is used up")),
        (STRICT, told(WaitFor(("quota",), "quota is used up")), Unsatisfiable("quota is used up")),
        (STRICT, told(WaitFor((), "it failed"), answer=False), WaitFor((), "it failed")),
        (OURS, told(Unsatisfiable("never")), Unsatisfiable("never")),
    ],
)
def test_a_verdict_on_what_is_shared_says_why(
    constraint: Constraint, known: ConstraintInput, verdict: ConstraintVerdict
) -> None:
    assert check(constraint, known, NOW) == verdict


def test_a_gate_opens_at_one_mark_and_shuts_at_another() -> None:
    gate, opened = LoadGate(), list[bool]()
    for cores in (6, 8, 5, 3, 6, 9):
        gate = gate.update(LOAD, ClusterReading(free_cores=cores), NOW)
        opened.append(gate.open)
    assert opened == [False, True, True, False, False, True]


def test_no_constraint_admits_at_once() -> None:
    admission = check_all((), facts(), NOW)
    assert admission.is_admitted
    assert (admission.wait_until, admission.wait_for, admission.reason) == (None, (), "")


def test_a_wait_lasts_until_the_latest_time_and_names_every_holder_once() -> None:
    constraints = (
        Delay(2 * HOUR),
        Delay(3 * HOUR),
        Concurrency(1, wait=True),
        LastRun(HOUR, wait=True),
        TimeWindow(time(0), time(23)),
    )
    admission = check_all(constraints, facts("r1", "r2"), NOW)
    assert not admission.is_admitted
    assert not admission.is_aborted
    assert admission.wait_until == NOW + 2 * HOUR
    assert admission.wait_for == ("r1", "r2")
    assert admission.reason.count(";") == 3
    assert "window" not in admission.reason


def test_one_that_cannot_be_met_ends_the_job_also_while_another_waits_and_all_reasons_are_kept() -> None:
    constraints = (TimeWindow(time(22), time(6)), Concurrency(1), LastRun(HOUR))
    admission = check_all(constraints, facts("r1"), NOW)
    assert admission.is_aborted
    assert len(admission.verdicts) == 3
    assert admission.reason == "1 of 1 runs of default.app.join are active: r1; a run of default.app.join is active: r1"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Rate(0, HOUR), "$.limit: must be from 1 to 1000000 but is 0"),
        (lambda: Rate(1, HOUR, burst=0), "$.burst: must be from 1 to 1000000 but is 0"),
        (lambda: Rate(1, HOUR, group="api"), "$.group: is for rates of a group, and this is one of a program"),
        (lambda: Rate(1, timedelta(0)), "$.per: must be positive but is 0:00:00"),
        (lambda: Concurrency(0), "$.limit: must be at least 1 but is 0"),
        (lambda: Delay(timedelta(0)), "$.delay: must be positive but is 0:00:00"),
        (lambda: LastRun(-HOUR), "$.interval: must be positive but is -1 day, 23:00:00"),
        (lambda: TimeWindow(time(6), time(6)), "$.end: must not equal the start, 06:00"),
        (
            lambda: TimeWindow(time(6), time(7), "Europe/Berlni"),
            "$.zone: 'Europe/Berlni' is no IANA time zone; did you mean 'Europe/Berlin'?",
        ),
        (
            lambda: TimeWindow(time(6, tzinfo=UTC), time(7)),
            "$.start: must be a plain time of day in whole seconds but is 06:00:00+00:00",
        ),
    ],
)
def test_a_constraint_that_contradicts_itself_is_refused(build: Callable[[], Constraint], message: str) -> None:
    with pytest.raises(InvalidDefinitionError) as refused:
        build()
    assert str(refused.value) == message
