"""Submissions and reruns: what is sent, and which jobs and runs they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Final

from streamsched.codec.shape.about import REASON, About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import one_of
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.submission_request import BulkRerunRequest, RerunRequest, SubmissionRequest
from streamsched.wire.jobs import MADE, MadeJob

_JOB: Final = About("default.flights.weekly.1.1")
_RUN: Final = About("default.flights.weekly.1.1.r1")
_DAY: Final = About("2026-03-01")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedRun:
    """A run that was started without a job."""

    run: Annotated[str, _RUN]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeJobs:
    """The jobs that a request made, oldest first."""

    jobs: Annotated[Sequence[MadeJob], About(shape=MADE)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOfFailure:
    """A job whose last run failed or was lost."""

    id: Annotated[str, _JOB]
    run: Annotated[str, _RUN]
    outcome: Annotated[RunState, About(of="state")]
    outcome_reason: Annotated[str | None, About(of="reason")]
    last_run_ended_at: Annotated[datetime | None, About(of="ended_at")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSubmission:
    """A submission of a program alone. `at_most` and `force` are of a run that starts at once (`now`)."""

    arguments: Annotated[Mapping[str, str], _DAY] = field(default_factory=dict[str, str])
    reason: Annotated[str, REASON] = ""
    token: Annotated[str | None, About("7f3a", minLength=1, maxLength=255)] = None
    now: Annotated[bool, About(False)] = False
    at_most: Annotated[int | None, About(1, least=1)] = None
    force: Annotated[bool, About(False)] = False


MADE_OR_STARTED: Final = NamedSchema(
    "SubmittedOrStarted", lambda: one_of(MADE.answer_schema(), JsonShape(StartedRun).answer_schema())
)
MADE_JOBS: Final = JsonShape(MadeJobs, "SubmittedJobs")
JOB_OF_FAILURE: Final = JsonShape(JobOfFailure)
PROGRAM_SUBMISSION: Final = JsonShape(ProgramSubmission)
SCHEDULE_SUBMISSION: Final = JsonShape(
    SubmissionRequest,
    "ScheduleSubmission",
    outside=("owner", "token"),
    about={"arguments": _DAY, "columns": About("2026-03-01", name="key"), "reason": REASON},
)
_RERUN: Final = {
    "arguments": About("2026-03-01", "They override all others."),
    "reason": REASON,
    "muted": About(False, name="mute"),
}
RERUN: Final = JsonShape(RerunRequest, "Rerun", outside=("job", "run", "token"), about=_RERUN)
BULK_RERUN: Final = JsonShape(
    BulkRerunRequest,
    "BulkRerun",
    outside=("schedule", "token"),
    about={**_RERUN, "since": About("1d"), "runs": _RUN},
)
