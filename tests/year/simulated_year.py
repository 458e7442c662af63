"""The year in virtual time: a whole scheduler in one process on a clock that is set to each instant at which something
arrives or is due, with quiet, expiry, lateness and what is to be there by 08:00.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from streamsched import App, partitions, rerun_after
from streamsched.api.open_keys import definition_of, open_cells
from streamsched.catalog.progress import ProgressCopy
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.fold.explain import explained_leaves
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import DatasetRef, ExpectationRef, ScheduleRef
from streamsched.domain.triggers.trigger import Partitions, Trigger, leaf_id, leaves
from streamsched.log.topics import LATE as LATE_TOPIC
from streamsched.log.topics import LAUNCH
from streamsched.ports.broker import TopicPartition
from streamsched.store.catalog.catalog_reader import CatalogReader
from streamsched.store.catalog.progress import OpenKeyReader, PostgresProgress
from streamsched.store.expectations.evidence import CompletionStore
from streamsched.store.expectations.judgement import ExpectationStore
from streamsched.store.expectations.records import ExpectationReader
from streamsched.testing.scheduler import InProcessScheduler, open_scheduler
from streamsched.timers.evidence import CompletionIntake
from streamsched.timers.expectations import ExpectationWatch
from tests.integration.tasks.task_world import SilentNotifier
from tests.year.differences import Differences, YearOutcome
from tests.year.drawn_year import DAY, LATE, ZONES, Write, Year
from tests.year.naive_model import DayJob, NaiveYear, Waiting, missed_days

_QUIET: Final = timedelta(hours=2)
_EXPIRES: Final = 10 * DAY
SCHEDULES: Final = (
    Waiting("daily", tuple(ZONES), _QUIET, _EXPIRES, late_counts=True),
    Waiting("first", ("berlin",), None, 30 * DAY),
    Waiting("strict", ("new-york",), None, _EXPIRES, late_counts=False),
)
_BY: Final = time(8)
_SETTLED: Final = timedelta(seconds=2)
_RESTARTS: Final = 6


def simulated_app() -> App:
    """The app of `SCHEDULES`, and that the day before is there by eight in Berlin."""
    app = App("year")
    join, note = app.bash("join", "true"), app.bash("note", "true")
    quiet, open_for = rerun_after("2h"), f"{_EXPIRES.days}d"
    zones = {name: str(zone) for name, zone in ZONES.items()}
    daily = (
        partitions("berlin")
        .per("hour", on_correction=quiet, expires=open_for)
        .rolled_up_to("day", zone=zones["berlin"])
        & partitions("new-york")
        .per("hour", on_correction=quiet, expires=open_for)
        .rolled_up_to("day", zone=zones["new-york"])
        & partitions("delhi")
        .per("day", "hour", on_correction=quiet, expires=open_for)
        .rolled_up_to("day", zone=zones["delhi"])
    )
    late = f"{LATE.seconds}s"
    made = app.schedule("daily", join, when=daily, overlap="queue", late=(late, "accept"))
    first = partitions("berlin").per("hour", on_correction="ignore").rolled_up_to("day", zone=zones["berlin"])
    app.schedule("first", note, when=first, overlap="queue")
    strict = partitions("new-york").per("hour", on_correction="ignore", expires=open_for)
    app.schedule(
        "strict", note, when=strict.rolled_up_to("day", zone=zones["new-york"]), overlap="queue", late=(late, "side")
    )
    app.expect(made, by=f"{_BY:%H:%M}", zone=zones["berlin"], key="day={day}", name="by-eight")
    return app


async def run(
    dsn: str,
    year: Year,
    *,
    show: Callable[[str], None] = lambda _: None,
    schedules: Iterable[Waiting] = SCHEDULES,
) -> YearOutcome:
    """What differs between the scheduler on a migrated, empty database and the naive model of these schedules."""
    async with open_scheduler(dsn, now=year.begin) as scheduler:
        await scheduler.deploy(simulated_app())
        simulated = _Simulated(scheduler, NaiveYear.of(schedules), year, show)
        await simulated.live()
        return await simulated.judge()


class _Simulated:
    """One scheduler beside one model."""

    def __init__(
        self, scheduler: InProcessScheduler, model: NaiveYear, year: Year, show: Callable[[str], None]
    ) -> None:
        self._differences = Differences(show)
        self._scheduler = scheduler
        self._model = model
        self._year = year
        self._show = show
        pool, clock = scheduler.pool, scheduler.clock
        self._completions = CompletionIntake(CompletionStore(pool), clock)
        self._watch = ExpectationWatch(ExpectationStore(pool), SilentNotifier(), clock)
        self._copy = ProgressCopy(broker=scheduler.cluster.broker, store=PostgresProgress(pool))
        self._keys = OpenKeyReader(pool)
        self._catalog = CatalogReader(pool)
        self._launched = 0
        self._due = [self._due_after(day) for day in (year.days[0] - DAY, *year.days)]

    async def live(self) -> None:
        """All that arrives and all that is due, each at its time."""
        rng = random.Random(f"restarts {self._year.seed}")
        restarts = set(rng.sample(range(len(self._year.writes)), _RESTARTS))
        for number, (at, what) in enumerate(self._instants()):
            self._scheduler.clock.set(at)
            if isinstance(what, Write):
                self._model.take(what)
                await self._scheduler.cluster.emit(_event(what))
                await self._scheduler.cluster.settle()
                await self._run_what_started()
            else:
                await self._look(at, shown=what)
            if number in restarts:
                await self._scheduler.fail_over(timedelta(0))
        self._scheduler.clock.set(self._year.end)
        self._model.pass_time(self._year.end)
        await self._scheduler.rest()
        await self._scheduler.advance(DAY)  # a wake-up that was asked for late comes as much later
        await self._scheduler.end_all()

    def _instants(self) -> Iterator[tuple[datetime, Write | bool]]:
        """Arrivals and looks in order; at the second look of a day, when all that came up to eight is settled, what is
        open is compared.
        """
        found: list[tuple[datetime, Write | bool]] = [(each.at, each) for each in self._year.writes]
        for due in self._due:
            found += [(due, False), (due + _SETTLED, True)]
        yield from sorted(found, key=lambda each: each[0])

    def _due_after(self, day: date) -> datetime:
        return datetime.combine(day + DAY, _BY, ZONES["berlin"]).astimezone(UTC)

    async def _run_what_started(self) -> None:
        """Runs of jobs that were made just now start and end at once."""
        broker = self._scheduler.cluster.broker
        at = [TopicPartition(LAUNCH, number) for number in range(await broker.partitions(LAUNCH))]
        launched = sum((await broker.ends(at)).values())
        if launched > self._launched:
            self._launched = launched
            await self._scheduler.rest()
            await self._scheduler.end_all()

    async def _look(self, at: datetime, *, shown: bool) -> None:
        """Wake-ups come, expectations are judged."""
        await self._scheduler.rest()
        await self._run_what_started()
        self._model.pass_time(at)
        await self._completions.run_once()
        await self._watch.run_once()
        if shown:
            await self._compare_open_days(at)
            if at.day == 1:
                self._show(f"{at:%Y-%m-%d}: {self._model.number_of_jobs} jobs so far")

    async def _compare_open_days(self, at: datetime) -> None:
        """Of each open day of each schedule and dataset: how much there is, and what is missing; and what was lost."""
        while await self._copy.run_once(timeout=0):
            pass
        for name, schedule in self._model.schedules.items():
            ref = ScheduleRef("default", "year", name)
            (status,) = await self._catalog.find_schedules([ref])
            definition = definition_of(status.record)
            datasets, found = _leaves(definition.trigger), list[str]()
            for key, cell in open_cells(definition, await self._keys.page(ref, after="", limit=1000)):
                for slot, node in explained_leaves(definition.plan, cell, key.key):
                    if (what := node.completeness) is not None:
                        dataset, missing = datasets[slot.leaf], what.missing_parts
                        found.append(f"{dataset} {key.key} {len(what.expected)} {len(what.present)} {missing}")
            wanted = [
                f"{dataset} {each.day} {each.expected} {each.present} {each.missing}"
                for dataset in schedule.waiting.datasets
                for each in schedule.shown_days(dataset, {}, schedule.incomplete())
            ]
            self._differences.compare(f"{at:%Y-%m-%d} open days of {name}", sorted(wanted), sorted(found))
            lost = int((status.progress or {}).get("lost_keys", 0))
            self._differences.compare(f"{at:%Y-%m-%d} lost days of {name}", [str(schedule.lost)], [str(lost)])

    async def judge(self) -> YearOutcome:
        """Every day's jobs, what was set aside, and what was not there by eight."""
        jobs = await self._scheduler.cluster.jobs()
        for name, schedule in self._model.schedules.items():
            found = [each for each in jobs if each.schedule is not None and each.schedule.name == name]
            self._differences.compare(f"jobs of {name}", _wanted_jobs(schedule.jobs), _found_jobs(found))
        stored = await self._scheduler.job_states()
        self._differences.compare("stored jobs", sorted(each.id for each in jobs), sorted(stored))
        self._differences.compare("states", ["LAUNCHED"] * len(stored), list(stored.values()))
        aside = sum(each.aside for each in self._model.schedules.values())
        self._differences.compare(
            "late ones", [str(aside)], [str(len(await self._scheduler.cluster.records(LATE_TOPIC)))]
        )
        reader, ref = ExpectationReader(self._scheduler.pool), ExpectationRef("default", "year", "by-eight")
        misses = sorted(await reader.misses(ref, limit=1000), key=lambda miss: miss.due_at)
        last = self._due[-1] + _SETTLED
        days = (self._year.days[0] - DAY, *self._year.days)
        wanted = [
            f"{due.at} day={due.day} {due.came_at if due.came_at is not None and due.came_at <= last else None} True"
            for due in missed_days(self._model.schedules["daily"].jobs, days, _BY, "berlin")
        ]
        self._differences.compare(
            "not there by eight",
            wanted,
            [f"{miss.due_at} {miss.key} {miss.came_at} {miss.announced}" for miss in misses],
        )
        return self._differences.outcome(self._model.number_of_jobs)


