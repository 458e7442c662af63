"""How an admission changes the input for the jobs judged after it in the same `DecisionInput`. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from streamsched.domain.constraints.rate import bucket_of, program_bucket_key
from streamsched.domain.decisions.decision import (
    Admit,
    Decision,
    DecisionInput,
    DueJob,
    Join,
    add_coalesced_jobs,
    taken_resources,
)
from streamsched.domain.jobs.job import JobNumber, ReadyJob, ScheduleKey


class BucketKeys:
    """The bucket keys from which the runs of due jobs take tokens, computed once for each schedule key."""

    def __init__(self, decision_input: DecisionInput) -> None:
        self._program = None if decision_input.program is None else decision_input.program.ref
        self._in_use = frozenset(bucket.key for bucket in decision_input.resources.buckets)
        self._known: dict[ScheduleKey, tuple[str, ...]] = {}

    def __call__(self, due_job: DueJob) -> tuple[str, ...]:
        if not self._in_use:
            return ()
        known = self._known.get(due_job.schedule_key)
        return self._known.setdefault(due_job.schedule_key, self._keys_of(due_job)) if known is None else known

    def _keys_of(self, due_job: DueJob) -> tuple[str, ...]:
        if self._program is None or due_job.schedule is None:
            return ()
        own = {bucket_of(rate, self._program, due_job.schedule_key).key for rate in due_job.schedule.rates}
        return tuple(sorted(self._in_use & {program_bucket_key(self._program), *own}))


def with_bucket_keys(admit: Admit, bucket_keys: tuple[str, ...]) -> Admit:
    """The admission of a run that takes tokens of these bucket keys."""
    if not bucket_keys:
        return admit
    return replace(admit, bucket_keys=bucket_keys)


def with_run(decision_input: DecisionInput, due_job: DueJob, admit: Admit, now: datetime) -> DecisionInput:
    """The input for the jobs after the admitted one. Positional arguments: `replace` would take as long as judging."""
    schedule_key, own_runs = due_job.schedule_key, decision_input.own_runs
    if due_job.ready.submission is None or due_job.ready.submission.backfill is None:
        own_runs = {**own_runs, schedule_key: (*own_runs.get(schedule_key, ()), admit.run)}
    return DecisionInput(
        decision_input.program,
        decision_input.due_jobs,
        decision_input.waiting,
        (*decision_input.active_runs, admit.run),
        own_runs,
        decision_input.last_completed_at,
        decision_input.resources.add_runs((taken_resources(due_job, admit),), now),
        decision_input.lanes,
    )


def remove_waiting(waiting: dict[ScheduleKey, JobNumber], due_job: DueJob) -> None:
    """Removes the job from the waiting jobs by schedule key, if it is the one stored there."""
    if waiting and waiting.get(due_job.schedule_key) == due_job.number:
        del waiting[due_job.schedule_key]


def with_coalesced_jobs(decision_input: DecisionInput, decisions: list[Decision]) -> tuple[Decision, ...]:
    """The decisions, where an admitted job carries the satisfactions coalesced into it within this input."""
    coalesced: dict[str, list[ReadyJob]] = {}
    for due_job, decision in zip(decision_input.due_jobs, decisions, strict=True):
        if isinstance(decision, Join):
            coalesced.setdefault(decision.into, []).append(due_job.ready)
    if not coalesced or decision_input.program is None:
        return tuple(decisions)
    return tuple(
        add_coalesced_jobs(decision, due_job, decision_input.program, coalesced[decision.job])
        if isinstance(decision, Admit) and decision.job in coalesced
        else decision
        for due_job, decision in zip(decision_input.due_jobs, decisions, strict=True)
    )
