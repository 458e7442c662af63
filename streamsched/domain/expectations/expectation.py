"""An expectation: commits of a dataset, or completed runs of a schedule, are there by a time of each hour, day, week or
month.

    >>> berlin = Expectation(ExpectationRef("default", "shop", "flights"), DatasetRef("default", "flights"),
    ...                      by=time(8), zone="Europe/Berlin", weekdays=frozenset(range(5)))
    >>> print(berlin)
    default.flights by 08:00 Europe/Berlin every MON, TUE, WED, THU, FRI
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import time
from enum import StrEnum
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.expectations.key_template import check_template
from streamsched.domain.limits import check_count
from streamsched.domain.names import DatasetRef, ExpectationRef, ProgramRef, ScheduleRef
from streamsched.domain.time.calendar import WEEKDAYS, Calendar
from streamsched.domain.time.grain import Grain
from streamsched.domain.time.zone import check_zone

#: The last day of a month that every month has.
LAST_DAY: Final = 28
#: Most periods that lie between a period and the one whose key is expected in it.
MOST_LAG: Final = 366
_MONDAY: Final = frozenset({0})


class Frequency(StrEnum):
    """How often something is expected: once in each such period of the zone's calendar."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    @property
    def grain(self) -> Grain:
        """The grain of these periods."""
        return Grain(self.value)


class SubjectKind(StrEnum):
    """What an expectation is about."""

    DATASET = "dataset"
    SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is expected, and by when. It is due once in each period; a due time on a day that `calendar` closes is none.

    Attributes:
        by: time of day, of `Frequency.HOUR` the minute; None: its usual time (`domain.expectations.usual`).
        weekdays: of `Frequency.DAY` the days on which it is due, empty for all; of `Frequency.WEEK` the only one.
        day: of `Frequency.MONTH` the day on which it is due.
        key: template of the partition, or of the key of the schedule's job, that is expected, such as `day={day}`;
            empty: any commit, or any completed run, since the due time before.
        lag: how many periods before its own the period lies that `key` names; 1: the one that ended last.
        program: a program of the app that a miss starts; None: none.
    """

    ref: ExpectationRef
    subject: DatasetRef | ScheduleRef
    by: time | None
    every: Frequency = Frequency.DAY
    zone: str = "UTC"
    weekdays: frozenset[int] = frozenset()
    day: int = 1
    calendar: Calendar | None = None
    key: str = ""
    lag: int = 1
    program: str | None = None

    def __post_init__(self) -> None:
        if self.subject.namespace != self.ref.namespace and isinstance(self.subject, ScheduleRef):
            raise InvalidDefinitionError("$.schedule", f"{self.subject} is of another namespace")
        if self.by is not None:
            if self.by.tzinfo is not None or self.by.second or self.by.microsecond:
                raise InvalidDefinitionError("$.by", f"must be a time of day in whole minutes but is {self.by}")
            if self.every is Frequency.HOUR and self.by.hour:
                raise InvalidDefinitionError("$.by", "must be a minute such as ':15' where something is due each hour")
        check_zone(self.zone, "$.zone")
        self._check_days()
        check_count(self.lag, "$.lag", least=0, most=MOST_LAG)
        if not self.key and self.lag != 1:
            raise InvalidDefinitionError("$.lag", "says which period the key names, and there is no key")
        check_template(self.key, "$.key")

    def _check_days(self) -> None:
        if self.weekdays and self.every not in (Frequency.DAY, Frequency.WEEK):
            raise InvalidDefinitionError("$.on", f"names weekdays, but it is due every {self.every}")
        if not self.weekdays <= frozenset(range(len(WEEKDAYS))):
            raise InvalidDefinitionError("$.on", f"must be of {', '.join(WEEKDAYS)}")
        if self.every is Frequency.WEEK and len(self.weekdays) != 1:
            raise InvalidDefinitionError("$.on", "must be one day of the week")
        if self.day != 1 and self.every is not Frequency.MONTH:
            raise InvalidDefinitionError("$.on", f"names a day of the month, but it is due every {self.every}")
        check_count(self.day, "$.on", most=LAST_DAY)

    @property
    def kind(self) -> SubjectKind:
        return SubjectKind.DATASET if isinstance(self.subject, DatasetRef) else SubjectKind.SCHEDULE

    @property
    def reaction(self) -> ProgramRef | None:
        """The program that a miss starts."""
        return None if self.program is None else ProgramRef(self.ref.namespace, self.ref.app, self.program)

    def same_course(self, other: Expectation) -> bool:
        """Whether both expect the same in the same periods, so that what was seen for one counts for the other."""
        return self._course == other._course

    @property
    def _course(self) -> tuple[object, ...]:
        return (self.subject, self.every, self.zone, self.weekdays, self.day, self.calendar, self.key, self.lag)

    @property
    def due_text(self) -> str:
        """When it is due, as text."""
        return f"{self._time} {self.zone} {self._days}"

    def __str__(self) -> str:
        key = f" {self.key}" if self.key else ""
        return f"{self.subject}{key} {self.due_text}"

    @property
    def _time(self) -> str:
        if self.by is None:
            return "by its usual time"
        return f"by :{self.by.minute:02}" if self.every is Frequency.HOUR else f"by {self.by:%H:%M}"

    @property
    def _days(self) -> str:
        days = ", ".join(WEEKDAYS[day] for day in sorted(self.weekdays))
        match self.every:
            case Frequency.DAY if days:
                return f"every {days}"
            case Frequency.WEEK:
                return f"every week on {days}"
            case Frequency.MONTH:
                return f"every month on day {self.day}"
            case _:
                return f"every {self.every}"


def weekdays_of(every: Frequency, given: frozenset[int]) -> frozenset[int]:
    """The weekdays of a definition: that of a weekly one that names none is Monday."""
    return _MONDAY if every is Frequency.WEEK and not given else given
