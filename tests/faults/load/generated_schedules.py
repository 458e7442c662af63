"""The schedules of one trial: triggers of every kind, drawn from its random numbers.

How much each leaf wants is cut so that a schedule fires about once or twice while some thousand events come.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from streamsched.domain.constraints.constraint import Concurrency, ConcurrencyScope
from streamsched.domain.events.event import Outcome
from streamsched.domain.events.lateness import Late, OnLate
from streamsched.domain.events.match import ANYTHING, Glob, Match, OneOf
from streamsched.domain.names import AppRef, DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import (
    BashJob,
    Executable,
    HttpJob,
    Misfire,
    OnTimeout,
    Program,
    PublishJob,
    Schedule,
)
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.correlation import OnFull
from streamsched.domain.triggers.trigger import (
    AllOf,
    AnyOf,
    At,
    AtLeast,
    Cron,
    CustomEvent,
    Every,
    Leaf,
    Measure,
    OnExpiry,
    Partitions,
    Per,
    ProgramStatus,
    Quiet,
    Silence,
    StreamGrowth,
    Then,
    Total,
    Trigger,
    Unless,
    Within,
    children,
)
from tests.support.rerun import can_keep

#: How many there are of each: datasets, streams, custom events, programs of another app.
PLACES: Final = 20
STREAMS: Final = 8
PROGRAMS: Final = 4
#: Names of custom events and datasets that come seldom.
SELDOM: Final = 6
CUSTOMERS: Final = ("a", "b", "c")
REGIONS: Final = ("EU", "US")
DAYS: Final = ("2013-01-07", "2013-01-08")
#: Of the columns of keys.
VALUES: Final[Mapping[str, Sequence[str]]] = {
    "customer": CUSTOMERS,
    "day": DAYS,
    "hour": [f"{day}T{hour:02}" for day in DAYS for hour in range(6)],
}

_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where runs leave something.

    Attributes:
        started: the file to which every command writes its run's id.
        serial: the file to which a command of a lane writes its run's id, after `+` when it begins and `-` at its end.
        server: the URL that is called.
    """

    started: str
    serial: str
    server: str


#: Without any; for schedules that no process will run.
NO_EVIDENCE: Final = Evidence("", "", "http://127.0.0.1/")


