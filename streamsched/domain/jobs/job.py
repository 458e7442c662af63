"""A job: one satisfaction of one schedule, waiting or launched. Its state machine is `JOB_STATES`.

A job's id is a function of schedule, generation and sequence, or of the idempotency key of its submission, so a repeat
anywhere downstream finds the first.
`PENDING_TRIGGER` is the accumulation in the trigger table and never a row in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from streamsched.domain.events.event import Event
from streamsched.domain.jobs.submission import Submission
from streamsched.domain.limits import LONGEST, add_duration
from streamsched.domain.names import ScheduleRef
from streamsched.domain.state_machine import StateMachine


class JobState(StrEnum):
    """Where a job is: one satisfaction of one schedule, on its way to a run."""

    #: The trigger has counted something and needs more. This is the accumulation in the log's table, never a row.
    PENDING_TRIGGER = "PENDING_TRIGGER"
    #: The trigger is satisfied. The job waits until its constraints hold and a place is free; `job why` says for what.
    PENDING_CONSTRAINT = "PENDING_CONSTRAINT"
    #: The constraints hold, and a run is stored with it. A runner claims that run, usually within a second.
    PENDING_LAUNCH = "PENDING_LAUNCH"
    #: A runner has claimed the first run. How the job went is the state of its runs; further attempts leave this.
    LAUNCHED = "LAUNCHED"
    #: It will not run: a constraint that does not wait failed, an earlier job was there, or a person cancelled it.
    ABORTED = "ABORTED"
    #: It waited longer than its timeout.
    TIMED_OUT = "TIMED_OUT"
    #: Its schedule was changed, disabled or deleted while it waited, or a newer job took its place.
    OBSOLETE = "OBSOLETE"
    #: It joined an earlier job of its schedule that waits, which has its events now.
    COALESCED = "COALESCED"
    #: No runner could be started for its first run, or it was ended before one claimed it.
    LAUNCH_FAILED = "LAUNCH_FAILED"

    @property
    def is_terminal(self) -> bool:
        return self in JOB_STATES.ends


class JobCommand(StrEnum):
    """An operator's command to a waiting job: launch without its constraints, end, or wait until released."""

    FORCE = "force"
    CANCEL = "cancel"
    HOLD = "hold"


class JobFact(StrEnum):
    """The events of a job's state machine."""

    SATISFIED = "trigger satisfied"
    ADMITTED = "constraints satisfied"
    LAUNCHED = "run submitted"
    ABORTED = "constraint can never be satisfied"
    TIMED_OUT = "waited longer than its timeout"
    CANCELLED = "cancelled by hand"
    SUPERSEDED = "schedule changed, disabled or deleted"
    JOINED = "joined the waiting job"
    SKIPPED = "an earlier one waits or runs"
    REPLACED = "a newer one took its place"
    LAUNCH_FAILED = "launch failed for the last time"


JOB_STATES: Final = StateMachine(
    "job",
    {
        (JobState.PENDING_TRIGGER, JobFact.SATISFIED): JobState.PENDING_CONSTRAINT,
        (JobState.PENDING_CONSTRAINT, JobFact.ADMITTED): JobState.PENDING_LAUNCH,
        (JobState.PENDING_CONSTRAINT, JobFact.ABORTED): JobState.ABORTED,
        (JobState.PENDING_CONSTRAINT, JobFact.TIMED_OUT): JobState.TIMED_OUT,
        (JobState.PENDING_CONSTRAINT, JobFact.CANCELLED): JobState.ABORTED,
        (JobState.PENDING_CONSTRAINT, JobFact.SUPERSEDED): JobState.OBSOLETE,
        (JobState.PENDING_CONSTRAINT, JobFact.JOINED): JobState.COALESCED,
        (JobState.PENDING_CONSTRAINT, JobFact.SKIPPED): JobState.ABORTED,
        (JobState.PENDING_CONSTRAINT, JobFact.REPLACED): JobState.OBSOLETE,
        (JobState.PENDING_LAUNCH, JobFact.LAUNCHED): JobState.LAUNCHED,
        (JobState.PENDING_LAUNCH, JobFact.SUPERSEDED): JobState.OBSOLETE,
        (JobState.PENDING_LAUNCH, JobFact.LAUNCH_FAILED): JobState.LAUNCH_FAILED,
    },
    frozenset(
        {
            JobState.LAUNCHED,
            JobState.ABORTED,
            JobState.TIMED_OUT,
            JobState.OBSOLETE,
            JobState.COALESCED,
            JobState.LAUNCH_FAILED,
        }
    ),
)


