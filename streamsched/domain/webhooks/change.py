"""Changes of jobs and runs, as lines of the history, and which of them a change of state is.

>>> states("run.*")["run.failed"]
'FAILED'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState

#: The state that each action of the history leaves a job or run in. Other actions change no state.
STATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "job.submitted": JobState.PENDING_CONSTRAINT.value,
        "job.waits": JobState.PENDING_CONSTRAINT.value,
        "job.admitted": JobState.PENDING_LAUNCH.value,
        "job.launched": JobState.LAUNCHED.value,
        "job.aborted": JobState.ABORTED.value,
        "job.timed_out": JobState.TIMED_OUT.value,
        "job.obsolete": JobState.OBSOLETE.value,
        "job.coalesced": JobState.COALESCED.value,
        "job.launch_failed": JobState.LAUNCH_FAILED.value,
        "run.created": RunState.PENDING.value,
        "run.requeued": RunState.PENDING.value,
        "run.claimed": RunState.STARTING.value,
        "run.started": RunState.RUNNING.value,
        "run.completed": RunState.COMPLETED.value,
        "run.failed": RunState.FAILED.value,
        "run.killed": RunState.KILLED.value,
        "run.lost": RunState.LOST.value,
    }
)
#: All changes of runs, and all of jobs.
GROUPS: Final = ("job.*", "run.*")
#: Parts of a schedule's, program's and so a job's name that say to whom it belongs.
_OWNER: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLine:
    """A line of the history about a job or a run.

    Attributes:
        number: grows with each line; lines of one job or run have the order of what happened to it.
        at: UTC.
        kind: `job` or `run`.
        subject: id of the job or run.
        action: what happened, such as `run.failed`.
        schedule, program, job, attempt: None where the line has none, or the job or run is no longer stored.
    """

    number: int
    at: datetime
    kind: str
    subject: str
    action: str
    reason: str
    schedule: str | None = None
    program: str | None = None
    job: str | None = None
    attempt: int | None = None

    @property
    def state(self) -> str | None:
        """The state that the job or run has entered; None: the line changes none."""
        return STATES.get(self.action)

    @property
    def namespace(self) -> str:
        return self.subject.partition(".")[0]

    @property
    def owner(self) -> str:
        """The schedule of the job or run, or the program when no schedule started it: their ids begin with it."""
        return ".".join(self.subject.split(".", _OWNER)[:_OWNER])

    @property
    def id(self) -> str:
        """Names the change once and for all: a number alone is used again after a backup was restored."""
        return f"{self.number}-{round(self.at.timestamp() * 1_000_000)}"


def states(group: str) -> Mapping[str, str]:
    """The changes of a group, or one change, with their states; empty when there is none."""
    prefix = group.removesuffix("*")
    named = prefix.endswith(".") and group.endswith(".*")
    return {each: state for each, state in STATES.items() if (each.startswith(prefix) if named else each == group)}
