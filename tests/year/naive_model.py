"""What a scheduler must make of a year, said as simply as possible: days, sets and a walk through all that arrives.

It shares no code with the product: zones are those of `zoneinfo`, and time passes hour by hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple

from tests.year.drawn_year import DAY, MARKED, ZONES, Write, hour_name, hours_of

#: Open days that `dataset show` names: so many that lack something, and so many that lack nothing.
SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Waiting:
    """A schedule that waits for the whole days of some datasets.

    Attributes:
        quiet: after which time without another one corrections become a job; None: they make none.
        expires: how long an incomplete day is open, and how long a job's day is known.
        marked: it wants partitions with the column `MARKED` only.
        late_counts: whether late commits count; None: it says nothing of them.
    """

    name: str
    datasets: tuple[str, ...]
    quiet: timedelta | None
    expires: timedelta
    marked: bool = False
    late_counts: bool | None = None

    def wants(self, write: Write) -> bool:
        return write.dataset in self.datasets and (not self.marked or MARKED in write.columns)


class DayJob(NamedTuple):
    """Attributes:
    at: when the schedule was satisfied.
    corrects: the number of the job that it corrects; 0: none.
    given: (dataset, partition) of all that the run is given.
    """

    number: int
    day: date
    at: datetime
    corrects: int
    given: frozenset[tuple[str, str]]


@dataclass(slots=True)
class OpenDay:
    """Attributes:
    came: dataset → hour → the partition that counts.
    job: the number of its job; 0: it is not whole yet.
    corrections: what came since the job, and `last` when.
    """

    since: datetime
    came: dict[str, dict[datetime, str]] = field(default_factory=dict)
    job: int = 0
    corrections: set[tuple[str, str]] = field(default_factory=set)
    last: datetime | None = None


class ShownDay(NamedTuple):
    """An open day as `dataset show` has it; hours by name, in order."""

    day: str
    expected: int
    present: int
    missing: tuple[str, ...]
    late: tuple[str, ...]
    rewritten: tuple[str, ...]


@dataclass(slots=True)
class NaiveSchedule:
    """Attributes:
    jobs: in order.
    open: by day, also those that have their job.
    lost: how many days expired incomplete.
    aside: late commits that did not count.
    """

    waiting: Waiting
    jobs: list[DayJob] = field(default_factory=list)
    open: dict[date, OpenDay] = field(default_factory=dict)
    lost: int = 0
    aside: int = 0

    def pass_time(self, at: datetime) -> None:
        """All that is due up to `at`, in order."""
        while due := min(((when, day) for day in self.open for when in [self._due(day)] if when <= at), default=None):
            when, day = due
            self._pass(day, when)

    def _due(self, day: date) -> datetime:
        """When time alone changes something of a day next."""
        found = self.open[day]
        end = found.since + self.waiting.expires
        if found.last is not None and self.waiting.quiet is not None:
            return min(found.last + self.waiting.quiet, end)
        return end

    def _pass(self, day: date, when: datetime) -> None:
        found = self.open[day]
        if found.last is not None:
            self._make(day, found, when, frozenset(found.corrections))
            return
        self.lost += not found.job
        del self.open[day]

    def take(self, write: Write) -> None:
        """A commit arrives, in order of time, that is no duplicate."""
        self.pass_time(write.at)
        if not self.waiting.wants(write):
            return
        if write.late and self.waiting.late_counts is False:
            self.aside += 1
            return
        day = self.open.get(write.day)
        if day is not None and day.job:
            if self.waiting.quiet is not None:
                day.corrections.add((write.dataset, write.partition))
                day.last = write.at
                self.pass_time(write.at)
            return
        if day is None:
            day = self.open[write.day] = OpenDay(write.at)
        day.came.setdefault(write.dataset, {}).setdefault(write.hour, write.partition)
        if all(self.whole(write.day, dataset) for dataset in self.waiting.datasets):
            given = {(dataset, each) for dataset, hours in day.came.items() for each in hours.values()}
            self._make(write.day, day, write.at, frozenset(given))

    def whole(self, day: date, dataset: str) -> bool:
        return set(self.open[day].came.get(dataset, {})) == set(hours_of(day, ZONES[dataset]))

    def _make(self, name: date, day: OpenDay, at: datetime, given: frozenset[tuple[str, str]]) -> None:
        number = len(self.jobs) + 1
        self.jobs.append(DayJob(number, name, at, day.job, given))
        self.open[name] = OpenDay(at, job=number)

    def incomplete(self) -> list[date]:
        """The open days without a job, in order."""
        return sorted(name for name, day in self.open.items() if not day.job)

    def shown_days(self, dataset: str, commits: Mapping[date, Sequence[Write]], days: Iterable[date]) -> list[ShownDay]:
        """`commits`: those of the dataset so far, each once, by day."""
        return [self._shown(name, dataset, commits.get(name, ())) for name in days]

    def newest_days(self, dataset: str) -> list[date]:
        """The open days that `dataset show` names: the newest that lack something, and that lack nothing."""
        some = self.incomplete()
        lacking = [name for name in some if not self.whole(name, dataset)]
        whole = [name for name in some if self.whole(name, dataset)]
        return sorted(lacking[-SHOWN:] + whole[-SHOWN:])

    def _shown(self, name: date, dataset: str, commits: Sequence[Write]) -> ShownDay:
        zone = ZONES[dataset]
        hours, came = hours_of(name, zone), self.open[name].came.get(dataset, {})
        wanted = [each for each in commits if self.waiting.wants(each)]
        late = {each.hour for each in wanted if each.late} if self.waiting.late_counts is not None else set()
        partitions = [(each.hour, each.partition) for each in wanted]
        again = {hour for hour, partition in partitions if partitions.count((hour, partition)) > 1}
        missing, late_names, again_names = (
            tuple(hour_name(hour, zone) for hour in hours if hour in some)
            for some in (set(hours) - set(came), late, again)
        )
        return ShownDay(name.isoformat(), len(hours), len(came), missing, late_names, again_names)


@dataclass(slots=True)
class NaiveYear:
    """All schedules, and the commits of each dataset and day, each once."""

    schedules: Mapping[str, NaiveSchedule]
    commits: dict[str, dict[date, list[Write]]] = field(default_factory=lambda: {name: {} for name in ZONES})
    known: set[str] = field(default_factory=set)
    newest: dict[str, list[Write]] = field(default_factory=lambda: {name: [] for name in ZONES})

    @classmethod
    def of(cls, waiting: Iterable[Waiting]) -> NaiveYear:
        return cls({each.name: NaiveSchedule(each) for each in waiting})

    def take(self, write: Write) -> None:
        if write.id in self.known:
            return
        self.known.add(write.id)
        self.commits[write.dataset].setdefault(write.day, []).append(write)
        self.newest[write.dataset].append(write)
        for schedule in self.schedules.values():
            schedule.take(write)

    def pass_time(self, at: datetime) -> None:
        for schedule in self.schedules.values():
            schedule.pass_time(at)

    @property
    def number_of_jobs(self) -> int:
        return sum(len(each.jobs) for each in self.schedules.values())


class Due(NamedTuple):
    """A time by which the job of the day before was to be there, and was not; `came_at`: when it was, if ever."""

    at: datetime
    day: date
    came_at: datetime | None


def missed_days(jobs: Iterable[DayJob], days: Sequence[date], by: time, zone: str) -> list[Due]:
    """Of each day after the first, whether a job of the day before was there by that time of the zone."""
    first: dict[date, datetime] = {}
    for job in jobs:
        first.setdefault(job.day, job.at)
    found: list[Due] = []
    for day in days:
        due = datetime.combine(day + DAY, by, ZONES[zone]).astimezone(UTC)
        if day not in first or first[day] > due:
            found.append(Due(due, day, first.get(day)))
    return found
