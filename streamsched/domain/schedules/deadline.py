"""Deadlines of a schedule's jobs: when a job must start or finish, how long a run may take, and the consequence.

    >>> six = Deadline(DeadlineKind.FINISH, at=time(6), zone="Europe/Berlin")
    >>> six.due_time(datetime(2026, 3, 1, 12, tzinfo=UTC))
    datetime.datetime(2026, 3, 2, 5, 0, tzinfo=datetime.timezone.utc)

A deadline is evaluated after it is due, by the times at which things happened, so a late evaluation gives the same
result. A job that had ended by then has not missed it, however it ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, assert_never

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.jobs.run import RunState
from streamsched.domain.limits import add_duration, check_duration
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.time.duration import duration_text
from streamsched.domain.time.zone import check_zone, first_instant, zone_of

#: Name of the event published for a miss, in the schedule's namespace.
MISSED: Final = "deadline-missed"
_DAY: Final = timedelta(days=1)


class DeadlineKind(StrEnum):
    """What the deadline bounds: the start by a runner, the completion of a run, or the duration of each run."""

    START = "start-by"
    FINISH = "finish-by"
    DURATION = "duration"


_VERB: Final[Mapping[DeadlineKind, str]] = MappingProxyType(
    {DeadlineKind.START: "start", DeadlineKind.FINISH: "finish", DeadlineKind.DURATION: "end"}
)


class OnMiss(StrEnum):
    """The consequence besides the event: none; cancel the job and its runs; start another program."""

    WARN = "warn"
    CANCEL = "cancel"
    START = "start"


@dataclass(frozen=True, slots=True)
class Deadline:
    """Exactly one of `within` and `at` is set.

    Attributes:
        within: time after the satisfaction; for a duration, after the runner claimed the run, for each attempt.
        at: the first such time of day in `zone` after the satisfaction; in a DST gap, the first instant after it.
        program: program of the schedule's app to start with `OnMiss.START`; not limited by groups and rates.
    """

    promise: DeadlineKind
    within: timedelta | None = None
    at: time | None = None
    zone: str = "UTC"
    then: OnMiss = OnMiss.WARN
    program: str | None = None

    def __post_init__(self) -> None:
        if (self.within is None) == (self.at is None):
            raise InvalidDefinitionError("$", "must say either how much time there is (within) or until when (at)")
        if self.within is not None:
            check_duration(self.within, "$.within")
        if self.at is not None:
            if self.promise is DeadlineKind.DURATION:
                raise InvalidDefinitionError("$.at", "is no duration")
            if self.at.tzinfo is not None or self.at.microsecond:
                raise InvalidDefinitionError("$.at", f"must be a plain time of day but is {self.at}")
        check_zone(self.zone, "$.zone")
        if (self.program is not None) != (self.then is OnMiss.START):
            raise InvalidDefinitionError("$.program", f"goes with then '{OnMiss.START}', and only with that")

    def __str__(self) -> str:
        verb = _VERB[self.promise]
        if self.at is not None:
            return f"{verb} by {self.at.isoformat('minutes')} {self.zone}"
        since = "its start" if self.promise is DeadlineKind.DURATION else "its satisfaction"
        return f"{verb} within {duration_text(self.within or timedelta(0))} of {since}"

    @property
    def consequence(self) -> str:
        """The consequence of a miss, as text."""
        match self.then:
            case OnMiss.WARN:
                return "it is said"
            case OnMiss.CANCEL:
                return "it is cancelled"
            case OnMiss.START:
                return f"{self.program} is started"
            case _:
                assert_never(self.then)

    def due_time(self, since: datetime) -> datetime:
        """When it is due (UTC), for a job satisfied or a run claimed at `since`."""
        if self.within is not None:
            return add_duration(since, self.within)
        assert self.at is not None
        zone = zone_of(self.zone)
        day = since.astimezone(zone).date()
        while True:
            due = first_instant(datetime.combine(day, self.at), zone).astimezone(UTC)
            if due > since:
                return due
            day += _DAY


class RunEnding(NamedTuple):
    """A run of the job: its state, and its end (UTC) if it has ended."""

    state: RunState
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class JobTimes:
    """The progress of a job. Times UTC.

    Attributes:
        launched_at: when a runner claimed its first run; None: not launched.
        ended_at: when it ended without being launched.
        runs: in order of attempts; for a duration only the run in question.
    """

    launched_at: datetime | None
    ended_at: datetime | None
    runs: Sequence[RunEnding] = ()


def describe_miss(deadline: Deadline, due_at: datetime, course: JobTimes) -> str | None:
    """How the deadline was missed, as text; None when it was met. `due_at` (UTC) must be past."""
    if course.ended_at is not None and course.launched_at is None:
        return None if course.ended_at <= due_at else "it had not started then, and never did"
    match deadline.promise:
        case DeadlineKind.START:
            if course.launched_at is None:
                return "it has not started"
            return None if course.launched_at <= due_at else f"it started at {_clock(course.launched_at)} only"
        case DeadlineKind.FINISH | DeadlineKind.DURATION:
            ends = [run.ended_at for run in course.runs if run.ended_at is not None]
            if len(ends) < len(course.runs) or not ends:
                return "it has not finished" if deadline.promise is DeadlineKind.FINISH else "it still runs"
            done = [run.ended_at for run in course.runs if run.ended_at and run.state is RunState.COMPLETED]
            last = min(done) if done else max(ends)
            return None if last <= due_at else f"it ended at {_clock(last)} only"
        case _:
            assert_never(deadline.promise)


@dataclass(frozen=True, slots=True)
class DeadlineMiss:
    """A deadline that was missed. Times UTC; `run` only of a duration."""

    schedule: ScheduleRef
    program: ProgramRef
    job: str
    run: str | None
    place: int
    deadline: Deadline
    due_at: datetime
    how: str

    @property
    def reason(self) -> str:
        """One sentence."""
        return f"it was to {self.deadline}, that was at {_clock(self.due_at)}: {self.how}"

    @property
    def facts(self) -> Mapping[str, str]:
        """Attributes of the event; arguments, with the prefix `deadline.`, of the program started."""
        return {
            "schedule": str(self.schedule),
            "program": str(self.program),
            "job": self.job,
            **({} if self.run is None else {"run": self.run}),
            "promise": self.deadline.promise.value,
            "deadline": str(self.deadline),
            "due_at": self.due_at.isoformat(),
            "then": self.deadline.then.value,
            "how": self.how,
        }

    @property
    def subject(self) -> str:
        """The id of the run or job that was late."""
        return self.run or self.job

    def event(self, at: datetime) -> Event:
        """The event to publish; its id depends on the miss only, so a repeat is recognised as a duplicate."""
        happened = CustomHappened(EventName(self.schedule.namespace, MISSED), self.facts)
        return Event(f"{self.subject}:missed:{self.place}", "streamsched/deadlines", at, happened)


def _clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
