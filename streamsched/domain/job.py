"""A job: one satisfaction of one schedule, waiting or launched. Its state machine is the table `TRANSITIONS`.

A job's id is a function of schedule, generation and sequence, so a repeat anywhere downstream finds the first.
`PENDING_TRIGGER` is the accumulation in the trigger table and never a row in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from streamsched.domain.errors import IllegalTransitionError
from streamsched.domain.event import Event
from streamsched.domain.names import ScheduleRef


class JobState(StrEnum):
    PENDING_TRIGGER = "PENDING_TRIGGER"
    PENDING_CONSTRAINT = "PENDING_CONSTRAINT"
    PENDING_LAUNCH = "PENDING_LAUNCH"
    LAUNCHED = "LAUNCHED"
    ABORTED = "ABORTED"
    TIMED_OUT = "TIMED_OUT"
    OBSOLETE = "OBSOLETE"
    COALESCED = "COALESCED"
    LAUNCH_FAILED = "LAUNCH_FAILED"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


class Order(StrEnum):
    """What people tell a waiting job: run without its constraints, end, or stay until it is released."""

    FORCE = "force"
    CANCEL = "cancel"
    HOLD = "hold"


class JobFact(StrEnum):
    """What can be told to a job."""

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


TRANSITIONS: Final[Mapping[tuple[JobState, JobFact], JobState]] = MappingProxyType(
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
    }
)

TERMINAL: Final = frozenset(
    {
        JobState.LAUNCHED,
        JobState.ABORTED,
        JobState.TIMED_OUT,
        JobState.OBSOLETE,
        JobState.COALESCED,
        JobState.LAUNCH_FAILED,
    }
)


def advance(state: JobState, fact: JobFact) -> JobState:
    """The state after `fact`.

    Raises:
        IllegalTransitionError: the table has no such row; nothing changed.
    """
    try:
        return TRANSITIONS[state, fact]
    except KeyError:
        raise IllegalTransitionError("job", state, fact) from None


class Place(NamedTuple):
    """A job's place among those of its schedule, in order of satisfaction."""

    generation: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one leaf brought to a satisfaction: `count` in the leaf's own unit (partitions, bytes, times)."""

    leaf: str
    count: int
    events: tuple[Event, ...]


class Lane(NamedTuple):
    """What jobs wait for one another in (overlap): a schedule's, or those of one key of a schedule that correlates."""

    schedule: ScheduleRef
    key: str = ""


@dataclass(frozen=True, slots=True)
class ReadyJob:
    """A satisfied schedule as it travels on topic `launch`.

    `satisfied_at` (UTC) is the log time of the signal that satisfied it, or the instant at which time alone did, so
    replay gives the same value. `key` is what it was satisfied for; "" for a schedule that does not correlate.
    """

    schedule: ScheduleRef
    generation: int
    sequence: int
    satisfied_at: datetime
    contributions: tuple[Contribution, ...]
    key: str = ""

    @property
    def id(self) -> str:
        return job_id(self.schedule, self.generation, self.sequence)

    @property
    def lane(self) -> Lane:
        """What it may have to wait in."""
        return Lane(self.schedule, self.key)

    @property
    def place(self) -> Place:
        """Where it stands among the jobs of its schedule, those of kept generations included."""
        return Place(self.generation, self.sequence)


def merged(ready: ReadyJob, joined: Iterable[ReadyJob]) -> ReadyJob:
    """`ready` with the contributions of those that joined it, leaf by leaf, oldest first; its identity stays. As many
    may have joined it as were satisfied in days.
    """
    leaves: dict[str, list[Contribution]] = {}
    for one in (ready, *joined):
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
    """`<schedule>.<generation>.<sequence>`: deterministic, readable, safe in a URL and a file name."""
    return f"{schedule}.{generation}.{sequence}"
