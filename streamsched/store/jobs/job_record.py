"""Jobs as lists and pages show them: the record of a job, and how it is read from its row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from streamsched.codec.records import launch
from streamsched.codec.views.trace import trace_of
from streamsched.domain.decisions.names_in_reasons import is_own
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.submission import Submission
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.store.connections import Executor
from streamsched.store.sql import Select, queries


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A stored job.

    Attributes:
        schedule: None for a submission to a program.
        program: None when its schedule was unknown at intake.
        waiting: verdicts of the last check, in the order of the schedule's constraints: `{kind, why, at?, what?}`.
        joined: the job into which a COALESCED one was coalesced.
        runs: ids of its runs, first attempt first.
        missed: the deadlines it missed, as sentences.
        outcome: the state of its last run; None before it has one.
        failures: how often in a row it could not be decided, for `reason`; retried at `next_check_at`, at growing
            intervals.
        submission: of a person; None for a job of the trigger.
        trace: the id of its trace; None without one.
    """

    id: str
    schedule: ScheduleRef | None
    generation: int
    sequence: int
    program: ProgramRef | None
    state: JobState
    reason: str
    satisfied_at: datetime
    created_at: datetime
    next_check_at: datetime | None
    waiting: tuple[dict[str, Any], ...]
    joined: str | None
    ended_at: datetime | None
    runs: tuple[str, ...]
    missed: tuple[str, ...] = ()
    failures: int = 0
    outcome: RunOutcome | None = None
    submission: Submission | None = None
    trace: str | None = None

    @property
    def attempts(self) -> int:
        return len(self.runs)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The state of a run, or its end."""

    state: RunState
    reason: str
    started_at: datetime | None
    ended_at: datetime | None


class JobRow(NamedTuple):
    """A row of `jobs`, or of its history, with the ids of the job's runs."""

    id: str
    schedule: str | None
    generation: int
    sequence: int
    program: str | None
    state: str
    reason: str
    satisfied_at: datetime
    created_at: datetime
    next_check_at: datetime | None
    waiting: Any
    checked_at: datetime | None
    ready: Any
    joined: str | None
    ended_at: datetime | None
    command: str | None
    command_reason: str | None
    missed: list[str] | None
    failures: int | None
    submitted: bool
    backfill: str | None
    spans: str | None
    runs: list[str]


class _LastRun(NamedTuple):
    id: str
    state: str
    reason: str
    started_at: datetime | None
    ended_at: datetime | None


_OUTCOMES: Final = Select(queries("jobs/jobs")["outcomes"], _LastRun)


async def add_outcomes(executor: Executor, jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """The jobs with the outcomes of their last runs."""
    last = [job.runs[-1] for job in jobs if job.runs]
    rows = await _OUTCOMES.fetch(executor, last) if last else []
    found = {row.id: RunOutcome(RunState(row.state), row.reason, row.started_at, row.ended_at) for row in rows}
    return [replace(job, outcome=found.get(job.runs[-1])) if job.runs else job for job in jobs]


def job_record(row: JobRow) -> JobRecord:
    """The record of a row, without its outcome; `waiting` names nothing of other namespaces."""
    own = row.id.partition(".")[0]
    return JobRecord(
        id=row.id,
        schedule=None if row.schedule is None else ScheduleRef.parse(row.schedule),
        generation=row.generation,
        sequence=row.sequence,
        program=None if row.program is None else ProgramRef.parse(row.program),
        state=JobState(row.state),
        reason=row.reason,
        # of a job of a backfill, `satisfied_at` is its place among waiting jobs (`ReadyJob.queued_at`)
        satisfied_at=row.satisfied_at if row.backfill is None else row.created_at,
        created_at=row.created_at,
        next_check_at=row.next_check_at,
        waiting=tuple(_verdict(each, own) for each in _objects(row.waiting)),
        joined=row.joined,
        ended_at=row.ended_at,
        runs=tuple(row.runs),
        missed=tuple(row.missed or ()),
        failures=row.failures or 0,
        submission=_submission(row) if row.submitted else None,
        trace=trace_of(row.id, row.ready, row.spans),
    )


def _submission(row: JobRow) -> Submission:
    """The submission in a job's row; only its id when the rest cannot be read."""
    try:
        return launch.submission_from_json(row.ready["submission"], "$.submission")
    except Exception:  # noqa: BLE001 - a row may hold anything; the others are listed
        return Submission(row.id)


def _objects(stored: Any) -> tuple[Any, ...]:
    """The objects of a stored JSON list. Anything else in it is omitted, so a damaged row is listed with the others."""
    return tuple(each for each in stored if isinstance(each, dict)) if isinstance(stored, list) else ()


def _verdict(stored: dict[str, Any], own: str) -> dict[str, Any]:
    """The stored verdict of a constraint, with names of the job's namespace only."""
    found = dict(stored)
    if isinstance(found.get("what"), list):
        found["what"] = [each for each in found["what"] if isinstance(each, str) and is_own(each, own)]
    return found
