"""What decisions take of the resources that programs share."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from streamsched.domain.constraints.group import Group, Occupancy
from streamsched.domain.constraints.load import ClusterReading, Hysteresis, Load, LoadGate
from streamsched.domain.constraints.pool import Pool, PoolQueue
from streamsched.domain.constraints.rate import Rate, bucket_of, program_bucket_key
from streamsched.domain.decisions.decision import Admit, DecisionInput, DueJob, Wait, resources_after
from streamsched.domain.decisions.judge import judge
from streamsched.domain.decisions.resources import Resources
from streamsched.domain.jobs.job import ReadyJob, ScheduleKey
from streamsched.domain.names import DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.triggers.trigger import Partitions

NOW = datetime(2013, 1, 8, 12, tzinfo=UTC)
PROGRAM = Program(ProgramRef("default", "app", "load"), BashJob("true"))
LOAD = Load("main", free_cores=Hysteresis(4, 4), starts=10)
RATE = Rate(10, timedelta(hours=1))
REF = ScheduleRef("default", "app", "nightly")
SCHEDULE = Schedule(
    REF,
    PROGRAM.ref,
    Partitions(DatasetRef("default", "flights")),
    (Group("warehouse", 5), Pool("small", 2), RATE, LOAD),
    overlap=Overlap.QUEUE,
)
BUCKET = bucket_of(RATE, PROGRAM.ref, ScheduleKey(REF))
GATE = LoadGate().update(LOAD, ClusterReading(free_cores=8), NOW)
OTHER = replace(LOAD, cluster="other")


def decision_input(jobs: int) -> DecisionInput:
    ready = [ReadyJob(REF, 1, number, NOW, ()) for number in range(1, jobs + 1)]
    return DecisionInput(PROGRAM, tuple(DueJob(each, SCHEDULE, 1, True) for each in ready))


def shared() -> Resources:
    return Resources(
        {"warehouse": Occupancy()},
        {"small": PoolQueue(), "large": PoolQueue()},
        {BUCKET: BUCKET.full_level(NOW)},
        {LOAD: GATE, OTHER: GATE},
    )


def test_a_program_is_decided_with_the_resources_its_jobs_use() -> None:
    used = decision_input(1).with_resources(shared()).resources
    assert set(used.pool_queues) == {"small"}
    assert set(used.buckets) == {BUCKET}, f"every run counts in {program_bucket_key(PROGRAM.ref)}"
    assert set(used.load_gates) == {LOAD}


def test_admitted_runs_take_slots_tokens_and_room_and_the_others_are_queued() -> None:
    found = decision_input(3).with_resources(shared())
    decisions = judge(found, now=NOW)
    assert [type(each) for each in decisions] == [Admit, Admit, Wait]
    left = resources_after(shared(), found, decisions, NOW)
    assert left.groups["warehouse"].taken == 2
    assert left.pool_queues["small"].places.taken == 2
    assert [each.job for each in left.pool_queues["small"].positions] == [found.due_jobs[2].job]
    assert left.buckets[BUCKET].left == 8
    assert (left.load_gates[LOAD].started, left.load_gates[OTHER].started) == (2, 0)
    assert left.pool_queues["large"] == PoolQueue()


def test_nothing_is_taken_without_an_admission() -> None:
    assert shared().add_runs((), NOW) == shared()
