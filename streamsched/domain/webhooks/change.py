"""Changes of jobs and runs, and what went wrong besides, as lines of the history.

>>> sorted(changes_of("expectation.*"))
['expectation.met_late', 'expectation.missed']
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

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
#: Changes that leave every job and run in its state, by kind and action of their lines.
OTHERS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("job", "job.deadline_missed"): "deadline.missed",
        ("expectation", "expectation.missed"): "expectation.missed",
        ("expectation", "expectation.met_late"): "expectation.met_late",
        ("schedule", "paused"): "schedule.paused",
        ("run", "run.recovered"): "run.recovered",
    }
)
#: All changes of state of runs and of jobs, and the others.
GROUPS: Final = ("job.*", "run.*", "deadline.*", "expectation.*", "schedule.*")
#: What people are notified of: everything that went wrong for good, and that something is well again.
FAILURE: Final = "failure"
RECOVERY: Final = "recovery"
_FAILURES: Final = frozenset({"deadline.missed", "expectation.missed", "schedule.paused"})
_RECOVERIES: Final = frozenset({"expectation.met_late", "run.recovered"})
#: Parts of a schedule's, program's and so a job's name that say to whom it belongs.
_OWNER: Final = 3


class WorkLine(NamedTuple):
    """A line of the history about a job or a run, an expectation, or a schedule that paused itself.

    Attributes:
        number: grows with each line; lines of one job or run have the order of what happened to it.
        at: UTC.
        kind: `job`, `run`, `expectation` or `schedule`.
        subject: its id.
        action: what happened, such as `run.failed`.
        schedule, program, job, attempt: None where the line has none, or the job or run is no longer stored.
        detail: what the line says besides: of a run that failed, `log_tail`, and `failed` with its last attempt.
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
    detail: Mapping[str, Any] | None = None

    @property
    def change(self) -> str:
        """The name of the change."""
        return OTHERS.get((self.kind, self.action), self.action)

    @property
    def is_failure(self) -> bool:
        """Whether something went wrong for good."""
        return self.change in _FAILURES or (self.kind == "run" and "failed" in (self.detail or {}))

    @property
    def is_recovery(self) -> bool:
        """Whether something is well again."""
        return self.change in _RECOVERIES

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


def changes_of(group: str) -> frozenset[str]:
    """The changes of a group, or one change; empty when there is none. `run.*` and `job.*` are those of state."""
    if group in STATES or group in OTHERS.values():
        return frozenset({group})
    prefix = group.removesuffix("*")
    if not group.endswith(".*"):
        return frozenset()
    if group in ("job.*", "run.*"):
        return frozenset(each for each in STATES if each.startswith(prefix))
    return frozenset(each for each in OTHERS.values() if each.startswith(prefix))
