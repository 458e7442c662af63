"""The words of the table of semantics: cases, steps, and what a cluster answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from streamsched.domain.events.event import (
    CustomHappened,
    Event,
    Outcome,
    Partition,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)
from streamsched.domain.events.lateness import Late
from streamsched.domain.events.match import Match, OneOf
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, StreamRef
from streamsched.domain.signals.signal import Occurred
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import Cron, Partitions, Trigger, leaf_id
from tests.support.shard_cluster import ShardCluster, schedule

PAIRED, LATEST, ALL = Consumption.PAIRED, Consumption.LATEST, Consumption.CUMULATIVE
#: Events happen in a year to come, so that none is late unless it says so.
SOON = datetime(2100, 1, 1, tzinfo=UTC)
LONG_AGO = datetime(2013, 1, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
JOIN, LOAD = ProgramRef("default", "town", "join"), ProgramRef("default", "town", "load")
NIGHTLY = Cron("0 4 * * *")


class Wake:
    """The wake-ups that were asked for come."""


class Restart:
    """Every shard starts over from the log."""


@dataclass(frozen=True)
class Change:
    """The definition is another from here on."""

    trigger: Trigger
    keep: bool = False
    enabled: bool = True


Step = Event | list[Event] | Wake | Restart | Change


@dataclass(frozen=True)
class Case:
    """`jobs`: of each job the events it is given, sorted; with its key before them when it has one."""

    name: str
    trigger: Trigger
    steps: list[Step]
    jobs: list[str]
    consumption: Consumption = ALL
    late: Late | None = None
    listeners: int = 1


def of(dataset: str, count: int = 1, **match: str) -> Trigger:
    wanted = Match.from_values({name: OneOf(frozenset({value})) for name, value in match.items()})
    return Partitions(DatasetRef("default", dataset), count, wanted)


def land(
    name: str,
    dataset: str | None = None,
    *,
    size: int | None = None,
    count: int = 1,
    key: str | None = None,
    **values: str,
) -> Event:
    """Event `x1` is of dataset `x` unless it says otherwise, and its partitions are its own unless `key` names one."""
    ref = DatasetRef("default", dataset or name[0])
    partitions = tuple(Partition(key or f"{name}/{n}", values or {"n": str(n)}, bytes=size) for n in range(count))
    return Event(name, "test", SOON, PartitionsAdded(ref, partitions, count))


def custom(name: str, kind: str = "beat", **attributes: str) -> Event:
    return Event(name, "test", SOON, CustomHappened(EventName("default", kind), attributes))


def grew(name: str, size: int, *, absolute: bool) -> Event:
    return Event(name, "test", SOON, StreamSize(StreamRef("default", "clicks"), size, absolute))


def ran(name: str, outcome: Outcome = Outcome.SUCCEEDED, **arguments: str) -> Event:
    return Event(name, "test", SOON, ProgramReached(LOAD, name, outcome, arguments))


def tick(name: str, generation: int = 1) -> Event:
    return Event(name, "timers", SOON, Ticked(schedule(), generation, leaf_id(NIGHTLY), SOON))


def day(number: int) -> str:
    return f"2013-01-{number:02}"


async def answered(cluster: ShardCluster, case: Case) -> list[str]:
    refs = [schedule() if n == 0 else schedule(f"s{n}") for n in range(case.listeners)]
    generation, trigger = await next_generation(cluster), case.trigger
    first = generation
    policies: dict[str, Any] = {"consumption": case.consumption, "late": case.late}
    for ref in refs:
        await cluster.put(ref, trigger, generation, **policies)
    for step in case.steps:
        await cluster.settle()  # one by one: their order across keys matters
        match step:
            case Change():
                generation, trigger = generation + 1, step.trigger
                await cluster.put(refs[0], trigger, generation, enabled=step.enabled, keep=step.keep, **policies)
            case Wake():
                while await cluster.wake():  # one that comes too early for what is due by then asks anew
                    await cluster.settle()
            case Restart():
                await cluster.stop()
                await cluster.start()
            case list():
                await cluster.emit(*(own(event, case, first) for event in step))
            case Event(fact=Ticked()):
                await cluster.signal(Occurred(own(step, case, first)))
            case Event():
                await cluster.emit(own(step, case, first))
    await cluster.settle()
    jobs = [job for job in await cluster.jobs() if job.generation >= first]
    for ref in refs:
        await cluster.drop(ref, trigger, generation)
    await cluster.settle()
    return [
        (f"{job.key}: " if job.key else "")
        + " ".join(sorted(event.id for part in job.contributions for event in part.events))
        for job in sorted(jobs, key=lambda job: (job.key, job.schedule, job.generation, job.sequence))
    ]


async def next_generation(cluster: ShardCluster) -> int:
    """Generations go on from case to case, so that each sees its own jobs alone."""
    return 10 * (1 + max((job.generation for job in await cluster.jobs()), default=0) // 10)


def own(event: Event, case: Case, first: int) -> Event:
    """An event of this case alone; ticks name a generation of it."""
    if isinstance(event.fact, Ticked):
        fact = replace(event.fact, generation=first - 1 + event.fact.generation)
        return replace(event, source=case.name, fact=fact)
    return replace(event, source=case.name)
