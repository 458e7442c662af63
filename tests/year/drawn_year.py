"""A year of hourly data of three datasets in three zones, drawn from a seed: most hours come in time, some late, never,
twice, or written again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
#: Dataset → the zone of its days. In an installation of four shards all three have one home, so that the order of the
#: commits of different datasets is the order in which they were sent.
ZONES: Final = {
    "berlin": ZoneInfo("Europe/Berlin"),
    "new-york": ZoneInfo("America/New_York"),
    "delhi": ZoneInfo("Asia/Kolkata"),
}
#: Whose hours have the columns `day` and `hour`; others have `hour`.
TWO_COLUMNS: Final = "delhi"
#: Column of the days whose jobs run on Spark, and its value.
MARKED: Final = ("engine", "spark")
#: A commit that takes longer than this from when it happened is late.
LATE: Final = timedelta(hours=1)


class Write(NamedTuple):
    """A commit of one hour. Times are UTC.

    Attributes:
        id: of the event; a duplicate has the id, and everything but `at`, of the first.
        hour: when the hour begins.
        columns: (name, value) of the partition, in order.
        happened: the time that the event states.
        at: when it arrives.
    """

    id: str
    dataset: str
    hour: datetime
    columns: tuple[tuple[str, str], ...]
    happened: datetime
    at: datetime

    @property
    def partition(self) -> str:
        return "/".join(f"{name}={value}" for name, value in self.columns)

    @property
    def day(self) -> date:
        """The day of its dataset's zone."""
        return self.hour.astimezone(ZONES[self.dataset]).date()

    @property
    def name(self) -> str:
        """The hour on the clock of the zone, with the offset where the clock shows it for the second time."""
        return hour_name(self.hour, ZONES[self.dataset])

    @property
    def late(self) -> bool:
        return self.at - self.happened > LATE


def hour_name(hour: datetime, zone: ZoneInfo) -> str:
    """Such as `2026-10-25T02`, and `2026-10-25T02+01:00` where clocks show it for the second time."""
    local = hour.astimezone(zone)
    return f"{local:%Y-%m-%dT%H}{local.isoformat()[-6:] if local.fold else ''}"


def hours_of(day: date, zone: ZoneInfo) -> list[datetime]:
    """The instants (UTC) at which the hours of a day begin, in order: 23, 24 or 25."""
    hour, found = datetime.combine(day, time(0), zone).astimezone(UTC), list[datetime]()
    while hour.astimezone(zone).date() == day:
        found.append(hour)
        hour += HOUR
    return found


@dataclass(frozen=True, slots=True)
class Year:
    """Attributes:
    days: in order.
    marked: the days whose commits of `berlin` have the column `MARKED`.
    writes: in order of arrival, no two at the same time.
    """

    seed: int
    days: tuple[date, ...]
    marked: frozenset[date]
    writes: tuple[Write, ...]

    @property
    def begin(self) -> datetime:
        """Before everything."""
        return datetime.combine(self.days[0], time(0), UTC) - DAY

    @property
    def end(self) -> datetime:
        """After everything, and after all that follows has happened."""
        return max(each.at for each in self.writes) + 60 * DAY


def draw_year(seed: int, *, first: date = date(2026, 1, 1), days: int = 365, marked: int = 0) -> Year:
    """The year of a seed. `marked`: how many days have the column `MARKED`; no hour of these is missing."""
    rng = random.Random(f"year {seed}")
    all_days = tuple(first + n * DAY for n in range(days))
    chosen = frozenset(rng.sample(all_days, marked))
    found: list[Write] = []
    for dataset, zone in ZONES.items():
        for day in all_days:
            whole_again = timedelta(days=rng.uniform(2, 6)) if rng.random() < 0.008 else None
            for hour in hours_of(day, zone):
                found += _writes(rng, dataset, hour, marked=day in chosen, again=whole_again)
    instants = set[datetime]()
    spread: list[Write] = []
    for each in sorted(found, key=lambda write: (write.at, write.id)):
        at = each.at.replace(microsecond=each.at.microsecond // 1000 * 1000)
        while at in instants:
            at += timedelta(milliseconds=1)
        instants.add(at)
        spread.append(each._replace(at=at))
    return Year(seed, all_days, chosen, tuple(sorted(spread, key=lambda write: write.at)))


def _writes(
    rng: random.Random, dataset: str, hour: datetime, *, marked: bool, again: timedelta | None
) -> Iterator[Write]:
    """What is written of one hour. `again`: after which time all hours of its day are."""
    end = hour + HOUR
    usual = end + timedelta(seconds=rng.randint(5, 600))
    fate = rng.random()
    happened, at = usual - timedelta(seconds=3), usual
    if fate < 0.0016 and not marked:  # nobody wrote it; some one does, days later or too late
        if rng.random() < 0.5:
            return
        at = usual + timedelta(days=rng.uniform(0.2, 20))
        happened = at - timedelta(seconds=3)
    elif fate < 0.006:
        at = usual + timedelta(hours=rng.uniform(1.5, 60))
    named = f"{dataset}-{hour:%Y%m%dT%H%M}"
    spelled = _columns(rng, dataset, hour, marked=marked)
    first = Write(named, dataset, hour, spelled, happened, at)
    yield first
    if rng.random() < 0.01:
        yield first._replace(at=at + timedelta(seconds=rng.choice((1, 60, 3_000, 60_000))))
    times = [at + timedelta(hours=rng.uniform(0.05, 90))] if rng.random() < 0.012 else []
    if again is not None:
        times.append(end + DAY + again + timedelta(seconds=rng.randint(0, 3_000)))
    for number, moment in enumerate(times, 2):
        columns = spelled if rng.random() < 0.9 else _columns(rng, dataset, hour, marked=marked)
        yield Write(f"{named}-{number}", dataset, hour, columns, moment - timedelta(seconds=3), moment)


def _columns(rng: random.Random, dataset: str, hour: datetime, *, marked: bool) -> tuple[tuple[str, str], ...]:
    """One of the spellings of an hour."""
    local = hour.astimezone(ZONES[dataset])
    if dataset == TWO_COLUMNS:
        day = rng.choice((f"{local:%Y-%m-%d}", f"{local:%Y%m%d}"))
        return ("day", day), ("hour", f"{local:%H}")
    spellings = [local.isoformat(), f"{hour:%Y-%m-%dT%H:%M:%SZ}", f"{hour:%Y-%m-%d %H:%M:%S} UTC"]
    if not local.fold:
        spellings += [f"{local:%Y-%m-%dT%H}", f"{local:%Y-%m-%d %H:%M:%S}"]
    columns = (("hour", rng.choice(spellings)),)
    return (*columns, MARKED) if marked and dataset == "berlin" else columns
