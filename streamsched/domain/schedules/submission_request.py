"""A person's requests for jobs: a submission to a schedule or a program, the rerun of a job or of all failed jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from streamsched.domain.errors import InvalidError
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.submission import Rerun, Submission, plain_key, rerun_job_id, submitted_job_id
from streamsched.domain.limits import check_most
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.arguments import KEY_PREFIX, PREFIX, check_texts
from streamsched.domain.schedules.key_columns import all_column_names
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.triggers.named_key import named_key

#: Most characters of a reason.
LONGEST_REASON: Final = 1000
#: Most jobs that one request repeats, and how long ago their runs ended when the request does not say.
MOST_RERUNS: Final = 1000
DEFAULT_SINCE: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    """A request, checked on creation.

    Attributes:
        owner: the schedule or program that is to run.
        token: the idempotency key; with the owner it makes the job's id.
        arguments: override all other arguments of the run.
        columns: values of the columns of the schedule's correlation key.
        reason: who asks for it and why.
    """

    owner: ScheduleRef | ProgramRef
    token: str
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    reason: str = ""

    job: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "job", submitted_job_id(self.owner, self.token))
        check_texts(self.arguments, "$.arguments", "arguments")
        check_texts(self.columns, "$.key", "columns")
        check_reason(self.reason)
        if self.columns and isinstance(self.owner, ProgramRef):
            raise InvalidError("$.key", "is for a schedule; a program alone has no key")

    def satisfaction(self, schedule: Schedule | None, *, generation: int, sequence: int, now: datetime) -> ReadyJob:
        """The job's satisfaction at `now` (UTC).

        Args:
            schedule: the owner's definition; None for a program.
            generation: of the schedule; 0 for a program.
            sequence: of the latest satisfaction of the schedule; 0 without one, and for a program.

        Raises:
            InvalidError: the key does not fit the schedule's trigger, or an argument collides with it.
        """
        if schedule is not None:
            check_collisions(self.arguments, schedule)
        submission = Submission(self.job, self.reason, self.arguments, self.columns)
        if schedule is None:
            return ReadyJob(None, generation, sequence, now, (), submission=submission)
        key = named_key(schedule.trigger, self.columns)
        return ReadyJob(schedule.ref, generation, sequence, now, (), key, submission)


@dataclass(frozen=True, slots=True)
class RerunRequest:
    """A request to run a job again, checked on creation.

    Attributes:
        job: the job to repeat.
        run: the run of it to repeat; None: the last.
        token: the idempotency key; None: the number of the attempt, so that a run is repeated once.
        arguments: override all other arguments, those of the repeated submission included.
        reason: who asks for it and why.
        muted: whether the end of the new runs is kept from all schedules.
    """

    job: str
    run: str | None = None
    token: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    reason: str = ""
    muted: bool = False

    def __post_init__(self) -> None:
        check_texts(self.arguments, "$.arguments", "arguments")
        check_reason(self.reason)

    def satisfaction(
        self, former: ReadyJob, run: str, attempt: int, *, generation: int, sequence: int, now: datetime
    ) -> ReadyJob:
        """The new job's satisfaction at `now` (UTC), with the events, key and logical time of `former`.

        Args:
            run: the repeated run, the job's attempt of that number.
            generation: the current one of the schedule; 0 for a program.
            sequence: of the latest satisfaction of the schedule; 0 without one, and for a program.

        Raises:
            InvalidError: the token is empty or too long.
        """
        earlier = former.submission
        submission = Submission(
            rerun_job_id(former.id, str(attempt) if self.token is None else self.token),
            self.reason,
            {**({} if earlier is None else earlier.arguments), **self.arguments},
            {} if earlier is None else earlier.columns,
            Rerun(former.id, run, former.logical_at, former.is_by_person),
            self.muted,
        )
        return replace(former, generation=generation, sequence=sequence, satisfied_at=now, submission=submission)


@dataclass(frozen=True, slots=True)
class BulkRerunRequest:
    """A request to run again all jobs of a schedule whose last run failed or was lost and was not repeated yet; checked
    on creation.

    Attributes:
        since: how long ago these runs ended, at most.
        runs: only these of them; None: all.
        token: the idempotency key of each rerun, with which a repeated request finds the jobs of the first one and
            makes no others; None: the number of the attempt, so that a repeat finds nothing left.
        arguments, reason, muted: of each rerun.
    """

    schedule: ScheduleRef
    since: timedelta = DEFAULT_SINCE
    runs: frozenset[str] | None = None
    token: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    reason: str = ""
    muted: bool = False

    def __post_init__(self) -> None:
        check_most(len(self.runs or ()), MOST_RERUNS, "$.runs", "runs")
        if self.token is not None:
            plain_key(self.token)
        self.request_for("")

    def request_for(self, job: str) -> RerunRequest:
        """The request for one of the jobs.

        Raises:
            InvalidError: arguments or reason are wrong.
        """
        return RerunRequest(job, None, self.token, self.arguments, self.reason, self.muted)


def check_collisions(arguments: Mapping[str, str], schedule: Schedule) -> None:
    """Checks that no argument that a person gives hides what tells one job of the schedule from another.

    Raises:
        InvalidError: one has the name of a column of the key, or of a fact of the trigger.
    """
    columns = {name for column in all_column_names(schedule.trigger) for name in (column, KEY_PREFIX + column)}
    for name in arguments:
        if name in columns:
            raise InvalidError(f"$.arguments.{name}", "is a column of the key, which each job has from its own key")
        if name.startswith(PREFIX):
            raise InvalidError(f"$.arguments.{name}", "is a fact of the trigger, which each job has of its own")


def check_reason(reason: str) -> None:
    """Raises:
    InvalidError: it is too long or holds a NUL character.
    """
    check_most(len(reason), LONGEST_REASON, "$.reason", "characters")
    if "\0" in reason:
        raise InvalidError("$.reason", "must not hold a NUL character")
