"""Jobs, and why they are in their states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import choice
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef, ScheduleRef

_ID: Final = "default.flights.weekly.1.1"
_JOB: Final = About(_ID)
_RUN: Final = About(f"{_ID}.r1")
_DAY: Final = About("2026-03-01")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmission:
    """What a person asked for."""

    reason: Annotated[str, About("by hand")]
    arguments: Annotated[Mapping[str, str], _DAY]
    key: Annotated[Mapping[str, str], About("2026-03-01", of="columns")]
    rerun_of: Annotated[str | None, About(of="rerun.run")]
    muted: Annotated[bool, About(False)]
    backfill: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReason:
    """The verdict of a constraint.

    Attributes:
        at: when it will hold, of `wait_until`.
        what: the runs and others that it waits for, of `wait_for`.
    """

    kind: Annotated[str, About(schema=choice(("wait_for", "wait_until", "satisfied", "unsatisfiable")))]
    why: Annotated[str, About("concurrency 1 of 1")]
    at: datetime | None = None
    what: Annotated[Sequence[str], _RUN] = ()


_WAITING: Final = JsonShape(WaitReason, sometimes=("at", "what"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job with the outcome of its last run, and the submission it came from.

    Attributes:
        schedule: None of a submission to a program.
        waiting: verdicts of its constraints at the last check.
        joined: the job into which it was coalesced.
        runs: their ids, oldest first.
        missed: the deadlines it missed.
        outcome: the state of its last run; None without one.
        failures: how often in a row it could not be decided.
    """

    id: Annotated[str, _JOB]
    schedule: ScheduleRef | None
    generation: int | None
    sequence: int | None
    program: ProgramRef | None
    state: Annotated[JobState, About("LAUNCHED")]
    reason: str | None
    satisfied_at: datetime | None
    created_at: datetime
    next_check_at: datetime | None
    waiting: Annotated[Sequence[WaitReason], About(shape=_WAITING)]
    joined: Annotated[str | None, _JOB]
    ended_at: datetime | None
    runs: Annotated[Sequence[str], _RUN]
    missed: Annotated[Sequence[str], About("start-by 30m")]
    attempts: int
    outcome: Annotated[RunState | None, About(of="outcome.state")]
    outcome_reason: Annotated[str | None, About(of="outcome.reason")]
    last_run_started_at: Annotated[datetime | None, About(of="outcome.started_at")]
    last_run_ended_at: Annotated[datetime | None, About(of="outcome.ended_at")]
    failures: Annotated[int, About(0)]
    submission: Annotated[JobSubmission | None, About(shape=JsonShape(JobSubmission))]
    trace: Annotated[str | None, About("4bf92f3577b34da6a3ce929d0e0e4736")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingRun:
    """A run that a job waits for."""

    run: Annotated[str, _RUN]
    href: Annotated[str, About(f"/v1/runs/{_ID}.r1")]
    state: Annotated[str, About("RUNNING")]
    since: datetime | None
    schedule: ScheduleRef | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A constraint of a job, or its overlap policy. `needs`: the constraint as text; `text`: why it holds or not."""

    text: Annotated[str, About("concurrency 1 of 1")]
    needs: Annotated[str, About("no active run")]
    holds: Annotated[bool | None, About(False)]
    at: datetime | None
    holders: Annotated[Sequence[BlockingRun], About(shape=JsonShape(BlockingRun))]
    others: Annotated[int, About(0, "Runs that it waits for besides, of namespaces that the caller may not view.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """A decision about a job or a run."""

    at: datetime
    subject: str
    action: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReason:
    """Why a job is in its state.

    Attributes:
        since: when it began to wait.
        earliest: when it can start at the earliest, if that is known; `earliest_because`: what that is computed from.
        timeout: what happens when it waits too long, and when.
        satisfied_by: the contribution of each leaf of the trigger.
    """

    job: Annotated[str, _JOB]
    state: Annotated[str, About("PENDING_CONSTRAINT")]
    summary: Annotated[str, About("It waits for a slot.")]
    since: datetime | None
    clauses: Annotated[Sequence[Clause], About(shape=JsonShape(Clause))]
    earliest: datetime | None
    earliest_because: str | None
    timeout: Annotated[str | None, About("it is ended at 06:00")]
    deadlines: Sequence[str]
    satisfied_by: Sequence[str]
    runs: Sequence[str]
    history: Annotated[Sequence[HistoryLine], About(shape=JsonShape(HistoryLine))]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeJob:
    """The job that a request made. `repeated`: an earlier request with the same key had made it."""

    id: Annotated[str, About(_ID, name="job", of="job")]
    repeated: Annotated[bool, About(False)]


JOB: Final = JsonShape(Job)
JOB_REASON: Final = JsonShape(JobReason, "Why")
MADE: Final = JsonShape(MadeJob, "Submitted")
