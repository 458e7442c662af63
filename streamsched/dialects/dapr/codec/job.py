"""A job of Dapr's jobs API, and the task that it is.

    given                        ticks
    due time                     that one; now, when it is past
    schedule                     each of its ticks after the registration
    schedule and due time        the due time itself, then each tick after it
    … and repeats                the first so many of those
    … and ttl                    those up to the ttl, which counts from the due time, or from now without one

A schedule is a cron expression of six fields, a descriptor, or `@every` with a Go duration (`domain.time.cron_dapr`);
or a reminder's period such as `R4/PT3S`. Ticks are counted up to 2,147,483,647; repeats beyond that have no effect.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from streamsched.codec.json.reading import prefix_errors
from streamsched.dialects.dapr.codec.moment import go_duration_text, is_absolute, period, point_in_time
from streamsched.dialects.dapr.codec.refusal import JobFault, JobRefusedError
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import abridge
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.tasks.recurrence import MOST_REPEATS, Recurrence, first_tick
from streamsched.domain.tasks.task_retry import ConstantRetry
from streamsched.domain.time.dialect import Dialect
from streamsched.domain.triggers.trigger import Cron

#: The longest name of a job, in characters.
LONGEST_NAME: Final = 512
_FORBIDDEN: Final = re.compile(r"[/\\#?\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_PERIOD: Final = re.compile(r"[RP][0-9PT-]", re.ASCII)


@dataclass(frozen=True, slots=True)
class DaprData:
    """A `google.protobuf.Any`."""

    type_url: str = ""
    value: bytes = b""


@dataclass(frozen=True, slots=True)
class ConstantFailure:
    """A failed tick is delivered again after `interval`; `max_retries` None: until it succeeds."""

    interval: timedelta = timedelta(0)
    max_retries: int | None = None


@dataclass(frozen=True, slots=True)
class DropFailure:
    """A failed tick is given up."""


FailurePolicy = ConstantFailure | DropFailure
#: The policy of a job that names none.
DEFAULT_FAILURE: Final = ConstantFailure(timedelta(seconds=1), 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaprJob:
    """A job as it was given; times are texts. `misfire` is this product's: the policy for missed ticks."""

    name: str
    schedule: str | None = None
    repeats: int | None = None
    due_time: str | None = None
    ttl: str | None = None
    data: DaprData | None = None
    failure_policy: FailurePolicy | None = None
    misfire: Misfire | None = None


@dataclass(frozen=True, slots=True)
class JobTiming:
    """When a job is due.

    Attributes:
        due_at: its due time (UTC); None: its first tick is that of the schedule.
        recurrence: None: it is delivered once.
        empty: it ends before its first tick.
    """

    due_at: datetime | None
    recurrence: Recurrence | None
    empty: bool = False


def check_present(job: DaprJob) -> None:
    """What a sidecar checks itself.

    Raises:
        JobRefusedError: the name is blank, or there is neither schedule nor due time.
    """
    if not job.name.strip():
        raise JobRefusedError(JobFault.NAME_EMPTY, path="$.name")
    if not job.schedule and not job.due_time:
        raise JobRefusedError(JobFault.SCHEDULE_EMPTY, path="$.schedule")


def check_name(name: str) -> None:
    """Raises:
    InvalidDefinitionError: it is `.` or `..`, too long, or holds `/`, a backslash, `#`, `?` or a control character.
    """
    if name in (".", "..") or _FORBIDDEN.search(name):
        raise InvalidDefinitionError(
            "$.name",
            f"invalid job name {abridge(name)}: must not be '.' or '..', nor contain '/', '\\', '#', '?' or control "
            "characters",
        )
    if len(name) > LONGEST_NAME:
        raise InvalidDefinitionError("$.name", f"must have at most {LONGEST_NAME} characters but has {len(name)}")


def timing(job: DaprJob, now: datetime, *, strict: bool = False) -> JobTiming:
    """When a job that is registered at `now` is due. Pure.

    Raises:
        InvalidDefinitionError: a time is invalid, they contradict each other, or the schedule never matches.
    """
    expression, repeats = _rhythm(job, strict)
    due_at = point_in_time(job.due_time, now, "$.dueTime", strict=strict) if job.due_time else None
    if repeats is not None and repeats < 1:
        raise InvalidDefinitionError("$.repeats", "defined repeats must be greater than 0")
    if expression is None:
        if repeats is not None and repeats > 1:
            raise InvalidDefinitionError("$.repeats", "job must have a schedule to repeat")
        if job.ttl:
            raise InvalidDefinitionError("$.ttl", "job must have a schedule to have a ttl")
        return JobTiming(due_at, None)
    until = None
    if job.ttl:
        until = point_in_time(job.ttl, due_at or now, "$.ttl", strict=strict)
        if until < (due_at or now) and (due_at is not None or not is_absolute(job.ttl)):
            raise InvalidDefinitionError("$.ttl", "ttl must be greater than due time")
    if repeats is not None and repeats > MOST_REPEATS:
        repeats = None
    with prefix_errors("$", expression="schedule", until="ttl"):
        recurrence = Recurrence(Cron(expression, dialect=Dialect.DAPR), repeats, until, job.misfire or Misfire.ALL)
    return JobTiming(due_at, recurrence, first_tick(recurrence, due_at, now) is None)


def retry_of(policy: FailurePolicy | None) -> ConstantRetry:
    """The retry policy of a job's task.

    Raises:
        InvalidDefinitionError: the interval is negative or too long.
    """
    match policy or DEFAULT_FAILURE:
        case ConstantFailure(interval=interval, max_retries=retries):
            with prefix_errors("$.failurePolicy.constant"):
                return ConstantRetry(interval, retries)
        case DropFailure():
            return ConstantRetry(timedelta(0), 0)


def _rhythm(job: DaprJob, strict: bool) -> tuple[str | None, int | None]:
    """The cron expression, and how often it repeats."""
    given = job.schedule
    if not given:
        return None, job.repeats
    if strict or not _PERIOD.match(given):
        return given, job.repeats
    interval, repeats = period(given, "$.schedule")
    if interval is None:
        raise InvalidDefinitionError("$.schedule", f"{abridge(given)} repeats, but names no period")
    if repeats is not None and job.repeats not in (None, repeats):
        raise InvalidDefinitionError("$.repeats", f"is {job.repeats}, but the schedule says {repeats}")
    return f"@every {go_duration_text(interval) if interval > timedelta(0) else '0s'}", repeats or job.repeats