@dataclass(slots=True)
class GeneratedSchedules:
    """What one trial wants.

    Attributes:
        app: a name no other trial has; all its names contain it.
        evidence: what its runs leave.
    """

    app: AppRef
    rng: random.Random
    evidence: Evidence
    schedules: dict[str, Schedule] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.app.app

    def definition(self, count: int) -> AppDefinition:
        """The app with so many schedules, all enabled."""
        for number in range(count):
            self.schedules[f"s{number}"] = self.schedule(f"s{number}")
        for number, trigger in enumerate(self._by_the_clock()):
            name = f"c{number}"
            self.schedules[name] = replace(self._around(name, trigger), consumption=Consumption.CUMULATIVE)
        programs = tuple(Program(self._program(name), does) for name, does in self._executables().items())
        everything = tuple(self.schedules.values())
        return AppDefinition(self.app, programs, everything, frozenset(self.schedules))

    def _executables(self) -> Mapping[str, Executable]:
        """Commands, one of them for lanes, and what launchers execute themselves."""
        note = f'echo "$STREAMSCHED_RUN_ID" >> {self.evidence.started}'
        begins, ends = (f'echo "{sign}$STREAMSCHED_RUN_ID" >> {self.evidence.serial}' for sign in "+-")
        return {
            "note": BashJob(note),
            "link": BashJob(note),
            "serial": BashJob(f"{note}; {begins}; sleep 0.05; {ends}"),
            "call": HttpJob(self.evidence.server),
            "tell": PublishJob(self.published),
        }

    @property
    def published(self) -> EventName:
        """The event that the runs of `tell` publish."""
        return EventName("default", f"{self.name}told")

    def schedule(self, name: str) -> Schedule:
        """One under this name, of a kind that the random numbers choose; asked again, it is another."""
        match self.rng.randrange(10):
            case 0 | 1 | 2 | 3:
                trigger = self.plain()
            case 4 | 5 | 6:
                trigger = self._timed(2)
            case 7 | 8:
                trigger = self._correlated()
            case _:
                trigger = self._chained()
        return self._around(name, trigger)

    def more_or_less(self, schedule: Schedule) -> Schedule | None:
        """The same, but that a leaf wants more or less; None where it is not made of leaves alone."""
        trigger = schedule.trigger
        if not can_keep(trigger):
            return None
        parts = trigger.triggers if isinstance(trigger, AllOf) else (trigger,)
        others = tuple(self._other(each) for each in parts)
        return replace(schedule, trigger=AllOf(others) if isinstance(trigger, AllOf) else others[0])

    def _other(self, leaf: Trigger) -> Trigger:
        match leaf:
            case Partitions(count=count):
                return replace(leaf, count=max(1, count + self.rng.randint(-10, 10)))
            case CustomEvent(times=times):
                return replace(leaf, times=max(1, times + self.rng.randint(-5, 5)))
            case _:
                return leaf

    def _around(self, name: str, trigger: Trigger) -> Schedule:
        rng = self.rng
        lane, overlap = lane_of(name), Overlap.QUEUE if rng.random() < 0.6 else Overlap.COALESCE
        others = rng.choices(("note", "link", "call", "tell"), (6, 2, 2, 1))[0]
        late = Late(timedelta(minutes=1), rng.choice(list(OnLate))) if rng.random() < 0.2 else None
        return Schedule(
            ScheduleRef(self.app.namespace, self.app.app, name),
            self._program(others if lane is None else "serial"),
            trigger,
            () if lane is None else (Concurrency(1, wait=True, of=lane),),
            overlap=overlap if lane is None else Overlap.QUEUE,
            misfire=Misfire.ALL,
            consumption=rng.choice(list(Consumption)),
            late=late,
            timeout=timeout_of(name),
            on_timeout=rng.choice(list(OnTimeout)),
        )

    def _program(self, name: str) -> ProgramRef:
        return ProgramRef(self.app.namespace, self.app.app, name)

    # -- leaves

    def _leaf(self) -> Leaf:
        rng, place = self.rng, self.rng.randrange(PLACES)
        match rng.choice("ppppmtseex"):
            case "p":
                return Partitions(self._dataset(place), rng.randint(15, 60))
            case "m":
                return Partitions(self._dataset(place), rng.randint(8, 30), self._match())
            case "t":
                measure = rng.choice(list(Measure))
                return Total(self._dataset(place), measure, rng.randint(800, 3000), self._match())
            case "s":
                return StreamGrowth(
                    StreamRef("default", f"{self.name}z{rng.randrange(STREAMS)}"), rng.randint(100, 600)
                )
            case "e":
                return CustomEvent(self._event(place), rng.randint(6, 20), self._match())
            case _:
                program = ProgramRef("default", f"{self.name}x", f"p{rng.randrange(PROGRAMS)}")
                outcomes = frozenset(rng.sample(list(Outcome), 2))
                return ProgramStatus(program, outcomes, rng.randint(3, 12))

    def _seldom(self) -> CustomEvent:
        return CustomEvent(EventName("default", f"{self.name}r{self.rng.randrange(SELDOM)}"))

    def _match(self) -> Match:
        match self.rng.randrange(4):
            case 0:
                return Match.from_values({"region": OneOf(frozenset({"EU"}))})
            case 1:
                return Match.from_values({"day": Glob("2013-01-0?"), "customer": OneOf(frozenset({"a", "b"}))})
            case _:
                return ANYTHING

    def _dataset(self, place: int) -> DatasetRef:
        return DatasetRef("default", f"{self.name}d{place}")

    def _event(self, place: int) -> EventName:
        return EventName("default", f"{self.name}e{place}")

    # -- what is made of them

    def plain(self) -> Trigger:
        """Leaves, and groups of them."""
        leaves = tuple(dict.fromkeys(self._leaf() for _ in range(self.rng.choice((1, 1, 2, 2, 3)))))
        if len(leaves) == 1:
            return leaves[0]
        return self._group(leaves)

    def _group(self, parts: tuple[Trigger, ...]) -> Trigger:
        match self.rng.randrange(5):
            case 0:
                return AnyOf(parts)
            case 1:
                return AtLeast(self.rng.randint(2, len(parts)), parts)
            case 2 if len(parts) > 2:
                return AnyOf((parts[0], AllOf(parts[1:])))
            case _:
                return AllOf(parts)

    def _timed(self, depth: int) -> Trigger:
        """With a part that depends on the clock, or two, one inside the other or side by side."""
        rng = self.rng

        def below() -> Trigger:
            return self._timed(depth - 1) if depth > 1 and rng.random() < 0.25 else self._leaf()

        limit = rng.choice((None, _SECOND, 3 * _SECOND))
        match rng.randrange(7):
            case 0:
                return Then(below(), below(), limit)
            case 1:
                return Unless(below(), self._seldom(), rng.choice((None, _SECOND, 2 * _SECOND)))
            case 2:
                return Within(AllOf((below(), self._leaf())), rng.randint(1, 4) * _SECOND, rng.choice(list(OnExpiry)))
            case 3:
                return Quiet(below(), _SECOND, rng.choice((None, 2 * _SECOND)))
            case 4:
                return Silence(self._seldom(), rng.randint(1, 3) * _SECOND)
            case 5:
                return AllOf((Silence(self._seldom(), _SECOND), self._leaf()))
            case _:
                return AllOf((Within(below(), 3 * _SECOND), self._leaf()))

    def _correlated(self) -> Trigger:
        rng = self.rng
        few = (
            (lambda: CustomEvent(self._event(rng.randrange(PLACES)), rng.randint(2, 6))),
            (lambda: Partitions(self._dataset(rng.randrange(PLACES)), rng.randint(3, 15))),
        )

        def one() -> Leaf:
            return rng.choice(few)()

        expires = rng.choice((timedelta(days=1), 4 * _SECOND))
        match rng.randrange(6):
            case 0:
                return Per(one(), ("customer",), expires=expires)
            case 1:
                return Per(
                    AllOf((one(), one())),
                    ("customer", "day"),
                    expires=expires,
                    at_most=4,
                    full=rng.choice(list(OnFull)),
                )
            case 2:
                then = rng.choice(list(OnExpiry))
                return Per(Within(AllOf((one(), one())), 4 * _SECOND, then), ("customer",), expires=expires)
            case 3:
                return Per(Quiet(one(), _SECOND), ("day",), Grain.DAY, expires=expires)
            case 4:
                hours = Partitions(self._dataset(rng.randrange(PLACES)))
                up = Per(hours, ("hour",), Grain.HOUR, rolled_up_to=Grain.DAY, of=rng.randint(4, 6), expires=expires)
                return AllOf((up, Per(one(), ("day",), Grain.DAY, expires=expires)))
            case _:
                many = Partitions(self._dataset(rng.randrange(PLACES)), rng.randint(4, 8))
                fine = Per(many, ("hour",), Grain.HOUR, expires=expires)
                days = Per(one(), ("day",), Grain.DAY, fanned_out_to=Grain.HOUR, expires=expires)
                return AllOf((fine, days))

    def _chained(self) -> Trigger:
        """After runs of a program of this very app, or events that they publish."""
        times = self.rng.randint(4, 12)
        match self.rng.randrange(4):
            case 0:
                ended: Leaf = CustomEvent(self.published, times)
            case 1:
                ended = ProgramStatus(self._program("call"), frozenset({Outcome.SUCCEEDED}), times)
            case _:
                ended = ProgramStatus(self._program("link"), frozenset({Outcome.SUCCEEDED}), times)
        return ended if self.rng.random() < 0.5 else AllOf((ended, self._leaf()))

    def _by_the_clock(self) -> list[Trigger]:
        """Ticks of the next seconds; all but those of `every` come to an end by themselves."""
        now = datetime.now(UTC).replace(microsecond=0)
        moments = [now + (3 + 2 * number) * _SECOND for number in range(4)]
        same = [each for each in moments if (each.hour, each.minute) == (moments[0].hour, moments[0].minute)]
        seconds = ",".join(str(each.second) for each in same)
        at = moments[0]
        cron = Cron(f"{seconds} {at.minute} {at.hour} {at.day} {at.month} *")
        return [cron, At(moments[1]), AllOf((At(moments[0]), self._leaf())), Every(2 * _SECOND), cron]


def pers_of(trigger: Trigger) -> Iterator[Per]:
    """Its correlated parts."""
    if isinstance(trigger, Per):
        yield trigger
    for child in children(trigger):
        yield from pers_of(child)


def timeout_of(name: str) -> timedelta | None:
    """How long jobs of the schedule of this name may wait, in all its definitions. Most pauses are longer."""
    return 2 * _SECOND if name.startswith("s") and lane_of(name) is None and int(name[1:]) % 5 == 1 else None


def lane_of(name: str) -> ConcurrencyScope | None:
    """Whose runs are one at a time for the schedule of this name, in all its definitions; None: none has this limit."""
    number = int(name[1:]) if name.startswith("s") else 1
    if number % 6:
        return None
    return ConcurrencyScope.KEY if number % 12 else ConcurrencyScope.SCHEDULE
