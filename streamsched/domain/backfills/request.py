"""A person's request for a backfill: a schedule, a span, and how its jobs are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from streamsched.domain.backfills.backfill import BackfillOrder, Only
from streamsched.domain.backfills.key_values import KeyValues
from streamsched.domain.errors import InvalidError
from streamsched.domain.events.event import Partition
from streamsched.domain.jobs.submission import backfill_id
from streamsched.domain.limits import check_count
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.schedules.arguments import LOGICAL_START_TIME, check_texts
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.schedules.submission_request import check_collisions, check_reason

#: Most jobs at a time.
MOST_ACTIVE: Final = 1000
#: Jobs at a time when the request does not say.
DEFAULT_ACTIVE: Final = 4
#: Failures in a row after which a backfill pauses when the request does not say, and the highest number of them.
DEFAULT_FAILURES: Final = 20
MOST_FAILURES: Final = 1000
#: Most jobs without confirmation, and most with it.
UNCONFIRMED: Final = 10_000
MOST_ITEMS: Final = 100_000
#: Most characters of all arguments together: every job has a copy.
LONGEST_ARGUMENTS: Final = 65_536


@dataclass(frozen=True, slots=True)
class TickSpan:
    """The ticks of a clock from `begin` to `end`, both included.

    Attributes:
        begin, end: an instant with its offset, or a date in the zone of the schedule's clock: its first, its last tick.
    """

    begin: str
    end: str


@dataclass(frozen=True, slots=True)
class KeySpan:
    """All combinations of the values of key columns; the values of the last column change fastest."""

    columns: Mapping[str, KeyValues]


@dataclass(frozen=True, slots=True)
class PartitionSpan:
    """Partitions of a dataset that the schedule waits for."""

    dataset: DatasetRef
    partitions: tuple[Partition, ...]


Span = TickSpan | KeySpan | PartitionSpan


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """A request, checked on creation.

    Attributes:
        token: the idempotency key; with the schedule it makes the backfill's id.
        max_active: most jobs of it that wait for constraints or run, at a time.
        muted: whether the end of its runs is kept from all schedules.
        arguments: override all other arguments of the runs.
        reason: who asks for it and why.
        max_failures: number of jobs in a row, in the order in which they are made, whose runs have failed, after which
            it pauses; 0: it goes on.
        confirmed: whether more than `UNCONFIRMED` jobs are wanted; not part of what is asked for.
    """

    schedule: ScheduleRef
    token: str
    span: Span
    only: Only = Only.MISSING
    order: BackfillOrder = BackfillOrder.OLDEST
    max_active: int = DEFAULT_ACTIVE
    muted: bool = False
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    reason: str = ""
    max_failures: int = DEFAULT_FAILURES
    confirmed: bool = field(default=False, compare=False)

    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", backfill_id(self.schedule, self.token))
        check_count(self.max_active, "$.maxActive", most=MOST_ACTIVE)
        if self.max_failures:
            check_count(self.max_failures, "$.maxFailures", most=MOST_FAILURES)
        check_texts(self.arguments, "$.arguments", "arguments")
        check_reason(self.reason)
        size = sum(len(name) + len(value) for name, value in self.arguments.items())
        if size > LONGEST_ARGUMENTS:
            raise InvalidError(
                "$.arguments", f"must have at most {LONGEST_ARGUMENTS} characters together but has {size}"
            )

    def check_arguments(self, schedule: Schedule) -> None:
        """Checks that no argument hides what tells one job from another.

        Raises:
            InvalidError: an argument has the name of a column of the key, or of a fact of the trigger.
        """
        check_collisions(self.arguments, schedule)
        if LOGICAL_START_TIME in self.arguments:
            raise InvalidError(
                f"$.arguments.{LOGICAL_START_TIME}", "is a fact of the trigger, which each job has of its own"
            )