def _leaves(trigger: Trigger) -> dict[str, str]:
    """The dataset of each leaf, by its id."""
    return {leaf_id(leaf): leaf.dataset.name for leaf in leaves(trigger) if isinstance(leaf, Partitions)}


def _event(write: Write) -> Event:
    parts = (Partition(write.partition, dict(write.columns)),)
    return Event(write.id, "year", write.happened, PartitionsAdded(DatasetRef("default", write.dataset), parts, 1))


def _wanted_jobs(jobs: Sequence[DayJob]) -> list[str]:
    """Of each day, in order. A wake-up comes late here, so that jobs of different days may have another order."""
    days = defaultdict[str, list[int]](list)
    for job in jobs:
        days[str(job.day)].append(job.number)
    return sorted(
        _line(str(job.day), place, job.at, days[str(job.day)].index(job.corrects) if job.corrects else -1, job.given)
        for job in jobs
        for place in [days[str(job.day)].index(job.number)]
    )


def _found_jobs(jobs: Sequence[ReadyJob]) -> list[str]:
    days = defaultdict[str, list[str]](list)
    for job in jobs:
        days[job.key].append(job.id)
    return sorted(
        _line(job.key, days[job.key].index(job.id), job.satisfied_at, corrected, given_of(job))
        for job in jobs
        for corrected in [days[job.key].index(job.corrects) if job.corrects else -1]
    )


def given_of(job: ReadyJob) -> frozenset[tuple[str, str]]:
    """(dataset, partition) of all that its run is given."""
    facts = [event.fact for part in job.contributions for event in part.events]
    return frozenset(
        (fact.dataset.name, each.key) for fact in facts if isinstance(fact, PartitionsAdded) for each in fact.partitions
    )


def _line(day: str, place: int, at: datetime, corrects: int, given: Iterable[tuple[str, str]]) -> str:
    corrected = f" corrects {corrects}" if corrects >= 0 else ""
    return f"{day} job {place} at {at}{corrected} given {sorted(given)}"
