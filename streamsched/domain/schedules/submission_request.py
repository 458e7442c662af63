"""A person's request for a job, and the satisfaction that it means for a schedule or a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from streamsched.domain.errors import InvalidError
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.submission import Submission, submitted_job_id
from streamsched.domain.limits import MOST_PARTS, check_most
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.triggers.named_key import named_key

#: Most characters of an argument's name, of its value, and of a reason.
LONGEST_NAME: Final = 255
LONGEST_VALUE: Final = 32_768
LONGEST_REASON: Final = 1000


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
    arguments: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    job: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "job", submitted_job_id(self.owner, self.token))
        check_most(len(self.arguments), MOST_PARTS, "$.arguments", "arguments")
        check_most(len(self.columns), MOST_PARTS, "$.key", "columns")
        check_most(len(self.reason), LONGEST_REASON, "$.reason", "characters")
        for path, texts in (("$.arguments", self.arguments), ("$.key", self.columns)):
            for name, value in texts.items():
                check_most(len(name), LONGEST_NAME, path, "characters in a name")
                check_most(len(value), LONGEST_VALUE, f"{path}.{name}", "characters")
                if "\0" in name or "\0" in value:
                    raise InvalidError(f"{path}.{name}".replace("\0", "\\0"), "must not hold a NUL character")
        if "\0" in self.reason:
            raise InvalidError("$.reason", "must not hold a NUL character")
        if self.columns and isinstance(self.owner, ProgramRef):
            raise InvalidError("$.key", "is for a schedule; a program alone has no key")

    def satisfaction(self, schedule: Schedule | None, *, generation: int, sequence: int, now: datetime) -> ReadyJob:
        """The job's satisfaction at `now` (UTC).

        Args:
            schedule: the owner's definition; None for a program.
            generation: of the schedule; 0 for a program.
            sequence: of the latest satisfaction of the schedule; 0 without one, and for a program.

        Raises:
            InvalidError: the key does not fit the schedule's trigger.
        """
        submission = Submission(self.job, self.reason, self.arguments, self.columns)
        if schedule is None:
            return ReadyJob(None, generation, sequence, now, (), submission=submission)
        key = named_key(schedule.trigger, self.columns)
        return ReadyJob(schedule.ref, generation, sequence, now, (), key, submission)