class JobNumber(NamedTuple):
    """A job's number within its schedule; ordered as the satisfactions. A submission comes after the satisfaction whose
    sequence it has: `submitted_at` are seconds since 1970, 0 for a job of the trigger.
    """

    generation: int
    sequence: int
    submitted_at: float
    job: str


@dataclass(frozen=True, slots=True)
class Contribution:
    """One leaf's part of a satisfaction: `count` in the leaf's own unit (partitions, bytes, times)."""

    leaf: str
    count: int
    events: Sequence[Event]


class ScheduleKey(NamedTuple):
    """The scope of overlap policies: a schedule, or one correlation key of it. None: submissions to a program."""

    schedule: ScheduleRef | None
    key: str = ""


@dataclass(frozen=True, slots=True)
class ReadyJob:
    """A satisfied schedule as it travels on topic `launch`, or a submission, which is stored without the log.

    `satisfied_at` (UTC) is the log time of the signal that satisfied it, or the instant at which time alone did, so
    replay gives the same value. `key` is the correlation key; "" for a schedule that does not correlate.

    Attributes:
        schedule: None for a submission to a program.
        sequence: of a submission, that of the latest satisfaction of its schedule before it; 0 without one.
        submission: None for a job of the trigger.
        backlog: its schedule was collecting a backlog when it was satisfied, so it waits and runs by itself.
        traceparent: of the event that satisfied it; None when that has none, or time alone or a person did.
        corrects: the id of the job of the same key whose data its events correct; "" for any other job.
    """

    schedule: ScheduleRef | None
    generation: int
    sequence: int
    satisfied_at: datetime
    contributions: tuple[Contribution, ...]
    key: str = ""
    submission: Submission | None = None
    backlog: bool = False
    traceparent: str | None = None
    corrects: str = ""

    @property
    def id(self) -> str:
        """Of a submission the id of its job; else made of schedule, generation and sequence, so that the same
        satisfaction has the same id.
        """
        if self.submission is not None:
            return self.submission.job
        assert self.schedule is not None
        return job_id(self.schedule, self.generation, self.sequence)

    @property
    def events(self) -> int:
        """How many events satisfied it."""
        return sum(part.count for part in self.contributions)

    @property
    def schedule_key(self) -> ScheduleKey:
        return ScheduleKey(self.schedule, self.key)

    @property
    def is_by_person(self) -> bool:
        """Whether a person submitted it, or the first job of its chain of reruns."""
        return self.submission is not None and (self.submission.rerun is None or self.submission.rerun.submitted)

    @property
    def logical_at(self) -> datetime:
        """The satisfaction that its runs are about: of a rerun, that of the first job of the chain; of a tick's job of
        a backfill, the tick.
        """
        if self.submission is None:
            return self.satisfied_at
        if self.submission.rerun is not None:
            return self.submission.rerun.satisfied_at
        return self.submission.logical_at or self.satisfied_at

    @property
    def queued_at(self) -> datetime:
        """The time that orders it among waiting jobs of any schedule: its satisfaction. A job of a backfill comes after
        all other jobs, however long it waits: the time is later by more than any priority is worth.
        """
        if self.submission is None or self.submission.backfill is None:
            return self.satisfied_at
        return add_duration(self.satisfied_at, LONGEST)

    @property
    def number(self) -> JobNumber:
        """Its number among the jobs of its schedule, across kept generations."""
        submitted_at = 0.0 if self.submission is None else self.satisfied_at.timestamp()
        return JobNumber(self.generation, self.sequence, submitted_at, self.id)


def merge_satisfactions(ready: ReadyJob, coalesced: Iterable[ReadyJob]) -> ReadyJob:
    """`ready` with the contributions of the satisfactions coalesced into it, by leaf, oldest first; its id stays.
    Linear in the number of events, because days of satisfactions may have been coalesced.
    """
    leaves: dict[str, list[Contribution]] = {}
    for one in (ready, *coalesced):
        for each in one.contributions:
            leaves.setdefault(each.leaf, []).append(each)
    return replace(
        ready,
        contributions=tuple(
            parts[0]
            if len(parts) == 1
            else Contribution(
                leaf, sum(each.count for each in parts), tuple(event for each in parts for event in each.events)
            )
            for leaf, parts in leaves.items()
        ),
    )


def job_id(schedule: ScheduleRef, generation: int, sequence: int) -> str:
    """`<schedule>.<generation>.<sequence>`: deterministic, readable, safe in a URL and a file name. Submissions have
    other ids.
    """
    return f"{schedule}.{generation}.{sequence}"
