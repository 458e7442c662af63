"""The lanes of a decision input: which ones its jobs are in, and what each decision changes in them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from streamsched.domain.constraints.constraint import Concurrency
from streamsched.domain.constraints.lane import Lane, LaneName, lane_of
from streamsched.domain.constraints.pool import QueuePosition
from streamsched.domain.decisions.admission import WaitFor
from streamsched.domain.decisions.decision import Admit, Decision, DecisionInput, DueJob, End, Join, Wait
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.schedules.schedule import Schedule


def limits_of(schedule: Schedule | None, ready: ReadyJob) -> Mapping[LaneName, int]:
    """The lanes of a job, with the smallest limit the schedule has for each; empty without a schedule."""
    found: dict[LaneName, int] = {}
    for each in () if schedule is None else schedule.lanes:
        name = lane_of(each, ready.schedule_key)
        if name is not None:
            found[name] = min(each.limit, found.get(name, each.limit))
    return found


def lane_position(ready: ReadyJob) -> QueuePosition:
    """The job's position in its lanes."""
    return QueuePosition(ready.queued_at, ready.sequence, ready.id)


def in_lanes(due_job: DueJob, decision: Decision) -> Decision:
    """The decision, with the lanes in which a job that waits keeps its position: all of them, but only the narrowest of
    those that hold it. So a job of a busy key takes no place of its schedule from jobs of other keys.
    """
    if not isinstance(decision, Wait) or due_job.schedule is None or not due_job.schedule.lanes:
        return decision
    held_by = holding_lanes(due_job, decision)
    return replace(decision, lanes=held_by[:1] or tuple(limits_of(due_job.schedule, due_job.ready)))


def holding_lanes(due_job: DueJob, wait: Wait) -> tuple[LaneName, ...]:
    """The lanes that hold a job, those of a key first."""
    if due_job.schedule is None:
        return ()
    verdicts = zip(due_job.schedule.constraints, wait.verdicts, strict=False)
    held_by = [each for each, verdict in verdicts if isinstance(each, Concurrency) and isinstance(verdict, WaitFor)]
    names = {lane_of(each, due_job.schedule_key) for each in held_by} - {None}
    return tuple(sorted((name for name in names if name is not None), key=lambda name: name.scope))


def after_decision(decision_input: DecisionInput, due_job: DueJob, decision: Decision) -> DecisionInput:
    """The input for the jobs after this one."""
    names = limits_of(due_job.schedule, due_job.ready).keys() & decision_input.lanes.keys()
    if not names:
        return decision_input
    changed = {name: _lane_after(name, decision_input.lanes[name], due_job, decision) for name in names}
    return replace(decision_input, lanes={**decision_input.lanes, **changed})


def _lane_after(name: LaneName, lane: Lane, due_job: DueJob, decision: Decision) -> Lane:
    match decision:
        case Admit(run=run):
            return lane.without_job(due_job.job).with_run(run)
        case Wait(lanes=lanes) if name in lanes:
            return lane.with_position(lane_position(due_job.ready))
        case Wait() | Join() | End():
            return lane.without_job(due_job.job)
        case _:
            assert_never(decision)
